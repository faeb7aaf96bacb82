//! Tools that take time, log, change something, or tell about the session; those that only our own tests know among them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::model::{JsonObject, LoggingLevel};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::answers::{ToolResult, failure, invalid, read, structured, text};
use crate::catalogue::MAX_TEXT_BYTES;
use crate::changes::Change;
use crate::server::{Context, TestServer};

/// Between two signs of life of the suite's tools, so that they do not arrive as one.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Deserialize)]
struct Slow {
    ms: u64,
    #[serde(default = "one")]
    steps: u32,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize)]
struct Long {
    length: usize,
}

#[derive(Deserialize)]
struct Touch {
    uri: String,
}

pub(crate) async fn call(server: &TestServer, name: &str, arguments: JsonObject, context: &Context) -> ToolResult {
    match name {
        "test_tool_with_logging" => {
            for (number, line) in
                ["Tool execution started", "Tool processing data", "Tool execution completed"].iter().enumerate()
            {
                if number > 0 {
                    sleep(PROGRESS_INTERVAL).await;
                }
                server.log(context, LoggingLevel::Info, line).await;
            }
            text("Three lines were logged.")
        }
        "test_logging_tool" => {
            server.log(context, LoggingLevel::Info, "A line from the logging tool").await;
            text("A line was logged, if you wanted it.")
        }
        "test_tool_with_progress" => {
            for done in [0, 50, 100] {
                if done > 0 {
                    sleep(PROGRESS_INTERVAL).await;
                }
                server.progress(context, f64::from(done), 100.0, "Working").await;
            }
            text("Progress was reported.")
        }
        "test_error_handling" => failure("This tool intentionally returns an error for testing"),
        "test_reconnection" => text("Nothing was lost."),
        "test_header" | "json_schema_2020_12_tool" | "echo" => structured(Value::Object(arguments)),
        "test_trigger_tool_change" => {
            server.shared.appeared.fetch_not(Ordering::Relaxed);
            server.shared.changes.announce(Change::Tools).await;
            text("The tools have changed.")
        }
        "test_trigger_prompt_change" => {
            server.shared.changes.announce(Change::Prompts).await;
            text("The prompts have changed.")
        }
        "touch" => {
            let Touch { uri } = read(arguments)?;
            server.shared.changes.announce(Change::Resource(uri)).await;
            text("The resource has changed.")
        }
        "long" => {
            let Long { length } = read(arguments)?;
            text("x".repeat(length.min(MAX_TEXT_BYTES)))
        }
        "slow" => slow(server, read(arguments)?, context).await,
        "cancellations" => structured(json!({ "count": server.shared.cancelled.load(Ordering::Relaxed) })),
        "who_am_i" => structured(json!({
            "clientInfo": context.client_info(),
            "capabilities": context.client_capabilities(),
            "protocolVersion": context.protocol_version(),
        })),
        "crash" => std::process::exit(3),
        "appeared" if server.shared.appeared.load(Ordering::Relaxed) => text("Here I am."),
        _ => Err(invalid(format!("unknown tool `{name}`"))),
    }
}

/// Reports that it has begun before it takes any time, so that a test that sees the first progress knows that the call runs.
async fn slow(server: &TestServer, Slow { ms, steps }: Slow, context: &Context) -> ToolResult {
    let (steps, total) = (steps.max(1), f64::from(steps.max(1)));
    server.progress(context, 0.0, total, "begun").await;
    for step in 1..=steps {
        tokio::select! { biased;
            () = context.ct.cancelled() => {
                server.shared.cancelled.fetch_add(1, Ordering::Relaxed);
                return failure("cancelled");
            }
            () = sleep(Duration::from_millis(ms) / steps) => {}
        }
        server.progress(context, f64::from(step), total, &format!("step {step} of {steps}")).await;
    }
    text(format!("{steps} steps in {ms} ms"))
}
