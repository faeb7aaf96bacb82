//! Real NATS servers, alone or as a cluster, on free loopback ports, with directories that go when they go.
//!
//! The program is the one that `SALON_NATS_SERVER` names, or the one that `scripts/nats-server` has installed. Where there is none,
//! tests say so and end, unless `SALON_INTEROP=required`.

use std::collections::VecDeque;
use std::env;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::oneshot;

use crate::{Failure, Scratch, within};

/// How many lines of a server's output are kept for whoever reads a failure.
const KEPT_LINES: usize = 40;

/// How often a server is started before a port that was free is not to blame, and how often one is asked that does not answer.
const TRIES: usize = 3;

/// After so long without an answer a request was dropped. A list of streams takes 4 s where a server of the cluster is away.
const DROPPED: Duration = Duration::from_secs(8);

/// Where the program is; `None` where there is none and tests may do without.
pub fn program() -> Result<Option<PathBuf>, Failure> {
    let named = env::var_os("SALON_NATS_SERVER").map(PathBuf::from);
    let target = env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let installed = target.join("nats/bin/nats-server");
    let found = named.or_else(|| installed.is_file().then_some(installed));
    if found.is_none() {
        let why = "there is no nats-server here; `scripts/nats-server` installs one";
        if env::var_os("SALON_INTEROP").is_some_and(|value| value == "required") {
            return Err(why.into());
        }
        // Past the test's own output, which nobody sees of one that passes.
        let _ = writeln!(std::io::stderr(), "not tried: {why}");
    }
    Ok(found)
}

/// The server that all tests of this process share, and the thread it is looked after by.
static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

struct Shared {
    url: String,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// Where the server is that all tests of this process share; starts it where it does not run. Whoever uses it calls [`stop_shared`] at
/// the end.
pub fn shared() -> Result<String, Failure> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(shared) = &*shared {
        return Ok(shared.url.clone());
    }
    let program = program()?.ok_or("there is no nats-server here; `scripts/nats-server` installs one")?;
    let (stop, stopped) = oneshot::channel();
    let (tell, told) = std::sync::mpsc::channel();
    // A thread of its own, because each test has a runtime that ends with it.
    let thread = std::thread::spawn(move || {
        crate::run(async {
            let servers = Servers::one(&program).await;
            let _ = tell.send(servers.as_ref().map(Servers::url).map_err(Clone::clone));
            // Somebody who is gone wants it stopped, too.
            let _ = stopped.await;
            drop(servers);
        });
    });
    let url = told.recv().map_err(|_| "the NATS server of all tests does not start")??;
    *shared = Some(Shared { url: url.clone(), stop, thread });
    Ok(url)
}

/// Stops the server that all tests of this process share, where it runs.
pub fn stop_shared() {
    let shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Shared { stop, thread, .. }) = shared {
        let _ = stop.send(());
        // A thread that failed has told so.
        let _ = thread.join();
    }
}

/// Some servers that belong together. Dropping them stops them.
#[derive(Debug)]
pub struct Servers {
    servers: Vec<Server>,
}

#[derive(Debug)]
struct Server {
    program: PathBuf,
    port: u16,
    child: Option<Child>,
    output: Arc<Mutex<VecDeque<String>>>,
    directory: Scratch,
}

impl Servers {
    /// One server alone.
    pub async fn one(program: &Path) -> Result<Self, Failure> {
        Self::start(program, 1).await
    }

    /// A cluster of three.
    pub async fn three(program: &Path) -> Result<Self, Failure> {
        Self::start(program, 3).await
    }

    /// One server with more in its configuration. What it has twice, the last one counts.
    pub async fn configured(program: &Path, more: &str) -> Result<Self, Failure> {
        Self::start_with(program, 1, more, "").await
    }

    /// A cluster of three that tell nobody of each other, so that clients come only by the ways they were given.
    pub async fn three_unadvertised(program: &Path) -> Result<Self, Failure> {
        Self::start_with(program, 3, "", "no_advertise: true,").await
    }

    async fn start(program: &Path, count: usize) -> Result<Self, Failure> {
        Self::start_with(program, count, "", "").await
    }

    async fn start_with(program: &Path, count: usize, more: &str, of_cluster: &str) -> Result<Self, Failure> {
        let mut failure = String::new();
        for _ in 0..TRIES {
            let mut servers = Self::prepare(program, count, more, of_cluster)?;
            match servers.run_all().await {
                Ok(()) => return Ok(servers),
                // Somebody else may have taken a port since it was free.
                Err(told) => failure = told,
            }
        }
        Err(failure)
    }

    fn prepare(program: &Path, count: usize, more: &str, of_cluster: &str) -> Result<Self, Failure> {
        // Held until all are chosen, so that no two are the same.
        let held: Vec<_> = (0..2 * count)
            .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .collect::<Result<_, _>>()
            .map_err(|e| format!("no free port: {e}"))?;
        let ports: Vec<_> = held
            .iter()
            .map(|listener| listener.local_addr().map(|address| address.port()))
            .collect::<Result<_, _>>()
            .map_err(|e| e.to_string())?;
        let (clients, routes) = ports.split_at(count);
        let all_routes: Vec<_> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let mut servers = Vec::new();
        for (number, (port, route)) in clients.iter().zip(routes).enumerate() {
            let directory = Scratch::new().map_err(|e| format!("no temporary directory: {e}"))?;
            let store = directory.path().join("jetstream");
            let mut config = format!(
                "server_name: n{number}\nlisten: 127.0.0.1:{port}\nmax_payload: 2MB\njetstream {{ store_dir: {:?} }}\n{more}\n",
                store.display().to_string()
            );
            if count > 1 {
                config += &format!(
                    "cluster {{ name: salon, {of_cluster} listen: 127.0.0.1:{route}, routes: [{}] }}\n",
                    all_routes.join(", ")
                );
            }
            std::fs::write(directory.path().join("server.conf"), config).map_err(|e| e.to_string())?;
            servers.push(Server {
                program: program.to_owned(),
                port: *port,
                child: None,
                output: Arc::default(),
                directory,
            });
        }
        Ok(Self { servers })
    }

    /// Starts all of them again, none of which runs.
    pub async fn revive_all(&mut self) -> Result<(), Failure> {
        self.run_all().await
    }

    async fn run_all(&mut self) -> Result<(), Failure> {
        // A server of a cluster is ready only when it has met others.
        futures_util::future::try_join_all(self.servers.iter_mut().map(Server::run)).await.map(drop)
    }

    /// Where clients connect, with commas between.
    pub fn url(&self) -> String {
        let urls: Vec<_> = self.servers.iter().map(|server| format!("nats://127.0.0.1:{}", server.port)).collect();
        urls.join(",")
    }

    /// Where one of them listens for clients.
    pub fn port(&self, number: usize) -> u16 {
        self.servers[number].port
    }

    /// Asks JetStream's API, as its own tools do, where nobody has to show anything to get in. What changes nothing is asked again
    /// where nobody answers: while a cluster elects, requests are dropped.
    pub async fn ask(&self, subject: &str, body: &Value) -> Result<Value, Failure> {
        if ["STREAM.LIST", "STREAM.NAMES", "STREAM.INFO."].iter().any(|read| subject.starts_with(read)) {
            for _ in 1..TRIES {
                if let Ok(answer) = tokio::time::timeout(DROPPED, self.ask_once(subject, body)).await {
                    return answer;
                }
            }
        }
        self.ask_once(subject, body).await
    }

    async fn ask_once(&self, subject: &str, body: &Value) -> Result<Value, Failure> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let sent = format!("SUB told 1\r\nPUB $JS.API.{subject} told {}\r\n{body}\r\n", body.len());
        let mut wire = self.wire(&sent).await?;
        loop {
            let next = within("an answer of NATS", frame(&mut wire)).await?;
            let (line, body) = next.ok_or("NATS has closed the connection")?;
            if line.starts_with("MSG") {
                return serde_json::from_slice(&body).map_err(|e| format!("no JSON from NATS: {e}"));
            }
        }
    }

    /// The stream of the only topic there is, as its leader describes it.
    pub async fn only_topic(&self) -> Result<Value, Failure> {
        let listed = self.ask("STREAM.LIST", &json!({ "subject": "salon.room.>" })).await?;
        Ok(listed["streams"][0].clone())
    }

    /// Changes one setting of a stream that was described.
    pub async fn change(&self, stream: &Value, name: &str, to: Value) -> Result<(), Failure> {
        let mut config = stream["config"].clone();
        config[name] = to;
        let stream = config["name"].as_str().ok_or("a stream without a name")?;
        let told = self.ask(&format!("STREAM.UPDATE.{stream}"), &config).await?;
        if told["error"].is_null() { Ok(()) } else { Err(format!("NATS does not change {stream}: {told}")) }
    }

    /// A connection on which something was said.
    pub async fn wire(&self, said: &str) -> Result<BufReader<TcpStream>, Failure> {
        let up = self.servers.iter().find(|server| server.child.is_some()).ok_or("no NATS server runs")?;
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, up.port)).await;
        let mut wire = BufReader::new(socket.map_err(|e| format!("no connection to NATS: {e}"))?);
        let said = format!("CONNECT {{\"verbose\":false,\"headers\":true}}\r\n{said}");
        wire.write_all(said.as_bytes()).await.map_err(|e| format!("not sent to NATS: {e}"))?;
        Ok(wire)
    }

    /// Kills one of them as `kill -9` does, and waits until it is gone.
    pub async fn kill(&mut self, number: usize) -> Result<(), Failure> {
        let child = self.servers[number].child.take();
        match child {
            Some(mut child) => {
                within("a NATS server to be gone", child.kill()).await?.map_err(|e| format!("not killed: {e}"))
            }
            None => Err(format!("the NATS server {number} does not run")),
        }
    }

    /// Which of them leads the stream of a topic, asked of one that runs; `None` while none does.
    pub async fn leader(&self, topic: &str) -> Result<Option<usize>, Failure> {
        let running = self.servers.iter().find(|server| server.child.is_some()).ok_or("no NATS server runs")?;
        let told = within("the list of streams", running.ask("STREAM.LIST")).await??;
        let streams = told["streams"].as_array().ok_or_else(|| format!("no list of streams: {told}"))?;
        let stream = streams.iter().find(|stream| stream["config"]["metadata"]["salon-topic"] == topic);
        let stream = stream.ok_or_else(|| format!("there is no stream of {topic}"))?;
        let leader = stream["cluster"]["leader"].as_str().and_then(|name| name.strip_prefix('n'));
        Ok(leader.and_then(|number| number.parse().ok()))
    }

    /// Starts one of them again, on the same port and what it had stored.
    pub async fn revive(&mut self, number: usize) -> Result<(), Failure> {
        self.servers[number].run().await
    }
}

impl Server {
    async fn run(&mut self) -> Result<(), Failure> {
        let mut child = Command::new(&self.program)
            .arg("--config")
            .arg(self.directory.path().join("server.conf"))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("{} does not start: {e}", self.program.display()))?;
        let (up, is_up) = oneshot::channel();
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(listen(stderr, self.output.clone(), up));
        }
        self.child = Some(child);
        match within("a NATS server to be ready", is_up).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(format!("a NATS server ended before it was ready\n{}", self.output())),
            Err(told) => Err(format!("{told}\n{}", self.output())),
        }
    }

    /// Asks JetStream's API, as its own tools do.
    async fn ask(&self, what: &str) -> Result<Value, Failure> {
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.map_err(|e| e.to_string())?;
        let mut socket = BufReader::new(socket);
        let said = format!("CONNECT {{\"verbose\":false}}\r\nSUB told 1\r\nPUB $JS.API.{what} told 0\r\n\r\n");
        socket.write_all(said.as_bytes()).await.map_err(|e| e.to_string())?;
        let mut line = String::new();
        loop {
            line.clear();
            if socket.read_line(&mut line).await.map_err(|e| e.to_string())? == 0 {
                return Err(format!("a NATS server hung up on {what}"));
            }
            if line.starts_with("MSG") {
                let count = line.split_whitespace().last().and_then(|count| count.parse().ok());
                let mut body = vec![0; count.ok_or_else(|| format!("no answer to {what}: {line}"))?];
                socket.read_exact(&mut body).await.map_err(|e| e.to_string())?;
                return serde_json::from_slice(&body).map_err(|e| format!("the answer to {what} is no JSON: {e}"));
            }
        }
    }

    fn output(&self) -> String {
        let lines = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| format!("  nats: {line}\n")).collect()
    }
}

/// One frame of NATS: its line, and what follows it. `None` where the connection ends.
pub async fn frame(from: &mut (impl AsyncBufReadExt + Unpin)) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    if from.read_line(&mut line).await.ok()? == 0 {
        return None;
    }
    let verb = line.split_whitespace().next().unwrap_or_default();
    let mut body = Vec::new();
    if ["PUB", "HPUB", "MSG", "HMSG"].contains(&verb) {
        let bytes: usize = line.split_whitespace().last()?.parse().ok()?;
        body.resize(bytes + 2, 0);
        from.read_exact(&mut body).await.ok()?;
    }
    Some((line, body))
}

/// Reads lines until the server ends, so that it never waits for somebody to read them.
async fn listen(pipe: ChildStderr, kept: Arc<Mutex<VecDeque<String>>>, up: oneshot::Sender<()>) {
    let mut up = Some(up);
    let mut reader = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        if line.contains("Server is ready") {
            let _ = up.take().map(|up| up.send(()));
        }
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(line);
        if kept.len() > KEPT_LINES {
            kept.pop_front();
        }
    }
}
