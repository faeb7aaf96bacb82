//! Log lines: to stderr, for a person or for a program.

use std::io::IsTerminal;

use anyhow::anyhow;
use salon_gateway::config::LogFormat;
use tracing::{Dispatch, Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::trouble::Trouble;

/// Tells at `debug` what it sends and is sent: messages and grants. Others that do so (TLS, WebSockets, HTTP) have no way into the lines,
/// as they use `log`, to which `tracing-subscriber` does not listen as it is built here.
const TALKATIVE: &str = "async_nats";

/// Which lines there are.
pub(crate) struct Filter {
    env_filter: EnvFilter,
    /// What of the talkative is asked for by name.
    named: Vec<String>,
}

/// Reads the directives that say which lines there are.
pub(crate) fn filter(directives: &str) -> Result<Filter, Trouble> {
    let targets = directives.split(',').filter_map(|directive| directive.split(['=', '[']).next());
    let named = targets.filter(|target| target.starts_with(TALKATIVE)).map(str::to_owned).collect();
    EnvFilter::try_new(directives).map(|env_filter| Filter { env_filter, named }).map_err(|error| {
        let hint = "use a level (error, warn, info, debug, trace), or directives such as `info,salon_gateway=debug`";
        Trouble::usage(anyhow!("`{directives}` does not say which log lines there are: {error}\n\nhint: {hint}"))
    })
}

/// Sends log lines to stderr from now on.
pub(crate) fn start(format: LogFormat, filter: Filter) {
    lines(format, filter).init();
}

/// Whether a line is shown that only a level, a span or a field of the filter matches.
fn is_discreet(line: &Metadata<'_>, named: &[String]) -> bool {
    let is_named = || named.iter().any(|name| line.target().starts_with(name));
    *line.level() <= Level::INFO || !line.target().starts_with(TALKATIVE) || is_named()
}

fn lines(format: LogFormat, Filter { env_filter, named }: Filter) -> Dispatch {
    let lines = tracing_subscriber::fmt().with_env_filter(env_filter).with_writer(std::io::stderr);
    let discreet = filter_fn(move |line| is_discreet(line, &named));
    // It would print them on stderr, and fail when the terminal is gone.
    let lines = lines.log_internal_errors(false);
    match format {
        LogFormat::Human => {
            lines.with_target(false).with_ansi(is_coloured(&std::io::stderr())).finish().with(discreet).into()
        }
        LogFormat::Json => lines.json().flatten_event(true).finish().with(discreet).into(),
    }
}

/// Whether to use colour: stderr is a terminal, and `NO_COLOR` is not set.
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !refused && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use tracing::{dispatcher, enabled, info_span};

    use super::*;

    /// Which lines there are of some that there could be, in a room.
    fn told(directives: &str) -> Vec<&'static str> {
        const REQUESTS: &str = "async_nats::jetstream::context";
        const CONNECTIONS: &str = "async_nats::connector";
        let tell = || {
            let _room = info_span!("room", topic = "room:lab").entered();
            [
                ("requests at debug", enabled!(target: REQUESTS, Level::DEBUG)),
                ("requests at trace", enabled!(target: REQUESTS, Level::TRACE)),
                ("connections at debug", enabled!(target: CONNECTIONS, Level::DEBUG)),
                ("connections at info", enabled!(target: CONNECTIONS, Level::INFO)),
                ("our own at debug", enabled!(target: "salon_gateway", Level::DEBUG)),
            ]
        };
        let mut all = Vec::new();
        for format in [LogFormat::Human, LogFormat::Json] {
            let lines = lines(format, filter(directives).unwrap_or_else(|_| panic!("{directives}")));
            all.push(dispatcher::with_default(&lines, tell));
        }
        assert_eq!(all[0], all[1], "{directives}");
        all[0].iter().filter(|(_, is_told)| *is_told).map(|(what, _)| *what).collect()
    }

    #[test]
    fn what_is_sent_to_nats_is_told_only_where_it_is_asked_for_by_name() {
        for (directives, lines) in [
            ("off", &[][..]),
            ("warn", &[]),
            ("info", &["connections at info"]),
            ("debug", &["connections at info", "our own at debug"]),
            ("trace", &["connections at info", "our own at debug"]),
            ("info,salon_gateway=debug", &["connections at info", "our own at debug"]),
            ("async=trace", &["connections at info"]),
            ("warn,[room]=trace", &["connections at info", "our own at debug"]),
            ("warn,[{topic}]=trace", &["connections at info", "our own at debug"]),
            ("debug,async_nats=warn", &["our own at debug"]),
            ("debug,async_nats::connector=debug", &["connections at debug", "connections at info", "our own at debug"]),
            ("async_nats=debug", &["requests at debug", "connections at debug", "connections at info"]),
            ("async_nats", &["requests at debug", "requests at trace", "connections at debug", "connections at info"]),
        ] {
            assert_eq!(told(directives), lines, "{directives}");
        }
    }
}
