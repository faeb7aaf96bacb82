//! Tools of the stateless revision that need input: they answer `input_required` until a retry of the call carries it.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InputRequests, InputRequiredResult,
    InputResponses,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::answers::{from_json, invalid};
use crate::server::{Context, Shared};

/// What the client is to find out, as a request it would have got with a session.
pub(crate) fn question(message: &str, name: &str, kind: &str) -> Value {
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": message, "requestedSchema": {
        "type": "object",
        "properties": { name: { "type": kind } },
        "required": [name],
    } } })
}

fn sampling(prompt: &str, tokens: u32) -> Value {
    json!({ "method": "sampling/createMessage", "params": {
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
        "maxTokens": tokens,
    } })
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

pub(crate) fn input_required<const N: usize>(
    requests: [(&str, Value); N],
    state: Option<String>,
) -> InputRequiredResult {
    let requests: InputRequests =
        requests.into_iter().map(|(key, request)| (key.to_owned(), from_json(request))).collect();
    InputRequiredResult::new((!requests.is_empty()).then_some(requests), state)
}

/// What the user answered under `key`, if they accepted and gave a value for `name`.
pub(crate) fn answered<'a>(responses: Option<&'a InputResponses>, key: &str, name: &str) -> Option<&'a Value> {
    let response = responses?.get(key)?;
    if response.get("action") != Some(&json!("accept")) {
        return None;
    }
    response.get("content")?.get(name)
}

pub(crate) fn call(
    shared: &Shared,
    request: CallToolRequestParams,
    context: &Context,
) -> Result<CallToolResponse, ErrorData> {
    let responses = request.input_responses.as_ref();
    let response = |key: &str| responses.and_then(|responses| responses.get(key));
    let name = || question("What is your name?", "name", "string");
    let done = |text: String| Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into());
    match request.name.as_ref() {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
            match answered(responses, "user_name", "name").and_then(Value::as_str) {
                Some(name) => done(format!("Hello, {name}!")),
                None => Ok(input_required([("user_name", name())], None).into()),
            }
        }
        "test_input_required_result_sampling" => match response("capital_question") {
            Some(answer) => done(format!("The model says: {}", answer["content"]["text"])),
            None => {
                let question = sampling("What is the capital of France?", 100);
                Ok(input_required([("capital_question", question)], None).into())
            }
        },
        "test_input_required_result_list_roots" => match response("client_roots") {
            Some(answer) => done(format!("The roots are {}", answer["roots"])),
            None => Ok(input_required([("client_roots", roots())], None).into()),
        },
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            let confirm = question("Please confirm", "ok", "boolean");
            if responses.is_none() {
                return Ok(input_required([("confirm", confirm)], Some(shared.new_state())).into());
            }
            shared.check_state(request.request_state.as_deref())?;
            done("state-ok".to_owned())
        }
        "test_input_required_result_multiple_inputs" => {
            let missing = ["user_name", "greeting", "client_roots"].iter().any(|key| response(key).is_none());
            if missing {
                let wanted = [
                    ("user_name", name()),
                    ("greeting", sampling("Generate a greeting", 50)),
                    ("client_roots", roots()),
                ];
                return Ok(input_required(wanted, Some(shared.new_state())).into());
            }
            shared.check_state(request.request_state.as_deref())?;
            done("All three are there.".to_owned())
        }
        "test_input_required_result_multi_round" => {
            if responses.is_none() {
                let question = question("Step 1: What is your name?", "name", "string");
                return Ok(input_required([("step1", question)], Some(shared.new_state())).into());
            }
            shared.check_state(request.request_state.as_deref())?;
            if response("step2").is_none() {
                let question = question("Step 2: What is your favorite color?", "color", "string");
                return Ok(input_required([("step2", question)], Some(shared.new_state())).into());
            }
            done("Both steps are done.".to_owned())
        }
        "test_input_required_result_capabilities" => {
            let can = context.client_capabilities().unwrap_or_default();
            let wanted = match (can.sampling.is_some(), can.elicitation.is_some()) {
                (true, false) => input_required([("model", sampling("Say something", 50))], None),
                (false, true) => input_required([("user", name())], None),
                (true, true) => input_required([("model", sampling("Say something", 50)), ("user", name())], None),
                (false, false) => return done("There is nothing that this client can be asked.".to_owned()),
            };
            match responses {
                Some(_) => done("Thank you.".to_owned()),
                None => Ok(wanted.into()),
            }
        }
        name => Err(invalid(format!("unknown tool `{name}`"))),
    }
}

impl Shared {
    fn new_state(&self) -> String {
        let state = Uuid::new_v4().to_string();
        self.states.lock().insert(state.clone());
        state
    }

    /// A state is good once, and only as it was given out.
    fn check_state(&self, state: Option<&str>) -> Result<(), ErrorData> {
        let known = state.is_some_and(|state| self.states.lock().remove(state));
        if known { Ok(()) } else { Err(invalid("this requestState was not given out by this server")) }
    }
}
