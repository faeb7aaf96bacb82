//! The prompts of the conformance suite.

use rmcp::ErrorData;
use rmcp::model::{GetPromptRequestParams, GetPromptResponse, GetPromptResult, JsonObject, Prompt};
use serde_json::{Value, json};

use crate::answers::{from_json, invalid};
use crate::content::PNG;
use crate::rounds;

pub(crate) fn prompts() -> Vec<Prompt> {
    let argument = |name: &str| json!({ "name": name, "description": "For the text", "required": true });
    from_json(json!([
        { "name": "test_simple_prompt", "description": "A text" },
        {
            "name": "test_prompt_with_arguments",
            "description": "A text with two arguments",
            "arguments": [argument("arg1"), argument("arg2")],
        },
        {
            "name": "test_prompt_with_embedded_resource",
            "description": "A resource and a text",
            "arguments": [argument("resourceUri")],
        },
        { "name": "test_prompt_with_image", "description": "A picture and a text" },
        { "name": "test_input_required_result_prompt", "description": "A text that needs to know more first" },
    ]))
}

pub(crate) fn get(request: GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    let contents = match request.name.as_str() {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (one, two) = (string(&arguments, "arg1")?, string(&arguments, "arg2")?);
            vec![text(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
        }
        "test_prompt_with_embedded_resource" => vec![
            json!({ "type": "resource", "resource": {
                "uri": string(&arguments, "resourceUri")?,
                "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            } }),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![
            json!({ "type": "image", "data": PNG, "mimeType": "image/png" }),
            text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => {
            let question = rounds::question("What context should the prompt use?", "context", "string");
            match rounds::answered(request.input_responses.as_ref(), "user_context", "context") {
                Some(context) => vec![text(&format!("Use this context: {context}"))],
                None => return Ok(rounds::input_required([("user_context", question)], None).into()),
            }
        }
        name => return Err(invalid(format!("unknown prompt `{name}`"))),
    };
    let messages: Vec<Value> =
        contents.into_iter().map(|content| json!({ "role": "user", "content": content })).collect();
    Ok(GetPromptResult::new(from_json(json!(messages))).into())
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn string<'a>(arguments: &'a JsonObject, name: &str) -> Result<&'a str, ErrorData> {
    let value = arguments.get(name).and_then(Value::as_str);
    value.ok_or_else(|| invalid(format!("argument `{name}` is missing")))
}
