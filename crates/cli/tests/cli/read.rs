//! `read`, `prompt` and `call --output`: what is not the text of a tool.

use insta::assert_snapshot;
use salon_client::mcp::{Content, Media};
use salon_client::{Request, RpcError, ToolCall, Toolbox};
use salon_protocol::ParticipantKind;
use salon_testkit::run;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::stage::{Stage, TOPIC};

fn answering(
    value: Value,
) -> impl Fn(Request) -> std::future::Ready<Result<Box<serde_json::value::RawValue>, RpcError>> {
    move |_| std::future::ready(Ok(to_raw_value(&value).expect("JSON")))
}

fn library() -> Toolbox {
    let photo = || Content::Image(Media::new("iVBO", "image/png"));
    Toolbox::new("Library")
        .capability("resources", json!({}))
        .method("resources/list", answering(json!({ "resources": [{ "uri": "note://1", "name": "one", "title": "The first" }] })))
        .method("resources/templates/list", answering(json!({ "resourceTemplates": [{ "uriTemplate": "note://{n}", "name": "any" }] })))
        .method("resources/read", answering(json!({ "contents": [
            { "uri": "note://1", "text": "a note\u{1b}[31m", "mimeType": "text/plain" }, { "uri": "note://1", "blob": "AAEC", "mimeType": "image/png" },
        ] })))
        .capability("prompts", json!({}))
        .method("prompts/list", answering(json!({ "prompts": [
            { "name": "review", "description": "Reviews a file", "arguments": [{ "name": "file", "required": true }, { "name": "style" }] },
        ] })))
        .method("prompts/get", answering(json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "Review main.rs" } }] })))
        .tool("photo", "Takes a photo", json!({ "type": "object" }), move |_: ToolCall| async move {
            Ok(vec![Content::text("click"), photo(), photo()].into())
        })
}

#[test]
fn resources_prompts_and_binary_content() {
    run(async {
        let stage = Stage::new().await;
        let _library = stage.enter("library", ParticipantKind::Agent, library()).await;
        let told = async |arguments: &[&str]| stage.told(arguments).await;
        assert_snapshot!(told(&["read", TOPIC, "library"]).await, @"
        note://1    The first
        note://{n}  any
        exit: 0
        ");
        assert_snapshot!(told(&["read", TOPIC, "library", "note://1"]).await, @r"
        a note\u{1b}[31m
        [image/png, 3 bytes; `--output FILE` writes them]
        exit: 0
        ");
        assert_snapshot!(told(&["read", TOPIC, "library", "note://1", "-o", "out"]).await, @"
        11 bytes of text/plain in `out`
        3 bytes of image/png in `out.2`
        exit: 0
        ");
        assert_eq!(std::fs::read(stage.home.path().join("out.2")).expect("written"), [0, 1, 2]);
        assert_snapshot!(told(&["prompt", TOPIC, "library"]).await, @"
        review  file=… [style=…]  Reviews a file
        exit: 0
        ");
        assert_snapshot!(told(&["prompt", TOPIC, "library", "review", "file=main.rs"]).await, @"
        user: Review main.rs
        exit: 0
        ");
        assert_snapshot!(told(&["call", TOPIC, "library", "photo", "--output", "photo.png"]).await, @"
        click
        3 bytes of image/png in `photo.png`
        3 bytes of image/png in `photo.png.2`
        exit: 0
        ");
        assert_snapshot!(told(&["read", TOPIC, "librray", "note://1"]).await, @"
        error: `librray` is not in this room

        hint: did you mean `library`? `salon who room:alpha` shows who is there
        exit: 3
        ");
    });
}
