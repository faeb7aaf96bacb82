//! What goes wrong, told to a person, and the exit code it has.

use std::fmt;
use std::process::ExitCode;

/// An error for the person at the terminal. The text may end with a hint after a blank line.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The command or the configuration is wrong; nothing was started.
    Usage(anyhow::Error),
    /// It was started, or could have been, and then failed.
    Failed(anyhow::Error),
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

    /// 2 for usage, 1 for failure.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(error) | Self::Failed(error)) = self;
        write!(f, "error: {error}")
    }
}
