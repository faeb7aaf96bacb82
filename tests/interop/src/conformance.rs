//! The official conformance suite, through the gateway. What it tests is our own test server, which passes everything when it is
//! asked directly; so anything less is the gateway's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use salon_testkit::Failure;
use serde_json::Value;

use crate::door::At;
use crate::origin::{Installed, Origin};
use crate::process::{self, ProcessEnd};
use crate::proxy::Proxy;
use crate::stage::{GUEST, Stage, Way};

/// How long a whole run may take; one takes seconds.
const LIMIT: Duration = Duration::from_secs(90);

/// A release line of the suite at one revision, with the number of scenarios it has and of checks that pass in them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Suite {
    line: u8,
    revision: &'static str,
    scenarios: usize,
    checks: usize,
}

impl Suite {
    /// 1 is 0.1.16, which knows nothing of the newest revision, and 2 is 0.2.0-alpha.12. From 2025-11-25 on one check more would pass if
    /// lists were answered in streams of events, which is optional.
    pub(crate) const ALL: [Self; 5] = [
        Self { line: 1, revision: "2025-06-18", scenarios: 26, checks: 26 },
        Self { line: 1, revision: "2025-11-25", scenarios: 32, checks: 45 },
        Self { line: 2, revision: "2025-06-18", scenarios: 27, checks: 56 },
        Self { line: 2, revision: "2025-11-25", scenarios: 33, checks: 82 },
        Self { line: 2, revision: "2026-07-28", scenarios: 40, checks: 152 },
    ];

    pub(crate) fn name(self) -> String {
        format!("{}_by_line_{}", self.revision.replace('-', "_"), self.line)
    }
}

/// A scenario that cannot pass at the room's address, and why. One that passes after all is a failure too. At a participant's address
/// everything passes.
struct Missing {
    scenario: &'static str,
    reason: &'static str,
}

const MISSING_AT_ROOM: [Missing; 1] = [Missing {
    scenario: "json-schema-2020-12",
    reason: "it looks for its tool in the list under the bare name, which the room accepts in a call but lists with its owner's",
}];

/// How one scenario went.
#[derive(Debug, Default)]
struct Outcome {
    passed: usize,
    /// What was said of each check that did not pass.
    failed: Vec<String>,
}

pub(crate) async fn run(installed: Installed, way: Way, at: At, suite: Suite) -> Result<(), Failure> {
    let stage = Stage::open(installed, Origin::Rmcp, way).await?;
    let witness = stage.enter("witness").await?;
    stage.peer(&witness, GUEST).await?;
    let proxy = Proxy::start(stage.socket()?, &stage.token("suite").await?).await?;

    let text = |path: &Path| path.to_string_lossy().into_owned();
    let results = stage.directory.path().join("results");
    let program = stage.installed.npm.join(format!("node_modules/conformance-{}/dist/index.js", suite.line));
    let url = format!("http://{}{}", proxy.address, at.path());
    let mut command = vec![text(&stage.installed.node), text(&program)];
    command.extend(["server", "--url", &url, "--suite", "all"].map(str::to_owned));
    command.extend(["--spec-version", suite.revision, "--output-dir", &text(&results)].map(str::to_owned));
    let ended = process::run_for(LIMIT, &command, stage.directory.path(), &[]).await;
    let judged = ended.and_then(|ended| judge(at, suite, &read(&results)?, &ended));
    judged.map_err(|told| format!("{told}\n{}", stage.output()))?;
    witness.leave().await;
    stage.close().await
}

/// The scenarios by name, from the files that the suite leaves: `server-{scenario}-{time}/checks.json`.
fn read(results: &Path) -> Result<BTreeMap<String, Outcome>, Failure> {
    let mut outcomes = BTreeMap::new();
    for entry in std::fs::read_dir(results).map_err(|e| format!("the suite left nothing: {e}"))? {
        let entry = entry.map_err(|e| e.to_string())?;
        let directory = entry.file_name().to_string_lossy().into_owned();
        // A time has a fixed length: -2026-01-02T03-04-05-678Z
        let scenario = directory.strip_prefix("server-").and_then(|name| name.get(..name.len().checked_sub(25)?));
        let scenario = scenario.ok_or_else(|| format!("`{directory}` is no name of results"))?;
        let file =
            std::fs::read_to_string(entry.path().join("checks.json")).map_err(|e| format!("{directory}: {e}"))?;
        let checks: Vec<Value> = serde_json::from_str(&file).map_err(|e| format!("{directory}: {e}"))?;
        let outcome: &mut Outcome = outcomes.entry(scenario.to_owned()).or_default();
        for check in &checks {
            match check["status"].as_str() {
                Some("SUCCESS") => outcome.passed += 1,
                Some("INFO") => {}
                // A warning is a SHOULD that is not kept, and something skipped shows nothing.
                _ => outcome.failed.push(check.to_string()),
            }
        }
    }
    Ok(outcomes)
}

fn judge(at: At, suite: Suite, outcomes: &BTreeMap<String, Outcome>, ended: &ProcessEnd) -> Result<(), Failure> {
    let missing = |scenario: &str| MISSING_AT_ROOM.iter().find(|one| at == At::Room && one.scenario == scenario);
    let mut wrong = Vec::new();
    for (scenario, outcome) in outcomes {
        match (outcome.failed.is_empty(), missing(scenario)) {
            (true, None) | (false, Some(_)) => {}
            (true, Some(Missing { reason, .. })) => wrong.push(format!("{scenario} passes, against: {reason}")),
            (false, None) => wrong.push(format!("{scenario} failed:\n  {}", outcome.failed.join("\n  "))),
        }
    }
    let allowed = outcomes.keys().filter(|scenario| missing(scenario).is_some()).count();
    if outcomes.len() != suite.scenarios {
        wrong.push(format!("{} scenarios were run, not {}", outcomes.len(), suite.scenarios));
    }
    let passed: usize = outcomes.values().map(|outcome| outcome.passed).sum();
    if allowed == 0 && wrong.is_empty() && passed != suite.checks {
        wrong.push(format!("{passed} checks passed, not {}", suite.checks));
    }
    if wrong.is_empty() && (ended.status == Some(0)) != (allowed == 0) {
        wrong.push(format!("the suite ended with {:?}", ended.status));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let told: Vec<&str> = ended.stdout.lines().skip_while(|line| !line.contains("SUMMARY")).collect();
    Err(format!("{}\n{}\n{}", wrong.join("\n"), told.join("\n"), ended.stderr))
}
