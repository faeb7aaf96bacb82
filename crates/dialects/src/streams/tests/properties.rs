//! Whatever is sent, lost, resumed and polled in whatever order: each frame is received once, in order, or reported as missing.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// A peer whose connections are lost with some of what was sent on them.
struct Peer {
    streams: Streams<Infallible>,
    opened: u32,
    /// Which channel the peer reads on a stream, and the events that are on their way to it.
    connections: BTreeMap<StreamId, (Channel, VecDeque<EventFrame>)>,
    received: BTreeMap<Channel, Vec<String>>,
    last_ids: BTreeMap<Channel, Box<str>>,
    /// Whether frames were ever reported as missing.
    has_gaps: bool,
}

impl Peer {
    fn new(tag: Option<&str>, bound: Bound) -> Self {
        let tag = tag.map(Into::into);
        let options = StreamOptions { session_header: None, tag, unread: bound, replay: bound, polled: bound };
        Self {
            streams: Streams::new(options, Instant::now()),
            opened: 0,
            connections: BTreeMap::new(),
            received: BTreeMap::new(),
            last_ids: BTreeMap::new(),
            has_gaps: false,
        }
    }

    /// Puts what was sent on its way.
    fn settle(&mut self) {
        while let Some(action) = self.streams.poll_action() {
            if let DialectAction::Send(stream, Frame::Event(event)) = action
                && let Some((_, events)) = self.connections.get_mut(&stream)
            {
                events.push_back(*event);
            }
        }
        assert!(self.streams.unread.is_within_bound() && self.streams.replay.is_within_bound());
    }

    fn open(&mut self, channel: impl FnOnce(&mut Streams<Infallible>, StreamId) -> Channel) -> Channel {
        self.opened += 1;
        let stream = StreamId(self.opened);
        let channel = channel(&mut self.streams, stream);
        // A participant that comes back does not read its earlier connection any more.
        self.connections.retain(|_, (other, _)| *other != channel);
        self.connections.insert(stream, (channel, VecDeque::new()));
        self.settle();
        channel
    }

    /// Listens to the session or resumes a channel, after the last event that was received of it.
    fn resume(&mut self, channel: Channel) {
        self.learn_id(channel);
        let after = self.last_ids.get(&channel).cloned();
        if channel != Channel::SESSION && after.is_none() {
            return;
        }
        let missing = self.streams.missing(after.as_deref());
        let (known, number) = self.streams.position(after.as_deref());
        let last = self.streams.channels.get(&channel).map(|state| state.last);
        let resumed = self.open(|streams, stream| streams.listen(stream, after.as_deref(), None, true));
        assert_eq!((known, resumed), (channel, channel), "an event that was sent is known");
        if let Some(last) = last {
            let replayed =
                self.connections.values().find(|(carried, _)| *carried == channel).map(|(_, events)| events.len());
            assert_eq!(replayed.unwrap_or_default() as u64 + missing, last - number, "each is replayed or reported");
        }
        self.has_gaps |= missing > 0;
    }

    /// Receives the first events on their way.
    fn receive(&mut self, channel: Channel, count: usize) {
        let Some((_, events)) = self.connections.values_mut().find(|(carried, _)| *carried == channel) else { return };
        let count = count.min(events.len());
        for event in events.drain(..count) {
            if event.name.is_some() {
                self.received.entry(channel).or_default().push(event.data.into());
            }
            self.last_ids.insert(channel, event.id.expect("every event has an id"));
        }
    }

    /// Receives an event where none has been: without an id nobody can come back for what was on its way.
    fn learn_id(&mut self, channel: Channel) {
        if !self.last_ids.contains_key(&channel) {
            self.receive(channel, 1);
        }
    }

    /// Loses the connection that carries a channel, and what is on its way.
    fn lose(&mut self, channel: Channel) {
        self.learn_id(channel);
        let found = self.connections.iter().find(|(_, (carried, _))| *carried == channel).map(|(stream, _)| *stream);
        if let Some(stream) = found {
            self.connections.remove(&stream);
            self.streams.closed(stream);
            self.settle();
        }
    }
}

proptest! {
    #[test]
    fn a_peer_that_resumes_receives_every_frame_once(steps in prop::collection::vec((0_u8..8, 0_usize..4), 0..80)) {
        let mut peer = Peer::new(None, Bound { count: 512, bytes: 1 << 20 });
        let mut channels = vec![Channel::SESSION];
        let mut sent: BTreeMap<Channel, Vec<String>> = BTreeMap::new();
        let mut answered = BTreeSet::from([Channel::SESSION]);
        for (at, (step, chosen)) in steps.into_iter().enumerate() {
            let channel = channels[chosen % channels.len()];
            match step {
                0 => channels.push(peer.open(|streams, stream| streams.post(stream, 1, PRIMED))),
                1 | 2 if channel == Channel::SESSION || !answered.contains(&channel) => {
                    prop_assert!(peer.streams.say(channel, at.to_string()));
                    sent.entry(channel).or_default().push(at.to_string());
                }
                3 if answered.insert(channel) => {
                    peer.streams.answer(channel, 200, StreamReply::Text(at.to_string().into()));
                    sent.entry(channel).or_default().push(at.to_string());
                }
                4 | 5 => peer.receive(channel, chosen),
                6 => peer.lose(channel),
                7 => peer.resume(channel),
                _ => {}
            }
            peer.settle();
        }
        for channel in channels {
            peer.receive(channel, usize::MAX);
            peer.lose(channel);
            peer.resume(channel);
            peer.receive(channel, usize::MAX);
            prop_assert_eq!(peer.received.get(&channel), sent.get(&channel));
        }
        prop_assert!(!peer.has_gaps);
    }

    /// With bounds that are met: what is not received is reported, and a request that nobody received is returned once.
    #[test]
    fn what_is_evicted_is_reported(steps in prop::collection::vec((0_u8..6, 1_usize..6), 0..80)) {
        let mut peer = Peer::new(Some("tag"), Bound { count: 4, bytes: 40 });
        let (mut sent, mut returned) = (Vec::new(), Vec::new());
        for (at, (step, size)) in steps.into_iter().enumerate() {
            let text = format!("{at:0width$}", width = size * 3);
            match step {
                0 | 1 => {
                    peer.streams.say(Channel::SESSION, text.clone());
                    sent.push(text);
                }
                2 => {
                    peer.streams.ask(text.clone(), EnvelopeId::new(&*text).expect("digits are an id"));
                    sent.push(text);
                }
                3 => peer.receive(Channel::SESSION, size),
                4 => peer.lose(Channel::SESSION),
                _ => peer.resume(Channel::SESSION),
            }
            peer.settle();
            returned.extend(peer.streams.take_unread());
        }
        peer.receive(Channel::SESSION, usize::MAX);
        peer.lose(Channel::SESSION);
        peer.resume(Channel::SESSION);
        peer.receive(Channel::SESSION, usize::MAX);
        let received = peer.received.remove(&Channel::SESSION).unwrap_or_default();
        let mut rest = sent.iter();
        prop_assert!(received.iter().all(|text| rest.any(|sent| sent == text)), "in order, each once");
        prop_assert_eq!(received.len() < sent.len(), peer.has_gaps);
        let ids: BTreeSet<_> = returned.iter().map(EnvelopeId::as_str).collect();
        prop_assert_eq!(ids.len(), returned.len());
        prop_assert!(received.iter().all(|text| !ids.contains(text.as_str())));
    }

    #[test]
    fn polls_bring_every_frame_once(steps in prop::collection::vec((0_u8..6, 0_u32..8), 0..60)) {
        let start = Instant::now();
        let mut streams = Peer::new(None, Bound { count: 64, bytes: 1 << 10 }).streams;
        streams.poll(StreamId::ONLY, start, false);
        let (mut opened, mut sent) = (0, Vec::new());
        for (at, (step, chosen)) in steps.into_iter().enumerate() {
            let now = start + Duration::from_secs(at as u64);
            match step {
                0 | 1 => {
                    opened += 1;
                    streams.poll(StreamId(opened), now + Duration::from_secs(chosen.into()), false);
                }
                2 => drop(streams.closed(StreamId(chosen))),
                3 => streams.answer_polls(now),
                4 => sent.push((Channel::SESSION, at)),
                _ => sent.push((Channel::POLLS, at)),
            }
            if let (4.., Some((channel, at))) = (step, sent.last()) {
                streams.say(*channel, at.to_string());
            }
        }
        prop_assert!(!streams.take_overflow());
        streams.poll(StreamId(opened + 1), start, false);
        streams.close_all();
        let mut received = Vec::new();
        while let Some(action) = streams.poll_action() {
            if let DialectAction::Send(_, Frame::Text(text)) = action {
                received.extend(serde_json::from_str::<Vec<usize>>(&text).expect("an array"));
            }
        }
        prop_assert_eq!(received, sent.into_iter().map(|(_, at)| at).collect::<Vec<_>>());
    }
}
