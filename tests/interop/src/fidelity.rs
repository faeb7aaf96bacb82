//! What nobody here knows of passes untouched: members that no revision has, whole numbers that no double holds, the order of members,
//! and how something is written. From a participant that writes its envelopes by hand to a client that does, and back.

use salon_testkit::http::HttpCall;
use salon_testkit::{Failure, TestSocket, TestSocketEvent, within};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::clients::Era;
use crate::features::contains;
use crate::origin::Installed;
use crate::stage::{Stage, TOPIC};
use crate::wire::Wire;

const ODD: &str = "odd";

/// Numbers and texts that come out differently when they are read and written again.
const VALUES: &str = r#"{"z":9007199254740993,"a":-123456789012345678901234567890,"e":1E+2,"f":1.0,"t":"\u00e9\/é","o":{"2":null,"10":[]}}"#;

fn tool(name: &str) -> String {
    let schema =
        r#"{"type":"object","properties":{"n":{"type":"integer","maximum":18446744073709551616}},"x-schema":1E+2}"#;
    format!(
        r#"{{"x-first":{VALUES},"description":"d\u00e9j\u00e0 \/ vu","inputSchema":{schema},"name":"{name}","annotations":{{"x-hint":1.0}},"_meta":{{"vendor/key":{VALUES}}}}}"#
    )
}

fn prompt(name: &str) -> String {
    format!(r#"{{"x-first":{VALUES},"name":"{name}","arguments":[{{"name":"n","x-type":1.0}}],"icons":[]}}"#)
}

fn resource(name: &str) -> String {
    format!(
        r#"{{"x-first":{VALUES},"name":"{name}","uri":"odd://one?x=%2f","size":9007199254740993,"_meta":{{"v":1.0}}}}"#
    )
}

/// A result without its braces, so that an era may add members of its own before or after.
fn result() -> String {
    format!(
        r#""x-first":{VALUES},"content":[{{"x-block":{VALUES},"text":"\u00e9\/","type":"text"}},{{"type":"x-kind","v":1.0}}],"structuredContent":{VALUES},"isError":false"#
    )
}

fn error() -> String {
    format!(r#"{{"x-first":1.0,"code":-31999,"message":"d\u00e9j\u00e0","data":{VALUES},"x-last":{VALUES}}}"#)
}

/// What the client sends; the participant must be sent the same.
fn arguments() -> String {
    format!(r#"{{"n":{VALUES},"":"\u00e9\/"}}"#)
}

#[derive(Deserialize)]
struct Envelope<'a> {
    id: String,
    from: String,
    #[serde(default)]
    to: Vec<String>,
    kind: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// A participant that speaks MCPx by hand.
struct Odd {
    socket: TestSocket,
    sent: u64,
    /// The parameters of the calls it was sent.
    heard: mpsc::Sender<String>,
}

impl Odd {
    async fn enter(stage: &Stage) -> Result<(JoinHandle<Failure>, mpsc::Receiver<String>), Failure> {
        let call = HttpCall::new("GET", format!("/v0/ws?topic={TOPIC}")).bearer(&stage.token(ODD).await?);
        let socket = TestSocket::connect(stage.socket()?, call).await?;
        let mut socket = socket.map_err(|answer| format!("{ODD} cannot enter: {answer:?}"))?;
        // The welcome: from now on it is there for everybody who comes.
        socket.next().await?;
        let (heard, calls) = mpsc::channel(64);
        let odd = Self { socket, sent: 0, heard };
        Ok((tokio::spawn(odd.serve()), calls))
    }

    async fn serve(mut self) -> Failure {
        loop {
            let text = match self.socket.next_unbounded().await {
                TestSocketEvent::Text(text) => text,
                other => return format!("{ODD} was told {other:?}"),
            };
            if let Err(told) = self.hear(&text).await {
                return told;
            }
        }
    }

    async fn hear(&mut self, text: &str) -> Result<(), Failure> {
        let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|e| format!("{e}: {text}"))?;
        if envelope.kind != "mcp" || !envelope.to.iter().any(|to| to == ODD) {
            return Ok(());
        }
        let message: Message<'_> = serde_json::from_str(envelope.payload.get()).map_err(|e| format!("{e}: {text}"))?;
        let (Some(id), Some(method)) = (message.id, message.method) else { return Ok(()) };
        let params = message.params.map_or("", RawValue::get);
        let answer = match method.as_str() {
            "initialize" => {
                let capabilities = r#"{"tools":{},"prompts":{},"resources":{},"completions":{}}"#;
                let info = r#"{"name":"odd","version":"1"}"#;
                format!(
                    r#""result":{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{info}}}"#
                )
            }
            "tools/list" => format!(r#""result":{{"tools":[{},{}]}}"#, tool("odd"), tool("fail")),
            "prompts/list" => format!(r#""result":{{"prompts":[{}]}}"#, prompt("odd")),
            "resources/list" => format!(r#""result":{{"resources":[{}]}}"#, resource("odd")),
            "resources/templates/list" => r#""result":{"resourceTemplates":[]}"#.into(),
            "tools/call" | "prompts/get" | "resources/read" => {
                let _ = self.heard.send(params.to_owned()).await;
                if method == "tools/call" && params.contains(r#""fail""#) {
                    format!(r#""error":{}"#, error())
                } else {
                    self.tell(&envelope, &progress(params)).await?;
                    format!(r#""result":{{{}}}"#, result())
                }
            }
            _ => r#""error":{"code":-32601,"message":"there is no such method here"}"#.into(),
        };
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},{answer}}}"#, id.get());
        self.tell(&envelope, &answer).await
    }

    async fn tell(&mut self, about: &Envelope<'_>, payload: &str) -> Result<(), Failure> {
        self.sent += 1;
        let (sent, to, id) = (self.sent, &about.from, &about.id);
        let text = format!(
            r#"{{"protocol":"mcp-x/v0","id":"odd-{sent}","ts":"2026-01-01T00:00:00Z","from":"{ODD}","to":["{to}"],"kind":"mcp","correlation_id":"{id}","payload":{payload}}}"#
        );
        self.socket.text(text).await
    }
}

/// Progress under the token that the call has, with more to it than there is in any revision.
fn progress(params: &str) -> String {
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(rename = "progressToken", borrow)]
        token: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(rename = "_meta", borrow)]
        meta: Meta<'a>,
    }
    let token = serde_json::from_str::<Params<'_>>(params).map_or("null", |params| params.meta.token.get());
    let params = format!(r#"{{"progress":1.0,"progressToken":{token},"x-more":{VALUES}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)
}

pub(crate) async fn both_ways(installed: Installed, era: Era) -> Result<(), Failure> {
    let stage = Stage::hosting(installed, &[]).await?;
    let (odd, mut calls) = Odd::enter(&stage).await?;
    let outcome = async {
        for (path, prefix) in [(format!("/mcp/{TOPIC}/{ODD}"), ""), (format!("/mcp/{TOPIC}"), "odd__")] {
            let wire = Wire::open(stage.socket()?, path.clone(), stage.token("ada").await?, era).await?;
            through(&wire, prefix, &mut calls).await.map_err(|told| format!("{path}: {told}"))?;
            wire.close().await?;
        }
        Ok(())
    };
    let outcome: Result<(), Failure> = outcome.await;
    let outcome = outcome.map_err(|told| format!("{told}\n{}", stage.output()));
    if odd.is_finished() {
        let why = odd.await.map_err(|e| e.to_string())?;
        return Err(format!("{why}\n{outcome:?}"));
    }
    odd.abort();
    outcome?;
    stage.close().await
}

async fn through(wire: &Wire, prefix: &str, calls: &mut mpsc::Receiver<String>) -> Result<(), Failure> {
    let only = |came: Vec<String>| came.into_iter().next_back().unwrap_or_default();
    let named = |name: &str| format!("{prefix}{name}");
    let tools = only(wire.request(1, "tools/list", None, "", "").await?);
    contains(&tools, &format!("{},{}", tool(&named("odd")), tool(&named("fail"))))?;
    contains(&only(wire.request(2, "prompts/list", None, "", "").await?), &prompt(&named("odd")))?;
    contains(&only(wire.request(3, "resources/list", None, "", "").await?), &resource(&named("odd")))?;

    let (vendor, name, arguments) =
        (format!(r#""vendor/key":{VALUES},"progressToken":"\u00e9""#), named("odd"), arguments());
    let params = format!(r#""arguments":{arguments},"x-more":{VALUES},"name":"{name}""#);
    let mut came = wire.request(4, "tools/call", Some(&name), &params, &vendor).await?;
    contains(&came.pop().unwrap_or_default(), &result())?;
    let told = came.pop().ok_or("the progress did not come")?;
    contains(&told, &format!(r#"{{"progress":1.0,"progressToken":"\u00e9","x-more":{VALUES}}}"#))?;
    let sent = within("the call", calls.recv()).await?.unwrap_or_default();
    contains(&sent, &format!(r#""arguments":{arguments},"x-more":{VALUES},"name":"odd""#))?;
    contains(&sent, &format!(r#""vendor/key":{VALUES}"#))?;

    let name = named("fail");
    let came = wire.request(5, "tools/call", Some(&name), &format!(r#""name":"{name}""#), "").await?;
    contains(&only(came), &format!(r#""error":{}"#, error()))?;
    within("the call", calls.recv()).await?;

    let name = named("odd");
    let params = format!(r#""name":"{name}","arguments":{{"n":"\u00e9\/"}}"#);
    contains(&only(wire.request(6, "prompts/get", Some(&name), &params, "").await?), &result())?;
    let sent = within("the prompt to be asked for", calls.recv()).await?.unwrap_or_default();
    contains(&sent, r#""name":"odd","arguments":{"n":"\u00e9\/"}"#)?;

    let uri = "odd://one?x=%2f";
    let came = wire.request(7, "resources/read", Some(uri), &format!(r#""uri":"{uri}","x-more":1.0"#), "").await?;
    contains(&only(came), &result())?;
    let sent = within("the resource to be asked for", calls.recv()).await?.unwrap_or_default();
    contains(&sent, &format!(r#""uri":"{uri}","x-more":1.0"#))
}
