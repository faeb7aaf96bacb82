//! A Synapse of the tests' own: SQLite, loopback, no federation, no rate limits. It runs in a folder that is removed with it.
//!
//! `SALON_SYNAPSE` is the Python interpreter that has Synapse installed.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) const SERVER_NAME: &str = "salon.test";

const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const START_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) struct Synapse {
    python: PathBuf,
    folder: PathBuf,
    pub(crate) port: u16,
    child: Child,
}

/// The interpreter, where there is one.
pub(crate) fn python() -> Option<PathBuf> {
    std::env::var_os("SALON_SYNAPSE").map(PathBuf::from)
}

/// A port that nobody listens on. Somebody else can take it before it is used; nobody on this machine does.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

impl Synapse {
    /// Starts a homeserver that knows an application service.
    pub(crate) async fn start(python: &Path, registration: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("salon-synapse-{}-{}", std::process::id(), free_port()));
        std::fs::create_dir_all(&folder).expect("a folder for Synapse");
        std::fs::write(folder.join("registration.yaml"), registration).expect("the registration");
        let port = free_port();
        let config = config(&folder, port);
        std::fs::write(folder.join("homeserver.yaml"), config.to_string()).expect("the configuration");
        std::fs::write(folder.join("log.yaml"), log_config(&folder).to_string()).expect("the log's configuration");
        let generated = command(python, &folder).arg("--generate-keys").status().expect("Synapse runs");
        assert!(generated.success(), "Synapse has no signing key");
        let child = command(python, &folder).spawn().expect("Synapse starts");
        let mut synapse = Self { python: python.to_owned(), folder, port, child };
        synapse.wait().await;
        synapse
    }

    /// Ends the process at once, as a crash does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("Synapse can be killed");
        self.child.wait().expect("Synapse is a child of this process");
    }

    /// Starts it again after [`kill`](Self::kill).
    pub(crate) async fn restart(&mut self) {
        self.child = command(&self.python, &self.folder).spawn().expect("Synapse starts");
        self.wait().await;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits until it answers, which takes minutes on a busy machine, or has ended.
    async fn wait(&mut self) {
        let versions = format!("{}/_matrix/client/versions", self.url());
        let folder = self.folder.display().to_string();
        let child = &mut self.child;
        let answering = async {
            let mut ticks = tokio::time::interval(LOOK_INTERVAL);
            while reqwest::get(&versions).await.is_err() {
                let ended = child.try_wait().expect("Synapse is a child of this process");
                assert!(ended.is_none(), "Synapse has ended: {ended:?}; its log is in {folder}");
                ticks.tick().await;
            }
        };
        let answered = tokio::time::timeout(START_TIMEOUT, answering).await;
        assert!(answered.is_ok(), "Synapse does not answer; its log is in {folder}");
    }
}

impl Drop for Synapse {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

fn command(python: &Path, folder: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "synapse.app.homeserver", "-c"]).arg(folder.join("homeserver.yaml"));
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// JSON is YAML.
fn config(folder: &Path, port: u16) -> Value {
    let path = |name: &str| folder.join(name).display().to_string();
    let fast = json!({"per_second": 10_000, "burst_count": 10_000});
    json!({
        "server_name": SERVER_NAME,
        "pid_file": path("homeserver.pid"),
        "listeners": [{"port": port, "bind_addresses": ["127.0.0.1"], "type": "http", "tls": false,
            "resources": [{"names": ["client"], "compress": false}]}],
        "database": {"name": "sqlite3", "args": {"database": path("homeserver.db")}},
        "log_config": path("log.yaml"),
        "media_store_path": path("media"),
        "signing_key_path": path("signing.key"),
        "report_stats": false,
        "macaroon_secret_key": "for tests",
        "form_secret": "for tests",
        "trusted_key_servers": [],
        "federation_domain_whitelist": [],
        "enable_registration": true,
        "enable_registration_without_verification": true,
        "app_service_config_files": [path("registration.yaml")],
        "url_preview_enabled": false,
        // People in these tests read everything at once.
        "filter_timeline_limit": -1,
        "presence": {"enabled": false},
        "bcrypt_rounds": 4,
        "rc_message": fast, "rc_registration": fast,
        "rc_joins": {"local": fast, "remote": fast},
        "rc_invites": {"per_room": fast, "per_user": fast, "per_issuer": fast},
        "rc_login": {"address": fast, "account": fast, "failed_attempts": fast},
    })
}

fn log_config(folder: &Path) -> Value {
    json!({
        "version": 1,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
        "handlers": {"file": {"class": "logging.FileHandler", "formatter": "plain",
            "filename": folder.join("homeserver.log").display().to_string()}},
        "root": {"level": "INFO", "handlers": ["file"]},
        "disable_existing_loggers": false,
    })
}
