//! An MCP server on the official Rust SDK, for tests: the fixed names of the official conformance suite, and a few tools of our own.
//! It speaks on stdin and stdout, or with `--http 127.0.0.1:0` at the address it prints.
//!
//! Deliberately absent: anything a real server would need and a test would not, such as authorization or limits.

#![expect(
    deprecated,
    reason = "sampling, roots and logging are deprecated by the newest revision and must keep working"
)]

mod answers;
mod arguments;
mod asking;
mod catalogue;
mod changes;
mod content;
mod http;
mod ours;
mod prompts;
mod resources;
mod rounds;
mod server;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use rmcp::ServiceExt as _;

use crate::arguments::Arguments;
use crate::server::{Shared, TestServer};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stderr, reason = "a command-line program talks on its terminal")]
async fn main() -> ExitCode {
    let arguments = match arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("error: {error:#}\n\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    let (http, stubborn): (Option<SocketAddr>, bool) = (arguments.http, arguments.stubborn);
    let shared = Arc::new(Shared::new(arguments));
    match http {
        Some(address) => http::serve(address, shared).await,
        None => {
            let running = TestServer::new(shared).serve(rmcp::transport::stdio()).await?;
            running.waiting().await?;
            if stubborn {
                std::future::pending::<()>().await;
            }
            Ok(())
        }
    }
}
