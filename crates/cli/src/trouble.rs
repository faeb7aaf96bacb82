//! Errors of commands, for a person, with their exit codes.

use std::fmt;
use std::process::ExitCode;

/// An error for the person at the terminal. The text may end with a hint after a blank line.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The command or the configuration is wrong; nothing was started.
    Usage(anyhow::Error),
    /// It was started, or could have been, and then failed.
    Failed(anyhow::Error),
    /// It failed in a way that has an exit code of its own.
    Coded(u8, anyhow::Error),
    /// It ended with this exit code, without an error message.
    Reported(u8),
}

impl Trouble {
    /// The command or the configuration is wrong.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::Usage(error.into())
    }

    /// Something failed while running.
    pub(crate) fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self::Failed(error.into())
    }

    /// Something failed while running; `hint` is what might help.
    pub(crate) fn hinted(message: impl fmt::Display, hint: impl fmt::Display) -> Self {
        Self::Failed(anyhow::anyhow!("{message}\n\nhint: {hint}"))
    }

    /// Something failed in a way that has an exit code of its own; `hint` is what might help.
    pub(crate) fn coded(code: u8, message: impl fmt::Display, hint: impl fmt::Display) -> Self {
        Self::Coded(code, anyhow::anyhow!("{message}\n\nhint: {hint}"))
    }

    /// 2 for usage, 1 for failure, unless it has one of its own.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
            Self::Coded(code, _) | Self::Reported(code) => ExitCode::from(*code),
        }
    }

    /// Whether the error has been printed already.
    pub(crate) fn is_reported(&self) -> bool {
        matches!(self, Self::Reported(_))
    }
}

impl fmt::Display for Trouble {
    /// The error, its causes where its text does not include them, and the hint at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(error) | Self::Failed(error) | Self::Coded(_, error)) = self else { return Ok(()) };
        let whole = error.to_string();
        let (message, hint) = whole.find("\n\nhint: ").map_or((&*whole, ""), |at| whole.split_at(at));
        write!(f, "error: {message}")?;
        for cause in error.chain().skip(1).map(ToString::to_string).filter(|cause| !whole.contains(cause)) {
            write!(f, ": {cause}")?;
        }
        f.write_str(hint)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn causes_stand_before_the_hint_and_only_once() {
        let cause = || Err::<(), _>(anyhow!("the disk is full"));
        let told = |error: anyhow::Result<()>| Trouble::failed(error.expect_err("an error")).to_string();
        assert_eq!(
            told(cause().context("not stored\n\nhint: make room")),
            "error: not stored: the disk is full\n\nhint: make room"
        );
        assert_eq!(told(cause().context("not stored: the disk is full")), "error: not stored: the disk is full");
    }
}
