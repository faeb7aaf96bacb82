//! The resources and the template of the conformance suite.

use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceTemplate};
use serde_json::{Value, json};

use crate::answers::from_json;
use crate::content::PNG;

pub(crate) fn resources() -> Vec<Resource> {
    from_json(json!([
        { "uri": "test://static-text", "name": "Static text", "description": "A text", "mimeType": "text/plain" },
        { "uri": "test://static-binary", "name": "Static binary", "description": "A picture", "mimeType": "image/png" },
        {
            "uri": "test://watched-resource",
            "name": "Watched resource",
            "description": "A text to subscribe to",
            "mimeType": "text/plain",
        },
    ]))
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    from_json(json!([{
        "uriTemplate": "test://template/{id}/data",
        "name": "Template",
        "description": "Data for an id",
        "mimeType": "application/json",
    }]))
}

pub(crate) fn read(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let contents = match uri {
        "test://static-text" => plain(uri, "This is the content of the static text resource."),
        "test://static-binary" => json!({ "uri": uri, "mimeType": "image/png", "blob": PNG }),
        "test://watched-resource" => plain(uri, "Watched resource content."),
        _ => match uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data")) {
            Some(id) => {
                let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                json!({ "uri": uri, "mimeType": "application/json", "text": data.to_string() })
            }
            None => return Err(ErrorData::resource_not_found("Resource not found", Some(json!({ "uri": uri })))),
        },
    };
    Ok(ReadResourceResult::new(from_json(json!([contents]))))
}

fn plain(uri: &str, text: &str) -> Value {
    json!({ "uri": uri, "mimeType": "text/plain", "text": text })
}
