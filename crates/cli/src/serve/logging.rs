//! Log lines: to stderr, for a person or for a program.

use std::io::IsTerminal;

use anyhow::anyhow;
use salon_gateway::config::LogFormat;
use tracing_subscriber::EnvFilter;

use crate::trouble::Trouble;

/// Reads the directives that say which lines there are.
pub(crate) fn filter(directives: &str) -> Result<EnvFilter, Trouble> {
    EnvFilter::try_new(directives).map_err(|error| {
        let hint = "use a level (error, warn, info, debug, trace), or directives such as `info,salon_gateway=debug`";
        Trouble::usage(anyhow!("`{directives}` does not say which log lines there are: {error}\n\nhint: {hint}"))
    })
}

/// Sends log lines to stderr from now on.
pub(crate) fn start(format: LogFormat, filter: EnvFilter) {
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // It would tell them on stderr, and fail for want of a terminal that is gone.
    let lines = lines.log_internal_errors(false);
    match format {
        LogFormat::Human => lines.with_target(false).with_ansi(is_coloured(&std::io::stderr())).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}

/// Whether colour is welcome: somebody looks, and has not asked for none.
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !refused && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
