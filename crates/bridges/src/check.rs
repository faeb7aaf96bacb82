//! Findings of `salon bridge check`, as the platforms' modules make them.

use crate::platform::{CheckFinding, CheckVerdict};

impl CheckFinding {
    pub(crate) fn fine(subject: &str, detail: impl Into<String>) -> Self {
        Self { subject: subject.into(), verdict: CheckVerdict::Fine { detail: detail.into() } }
    }

    pub(crate) fn problem(subject: &str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { subject: subject.into(), verdict: CheckVerdict::Problem { detail: detail.into(), hint: hint.into() } }
    }
}
