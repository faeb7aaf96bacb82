//! The servers that are measured: how each is started, greeted and framed.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use jsonwebtoken::{EncodingKey, Header};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::load::{ClientGreeting, Expects};
use crate::tls::{self, TlsSetup};
use crate::wire::FrameFormat;

const START_LIMIT: Duration = Duration::from_secs(10);
/// How long a gateway may take from listening to accepting messages, and from being told to end until it has.
const READY_LIMIT: Duration = Duration::from_secs(60);
const WS_SCRIPT: &str = include_str!("ws-server.cjs");

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    Ceiling,
    Salon,
    /// The same gateway with a certificate: every connection is encrypted.
    SalonTls,
    Nats,
    Ws,
}

impl Contender {
    pub(crate) const ALL: [Self; 5] = [Self::Ceiling, Self::Salon, Self::SalonTls, Self::Nats, Self::Ws];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ceiling => "ceiling",
            Self::Salon => "salon",
            Self::SalonTls => "salon-tls",
            Self::Nats => "nats",
            Self::Ws => "ws",
        }
    }

    pub(crate) fn is_gateway(self) -> bool {
        matches!(self, Self::Salon | Self::SalonTls)
    }

    pub(crate) fn wire(self) -> FrameFormat {
        if self == Self::Nats { FrameFormat::Nats } else { FrameFormat::WebSocket }
    }
}

/// A contender that is there, with what it takes to start it.
pub(crate) struct Installed {
    pub(crate) contender: Contender,
    program: PathBuf,
    /// Where npm put `ws`.
    modules: Option<BenchScratch>,
    tls: Option<TlsSetup>,
    pub(crate) version: String,
    /// Whether it is a gateway of 0.2 or before, whose flags have other names.
    has_old_flags: bool,
}

/// Flags of the gateway, and what they were called in 0.2: two versions are measured in one run.
const OLD_FLAGS: [(&str, &str); 7] = [
    ("--limits-rate", "--rate-limit"),
    ("--limits-connections-per-address", "--max-connections-per-address"),
    ("--limits-connections-per-participant", "--max-connections-per-participant"),
    ("--sqlite-durability", "--durability"),
    ("--store", "--log"),
    ("--nats-name", "--log-name"),
    ("--nats-topics", "--log-topics"),
];

/// What is switched off where only the speed is measured.
const UNLIMITED: [&str; 6] =
    ["--limits-rate", "0", "--limits-connections-per-address", "0", "--limits-connections-per-participant", "0"];

impl Installed {
    /// Finds a contender, or says why it is not there.
    pub(crate) fn find(contender: Contender, salon: &Path) -> Result<Self> {
        let (program, modules) = match contender {
            Contender::Ceiling => (std::env::current_exe()?, None),
            Contender::Salon | Contender::SalonTls => (salon.to_owned(), None),
            Contender::Nats => (PathBuf::from("nats-server"), None),
            Contender::Ws => (PathBuf::from("node"), Some(install_ws()?)),
        };
        let version = match &modules {
            _ if contender == Contender::Ceiling => "this commit".to_owned(),
            None => output(Command::new(&program).arg("--version"))?,
            Some(modules) => {
                let package = fs::read(modules.0.join("node_modules/ws/package.json"))?;
                let package: serde_json::Value = serde_json::from_slice(&package)?;
                let ws = package["version"].as_str().unwrap_or("?");
                format!("ws {ws}, node {}", output(Command::new(&program).arg("--version"))?)
            }
        };
        let has_old_flags =
            contender.is_gateway() && !output(Command::new(&program).args(["serve", "--help"]))?.contains("--store");
        let tls = if contender == Contender::SalonTls { Some(TlsSetup::new()?) } else { None };
        Ok(Self { contender, program, modules, tls, version, has_old_flags })
    }

    /// A word of the command line as this program has it.
    fn flag<'a>(&self, word: &'a str) -> &'a str {
        let old = OLD_FLAGS.iter().find(|(new, _)| self.has_old_flags && *new == word);
        old.map_or(word, |(_, old)| old)
    }

    /// Starts it on a free port with nothing in its memory and with some further arguments, and waits until it accepts.
    pub(crate) fn start_with(&self, further: &[&str]) -> Result<ContenderServer> {
        self.start_in(Rc::new(BenchScratch::new()?), further)
    }

    /// Starts it in a directory in which something may have been left for it.
    pub(crate) fn start_in(&self, data: Rc<BenchScratch>, further: &[&str]) -> Result<ContenderServer> {
        self.launch(data, &UNLIMITED, further)
    }

    /// Starts a gateway with its default limits.
    pub(crate) fn start_limited(&self, data: Rc<BenchScratch>) -> Result<ContenderServer> {
        self.launch(data, &[], &[])
    }

    fn launch(&self, data: Rc<BenchScratch>, limits: &[&str], further: &[&str]) -> Result<ContenderServer> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let (listen, port) = (address.to_string(), address.port().to_string());
        let mut command = Command::new(&self.program);
        match self.contender {
            Contender::Ceiling => command.args(["ceiling", "--listen", &listen]),
            Contender::Salon | Contender::SalonTls => command
                .args(["serve", "--listen", &listen])
                .args(limits.iter().map(|word| self.flag(word)))
                .args(self.tls.iter().flat_map(TlsSetup::flags))
                .arg("--data")
                .arg(data.0.join("data")),
            Contender::Nats => command.args(["-a", "127.0.0.1", "-p", &port]),
            Contender::Ws => {
                let modules = self.modules.as_ref().context("ws is found only with its modules")?;
                command.arg(modules.0.join("ws-server.cjs")).arg(&port)
            }
        };
        let log = File::create(data.0.join("server.log"))?;
        let child = command
            .args(further.iter().map(|word| self.flag(word)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let tls = self.tls.as_ref().map(|tls| tls.client.clone());
        let mut server = ContenderServer { contender: self.contender, address, child, data, key: None, tls };
        let start = Instant::now();
        // A gateway listens before it has made its key.
        let key_file = server.key_file();
        let is_up = || TcpStream::connect(address).is_ok() && (!self.contender.is_gateway() || key_file.exists());
        while !is_up() {
            if start.elapsed() > START_LIMIT || server.child.try_wait()?.is_some() {
                bail!("{} does not listen\n{}", self.contender.name(), server.last_words());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if self.contender.is_gateway() {
            let key = fs::read(&key_file).context("cannot read the gateway's key")?;
            server.key = Some(EncodingKey::from_secret(&key));
        }
        Ok(server)
    }
}

/// A running contender; dropping it ends it.
pub(crate) struct ContenderServer {
    pub(crate) contender: Contender,
    pub(crate) address: SocketAddr,
    child: Child,
    data: Rc<BenchScratch>,
    key: Option<EncodingKey>,
    tls: Option<tls::SharedClientConfig>,
}

impl ContenderServer {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where a gateway keeps its key.
    pub(crate) fn key_file(&self) -> PathBuf {
        self.data_directory().join("auth.key")
    }

    /// The directory in which a gateway keeps everything.
    pub(crate) fn data_directory(&self) -> PathBuf {
        self.data.0.join("data")
    }

    /// Waits until a gateway says that it accepts messages: it listens before it has opened its log.
    pub(crate) fn wait_until_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(READY_LIMIT))?;
            write!(stream, "GET /ready HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address)?;
            let mut answer = Vec::new();
            // Where it ends meanwhile, there is no answer, and its last output is reported below.
            let _ = stream.read_to_end(&mut answer);
            if answer.starts_with(b"HTTP/1.1 200") {
                return Ok(());
            }
            if start.elapsed() > READY_LIMIT || self.child.try_wait()?.is_some() {
                bail!("the gateway is not ready\n{}", self.last_words());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks it to end, as an operator does, and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        output(Command::new("kill").args(["-TERM", &self.pid().to_string()]))?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > READY_LIMIT {
                bail!("the gateway does not end\n{}", self.last_words());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// The end of what the server logged, for a report of what went wrong.
    pub(crate) fn last_words(&self) -> String {
        let log = fs::read_to_string(self.data.0.join("server.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// The token that opens `topic` to participant `id`, for a server that wants one.
    pub(crate) fn bearer(&self, topic: &str, id: &str) -> Result<Option<String>> {
        let Some(key) = &self.key else { return Ok(None) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let claims = json!({"sub": id, "aud": [topic], "iat": now, "exp": now + 3600, "jti": format!("{topic}-{id}")});
        Ok(Some(jsonwebtoken::encode(&Header::default(), &claims, key)?))
    }

    /// What participant `id` says to enter `topic`; with `after`, to resume from that envelope where that is possible.
    pub(crate) fn greeting(&self, topic: &str, id: &str, after: Option<&str>) -> Result<ClientGreeting> {
        if self.contender == Contender::Nats {
            let hello = format!("CONNECT {{\"verbose\":false,\"pedantic\":false}}\r\nSUB {topic} 1\r\nPING\r\n");
            let (bytes, expects) = (hello.into_bytes(), Expects::Pong);
            return Ok(ClientGreeting { server: self.address, tls: None, bytes, expects });
        }
        let (mut query, mut token, mut expects) = (String::new(), String::new(), Expects::Upgrade);
        if let Some(bearer) = self.bearer(topic, id)? {
            token = format!("Authorization: Bearer {bearer}\r\n");
            query = after.map(|id| format!("&after={id}")).unwrap_or_default();
            expects = Expects::Welcome;
        }
        let hello = format!(
            "GET /v0/ws?topic={topic}{query} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{token}\r\n",
            self.address
        );
        Ok(ClientGreeting { server: self.address, tls: self.tls.clone(), bytes: hello.into_bytes(), expects })
    }
}

impl Drop for ContenderServer {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing of it is wanted any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory that is removed when dropped.
pub(crate) struct BenchScratch(pub(crate) PathBuf);

impl BenchScratch {
    pub(crate) fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("bench-{}-{count}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for BenchScratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn install_ws() -> Result<BenchScratch> {
    let modules = BenchScratch::new()?;
    fs::write(modules.0.join("package.json"), r#"{"private":true}"#)?;
    fs::write(modules.0.join("ws-server.cjs"), WS_SCRIPT)?;
    output(
        Command::new("npm").args(["install", "--silent", "--no-audit", "--no-fund", "ws@8"]).current_dir(&modules.0),
    )?;
    Ok(modules)
}

/// The standard output of a command that succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run `{name}`"))?;
    if !output.status.success() {
        bail!("`{name}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
