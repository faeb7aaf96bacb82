//! Guests from the command line.

use salon_testkit::Failure;
use serde_json::Value;

use crate::features::contains;
use crate::origin::Origin;
use crate::process::ProcessEnd;
use crate::stage::{GUEST, Stage, TOPIC};

/// Uses a guest that is in the room of a stage.
pub(crate) async fn all(stage: &Stage, origin: Origin) -> Result<(), Failure> {
    let known = origin.known();
    let tools = ended(stage.run("eve", &["tools", TOPIC, GUEST, "--json"]).await?, 0)?;
    let tools: Value = serde_json::from_str(&tools).map_err(|e| format!("{e}: {tools}"))?;
    contains(&tools["participants"][0]["tools"].to_string(), known.echo.0)?;

    let (tool, arguments, expected) = &known.echo;
    let arguments = arguments.to_string();
    let called = stage.run("eve", &["call", TOPIC, GUEST, tool, "--arguments", &arguments]).await?;
    contains(&ended(called, 0)?, expected)?;

    let pair = match origin {
        Origin::Everything => "message=hello",
        Origin::Python1 | Origin::Python2 => "text=hello",
        _ => "value=hello",
    };
    let called = stage.run("eve", &["call", TOPIC, GUEST, tool, pair, "--json"]).await?;
    let result = ended(called, 0)?;
    let result: Value = serde_json::from_str(&result).map_err(|e| format!("{e}: {result}"))?;
    contains(&result["content"].to_string(), "hello")?;

    if let Some((tool, _, expected)) = &known.failure {
        let failed = stage.run("eve", &["call", TOPIC, GUEST, tool]).await?;
        contains(&format!("{}{}", failed.stdout, failed.stderr), expected)?;
        ended(failed, 1)?;
    }
    ended(stage.run("eve", &["call", TOPIC, "nobody", tool]).await?, 3)?;
    contains(&ended(stage.run("eve", &["who", TOPIC]).await?, 0)?, GUEST)
}

/// What it wrote, if it ended as expected.
fn ended(ended: ProcessEnd, status: i32) -> Result<String, Failure> {
    if ended.status == Some(status) {
        return Ok(ended.stdout);
    }
    Err(format!("exit status {status} was expected, not {:?}\n{}{}", ended.status, ended.stdout, ended.stderr))
}
