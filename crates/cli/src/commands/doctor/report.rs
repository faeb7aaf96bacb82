//! Findings, printed as they come, or as one object at the end.

use serde::Serialize;

use crate::serve::is_coloured;
use crate::trouble::Trouble;
use crate::{hand_over, out, safe};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FindingStatus {
    Ok,
    Warning,
    Problem,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub(super) struct DoctorFinding {
    check: &'static str,
    status: FindingStatus,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl DoctorFinding {
    pub(super) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, status: FindingStatus::Ok, message: message.into(), hint: None }
    }

    pub(super) fn warning(check: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { check, status: FindingStatus::Warning, message: message.into(), hint: Some(hint.into()) }
    }

    pub(super) fn problem(check: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { check, status: FindingStatus::Problem, message: message.into(), hint: Some(hint.into()) }
    }

    pub(super) fn is_ok(&self) -> bool {
        self.status == FindingStatus::Ok
    }

    pub(super) fn is_problem(&self) -> bool {
        self.status == FindingStatus::Problem
    }

    /// An error of ours, which may bring its own hint.
    pub(super) fn error(check: &'static str, error: &anyhow::Error, hint: &str) -> Self {
        let whole = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
        match whole.split_once("\n\nhint: ") {
            Some((message, own)) => Self::problem(check, message, own),
            None => Self::problem(check, whole, hint),
        }
    }
}

/// Everything, as a program reads it.
#[derive(Serialize)]
struct Whole<'a> {
    ok: bool,
    gateway: Option<&'a str>,
    checks: &'a [DoctorFinding],
}

/// Everything that was found.
pub(super) struct DoctorReport {
    json: bool,
    colour: bool,
    pub(super) gateway: Option<String>,
    findings: Vec<DoctorFinding>,
    /// Nobody reads any more.
    unread: bool,
}

impl DoctorReport {
    pub(super) fn new(json: bool) -> Self {
        Self { json, colour: is_coloured(&std::io::stdout()), gateway: None, findings: Vec::new(), unread: false }
    }

    /// Notes a finding, and shows it to a person at once.
    pub(super) fn add(&mut self, finding: DoctorFinding) {
        if !self.json && !self.unread {
            let (mark, colour) = match finding.status {
                FindingStatus::Ok => ("✓", "32"),
                FindingStatus::Warning => ("!", "33"),
                FindingStatus::Problem => ("✗", "31"),
            };
            let mark = if self.colour { format!("\x1b[{colour}m{mark}\x1b[0m") } else { mark.to_owned() };
            let message = safe::line(&finding.message);
            let mut told = format!("{mark} {:<12} {message}", finding.check);
            if let Some(hint) = &finding.hint {
                told.push_str(&format!("\n{:15}hint: {}", "", safe::line(hint)));
            }
            self.unread = out(format_args!("{told}")).is_err();
        }
        self.findings.push(finding);
    }

    /// Ends with 1 when there was a problem.
    pub(super) fn end(self) -> Result<(), Trouble> {
        let ok = self.findings.iter().all(|finding| !finding.is_problem());
        if self.json {
            let whole = Whole { ok, gateway: self.gateway.as_deref(), checks: &self.findings };
            let whole = serde_json::to_string(&whole).map_err(Trouble::failed)?;
            hand_over(format_args!("{whole}"))?;
        }
        if ok { Ok(()) } else { Err(Trouble::Reported(1)) }
    }
}
