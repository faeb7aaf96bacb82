//! A gateway and a guest in its room, each a process of the real binary.

use std::path::Path;

use salon_client::protocol::{ParticipantId, TopicName};
use salon_client::{Client, Gateway, Peer, Room, StaticToken, Toolbox};
use salon_testkit::{Failure, Scratch, within};

use crate::origin::{Installed, Origin};
use crate::process::{self, Process, ProcessEnd, Signal};

pub(crate) const TOPIC: &str = "room:interop";
pub(crate) const GUEST: &str = "guest";

/// How a guest is brought in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// `salon join … -- COMMAND`
    Join,
    /// `salon join … --url URL`, Streamable HTTP.
    Url,
    /// By the gateway itself, from its configuration.
    Hosted,
    /// `salon join … --url URL`, HTTP+SSE.
    Sse,
}

impl Way {
    /// Those that every server can be brought in by.
    pub(crate) const ALL: [Self; 3] = [Self::Join, Self::Url, Self::Hosted];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Join => "joined",
            Self::Url => "joined_by_url",
            Self::Hosted => "hosted",
            Self::Sse => "joined_by_sse",
        }
    }
}

/// A gateway with guests.
pub(crate) struct Stage {
    pub(crate) installed: Installed,
    pub(crate) gateway: Process,
    /// The gateway's URL, without a path.
    pub(crate) address: String,
    config: Vec<String>,
    /// Joined guests, and servers that guests are URLs of.
    pub(crate) guests: Vec<Process>,
    // Last, so that it is removed when nothing uses it any more.
    pub(crate) directory: Scratch,
}

impl Stage {
    /// A gateway and one guest, named [`GUEST`].
    pub(crate) async fn open(installed: Installed, origin: Origin, way: Way) -> Result<Self, Failure> {
        if way == Way::Hosted {
            return Self::hosting(installed, &[(GUEST, origin)]).await;
        }
        let mut stage = Self::hosting(installed, &[]).await?;
        match way {
            Way::Join => stage.join(GUEST, origin).await?,
            Way::Url => stage.join_url(GUEST, origin.http_command(&stage.installed)).await?,
            Way::Sse => stage.join_url(GUEST, origin.sse_command(&stage.installed)).await?,
            Way::Hosted => {}
        }
        Ok(stage)
    }

    /// A gateway that hosts some guests itself.
    pub(crate) async fn hosting(installed: Installed, guests: &[(&str, Origin)]) -> Result<Self, Failure> {
        let config: String = guests.iter().map(|(name, origin)| guest_table(&installed, name, *origin)).collect();
        Self::configured(installed, &config).await
    }

    /// A gateway that hosts one guest, which has a server for every caller.
    pub(crate) async fn isolating(installed: Installed, origin: Origin) -> Result<Self, Failure> {
        let config = format!("{}isolated = true\n", guest_table(&installed, GUEST, origin));
        Self::configured(installed, &config).await
    }

    /// A gateway with a configuration file.
    pub(crate) async fn configured(installed: Installed, config: &str) -> Result<Self, Failure> {
        let directory = Scratch::new().map_err(|e| format!("no temporary directory: {e}"))?;
        let file = directory.path().join("salon.toml");
        std::fs::write(&file, config).map_err(|e| e.to_string())?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let config = vec!["--config".into(), text(&file), "--data".into(), text(&directory.path().join("data"))];
        let (gateway, address) = serve(&installed, &config, directory.path(), "127.0.0.1:0").await?;
        Ok(Self { installed, gateway, address, config, guests: Vec::new(), directory })
    }

    /// Brings a server in by its command.
    pub(crate) async fn join(&mut self, id: &str, origin: Origin) -> Result<(), Failure> {
        let mut arguments = vec!["--".to_owned()];
        arguments.extend(origin.command(&self.installed));
        self.salon_join(id, arguments).await
    }

    /// Starts a server and brings it in by its URL.
    async fn join_url(&mut self, id: &str, (command, path): (Vec<String>, &str)) -> Result<(), Failure> {
        let server = process::start("server", &command, self.directory.path(), &[("PORT", "0")])?;
        let url = server.says("where it listens", |line| line.starts_with("http://").then(|| line.to_owned())).await?;
        self.guests.push(server);
        self.salon_join(id, vec!["--url".into(), format!("{url}{path}")]).await
    }

    async fn salon_join(&mut self, id: &str, arguments: Vec<String>) -> Result<(), Failure> {
        let token = self.token(id).await?;
        let mut command = self.salon(&["join", TOPIC, "--as", id]);
        command.extend(arguments);
        let variables = [("SALON_GATEWAY", self.address.as_str()), ("SALON_TOKEN", token.as_str())];
        self.guests.push(process::start("join", &command, self.directory.path(), &variables)?);
        Ok(())
    }

    /// A command of the real binary.
    pub(crate) fn salon(&self, arguments: &[&str]) -> Vec<String> {
        let program = self.installed.salon.to_string_lossy().into_owned();
        std::iter::once(program).chain(arguments.iter().map(|&argument| argument.to_owned())).collect()
    }

    /// Runs a command of the real binary as `id`, and tells how it ended.
    pub(crate) async fn run(&self, id: &str, arguments: &[&str]) -> Result<ProcessEnd, Failure> {
        let token = self.token(id).await?;
        let variables = [("SALON_GATEWAY", self.address.as_str()), ("SALON_TOKEN", token.as_str())];
        process::run(&self.salon(arguments), self.directory.path(), &variables).await
    }

    pub(crate) async fn token(&self, id: &str) -> Result<String, Failure> {
        let mut command = self.salon(&["token", "--topic", TOPIC, "--id", id]);
        command.extend(self.config.iter().cloned());
        let made = process::run(&command, self.directory.path(), &[]).await?;
        match made.status {
            Some(0) => Ok(made.stdout.trim().to_owned()),
            _ => Err(format!("`salon token` failed: {}", made.stderr)),
        }
    }

    /// Enters the room as `id`, with nothing to offer, and waits until the guest is there.
    pub(crate) async fn enter(&self, id: &str) -> Result<Room, Failure> {
        self.enter_with(id, Toolbox::new(id)).await
    }

    pub(crate) async fn enter_with(&self, id: &str, offers: Toolbox) -> Result<Room, Failure> {
        let gateway = Gateway::new(&self.address).map_err(|e| e.to_string())?;
        let client = Client::new(gateway, StaticToken::new(self.token(id).await?));
        let topic: TopicName = TOPIC.parse().map_err(|e| format!("{TOPIC}: {e}"))?;
        let joined = within("the room to be entered", client.room(topic).offer(offers).join()).await?;
        joined.map_err(|e| format!("{id} cannot enter: {e}"))
    }

    /// A guest as a peer, once it is in the room.
    pub(crate) async fn peer(&self, room: &Room, id: &str) -> Result<Peer, Failure> {
        let id: ParticipantId = id.parse().map_err(|e| format!("{id}: {e}"))?;
        let mut events = room.events();
        let here = async {
            while !room.is_present(&id) {
                match events.next().await {
                    Some(_) => {}
                    None => return false,
                }
            }
            true
        };
        match within(&format!("`{id}` to come"), here).await {
            Ok(true) => Ok(room.peer(&id)),
            Ok(false) => Err(format!("the room ended before `{id}` came\n{}", self.output())),
            Err(told) => Err(format!("{told}\n{}", self.output())),
        }
    }

    /// Kills the gateway and starts it again on the same data and address.
    pub(crate) async fn kill_gateway(&mut self) -> Result<(), Failure> {
        self.gateway.kill().await?;
        let listen = self.address.trim_start_matches("http://").to_owned();
        let (gateway, _) = serve(&self.installed, &self.config, self.directory.path(), &listen).await?;
        self.gateway = gateway;
        Ok(())
    }

    /// What the processes said last.
    pub(crate) fn output(&self) -> String {
        self.guests.iter().map(Process::output).fold(self.gateway.output(), |all, one| all + &one)
    }

    /// Ends everything as Ctrl-C does, guests first.
    pub(crate) async fn close(self) -> Result<(), Failure> {
        let Self { mut gateway, guests, directory, .. } = self;
        for mut guest in guests.into_iter().rev() {
            // One that has ended by itself has, for whatever was to be shown.
            if guest.id().is_some() {
                guest.stop(Signal::INT).await?;
            }
        }
        gateway.stop(Signal::INT).await?;
        drop(directory);
        Ok(())
    }
}

async fn serve(
    installed: &Installed,
    config: &[String],
    directory: &Path,
    listen: &str,
) -> Result<(Process, String), Failure> {
    let mut command = vec![installed.salon.to_string_lossy().into_owned(), "serve".into(), "--test-timings".into()];
    command.extend(["--listen".into(), listen.to_owned(), "--limits-rate".into(), "0".into()]);
    command.extend(config.iter().cloned());
    let gateway = process::start("gateway", &command, directory, &[])?;
    let address = gateway.says("where it listens", |line| {
        let start = line.find("http://127.0.0.1:")?;
        let rest = &line[start..];
        let end = rest[17..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |at| 17 + at);
        Some(rest[..end].to_owned())
    });
    let address = address.await?;
    Ok((gateway, address))
}

/// A hosted guest, as the configuration file has it.
fn guest_table(installed: &Installed, name: &str, origin: Origin) -> String {
    let command = origin.command(installed);
    let (program, arguments) = (&command[0], &command[1..]);
    format!("[topics.\"{TOPIC}\".guests.{name}]\ncommand = {program:?}\nargs = {arguments:?}\n")
}
