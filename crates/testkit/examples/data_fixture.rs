//! Writes the fixtures of a `salon` into a folder: `cargo run -p salon-testkit --example data_fixture -- target/debug/salon tests/upgrades`.
//! `tests/upgrades/README.md` says when to.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let written = match &arguments[..] {
        [binary, folder] => std::path::absolute(binary)
            .map_err(|error| error.to_string())
            .and_then(|binary| salon_testkit::run(salon_testkit::data_fixture::write(&binary, folder))),
        _ => Err("usage: data_fixture SALON FOLDER".into()),
    };
    match written {
        Ok(_) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{failure}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}
