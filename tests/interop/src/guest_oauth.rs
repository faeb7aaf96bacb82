//! A guest whose server is behind a real authorization server: the server is the room of another gateway, so Salon signs in to Salon.

use salon_testkit::Failure;

use crate::oauth::{PARTICIPANT, SignInStage, ours};
use crate::origin::Installed;
use crate::process::{self, Process};
use crate::stage::{GUEST, Stage, TOPIC};

/// The gateway whose room is the server, and the one whose room the guest comes to.
struct Rooms {
    far: SignInStage,
    near: Stage,
}

impl Rooms {
    async fn open(installed: Installed) -> Result<Self, Failure> {
        let far = SignInStage::open(installed.clone()).await?;
        Ok(Self { far, near: Stage::configured(installed, "").await? })
    }

    fn url(&self) -> String {
        format!("{}/mcp/{TOPIC}", self.far.stage.address)
    }

    /// Starts a command of the near gateway's user, whose browser is a script.
    async fn start(&self, name: &str, arguments: &[&str], has_browser: bool) -> Result<Process, Failure> {
        let (token, home) = (self.near.token(GUEST).await?, self.near.directory.path().to_string_lossy().into_owned());
        let browser = ours("clients", "browser.py");
        let mut variables = vec![
            ("SALON_GATEWAY", self.near.address.as_str()),
            ("SALON_TOKEN", token.as_str()),
            ("HOME", home.as_str()),
        ];
        variables.extend(has_browser.then_some(("BROWSER", browser.as_str())));
        process::start(name, &self.near.salon(arguments), self.near.directory.path(), &variables)
    }

    /// Waits until the guest has come, which is somebody else's participant in the far room, and uses a tool of it.
    async fn used(&self) -> Result<(), Failure> {
        let room = self.near.enter("alice").await?;
        let guest = self.near.peer(&room, GUEST).await?;
        let tools = guest.tools().await.map_err(|error| format!("no tools: {error}"))?;
        if tools.is_empty() {
            return Err("the guest lists no tools".into());
        }
        let witness = self.far.stage.enter("witness").await?;
        let id = PARTICIPANT.parse().map_err(|error| format!("{PARTICIPANT}: {error}"))?;
        let is_there = witness.is_present(&id);
        witness.leave().await;
        room.leave().await;
        if is_there { Ok(()) } else { Err(format!("`{PARTICIPANT}` is not in the far room")) }
    }

    async fn close(self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        let outcome = outcome.map_err(|failure| format!("{failure}\n{}", self.near.output()));
        let closed = self.near.close().await;
        self.far.close(outcome.and(closed)).await
    }
}

/// `salon join --url` opens the browser.
pub(crate) async fn by_browser(installed: Installed) -> Result<(), Failure> {
    let mut rooms = Rooms::open(installed).await?;
    let url = rooms.url();
    let join = rooms.start("join", &["join", TOPIC, "--as", GUEST, "--url", &url], true).await?;
    rooms.near.guests.push(join);
    let outcome = rooms.used().await;
    rooms.close(outcome).await
}

/// `salon login --guest --device` shows a code; a guest without a person then uses the tokens.
pub(crate) async fn by_device(installed: Installed) -> Result<(), Failure> {
    let mut rooms = Rooms::open(installed).await?;
    let outcome = device_login(&mut rooms).await;
    rooms.close(outcome).await
}

async fn device_login(rooms: &mut Rooms) -> Result<(), Failure> {
    let url = rooms.url();
    let mut login = rooms.start("login", &["login", "--guest", &url, "--device"], false).await?;
    let page = login.says("where to sign in", |line| line.trim().strip_prefix("or open ").map(str::to_owned)).await?;
    let person = process::run(&[ours("clients", "browser.py"), page], rooms.near.directory.path(), &[]).await?;
    if person.status != Some(0) {
        return Err(format!("the browser failed: {}", person.stderr));
    }
    let ended = login.end().await?;
    if ended.status != Some(0) || !ended.stdout.contains("signed in to") {
        return Err(format!("the login ended with {:?}\n{}{}", ended.status, ended.stdout, ended.stderr));
    }
    let join = rooms.start("join", &["join", TOPIC, "--as", GUEST, "--url", &url], false).await?;
    rooms.near.guests.push(join);
    rooms.used().await
}
