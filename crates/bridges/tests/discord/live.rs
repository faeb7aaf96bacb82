//! The bridge to real Discord, where `SALON_LIVE_DISCORD_TOKEN` and `SALON_LIVE_DISCORD_CHANNEL` are given: one message, which is deleted again.

use libtest_mimic::{Arguments, Trial};
use salon_bridges::config::BridgeConfig;
use salon_bridges::discord;
use salon_bridges::platform::{
    ActionKey, PlatformAction, PlatformChannel, PlatformEvent, PlatformEvents, RenderedText,
};
use salon_testkit::{Scratch, within};
use tokio_util::sync::CancellationToken;

fn main() {
    let arguments = Arguments::from_args();
    let is_missing = std::env::var_os("SALON_LIVE_DISCORD_TOKEN").is_none();
    let trial = Trial::test("the_real_discord_takes_a_message", || {
        salon_testkit::run(live());
        Ok(())
    });
    libtest_mimic::run(&arguments, vec![trial.with_ignored_flag(is_missing)]).exit();
}

async fn live() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let (token, channel) = (variable("SALON_LIVE_DISCORD_TOKEN"), variable("SALON_LIVE_DISCORD_CHANNEL"));
    let folder = Scratch::new().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, token).expect("a token");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a private file");
    let section = format!("platform = 'discord'\ntoken_file = 'token'\nchannels = {{ '{channel}' = 'room:lab' }}");
    let section = toml::from_str(&section).expect("TOML");
    let driver =
        discord::open(&BridgeConfig::read("lab", &section, folder.path()).expect("a bridge")).expect("a driver");
    let (sender, mut events) = PlatformEvents::channel(1024);
    let stop = CancellationToken::new();
    let (runner, stopped) = (driver.clone(), stop.clone());
    let task = tokio::spawn(async move { runner.run(sender, stopped).await });
    let connecting =
        async { while events.recv().await.is_some_and(|reported| reported.event != PlatformEvent::CaughtUp) {} };
    within("the connection", connecting).await.expect("connected");
    let channel = PlatformChannel::new(channel);
    let words = "a test of Salon's bridge";
    let text = RenderedText { formatted: words.into(), plain: words.into(), mentions: Vec::new() };
    let key = ActionKey::new("live");
    let send = PlatformAction::Send { key, speaker: None, text, reply_to: None, sent_at: None };
    let target = driver.perform(&channel, &send).await.expect("sent").id.expect("an id");
    let retract = PlatformAction::Retract { key: ActionKey::new("live2"), speaker: None, target };
    driver.perform(&channel, &retract).await.expect("deleted");
    stop.cancel();
    drop(events);
    task.await.expect("no panic").expect("no error");
}
