//! Everything a server has, used through a room.

use salon_client::mcp::{ElicitationAnswer, LogLevel, ResourceContents, Root, SamplingAnswer, ToolResult};
use salon_client::protocol::Message;
use salon_client::{CallError, Event, Events, Peer, Room, Toolbox};
use salon_testkit::{Failure, within};
use serde_json::{Value, json};

use crate::origin::{Installed, Origin, ServerFeatures};
use crate::stage::{GUEST, Stage, Way};
use crate::{commands, mishaps};

const MODEL_SAYS: &str = "a model in the room wrote it";
const USER_SAYS: &str = "Carol";
const ROOT: &str = "file:///project";

/// Uses every feature, and fails with all that did not work.
pub(crate) async fn all(installed: Installed, origin: Origin, way: Way) -> Result<(), Failure> {
    let stage = Stage::open(installed, origin, way).await?;
    let ada = stage.enter("ada").await?;
    let plain = Subject { guest: stage.peer(&ada, GUEST).await?, known: origin.known(), origin };
    // One that can be asked something shares the server with the others; roots need a connection of one's own.
    let carol = stage.enter_with("carol", answering()).await?;
    let asked = Subject { guest: stage.peer(&carol, GUEST).await?, known: origin.known(), origin };
    let dave = stage.enter_with("dave", answering().roots([Root::new(ROOT)]).isolated()).await?;
    let isolated = Subject { guest: stage.peer(&dave, GUEST).await?, known: origin.known(), origin };

    let mut failures = Vec::new();
    let mut note = |what: &str, outcome: Result<Result<(), Failure>, Failure>| {
        if let Err(why) = outcome.and_then(|outcome| outcome) {
            failures.push(format!("{what}: {why}"));
        }
    };
    note("tools", within("tools", plain.tools()).await);
    note("calls", within("calls", plain.calls()).await);
    note("progress", within("progress", plain.progress()).await);
    note("sampling", within("sampling", asked.asks(&asked.known.sampling, MODEL_SAYS)).await);
    note("elicitation", within("elicitation", asked.asks(&asked.known.elicitation, USER_SAYS)).await);
    note("roots", within("roots", isolated.asks(&isolated.known.roots, ROOT)).await);
    // After the questions: on a pipe, one that comes soon after a cancelled call may be about that.
    note("cancelling", within("cancelling", plain.cancelling()).await);
    note("resources", within("resources", plain.resources()).await);
    note("templates", within("templates", plain.templates()).await);
    note("prompts", within("prompts", plain.prompts()).await);
    note("completion", within("completion", plain.completion()).await);
    // A caller hears the lines it asked for, of servers that take no wishes too: then the guest does.
    note("logging", within("logging", plain.logging()).await);
    // `everything` turns its log lines on and off with one tool for all callers of a connection.
    let second = if origin == Origin::Everything { &isolated } else { &asked };
    note("logging to a second caller", within("logging", second.logging()).await);
    note("updates", within("updates", plain.updates()).await);
    note("calls by one that can be asked", within("calls", asked.calls()).await);

    // A server that is started by a command is also used from the command line, and killed: last, because others would hear of it.
    if way == Way::Join {
        note("commands", Ok(commands::all(&stage, origin).await));
        note("killed in a call", Ok(mishaps::killed_guest(&stage, &plain.guest, origin).await));
    }

    let output = stage.output();
    ada.leave().await;
    carol.leave().await;
    dave.leave().await;
    note("the end", Ok(stage.close().await));
    if failures.is_empty() { Ok(()) } else { Err(format!("{}\n{output}", failures.join("\n"))) }
}

/// A participant with a model and a user.
fn answering() -> Toolbox {
    Toolbox::new("carol").on_sampling(|_, _| async { Ok(SamplingAnswer::new(MODEL_SAYS, "a-model")) }).on_elicitation(
        |question, _| async move {
            // Whatever is asked for, the answer is her name.
            let schema: Value = serde_json::from_str(question.requested_schema.get()).unwrap_or_default();
            let wanted = schema["required"].as_array().cloned().unwrap_or_default();
            let content: serde_json::Map<String, Value> =
                wanted.iter().filter_map(Value::as_str).map(|name| (name.to_owned(), json!(USER_SAYS))).collect();
            Ok(ElicitationAnswer::accept(&content).expect("a map of strings is JSON"))
        },
    )
}

/// A guest as one caller sees it.
struct Subject {
    guest: Peer,
    known: ServerFeatures,
    origin: Origin,
}

impl Subject {
    async fn tools(&self) -> Result<(), Failure> {
        let tools = self.guest.tools().await.map_err(told)?;
        let wanted = [self.known.echo.0, self.known.progress.0.0];
        for name in wanted {
            let tool =
                tools.iter().find(|tool| tool.name == name).ok_or_else(|| format!("no `{name}` in {tools:?}"))?;
            if !tool.input_schema.get().contains("\"object\"") {
                return Err(format!("the schema of `{name}` is {}", tool.input_schema));
            }
        }
        Ok(())
    }

    async fn call(&self, tool: &str, arguments: &Value) -> Result<ToolResult, Failure> {
        self.guest.call_tool(tool, arguments).await.map_err(told)
    }

    async fn calls(&self) -> Result<(), Failure> {
        let (tool, arguments, expected) = &self.known.echo;
        let result = self.call(tool, arguments).await?;
        contains(&result.text(), expected)?;
        if result.is_error {
            return Err(format!("`{tool}` failed: {}", result.text()));
        }
        if let Some((tool, arguments, expected)) = &self.known.failure {
            let result = self.call(tool, arguments).await?;
            contains(&result.text(), expected)?;
            if !result.is_error {
                return Err(format!("`{tool}` did not fail"));
            }
        }
        Ok(())
    }

    async fn progress(&self) -> Result<(), Failure> {
        let ((tool, arguments, expected), least) = &self.known.progress;
        let mut call = self.guest.call_tool(*tool, arguments).start().await.map_err(told)?;
        let mut reports = Vec::new();
        while let Some(report) = call.progress().await {
            reports.push(report.progress);
        }
        contains(&call.result().await.map_err(told)?.text(), expected)?;
        if reports.len() < *least || !reports.is_sorted() {
            return Err(format!("{least} reports of progress were expected and {reports:?} came"));
        }
        Ok(())
    }

    async fn cancelling(&self) -> Result<(), Failure> {
        let (tool, arguments) = &self.known.long;
        let mut call = self.guest.call_tool(*tool, arguments).start().await.map_err(told)?;
        call.progress().await.ok_or("it ended before it could be cancelled")?;
        call.cancel("not wanted any more").await;
        if self.origin.is_rmcp() {
            while self.call("cancellations", &json!({})).await?.text() == r#"{"count":0}"# {}
        }
        let (tool, arguments, expected) = &self.known.echo;
        contains(&self.call(tool, arguments).await?.text(), expected)
    }

    async fn resources(&self) -> Result<(), Failure> {
        let (uri, expected) = self.known.resource;
        let resources = self.guest.resources().await.map_err(told)?;
        if !resources.iter().any(|resource| resource.uri == uri) {
            return Err(format!("no `{uri}` in {resources:?}"));
        }
        contains(&self.read(uri).await?, expected)?;
        match self.guest.read_resource("nowhere://at/all").await {
            Err(CallError::Answered(_)) => Ok(()),
            other => Err(format!("a resource that is not there was read: {other:?}")),
        }
    }

    async fn templates(&self) -> Result<(), Failure> {
        let (template, uri, expected) = self.known.template;
        let templates = self.guest.resource_templates().await.map_err(told)?;
        if !templates.iter().any(|one| one.uri_template == template) {
            return Err(format!("no `{template}` in {templates:?}"));
        }
        contains(&self.read(uri).await?, expected)
    }

    async fn read(&self, uri: &str) -> Result<String, Failure> {
        let contents: Vec<ResourceContents> = self.guest.read_resource(uri).await.map_err(told)?;
        Ok(json!(contents).to_string())
    }

    async fn prompts(&self) -> Result<(), Failure> {
        let (name, arguments, expected) = &self.known.prompt;
        let prompts = self.guest.prompts().await.map_err(told)?;
        if !prompts.iter().any(|prompt| prompt.name == *name) {
            return Err(format!("no `{name}` in {prompts:?}"));
        }
        let prompt = self.guest.get_prompt(name, arguments).await.map_err(told)?;
        contains(&json!(prompt).to_string(), expected)
    }

    async fn completion(&self) -> Result<(), Failure> {
        let (of, argument, typed, expected) = &self.known.completion;
        let values = self.guest.complete(of, argument, typed).await.map_err(told)?.values;
        if values.iter().any(|value| value == expected) { Ok(()) } else { Err(format!("{typed} gave {values:?}")) }
    }

    async fn logging(&self) -> Result<(), Failure> {
        let (tool, arguments) = &self.known.log;
        self.guest.set_log_level(LogLevel::Debug).await.map_err(told)?;
        let mut events = self.guest.room().events();
        self.call(tool, arguments).await?;
        heard(&mut events, self.guest.room(), "notifications/message").await.map(drop)
    }

    async fn updates(&self) -> Result<(), Failure> {
        let Some((uri, tool, arguments)) = &self.known.update else { return Ok(()) };
        let mut subscription = self.guest.subscribe(uri).await.map_err(told)?;
        self.call(tool, arguments).await?;
        match subscription.changed().await {
            Some(changed) if changed == *uri => {}
            other => return Err(format!("an update of `{uri}` was expected, not {other:?}")),
        }
        self.guest.unsubscribe(uri).await.map_err(told)
    }

    /// A tool that asks its caller something answers with what it was told.
    async fn asks(&self, (tool, arguments): &(&str, Value), expected: &str) -> Result<(), Failure> {
        contains(&self.call(tool, arguments).await?.text(), expected)
    }
}

/// Waits for a notification from the guest to this participant.
async fn heard(events: &mut Events, room: &Room, method: &str) -> Result<(), Failure> {
    while let Some(event) = events.next().await {
        let Event::Envelope(envelope) = event else { continue };
        let Some(Message::Notification { method: said }) = envelope.message() else { continue };
        if envelope.from().as_str() == GUEST && envelope.to().contains(room.id()) && &**said == method {
            return Ok(());
        }
    }
    Err(format!("the room ended before `{method}` came"))
}

pub(crate) fn contains(text: &str, expected: &str) -> Result<(), Failure> {
    if text.contains(expected) { Ok(()) } else { Err(format!("`{expected}` was expected in: {text}")) }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
pub(crate) fn told(error: CallError) -> Failure {
    error.to_string()
}
