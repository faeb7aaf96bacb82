//! The rounds of input of one call: a modern server answers that it needs input, the client answers its questions, and the call is sent again.
//!
//! A sans-IO value. Its owner begins a round with what the server wants ([`InputRounds::begin`]), puts the questions to the client, hands in the answers
//! ([`InputRounds::answer`]), and sends the call again with [`InputRounds::params`]. Invariants: a call is sent with the answers and the state of
//! its newest round only; a round has one answer to each question before the call is sent again.
//! Deliberately absent: ids of requests, deadlines, and how a question reaches the client.

use std::collections::BTreeMap;
use std::time::Duration;

use salon_protocol::{Members, RpcError, rpc};
use serde_json::value::RawValue;

use crate::Revision;
use crate::input::{self, ELICITATION, InputRequired, LegacyQuestion, Question};

/// How often one call may ask for input, and how many questions it may ask at once.
const MAX_ROUNDS: u32 = 10;
const MAX_QUESTIONS: usize = 32;
/// The wait before a call is sent again that was answered without a question. It doubles with every round.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(250);
/// Characters of a server's method that an error repeats.
const MAX_ECHO_CHARS: usize = 100;

/// Whom the questions of a call are for.
#[derive(Debug, Clone, Copy)]
pub struct InputClient<'a> {
    /// What it can be asked.
    pub capabilities: &'a RawValue,
    /// The revision that questions are written in.
    pub revision: Revision,
    /// Begins the ids of questions by URL, which the legacy era has.
    pub id_prefix: &'a str,
}

/// What the owner does next.
#[derive(Debug, Clone)]
pub enum InputRound {
    /// Asks the client these, by the server's keys.
    Ask(Vec<(String, Question)>),
    /// Sends the call again: every question is answered.
    Retry,
    /// Sends the call again after this time: there was no question.
    RetryAfter(Duration),
}

/// Why a call cannot go on.
#[derive(Debug, Clone)]
pub enum InputFailure {
    /// The server asked too often, or too much at once.
    TooMuch,
    /// The server asked something that the client does not offer.
    NotOffered {
        /// The question's method.
        method: String,
    },
    /// The client answered with an error.
    Refused {
        /// The question's method.
        method: String,
        /// The client's error.
        error: RpcError,
    },
}

impl InputFailure {
    /// The error that the call ends with. `server` says who asked.
    pub fn error(self, server: &str) -> RpcError {
        match self {
            Self::TooMuch => RpcError::internal(format!("{server} asked back too often")),
            Self::NotOffered { method } => {
                let method: String = method.chars().take(MAX_ECHO_CHARS).collect();
                RpcError::internal(format!("{server} cannot go on without `{method}`, which the client does not offer"))
            }
            Self::Refused { error, .. } => error,
        }
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct InputRounds {
    count: u32,
    /// The methods of the questions without an answer, by the server's keys.
    open: BTreeMap<String, String>,
    answers: Members,
    state: Option<Box<RawValue>>,
    /// The ids of all questions by URL that the client was asked.
    urls: Vec<String>,
}

impl InputRounds {
    /// The server answered that it needs input. Nothing is asked where one of the questions makes the call fail.
    pub fn begin(&mut self, wanted: InputRequired, client: InputClient<'_>) -> Result<InputRound, InputFailure> {
        let InputRequired { questions, state } = wanted;
        self.count += 1;
        if self.count > MAX_ROUNDS || questions.len() > MAX_QUESTIONS {
            return Err(InputFailure::TooMuch);
        }
        (self.open, self.answers, self.state) = (BTreeMap::new(), Members::default(), state);
        if questions.is_empty() {
            return Ok(InputRound::RetryAfter(FIRST_RETRY_DELAY * 2_u32.pow(self.count.min(6))));
        }
        let mut asked = Vec::new();
        for (key, question) in questions {
            let is_offered = input::is_offered(client.capabilities, &question.method);
            let put = match &*question.method {
                _ if is_offered => input::put(&question, client.revision, || {
                    self.urls.push(format!("{}-{}", client.id_prefix, self.urls.len()));
                    self.urls.last().cloned().unwrap_or_default()
                }),
                // A person who cannot be asked has declined; for the rest there is no answer but the client's.
                ELICITATION => LegacyQuestion::Answer(input::declined()),
                _ => return Err(InputFailure::NotOffered { method: question.method }),
            };
            match put {
                LegacyQuestion::Answer(answer) => self.answers.set(&key, &answer),
                LegacyQuestion::Ask(params) => {
                    self.open.insert(key.clone(), question.method.clone());
                    asked.push((key, Question { params, ..question }));
                }
            }
        }
        Ok(if asked.is_empty() { InputRound::Retry } else { InputRound::Ask(asked) })
    }

    /// The client answered a question. Whether that was the last one, so that the call is sent again.
    pub fn answer(&mut self, key: &str, answer: Result<Box<RawValue>, RpcError>) -> Result<bool, InputFailure> {
        let Some(method) = self.open.remove(key) else { return Ok(false) };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => input::instead_of_error(&method).ok_or(InputFailure::Refused { method, error })?,
        };
        self.answers.set(key, &answer);
        Ok(self.open.is_empty())
    }

    /// The parameters that the call is sent with: its own, with the answers and the state of the newest round. `None` where its own are no object.
    // MCP 2026-07-28, Multi Round-Trip Requests, "Client Requirements": the state is echoed as it came; where there was none, none is sent.
    pub fn params(&self, own: Option<Box<RawValue>>) -> Option<Box<RawValue>> {
        if self.count == 0 {
            return own;
        }
        let mut params = own.map_or_else(|| Some(Members::default()), |own| Members::parse(own.get()))?;
        params.retain(|key| !matches!(key, "inputResponses" | "requestState"));
        if !self.answers.is_empty() {
            params.set("inputResponses", &self.answers);
        }
        if let Some(state) = &self.state {
            params.set("requestState", state);
        }
        Some(params.to_raw())
    }

    /// The notifications that end the questions by URL, for a client of the legacy era whose call has ended.
    // MCP 2025-11-25, Elicitation, "Completion Notifications for URL Mode Elicitation".
    pub fn completions(&self) -> impl Iterator<Item = Box<RawValue>> {
        self.urls.iter().map(|url| {
            let mut params = Members::default();
            params.set("elicitationId", url);
            rpc::notification("notifications/elicitation/complete", Some(&params.to_raw()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).expect("JSON")
    }

    /// A round whose server answers with these questions and this state, for a client with these capabilities.
    fn begin(
        rounds: &mut InputRounds,
        capabilities: &str,
        revision: Revision,
        wanted: &str,
    ) -> Result<InputRound, InputFailure> {
        let wanted = raw(&format!(r#"{{"resultType":"input_required",{wanted}}}"#));
        let wanted = InputRequired::read(&wanted).expect("it asks for input");
        rounds.begin(wanted, InputClient { capabilities: &raw(capabilities), revision, id_prefix: "el" })
    }

    fn asked(round: Result<InputRound, InputFailure>) -> String {
        match round.expect("a round") {
            InputRound::Ask(questions) => {
                let line = |(key, question): &(String, Question)| {
                    let params = question.params.as_ref().map_or("", |params| params.get());
                    format!("{key} {} {params}", question.method)
                };
                questions.iter().map(line).collect::<Vec<_>>().join("; ")
            }
            InputRound::Retry => "retry".into(),
            InputRound::RetryAfter(delay) => format!("retry after {delay:?}"),
        }
    }

    fn params(rounds: &InputRounds, own: &str) -> String {
        rounds.params(Some(raw(own))).map_or("none".into(), |params| params.get().to_owned())
    }

    const ALL: &str = r#"{"elicitation":{},"roots":{},"sampling":{}}"#;

    #[test]
    fn a_call_is_sent_again_with_the_answers_and_the_state_as_it_was() {
        let mut rounds = InputRounds::default();
        assert_snapshot!(params(&rounds, r#"{"n": 1.0,"requestState":"own"}"#), @r#"{"n": 1.0,"requestState":"own"}"#);
        let wanted = r#""inputRequests":{"k":{"method":"roots/list"},"e":{"method":"elicitation/create","params":{"n": 1}}},"requestState":"a\u0062""#;
        assert_snapshot!(asked(begin(&mut rounds, ALL, Revision::MODERN, wanted)), @r#"k roots/list ; e elicitation/create {"n": 1}"#);
        assert!(!rounds.answer("nobody", Ok(raw("1"))).unwrap());
        assert!(!rounds.answer("e", Err(RpcError::internal("broken"))).unwrap());
        assert!(!rounds.answer("e", Ok(raw("2"))).unwrap(), "a question has one answer");
        assert!(rounds.answer("k", Ok(raw(r#"{"roots":[]}"#))).unwrap());
        let own = r#"{"name":"t","arguments":{"x": 1.0},"requestState":"old"}"#;
        assert_snapshot!(params(&rounds, own), @r#"{"name":"t","arguments":{"x": 1.0},"inputResponses":{"e":{"action":"cancel"},"k":{"roots":[]}},"requestState":"a\u0062"}"#);
        // The next round has its own answers and its own state.
        assert_snapshot!(asked(begin(&mut rounds, ALL, Revision::MODERN, r#""requestState":"t""#)), @"retry after 1s");
        assert_snapshot!(params(&rounds, own), @r#"{"name":"t","arguments":{"x": 1.0},"requestState":"t"}"#);
        assert_snapshot!(asked(begin(&mut rounds, ALL, Revision::MODERN, r#""inputRequests":{}"#)), @"retry after 2s");
        assert_snapshot!(params(&rounds, own), @r#"{"name":"t","arguments":{"x": 1.0}}"#);
        assert_snapshot!(params(&rounds, "[1]"), @"none");
        assert_eq!(rounds.params(None).expect("an object").get(), "{}");
    }

    #[test]
    fn what_the_client_does_not_offer_is_declined_or_ends_the_call() {
        let mut rounds = InputRounds::default();
        let elicitation = r#""inputRequests":{"e":{"method":"elicitation/create"}}"#;
        assert_snapshot!(asked(begin(&mut rounds, "{}", Revision::MODERN, elicitation)), @"retry");
        assert_snapshot!(params(&rounds, "{}"), @r#"{"inputResponses":{"e":{"action":"decline"}}}"#);
        let both = r#""inputRequests":{"k":{"method":"roots/list"},"s":{"method":"sampling/createMessage"}}"#;
        let failure = begin(&mut rounds, r#"{"roots":{}}"#, Revision::MODERN, both).unwrap_err();
        assert_snapshot!(failure.error("`bob`").message, @"`bob` cannot go on without `sampling/createMessage`, which the client does not offer");
        let odd = format!(r#""inputRequests":{{"x":{{"method":"{}"}}}}"#, "é".repeat(1000));
        let failure = begin(&mut rounds, ALL, Revision::MODERN, &odd).unwrap_err();
        assert_eq!(failure.error("`bob`").message.matches('é').count(), MAX_ECHO_CHARS);
    }

    #[test]
    fn an_error_ends_the_call_unless_a_person_was_asked() {
        let mut rounds = InputRounds::default();
        let wanted = r#""inputRequests":{"k":{"method":"roots/list"}}"#;
        asked(begin(&mut rounds, ALL, Revision::MODERN, wanted));
        let failure = rounds.answer("k", Err(RpcError::new(-1, "no"))).unwrap_err();
        assert!(matches!(&failure, InputFailure::Refused { method, .. } if method == "roots/list"), "{failure:?}");
        assert_eq!(failure.error("`bob`").code, -1);
    }

    #[test]
    fn a_server_that_only_asks_is_given_up() {
        let mut rounds = InputRounds::default();
        let ended = (1..).find(|_| begin(&mut rounds, ALL, Revision::MODERN, r#""requestState":"s""#).is_err());
        assert_eq!(ended, Some(MAX_ROUNDS + 1));
        let questions: Vec<_> =
            (0..=MAX_QUESTIONS).map(|key| format!(r#""{key}":{{"method":"roots/list"}}"#)).collect();
        let wanted = format!(r#""inputRequests":{{{}}}"#, questions.join(","));
        let failure = begin(&mut InputRounds::default(), ALL, Revision::MODERN, &wanted).unwrap_err();
        assert_snapshot!(failure.error("`bob`").message, @"`bob` asked back too often");
    }

    #[test]
    fn a_legacy_client_is_asked_as_its_revision_has_it_and_told_when_its_pages_are_dealt_with() {
        let wanted = r#""inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","url":"u"}},"b":{"method":"roots/list"}}"#;
        let mut rounds = InputRounds::default();
        assert_snapshot!(asked(begin(&mut rounds, ALL, Revision::R2025_11_25, wanted)), @r#"a elicitation/create {"mode":"url","url":"u","elicitationId":"el-0"}; b roots/list"#);
        assert_snapshot!(asked(begin(&mut rounds, ALL, Revision::R2025_11_25, wanted)), @r#"a elicitation/create {"mode":"url","url":"u","elicitationId":"el-1"}; b roots/list"#);
        let told: Vec<_> = rounds.completions().map(|told| told.get().to_owned()).collect();
        assert_snapshot!(told.join("\n"), @r#"
        {"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"el-0"}}
        {"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"el-1"}}
        "#);
        let mut rounds = InputRounds::default();
        assert_snapshot!(asked(begin(&mut rounds, ALL, Revision::R2025_06_18, wanted)), @"b roots/list");
        assert!(rounds.answer("b", Ok(raw("1"))).unwrap() && rounds.completions().next().is_none());
        assert_snapshot!(params(&rounds, "{}"), @r#"{"inputResponses":{"a":{"action":"decline"},"b":1}}"#);
        let mut rounds = InputRounds::default();
        assert_snapshot!(asked(begin(&mut rounds, ALL, Revision::MODERN, wanted)), @r#"a elicitation/create {"mode":"url","url":"u"}; b roots/list"#);
        assert!(rounds.completions().next().is_none());
    }
}
