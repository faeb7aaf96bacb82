//! Runs every command block of the README and of the pages for getting started, in order, from a clean home directory with the built program.
//!
//! A command block is a fenced block without a language. It must exit with 0, unless a comment before it says otherwise:
//!
//! - `<!-- run: prints "TEXT" -->`: its output contains the text.
//! - `<!-- run: prints "TEXT" eventually -->`: the same, when it is run again and again.
//! - `<!-- run: background until "TEXT" -->`: one command that goes on; the next block is run once a line of its output contains the text.
//! - `<!-- run: restart until "TEXT" -->`: the same, after the gateway that runs was stopped.
//! - `<!-- run: colleague with "FILE", prints "TEXT" -->`: as on another machine, with a home directory of its own, which has that file alone.
//!   Several files are separated by commas.
//! - `<!-- run: not, REASON -->`: it is not run.
//!
//! Programs that install something are stand-ins (`stand_ins/`): they check what they are given and use what `scripts/test` has installed. The gateway
//! listens on a free port of loopback, and `127.0.0.1:8787` stands for that port in the commands. `chat.example`, a name of the gateway for other machines,
//! is `localhost` here, and `0.0.0.0` is `127.0.0.1`.

mod block;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use salon_testkit::process::{Process, Signal};
use salon_testkit::{Failure, Scratch, eventually};
use tokio::process::Command;

pub(crate) use self::block::check;
use self::block::{Block, Mark, command_blocks};
use crate::origin::Installed;
use crate::process::ProcessEnd;

/// The pages, and whether a gateway runs already where they begin.
pub(crate) const PAGES: [(&str, bool); 6] = [
    ("README.md", false),
    ("docs/start/install.md", false),
    ("docs/start/first-room.md", false),
    ("docs/start/first-agent.md", true),
    ("docs/start/first-client.md", true),
    ("docs/how-to/let-in.md", false),
];

/// What a block sees: files of the repository, beside which it may write, and the variables that earlier blocks have set.
const PRELUDE: &str = "set -euo pipefail; if [ -f \"$STATE\" ]; then . \"$STATE\"; fi\n";
const EPILOGUE: &str = "\nexport -p >\"$STATE\"\n";

/// Runs a page.
pub(crate) async fn run(installed: Installed, page: &str, has_gateway: bool) -> Result<(), Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(page)).map_err(|error| format!("{page}: {error}"))?;
    let blocks = command_blocks(&text).map_err(|error| format!("{page}:{error}"))?;
    let mut reader = PageReader::new(&installed, &root)?;
    if has_gateway {
        reader
            .follow(&Block { line: 0, code: "salon serve".into(), mark: Mark::Background("Salon on".into()) })
            .await?;
    }
    for block in &blocks {
        reader.follow(block).await.map_err(|error| format!("{page}:{}: {error}\n\n{}", block.line, block.code))?;
    }
    Ok(())
}

/// A person who follows a page at a terminal.
struct PageReader {
    variables: Vec<(&'static str, String)>,
    checkout: PathBuf,
    /// `127.0.0.1:8787`, as it is here.
    address: Option<String>,
    /// The variables that earlier blocks have set.
    state: PathBuf,
    gateway: Option<Process>,
    background: Vec<Process>,
    // Last, so that it is removed when nothing uses it any more.
    _home: Scratch,
}

impl PageReader {
    fn new(installed: &Installed, root: &Path) -> Result<Self, Failure> {
        let home = Scratch::new().map_err(|error| format!("no temporary directory: {error}"))?;
        let checkout = home.path().join("salon");
        copy(&root.join("examples"), &checkout.join("examples"))?;
        // Servers of guests get few variables, `HOME` among them, so the stand-ins find everything there.
        let bin = home.path().join("bin");
        let built = installed.salon.parent().unwrap_or(Path::new("/"));
        let links = [(installed.salon.as_path(), "bin/salon"), (built, "built"), (installed.npm.as_path(), "interop")];
        let made = [checkout.join("crates/cli"), bin.clone()].into_iter().try_for_each(std::fs::create_dir_all);
        let mut link = |(target, name): (&Path, &str)| std::os::unix::fs::symlink(target, home.path().join(name));
        made.and_then(|()| links.into_iter().try_for_each(&mut link)).map_err(|error| error.to_string())?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let stand_ins = root.join("tests/interop/src/documents/stand_ins");
        let path = std::env::var("PATH").unwrap_or_default();
        let state = home.path().join("state");
        let variables = vec![
            ("PATH", format!("{}:{}:{path}", text(&bin), text(&stand_ins))),
            ("HOME", text(home.path())),
            ("STATE", text(&state)),
            ("SALON_LISTEN", "127.0.0.1:0".into()),
        ];
        Ok(Self { variables, checkout, address: None, state, gateway: None, background: Vec::new(), _home: home })
    }

    async fn follow(&mut self, block: &Block) -> Result<(), Failure> {
        match &block.mark {
            Mark::Not => Ok(()),
            Mark::Run => ended_well(self.run(block).await?).map(drop),
            Mark::Prints(text) => {
                let printed = ended_well(self.run(block).await?)?;
                if printed.contains(text) { Ok(()) } else { Err(format!("{text:?} is not in {printed:?}")) }
            }
            Mark::Eventually(text) => {
                let look = async || self.run(block).await.ok().filter(|ended| ended.stdout.contains(text));
                eventually(&format!("{text:?} in the output"), look).await.map(drop)
            }
            Mark::Background(text) => self.start(block, text).await,
            Mark::Restart(text) => {
                self.gateway.take().ok_or("no gateway runs")?.stop(Signal::INT).await?;
                self.start(block, text).await
            }
            Mark::Colleague { files, prints } => {
                let printed = ended_well(self.run_elsewhere(block, files).await?)?;
                if printed.contains(prints) { Ok(()) } else { Err(format!("{prints:?} is not in {printed:?}")) }
            }
        }
    }

    /// Runs a block where nothing is known of this home but some files.
    async fn run_elsewhere(&self, block: &Block, files: &[String]) -> Result<ProcessEnd, Failure> {
        let home = Scratch::new().map_err(|error| format!("no temporary directory: {error}"))?;
        for file in files {
            std::fs::copy(self.checkout.join(file), home.path().join(file))
                .map_err(|error| format!("{file}: {error}"))?;
        }
        let script = format!("set -euo pipefail\n{}", self.code(block));
        let path =
            self.variables.iter().filter(|(name, _)| *name == "PATH").map(|(name, value)| (*name, value.as_str()));
        let mut command = Command::new("bash");
        command.args(["-c", &script]).env_clear().current_dir(home.path()).stdin(Stdio::null());
        command.envs(path).env("HOME", home.path());
        salon_testkit::process::run("the colleague's block", command, salon_testkit::DEADLINE).await
    }

    async fn run(&self, block: &Block) -> Result<ProcessEnd, Failure> {
        let script = format!("{PRELUDE}{}{EPILOGUE}", self.code(block));
        salon_testkit::process::run("the block", self.shell(&script), salon_testkit::DEADLINE).await
    }

    async fn start(&mut self, block: &Block, until: &str) -> Result<(), Failure> {
        let code = self.code(block);
        let (before, last) = code.trim_end().rsplit_once('\n').unwrap_or(("", code.trim_end()));
        // In place of the shell, so that the command ends with the process. A variable before it is exported first.
        let (variables, command) =
            last.rsplit_once(") ").map_or(("", last), |(variables, command)| (variables, command));
        let set = if variables.is_empty() { String::new() } else { format!("export {variables})\n") };
        let script = format!("{PRELUDE}{before}\n{set}exec {command}\n");
        let process = Process::start("the block", self.shell(&script))?;
        let line = process.says(until, |line| line.contains(until).then(|| line.to_owned())).await?;
        let Some((_, rest)) = line.split_once("Salon on http") else {
            self.background.push(process);
            return Ok(());
        };
        let rest = rest.trim_start_matches(['s', ':', '/']);
        let address: String = rest.chars().take_while(|c| !matches!(c, ',' | ' ' | '/')).collect();
        // Where commands look for a gateway that nobody has named: `http://127.0.0.1:8787`. Earlier blocks may have stored the address of another run.
        let gateway = format!("http://{address}");
        if self.state.exists() {
            let stored = std::fs::read_to_string(&self.state).map_err(|error| error.to_string())?;
            let stored = format!("{stored}\nexport SALON_GATEWAY={gateway}\n");
            std::fs::write(&self.state, stored).map_err(|error| error.to_string())?;
        }
        self.variables.push(("SALON_GATEWAY", gateway));
        self.address = Some(address);
        self.gateway = Some(process);
        Ok(())
    }

    fn code(&self, block: &Block) -> String {
        let code = block.code.replace("0.0.0.0:8787", "127.0.0.1:0").replace("chat.example", "localhost");
        let Some((_, port)) = self.address.as_deref().and_then(|address| address.rsplit_once(':')) else { return code };
        code.replace("127.0.0.1:8787", &format!("127.0.0.1:{port}"))
            .replace("localhost:8787", &format!("localhost:{port}"))
    }

    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", script]).env_clear().current_dir(&self.checkout).stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (*name, value.as_str())));
        command
    }
}

fn ended_well(ended: ProcessEnd) -> Result<String, Failure> {
    match ended.status {
        Some(0) => Ok(ended.stdout),
        status => Err(format!("exit status {status:?}\n{}{}", ended.stdout, ended.stderr)),
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| format!("{}: {error}", from.display());
    std::fs::create_dir_all(to).map_err(failed)?;
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        match path.is_dir() {
            true if path.ends_with("node_modules") => {}
            true => copy(&path, &target)?,
            false => drop(std::fs::copy(&path, target).map_err(failed)?),
        }
    }
    Ok(())
}
