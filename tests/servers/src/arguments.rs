//! The command line.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use rmcp::model::ProtocolVersion;

pub(crate) const USAGE: &str = "\
usage: rmcp-server [options]

Speaks MCP on stdin and stdout.

  --http ADDRESS    speak Streamable HTTP there instead; prints the URL when it listens
  --revisions LIST  the protocol revisions it knows, separated by commas [default: all]
  --page SIZE       entries in a page of a list [default: everything in one]
  --stubborn        goes on when its input has ended, as no server should
";

pub(crate) struct Arguments {
    pub(crate) http: Option<SocketAddr>,
    pub(crate) revisions: Vec<ProtocolVersion>,
    pub(crate) page: usize,
    pub(crate) stubborn: bool,
}

pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut arguments = Arguments {
        http: None,
        revisions: ProtocolVersion::KNOWN_VERSIONS.to_vec(),
        page: usize::MAX,
        stubborn: false,
    };
    while let Some(flag) = words.next() {
        if flag == "--stubborn" {
            arguments.stubborn = true;
            continue;
        }
        let value = words.next().with_context(|| format!("`{flag}` needs a value"))?;
        let invalid = || format!("invalid value `{value}` for `{flag}`");
        match flag.as_str() {
            "--http" => arguments.http = Some(value.parse().with_context(invalid)?),
            "--revisions" => arguments.revisions = value.split(',').map(revision).collect::<Result<_>>()?,
            "--page" => arguments.page = value.parse().ok().filter(|&size| size > 0).with_context(invalid)?,
            _ => bail!("unknown option `{flag}`"),
        }
    }
    Ok(arguments)
}

fn revision(name: &str) -> Result<ProtocolVersion> {
    let known = ProtocolVersion::KNOWN_VERSIONS.iter().find(|version| version.as_str() == name);
    known.cloned().with_context(|| format!("unknown revision `{name}`"))
}
