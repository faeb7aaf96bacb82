//! A bridge in a process of its own, which can be killed: this test program, started with other variables.
#![expect(clippy::print_stderr, reason = "its process has a log of its own, which a failure is read from")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use salon_bridges::config::BridgeConfig;
use salon_bridges::drivers;
use salon_bridges::runner::{self, BridgeRun};
use salon_client::{Client, Gateway, StaticToken};
use tokio_util::sync::CancellationToken;

const FOLDER: &str = "SALON_TEST_BRIDGE_FOLDER";
const GATEWAY: &str = "SALON_TEST_BRIDGE_GATEWAY";
const TOKEN: &str = "SALON_TEST_BRIDGE_TOKEN";

/// The file with the bridge's section, in its folder.
pub(crate) const SECTION: &str = "bridge.toml";

pub(crate) struct BridgeProcess {
    child: Child,
}

impl BridgeProcess {
    pub(crate) fn start(folder: &Path, gateway: &str, token: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let log = std::fs::File::options().create(true).append(true).open(folder.join("bridge.log")).expect("a log");
        let mut command = Command::new(program);
        command.env(FOLDER, folder).env(GATEWAY, gateway).env(TOKEN, token);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self { child: command.spawn().expect("the bridge starts") }
    }

    /// As `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the bridge can be killed");
        self.child.wait().expect("the bridge is a child of this process");
    }
}

impl Drop for BridgeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a bridge where the variables say so, and never returns then.
pub(crate) fn run_if_asked() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let variable = |name: &str| std::env::var(name).expect("given with the folder");
    let folder = Path::new(&folder);
    let text = std::fs::read_to_string(folder.join(SECTION)).expect("a section");
    let config = BridgeConfig::read("lab", &toml::from_str(&text).expect("TOML"), folder).expect("a bridge");
    let gateway = Gateway::new(&variable(GATEWAY)).expect("an address");
    let run = BridgeRun {
        driver: drivers::open(&config).expect("a driver"),
        client: Client::new(gateway, StaticToken::new(variable(TOKEN))),
        store: folder.join("bridge.db"),
        shared: None,
        config,
    };
    let running = runner::run(run, CancellationToken::new(), Arc::new(|status| eprintln!("{status:?}")));
    if let Err(error) = salon_testkit::run(running) {
        eprintln!("{error}");
        std::process::exit(1);
    }
    std::process::exit(0);
}
