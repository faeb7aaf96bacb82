//! A server that speaks the draft dialect of MCP, for tests: `tools/invoke` in place of `tools/call`, and the rest of that document.
//! It speaks on stdin and stdout, or at the address it prints with `--http 127.0.0.1:0` or `--ws 127.0.0.1:0`.
//!
//! Deliberately absent: anything of MCP itself. It does not understand MCP's own methods, so that a translation that is
//! missing shows.

mod tools;
mod wires;

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use tools::{Message, State};

const USAGE: &str = "\
usage: draft-server [--http ADDRESS | --ws ADDRESS] [--strict] [--heard FILE]

  --strict       refuses an `initialize` that has anything but the dialect's own parameters, with 4001
  --heard FILE   writes there the name of every method it hears, one a line";

/// How it was started.
#[derive(Default)]
struct Arguments {
    http: Option<SocketAddr>,
    ws: Option<SocketAddr>,
    strict: bool,
    heard: Option<PathBuf>,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("`{word}` needs a value"));
        match word.as_str() {
            "--http" => arguments.http = Some(value()?.parse()?),
            "--ws" => arguments.ws = Some(value()?.parse()?),
            "--strict" => arguments.strict = true,
            "--heard" => arguments.heard = Some(value()?.into()),
            _ => bail!("`{word}` was not understood"),
        }
    }
    Ok(arguments)
}

/// What all connections share.
struct Server {
    strict: bool,
    heard: Option<Mutex<File>>,
    state: Mutex<State>,
}

impl Server {
    fn new(arguments: &Arguments) -> Result<Self> {
        let heard = arguments.heard.as_ref().map(File::create).transpose()?.map(Mutex::new);
        Ok(Self { strict: arguments.strict, heard, state: Mutex::default() })
    }

    /// Writes down what was heard, before anything comes of it.
    fn note(&self, text: &str) {
        let method = serde_json::from_str::<Message<'_>>(text).ok().and_then(|message| message.method);
        if let (Some(file), Some(method)) = (&self.heard, method) {
            // A test that wants to know misses the line.
            let _ = writeln!(file.lock(), "{method}");
        }
    }
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stderr, reason = "a command-line program talks on its terminal")]
async fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("error: {error:#}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let outcome = async {
        let server = Arc::new(Server::new(&arguments)?);
        match (arguments.http, arguments.ws) {
            (Some(address), _) => wires::http(address, server).await,
            (None, Some(address)) => wires::ws(address, server).await,
            (None, None) => wires::stdio(server).await,
        }
    };
    match outcome.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
