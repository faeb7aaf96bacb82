//! Everything that is shown over real connections: scenes, frames that must be refused, violations of the WebSocket protocol, and
//! readers that do not read.
//! Each trial has a gateway of its own, which the cases of a table share. A trial runs on every log if its assertions depend on
//! the log, and otherwise on SQLite alone.

mod bad_frames;
mod browser;
mod context_limits;
mod framed_refusals;
mod framed_sessions;
mod host_tools;
mod inside;
mod intake;
mod machine_integrity;
mod machine_refusals;
mod machine_tokens;
mod mcp_refusals;
mod mcp_sessions;
mod metadata;
mod room;
mod slow_readers;
mod tables;
mod violations;
mod wire;

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Trial};
use salon_testkit::{TestEngine, nats, scene};

fn main() -> std::process::ExitCode {
    let mut arguments = Arguments::from_args();
    // Trials wait for sockets and disks more than they compute. Nextest ignores this, and runs each in a process of its own.
    arguments.test_threads.get_or_insert(8);
    let files = scene_files(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(files.len() > 50, "the scenes are missing");
    let mut trials: Vec<Trial> = Vec::new();
    for engine in TestEngine::ALL {
        let fitting = files.iter().filter(|(_, path)| is_for(path, engine));
        trials.extend(fitting.map(|(name, path)| scene_trial(name, path, engine)));
        trials.extend(bad_frames::trials(engine));
        trials.extend(context_limits::trials(engine));
        trials.extend(framed_refusals::trials(engine));
        trials.extend(framed_sessions::trials(engine));
        trials.extend(host_tools::trials(engine));
        trials.extend(inside::trials(engine));
        trials.extend(intake::trials(engine));
        trials.extend(machine_integrity::trials(engine));
        trials.extend(machine_refusals::trials(engine));
        trials.extend(machine_tokens::trials(engine));
        trials.extend(mcp_refusals::trials(engine));
        trials.extend(mcp_sessions::trials(engine));
        trials.extend(metadata::trials(engine));
        trials.extend(violations::trials(engine));
        trials.extend(slow_readers::trials(engine));
        trials.extend(wire::trials(engine));
    }
    let ignored =
        TestEngine::ALL.into_iter().filter(|engine| engine.is_missing()).map(|engine| format!("{}::", engine.name()));
    let ignored: Vec<_> = ignored.collect();
    let is_ignored = |trial: &Trial| ignored.iter().any(|engine| trial.name().starts_with(engine));
    let trials = trials.into_iter().map(|trial| {
        let ignored = is_ignored(&trial);
        trial.with_ignored_flag(ignored)
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    nats::close_shared();
    conclusion.exit_code()
}

fn scene_trial(name: &str, path: &Path, engine: TestEngine) -> Trial {
    let path = path.to_owned();
    Trial::test(format!("{}::{name}", engine.name()), move || Ok(scene::play_file(&path, engine)?))
}

/// Whether a scene is about an engine: one that begins with `# Only on sqlite` is about no other.
fn is_for(path: &Path, engine: TestEngine) -> bool {
    let text = std::fs::read_to_string(path).expect("the scenes can be read");
    let only = text.lines().find_map(|line| line.strip_prefix("# Only on "));
    only.is_none_or(|only| only.starts_with(engine.name()))
}

/// Every `*.scene` below a directory, by its path without the ending.
fn scene_files(root: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory).expect("the scenes can be read");
        for path in entries.map(|entry| entry.expect("the scenes can be read").path()) {
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|ending| ending == "scene") {
                let name = path.strip_prefix(root).expect("it is below the root").with_extension("");
                found.push((name.to_string_lossy().replace('/', "::"), path));
            }
        }
    }
    found.sort();
    found
}
