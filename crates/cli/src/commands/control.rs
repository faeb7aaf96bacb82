//! How commands for control call the gateway's tools, and `salon approvals`, `approve` and `deny`.

use std::io::{BufRead, IsTerminal};

use anyhow::anyhow;
use clap::Args;
use salon_client::Room;
use salon_control::text_digest;
use salon_protocol::{EnvelopeId, ParticipantId, ParticipantKind, TopicName};
use serde_json::{Value, json};

use super::call::failed;
use super::outcome::{HintContext, REFUSED};
use crate::access::{Access, GatewayUrl, Reach};
use crate::trouble::Trouble;
use crate::{hand_over, note, safe};

/// The permission of tokens that these commands make with the gateway's key, which allows everything anyway.
const PERMISSION: &str = "operator";

/// For commands whose tool stores the reason in the topic.
#[derive(Debug, Args)]
pub(crate) struct ReasonOption {
    /// Why, for everybody in the topic to read
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl ReasonOption {
    /// Arguments of a tool, with the reason.
    pub(super) fn add_to(self, mut arguments: Value) -> Value {
        if let Some(reason) = self.reason {
            arguments["reason"] = json!(reason);
        }
        arguments
    }
}

#[derive(Debug, Args)]
pub(crate) struct ControlOptions {
    /// Print the answer of the gateway as one JSON object
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    access: Access,
}

impl ControlOptions {
    /// Deletes a topic, once the person has confirmed it.
    pub(super) async fn delete_topic(
        &self,
        topic: &TopicName,
        is_confirmed: bool,
        reason: ReasonOption,
    ) -> Result<(), Trouble> {
        let Reach { gateway, client, .. } = self.access.reach_with(&[PERMISSION]).map_err(Trouble::usage)?;
        let name = safe::line(topic.as_str());
        if !is_confirmed {
            let hint = "`--yes` deletes it without a question";
            let question = format!("Everything that was said in `{name}` is erased, for good.");
            confirm(&question, "delete it", hint)?;
        }
        let asking = HintContext { gateway: &gateway, topic: Some(topic) };
        client.delete_topic(topic, reason.reason.as_deref()).await.map_err(|error| asking.trouble(&error))?;
        if self.json {
            return hand_over(format_args!("{}", json!({ "deleted": topic })));
        }
        note(format_args!("`{name}` is deleted"));
        Ok(())
    }
}

/// A seat from which the gateway's tools are called.
pub(super) struct HostCaller {
    room: Room,
    gateway: GatewayUrl,
    topic: TopicName,
}

impl HostCaller {
    pub(super) async fn enter(options: &ControlOptions, topic: TopicName) -> Result<Self, Trouble> {
        let Reach { gateway, client, .. } = options.access.reach_with(&[PERMISSION]).map_err(Trouble::usage)?;
        // Shared, so that it takes nobody else's seat.
        let joining = client.room(topic.clone()).kind(ParticipantKind::Human).share().directed().join().await;
        let room = joining.map_err(|error| HintContext { gateway: &gateway, topic: Some(&topic) }.trouble(&error))?;
        Ok(Self { room, gateway, topic })
    }

    pub(super) fn participant(&self) -> ParticipantId {
        self.room.id().clone()
    }

    pub(super) async fn leave(self) {
        self.room.leave().await;
    }

    /// Calls a tool. An error of the tool is a refusal.
    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Trouble> {
        let host = ParticipantId::host();
        let asking = HintContext { gateway: &self.gateway, topic: Some(&self.topic) };
        let answer = self.room.peer(&host).call_tool(tool, &arguments).await;
        let result = answer.map_err(|error| failed(&error, &host, &asking))?;
        let result = serde_json::to_value(&result).map_err(Trouble::failed)?;
        if result["isError"] == json!(true) {
            let told = result["content"][0]["text"].as_str().unwrap_or("the gateway refused");
            return Err(Trouble::Coded(REFUSED, anyhow!("{}", safe::line(told))));
        }
        Ok(result["structuredContent"].clone())
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  salon approvals room:lab
  salon approvals room:lab --json | jq -r '.approvals[].id'")]
pub(crate) struct ApprovalsArgs {
    /// Which room
    topic: TopicName,
    #[command(flatten)]
    options: ControlOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without `--digest` the command shows the call and asks you. With `--digest` it
does not ask: the digest, which `salon approvals` shows, says which text you
have read.

Examples:
  salon approve room:lab 0198c5a2-…
  salon deny room:lab 0198c5a2-… --reason 'not today'")]
pub(crate) struct DecideArgs {
    /// Which room
    topic: TopicName,
    /// Id of the held call
    id: EnvelopeId,
    /// Digest of the text that you have read
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    /// Decide the same about all later calls of this tool by this caller, by a rule in the settings
    #[arg(long)]
    remember: bool,
    #[command(flatten)]
    reason: ReasonOption,
    #[command(flatten)]
    options: ControlOptions,
}

pub(crate) fn list(args: ApprovalsArgs) -> Result<(), Trouble> {
    super::run(approvals(args))
}

pub(crate) fn decide(args: DecideArgs, decision: &'static str) -> Result<(), Trouble> {
    super::run(decided(args, decision))
}

async fn approvals(ApprovalsArgs { topic, options }: ApprovalsArgs) -> Result<(), Trouble> {
    let caller = HostCaller::enter(&options, topic).await?;
    let answer = caller.call("approval.list", json!({})).await;
    caller.leave().await;
    let answer = answer?;
    if options.json {
        return hand_over(format_args!("{answer}"));
    }
    let held = answer["approvals"].as_array().cloned().unwrap_or_default();
    held.iter().try_for_each(check_digest)?;
    if held.is_empty() {
        note(format_args!("no call waits for approval there"));
        return Ok(());
    }
    let shown: Vec<_> = held.iter().map(describe).collect();
    hand_over(format_args!("{}", shown.join("\n\n")))
}

/// The person decides about the text that is shown, so its digest is not believed but computed.
fn check_digest(held: &Value) -> Result<(), Trouble> {
    let text = |name: &str| held[name].as_str().unwrap_or_default();
    if text_digest(text("request")) == text("digest") {
        return Ok(());
    }
    let id = safe::line(text("id"));
    Err(Trouble::failed(anyhow!("the digest of the held call `{id}` is not that of its text: do not approve it")))
}

/// A held call: what it is, and its exact text.
fn describe(held: &Value) -> String {
    let text = |name: &str| safe::line(held[name].as_str().unwrap_or_default());
    let approved = held["approved_by"].as_array().map_or(0, Vec::len);
    format!(
        "{}\n  {} calls {} of {}\n  {approved} of {} approvals, expires {}\n  digest {}\n  request {}",
        text("id"),
        text("caller"),
        text("tool"),
        text("callee"),
        held["needs"],
        text("expires"),
        text("digest"),
        text("request"),
    )
}

async fn decided(args: DecideArgs, decision: &'static str) -> Result<(), Trouble> {
    let DecideArgs { topic, id, digest, remember, reason, options } = args;
    let caller = HostCaller::enter(&options, topic).await?;
    let decision = DecisionArguments { decision, remember, reason };
    let answer = decide_there(&caller, &id, digest, decision).await;
    caller.leave().await;
    let answer = answer?;
    if options.json {
        return hand_over(format_args!("{answer}"));
    }
    if let Some(why) = answer["not_remembered"].as_str() {
        note(format_args!("it is not remembered: {}", safe::line(why)));
    }
    match answer["decision"].as_str().unwrap_or_default() {
        "approved" => note(format_args!("approved: {} of {} approvals", answer["approvals"], answer["needs"])),
        decision => note(format_args!("{}", safe::line(decision))),
    }
    Ok(())
}

struct DecisionArguments {
    decision: &'static str,
    remember: bool,
    reason: ReasonOption,
}

async fn decide_there(
    caller: &HostCaller,
    id: &EnvelopeId,
    digest: Option<String>,
    DecisionArguments { decision, remember, reason }: DecisionArguments,
) -> Result<Value, Trouble> {
    let digest = match digest {
        Some(digest) => digest,
        None => {
            let listed = caller.call("approval.list", json!({})).await?;
            let held = listed["approvals"].as_array().into_iter().flatten().find(|held| held["id"] == json!(id));
            let Some(held) = held else {
                return Err(Trouble::Coded(REFUSED, anyhow!("no call `{id}` waits for approval there")));
            };
            check_digest(held)?;
            let hint = "read the call with `salon approvals`, and give its `--digest`";
            confirm(&describe(held), &format!("{decision} this call"), hint)?;
            held["digest"].as_str().unwrap_or_default().to_owned()
        }
    };
    let mut arguments = json!({ "id": id, "digest": digest, "decision": decision });
    if remember {
        arguments["remember"] = json!(true);
    }
    caller.call("approval.decide", reason.add_to(arguments)).await
}

/// Shows the person something, and asks whether to do it.
fn confirm(shown: &str, action: &str, hint: &str) -> Result<(), Trouble> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Trouble::usage(anyhow!("there is no terminal to ask at\n\nhint: {hint}")));
    }
    note(format_args!("{shown}\n\n{action}? [y/N]"));
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).map_err(Trouble::failed)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(Trouble::usage(anyhow!("nothing was done"))) }
}
