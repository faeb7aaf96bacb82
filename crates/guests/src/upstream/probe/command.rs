//! The probe of a command.
//!
//! A server that begins slowly looks like one that ignores `server/discover`: a package manager may fetch it first. So after a short
//! time `initialize` is asked too, of the same child. Whichever it answers first, it has read in order. Only a child that ended, or
//! answers neither, is followed by another that gets nothing but `initialize`.

use std::time::Duration;

use salon_mcp::RpcHead;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{
    DISCOVER, DiscoverAnswer, INITIALIZE, Initialized, LegacyDialect, ModernServer, ProbeVerdict, WireKind, discover,
    initialize,
};
use crate::upstream::stdio::{ChildCommand, StderrVoice};
use crate::upstream::{Inbound, Outbound, UpstreamConnection, UpstreamError, UpstreamMessage, UpstreamSetup};

/// How long `server/discover` is asked alone.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(5);

/// The first child's share of the time. Slow beginners are more common than servers that a question silences for good.
const FIRST_SHARE: f32 = 0.75;

/// How long a modern server that lists no legacy revision has to answer `initialize` nevertheless, at least: one that starts slowly has
/// twice the time that its first answer took.
const MIN_LEGACY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a child that is not needed any more has to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// What the first child showed.
enum Showed {
    Modern(ModernServer),
    Legacy(LegacyDialect),
    /// Nothing, or nothing of use. A fresh child may do better.
    Unclear,
}

pub(super) async fn probe(
    command: ChildCommand<'_>,
    setup: &UpstreamSetup,
    limit: Duration,
) -> Result<ProbeVerdict, UpstreamError> {
    let began = Instant::now();
    let deadline = began + limit;
    // Whatever it has to say about a question it does not know, a child that is started in earnest will not say.
    let (connection, mut inbound) = UpstreamConnection::start(command, setup, StderrVoice::Hushed)?;
    let alone = began + DISCOVER_TIMEOUT.min(limit / 4);
    let showed = timeout_at(began + limit.mul_f32(FIRST_SHARE), converse(&connection, &mut inbound, alone)).await;
    // The first child ends while the second begins.
    let ending = connection.end(inbound, EXIT_TIMEOUT);
    match showed.unwrap_or(Showed::Unclear) {
        Showed::Legacy(speech) => {
            ending.await;
            Ok(ProbeVerdict::legacy(WireKind::Stdio, speech))
        }
        Showed::Modern(found) if found.lists_legacy => {
            ending.await;
            Ok(ProbeVerdict::of(found, true, WireKind::Stdio))
        }
        Showed::Modern(found) => {
            let legacy_deadline = legacy_deadline(began, Instant::now(), deadline);
            let ((), answer) =
                tokio::join!(ending, ask_legacy(command, setup, StderrVoice::Hushed, legacy_deadline, limit));
            Ok(ProbeVerdict::of(found, answer.is_ok(), WireKind::Stdio))
        }
        Showed::Unclear => {
            let ((), answer) = tokio::join!(ending, ask_legacy(command, setup, StderrVoice::Plain, deadline, limit));
            answer.map(|speech| ProbeVerdict::legacy(WireKind::Stdio, speech))
        }
    }
}

/// Until when a modern server is asked whether it answers `initialize` as well, that began then and has shown now what it is.
fn legacy_deadline(began: Instant, now: Instant, deadline: Instant) -> Instant {
    deadline.min(now + MIN_LEGACY_TIMEOUT.max(2 * (now - began)))
}

async fn converse(connection: &UpstreamConnection, inbound: &mut Inbound, alone: Instant) -> Showed {
    let (mut asked_again, mut asked_legacy) = (false, None);
    // A child that is gone is seen by `inbound`.
    let say = async |text: String| drop(connection.send(Outbound::new(text)).await);
    say(discover()).await;
    loop {
        let received = tokio::select! {
            received = inbound.next() => received,
            () = sleep_until(alone), if asked_legacy.is_none() => {
                asked_legacy = Some(LegacyDialect::Unknown);
                say(initialize(LegacyDialect::Unknown)).await;
                continue;
            }
        };
        let Some(UpstreamMessage::Message { text, .. }) = received else { return Showed::Unclear };
        let Some(head) = RpcHead::read(&text) else { continue };
        if head.answers(DISCOVER) {
            match DiscoverAnswer::read(&head) {
                DiscoverAnswer::Modern(found) => return Showed::Modern(found),
                DiscoverAnswer::AskAgain if !asked_again => {
                    asked_again = true;
                    say(discover()).await;
                }
                DiscoverAnswer::AskAgain | DiscoverAnswer::No if asked_legacy.is_none() => {
                    asked_legacy = Some(LegacyDialect::Unknown);
                    say(initialize(LegacyDialect::Unknown)).await;
                }
                DiscoverAnswer::AskAgain | DiscoverAnswer::No => {}
            }
        } else if let Some(asked) = asked_legacy.filter(|_| head.answers(INITIALIZE)) {
            match Initialized::read(&head, asked) {
                Initialized::Official(_) => return Showed::Legacy(LegacyDialect::Official),
                Initialized::Draft => {
                    connection.speak_draft();
                    return Showed::Legacy(LegacyDialect::Draft);
                }
                Initialized::Again(speech) => {
                    asked_legacy = Some(speech);
                    say(initialize(speech)).await;
                }
                Initialized::Refused(_) => return Showed::Unclear,
            }
        }
    }
}

/// Starts a child that gets nothing but `initialize`.
async fn ask_legacy(
    command: ChildCommand<'_>,
    setup: &UpstreamSetup,
    voice: StderrVoice,
    deadline: Instant,
    limit: Duration,
) -> Result<LegacyDialect, UpstreamError> {
    let (connection, mut inbound) = UpstreamConnection::start(command, setup, voice)?;
    let asking = async {
        let mut asked = LegacyDialect::Unknown;
        connection.send(Outbound::new(initialize(asked))).await?;
        loop {
            let text = match inbound.next().await {
                Some(UpstreamMessage::Message { text, .. }) => text,
                Some(UpstreamMessage::Ended { why }) => return Err(UpstreamError::Exited(why)),
                Some(UpstreamMessage::Failed { .. }) => continue,
                None => return Err(UpstreamError::Closed),
            };
            let Some(head) = RpcHead::read(&text).filter(|head| head.answers(INITIALIZE)) else { continue };
            match Initialized::read(&head, asked) {
                Initialized::Official(_) => return Ok(LegacyDialect::Official),
                Initialized::Draft => {
                    connection.speak_draft();
                    return Ok(LegacyDialect::Draft);
                }
                Initialized::Again(speech) => {
                    asked = speech;
                    connection.send(Outbound::new(initialize(asked))).await?;
                }
                Initialized::Refused(why) => return Err(UpstreamError::NotMcp(why)),
            }
        }
    };
    let answer = timeout_at(deadline, asking).await;
    connection.end(inbound, EXIT_TIMEOUT).await;
    answer.unwrap_or(Err(UpstreamError::TimedOut(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_starts_slowly_has_as_long_to_start_a_second_time() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        for (showed, limit, expected) in [(1, 120, 11), (5, 120, 15), (20, 120, 60), (30, 60, 60)] {
            assert_eq!(legacy_deadline(began, after(showed), after(limit)), after(expected), "after {showed} s");
        }
    }
}
