//! Servers of a test's own, alone or as a cluster, on free loopback ports, with directories that go when they go.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::process::Command;

use super::{program, wire};
use crate::process::Process;
use crate::{Failure, Scratch};

/// How often a server is started before a port that was free is not to blame, and how often one is asked that does not answer.
const TRIES: usize = 3;

/// After so long without an answer a request was dropped. A list of streams takes 4 s where a server of the cluster is away.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);

/// Some servers that belong together. Dropping them stops them.
#[derive(Debug)]
pub struct NatsServers {
    servers: Vec<NatsProcess>,
}

#[derive(Debug)]
struct NatsProcess {
    program: PathBuf,
    port: u16,
    process: Option<Process>,
    directory: Scratch,
}

impl NatsServers {
    /// One server alone.
    pub async fn one() -> Result<Self, Failure> {
        Self::start(1, "", "").await
    }

    /// A cluster of three.
    pub async fn three() -> Result<Self, Failure> {
        Self::start(3, "", "").await
    }

    /// One server with more in its configuration. What it has twice, the last one counts.
    pub async fn configured(more: &str) -> Result<Self, Failure> {
        Self::start(1, more, "").await
    }

    /// A cluster of three that tell nobody of each other, so that clients come only by the ways they were given.
    pub async fn three_unadvertised() -> Result<Self, Failure> {
        Self::start(3, "", "no_advertise: true,").await
    }

    async fn start(count: usize, more: &str, of_cluster: &str) -> Result<Self, Failure> {
        let mut failure = String::new();
        for _ in 0..TRIES {
            let mut servers = Self::prepare(&program(), count, more, of_cluster)?;
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
            servers.push(NatsProcess { program: program.to_owned(), port: *port, process: None, directory });
        }
        Ok(Self { servers })
    }

    /// Starts all of them again, none of which runs.
    pub async fn revive_all(&mut self) -> Result<(), Failure> {
        self.run_all().await
    }

    async fn run_all(&mut self) -> Result<(), Failure> {
        // A server of a cluster is ready only when it has met others.
        futures_util::future::try_join_all(self.servers.iter_mut().map(NatsProcess::run)).await.map(drop)
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
                if let Ok(answer) = tokio::time::timeout(REQUEST_TIMEOUT, self.ask_once(subject, body)).await {
                    return answer;
                }
            }
        }
        self.ask_once(subject, body).await
    }

    async fn ask_once(&self, subject: &str, body: &Value) -> Result<Value, Failure> {
        wire::ask(&self.running()?, subject, body).await
    }

    /// Where one of them listens that runs.
    fn running(&self) -> Result<String, Failure> {
        let running = self.servers.iter().find(|server| server.process.is_some()).ok_or("no NATS server runs")?;
        Ok(format!("127.0.0.1:{}", running.port))
    }

    /// The stream of the first shard of the log `salon`, as its leader describes it.
    pub async fn first_shard(&self) -> Result<Value, Failure> {
        self.ask("STREAM.INFO.salon-shard-0", &Value::Null).await
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
        wire::open(&self.running()?, said).await
    }

    /// Kills one of them as `kill -9` does, and waits until it is gone.
    pub async fn kill(&mut self, number: usize) -> Result<(), Failure> {
        let process = self.servers[number].process.take();
        process.ok_or_else(|| format!("the NATS server {number} does not run"))?.kill().await
    }

    /// Which of them leads the stream that has a topic's entries; `None` while none does.
    pub async fn leader(&self, topic: &str) -> Result<Option<usize>, Failure> {
        let told = self.ask("STREAM.NAMES", &Value::Null).await?;
        let streams = told["streams"].as_array().ok_or_else(|| format!("no list of streams: {told}"))?;
        let subjects = json!({ "subjects_filter": format!("*.*.{}.>", topic_token(topic)) });
        for stream in streams.iter().filter_map(Value::as_str).filter(|name| name.contains("-shard-")) {
            let told = self.ask(&format!("STREAM.INFO.{stream}"), &subjects).await?;
            if told["state"]["subjects"].is_object() {
                let leader = told["cluster"]["leader"].as_str().and_then(|name| name.strip_prefix('n'));
                return Ok(leader.and_then(|number| number.parse().ok()));
            }
        }
        Err(format!("no stream has entries of {topic}"))
    }

    /// Starts one of them again, on the same port and what it had stored.
    pub async fn revive(&mut self, number: usize) -> Result<(), Failure> {
        self.servers[number].run().await
    }
}

/// What a topic is called in subjects.
pub fn topic_token(topic: &str) -> String {
    let digest = digest(&SHA256, topic.as_bytes());
    BASE64URL_NOPAD.encode(&digest.as_ref()[..18])
}

impl NatsProcess {
    async fn run(&mut self) -> Result<(), Failure> {
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(self.directory.path().join("server.conf")).env_clear().stdin(Stdio::null());
        let process = Process::start("nats-server", command)?;
        process.says("that it is ready", |line| line.contains("Server is ready").then_some(())).await?;
        self.process = Some(process);
        Ok(())
    }
}
