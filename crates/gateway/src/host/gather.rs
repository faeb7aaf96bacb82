//! `room.call_all`: the same call to several participants, and their answers gathered by a strategy.
//!
//! Invariant: what came before the deadline is in the answer, and a callee that is not waited for any more gets a cancellation
//! ([`Asked`](super::calls::Asked) sees to that). The host asks in its own name and says in `_meta` for whom; its calls have the stamp of the
//! caller's request, so nobody gains a permission by having the gateway ask.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use salon_mcp::meta;
use salon_protocol::{EnvelopeId, Members, Participant, ParticipantId, RpcError, Stamp, Tally};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};

use super::arguments::Arguments;
use super::calls::{MissingAnswer, MissingReason, some};
use super::catalogue::Consulted;
use super::handshake::{ToolAnswer, call_tool};
use super::office::{HostRequest, Office};
use super::speech::{HostOutcome, cut, text, told};
use super::verdict::{self, Ballot};

/// How many are asked at once.
pub(super) const MAX_PARTICIPANTS_ASKED: usize = 256;

/// How much of one answer, and of all together, is in the text.
const MAX_WORDS: usize = 500;
const MAX_WORDS_OF_ALL: usize = 32 * 1024;

/// When there are answers enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Strategy {
    All,
    First,
    Majority,
}

/// What is to be asked.
pub(super) struct GatherRequest {
    tool: String,
    arguments: Option<Box<RawValue>>,
    /// Whom to ask; `None` is everybody who offers the tool.
    pub(super) participants: Option<Vec<ParticipantId>>,
    strategy: Strategy,
    time: Duration,
}

impl GatherRequest {
    pub(super) fn read(mut arguments: Arguments<'_>) -> Result<Self, RpcError> {
        let tool = arguments.required("tool")?;
        let passed = arguments.raw("arguments").map(ToOwned::to_owned);
        if passed.as_ref().is_some_and(|passed| !passed.get().starts_with('{')) {
            return Err(arguments.wrong("arguments", "must be an object"));
        }
        let mut participants: Option<Vec<ParticipantId>> = arguments.optional("participants")?;
        if let Some(named) = &mut participants {
            let mut known = HashSet::new();
            named.retain(|participant| known.insert(participant.clone()));
            if named.is_empty() || named.len() > MAX_PARTICIPANTS_ASKED {
                return Err(
                    arguments.wrong("participants", &format!("must name 1 to {MAX_PARTICIPANTS_ASKED} participants"))
                );
            }
            if named.iter().any(ParticipantId::is_host) {
                return Err(arguments.wrong("participants", "the gateway cannot ask itself; call its tools directly"));
            }
        }
        let strategy = arguments.optional("strategy")?.unwrap_or(Strategy::All);
        let time = arguments.time()?;
        arguments.end()?;
        Ok(Self { tool, arguments: passed, participants, strategy, time })
    }
}

/// Asks, gathers, and answers. `consulted` are the participants that are here and may be asked.
pub(super) async fn call_all(
    office: Arc<Office>,
    request: HostRequest,
    options: GatherRequest,
    consulted: Vec<Consulted>,
    progress: Option<Box<RawValue>>,
) -> HostOutcome {
    let deadline = Instant::now() + options.time;
    let voters = options.participants.as_ref().map_or(consulted.len(), Vec::len);
    let mut gathered = GatherResult::new(options.strategy, voters, office.toolbox.room_for_texts());
    for named in options.participants.iter().flatten() {
        if !consulted.iter().any(|consulted| consulted.who.id == *named) {
            gathered.lack(named.clone(), MissingReason::Absent);
        }
    }

    let meta = meta_for(&request);
    let params = text(&Params { name: &options.tool, arguments: options.arguments.as_deref(), meta });
    // Everyone is asked as soon as it is known what it offers, however slow the others are.
    let (mut in_doubt, mut waiting) = (HashSet::new(), HashSet::new());
    let mut consulting = FuturesUnordered::new();
    for mut consulted in consulted {
        in_doubt.insert(consulted.who.id.clone());
        consulting.push(async move {
            let offer = consulted.offer(deadline).await;
            (consulted.who.clone(), offer)
        });
    }
    let mut asking = FuturesUnordered::new();
    while !(gathered.is_settled() || consulting.is_empty() && asking.is_empty()) {
        tokio::select! { biased;
            Some((participant, reply)) = asking.next() => {
                waiting.remove(&participant);
                let is_answer = Result::is_ok(&reply);
                gathered.take(participant, reply);
                if let Some(token) = progress.as_deref().filter(|_| is_answer) {
                    let params =
                        GatherProgress { progress_token: token, progress: gathered.answers.len(), total: gathered.tally.voters() };
                    office.tell(request.caller(), request.entry.envelope.id(), "notifications/progress", &params);
                }
            }
            Some((who, offer)) = consulting.next() => {
                let participant = who.id.clone();
                in_doubt.remove(&participant);
                match offer {
                    Ok(offer) if options.participants.is_none() && !offer.has(&options.tool) => gathered.excuse(),
                    Ok(_) if gathered.asked_count == MAX_PARTICIPANTS_ASKED => gathered.lack(participant, MissingReason::Unasked),
                    Ok(_) if !may_call(&office, &request, &participant, &options.tool) => {
                        gathered.lack(participant, MissingReason::Forbidden);
                    }
                    Ok(_) => {
                        gathered.asked_count += 1;
                        waiting.insert(participant);
                        asking.push(ask(&office, who, &params, request.entry.stamp.clone()));
                    }
                    Err(reason) if options.participants.is_none() => {
                        gathered.unanswered.push(MissingAnswer { participant, reason });
                        gathered.excuse();
                    }
                    Err(reason) => gathered.lack(participant, reason),
                }
            }
            () = sleep_until(deadline) => break,
        }
    }
    // Calls that are not waited for any more are cancelled before the caller is answered.
    drop(asking);
    let reason = if gathered.is_settled() { MissingReason::Unneeded } else { MissingReason::Timeout };
    waiting.into_iter().for_each(|participant| gathered.lack(participant, reason));
    for participant in in_doubt {
        match (&options.participants, reason) {
            (Some(_), _) => gathered.lack(participant, reason),
            // Whether it offers the tool does not matter any more.
            (None, MissingReason::Unneeded) => {}
            (None, _) => gathered.unanswered.push(MissingAnswer { participant, reason }),
        }
    }
    Ok(gathered.tell(&options.tool))
}

#[derive(Serialize)]
struct Params<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "_meta")]
    meta: Members,
}

/// For whom it is asked, by which request, and what the caller has narrowed its own permissions to.
fn meta_for(request: &HostRequest) -> Members {
    let mut told = Members::default();
    told.set(meta::ON_BEHALF_OF, request.caller());
    told.set(meta::REQUEST, request.entry.envelope.id());
    let member = |text: &str, key: &str| Members::parse(text)?.remove(key);
    let own = request.entry.envelope.params().and_then(|params| member(params, "_meta"));
    if let Some(narrowed) = own.and_then(|own| member(own.get(), meta::PERMISSIONS)) {
        told.set(meta::PERMISSIONS, &narrowed);
    }
    told
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GatherProgress<'a> {
    progress_token: &'a RawValue,
    progress: usize,
    total: usize,
}

/// Whether the participant that asks may call the tool itself, and at once. What the host asks for it is asked in the host's name.
fn may_call(office: &Office, request: &HostRequest, callee: &ParticipantId, tool: &str) -> bool {
    let authority = office.desk.authority(request.caller(), request.entry.stamp.as_ref());
    authority.is_none_or(|authority| authority.check_call(request.caller(), callee, tool).is_ok())
}

type GatherReply = Result<(ToolAnswer, Duration), MissingReason>;

async fn ask(
    office: &Arc<Office>,
    who: Arc<Participant>,
    params: &RawValue,
    stamp: Option<Stamp>,
) -> (ParticipantId, GatherReply) {
    let began = Instant::now();
    let answer = call_tool(office, &who, params, stamp).await;
    (who.id.clone(), answer.map(|answer| (answer, began.elapsed())))
}

/// One answer. An omitted one was too long to repeat; its envelope is in the room's history.
#[derive(Serialize)]
struct GatherAnswer {
    participant: ParticipantId,
    envelope: EnvelopeId,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    omitted: bool,
    elapsed_ms: u128,
    /// What it says, when it is a success.
    #[serde(skip)]
    ballot: Option<Ballot>,
    #[serde(skip)]
    words: String,
}

struct GatherResult {
    strategy: Strategy,
    asked_count: usize,
    /// Everyone has a vote who was named, or who offers the tool or may do so.
    tally: Tally<Ballot>,
    answers: Vec<GatherAnswer>,
    /// The answer that counts.
    decided: Option<Ballot>,
    missing: Vec<MissingAnswer>,
    /// Those of whom it is not known whether they offer the tool.
    unanswered: Vec<MissingAnswer>,
    /// Bytes left for answers.
    room: usize,
    most_words: usize,
}

impl GatherResult {
    fn new(strategy: Strategy, voters: usize, room: usize) -> Self {
        Self {
            strategy,
            asked_count: 0,
            tally: Tally::new(voters),
            answers: Vec::new(),
            decided: None,
            missing: Vec::new(),
            unanswered: Vec::new(),
            room,
            // Words repeat what the answers say, and a character of them takes up to six bytes.
            most_words: MAX_WORDS_OF_ALL.min(room / 4),
        }
    }

    /// Whether nobody's answer is needed any more.
    fn is_settled(&self) -> bool {
        self.decided.is_some() || self.strategy == Strategy::Majority && self.tally.is_settled()
    }

    /// Somebody gives no answer.
    fn lack(&mut self, participant: ParticipantId, reason: MissingReason) {
        self.tally.pass();
        self.missing.push(MissingAnswer { participant, reason });
    }

    /// Somebody has no vote after all.
    fn excuse(&mut self) {
        self.tally.excuse();
        self.look_for_majority();
    }

    fn vote(&mut self, ballot: &Ballot) {
        self.tally.vote(ballot.clone());
        match self.strategy {
            Strategy::All => {}
            Strategy::First => self.decided = Some(ballot.clone()),
            Strategy::Majority => self.look_for_majority(),
        }
    }

    fn look_for_majority(&mut self) {
        if self.strategy == Strategy::Majority {
            self.decided = self.tally.majority().cloned();
        }
    }

    fn take(&mut self, participant: ParticipantId, reply: GatherReply) {
        let (ToolAnswer { envelope, outcome }, elapsed) = match reply {
            Ok(answered) => answered,
            Err(reason) => return self.lack(participant, reason),
        };
        let (Ok(raw) | Err(raw)) = &outcome;
        let words = match &outcome {
            Ok(result) => verdict::words(result, MAX_WORDS),
            Err(error) => format!("error {}", cut(error.get(), MAX_WORDS)),
        };
        let ballot = outcome.as_deref().ok().filter(|result| !verdict::is_error(result)).map(Ballot::of);
        match &ballot {
            Some(ballot) => self.vote(ballot),
            None => self.tally.pass(),
        }
        let (length, elapsed_ms) = (raw.get().len(), elapsed.as_millis());
        let omitted = length > self.room;
        let (result, error) = match outcome {
            _ if omitted => (None, None),
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        self.room -= if omitted { 0 } else { length };
        self.answers.push(GatherAnswer { participant, envelope, result, error, omitted, elapsed_ms, ballot, words });
    }

    /// Whether there is what was wanted, some of it, or nothing.
    fn outcome(&self) -> &'static str {
        let is_complete = match self.strategy {
            Strategy::All => self.missing.is_empty(),
            Strategy::First | Strategy::Majority => self.decided.is_some(),
        };
        match self.answers.len() {
            0 => "none",
            _ if is_complete => "complete",
            _ => "partial",
        }
    }

    /// The answer that counts, and who gave it.
    fn verdict(&self) -> Option<Counting<'_>> {
        let decided = self.decided.as_ref()?;
        let same: Vec<_> = self.answers.iter().filter(|answer| answer.ballot.as_ref() == Some(decided)).collect();
        let result = same.iter().find_map(|answer| answer.result.as_deref());
        let participants = same.iter().map(|answer| &answer.participant).collect();
        Some(Counting { participants, result, words: &same.first()?.words })
    }

    fn tell(&mut self, tool: &str) -> Box<RawValue> {
        self.missing.sort_by(|one, other| one.participant.cmp(&other.participant));
        self.unanswered.sort_by(|one, other| one.participant.cmp(&other.participant));
        let (missing, missing_total) = some(&self.missing);
        let (unanswered, unanswered_total) = some(&self.unanswered);
        let structured = text(&GatherReport {
            strategy: self.strategy,
            outcome: self.outcome(),
            answer: self.verdict(),
            answers: &self.answers,
            missing,
            missing_total,
            unanswered,
            unanswered_total,
        });
        told(&self.words(tool), &structured, self.answers.is_empty())
    }

    fn words(&self, tool: &str) -> String {
        let mut lines = Vec::new();
        let wanted = self.answers.len() + self.missing.len();
        if wanted == 0 {
            lines.push(format!("Nobody else here is known to offer the tool `{tool}`."));
        } else {
            lines.push(format!("{} of {wanted} answered.", self.answers.len()));
        }
        match (self.strategy, self.verdict()) {
            (_, Some(Counting { participants, words, .. })) => {
                let names: Vec<_> = participants.iter().map(|participant| participant.as_str()).collect();
                lines.push(format!("The answer, from {}: {words}", names.join(", ")));
            }
            (Strategy::First, None) if wanted > 0 => lines.push("Nobody succeeded.".into()),
            (Strategy::Majority, None) if wanted > 0 => lines.push("There is no majority.".into()),
            _ => {}
        }
        lines.extend(self.answers.iter().map(|answer| format!("- {}: {}", answer.participant, answer.words)));
        lines
            .extend(self.missing.iter().map(|lacking| format!("- {} {}", lacking.participant, lacking.reason.words())));
        for MissingAnswer { participant, reason } in &self.unanswered {
            lines.push(format!("Not asked, because its tools are not known: {participant}, who {}.", reason.words()));
        }
        cut(&lines.join("\n"), self.most_words)
    }
}

#[derive(Serialize)]
struct GatherReport<'a> {
    strategy: Strategy,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Counting<'a>>,
    answers: &'a [GatherAnswer],
    missing: &'a [MissingAnswer],
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_total: Option<usize>,
    unanswered: &'a [MissingAnswer],
    #[serde(skip_serializing_if = "Option::is_none")]
    unanswered_total: Option<usize>,
}

/// The answer that counts, and who gave it; without a result, that was too long to repeat.
#[derive(Serialize)]
struct Counting<'a> {
    participants: Vec<&'a ParticipantId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip)]
    words: &'a str,
}
