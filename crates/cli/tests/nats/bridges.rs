//! The same bridge on two gateways: one of them runs it, and the other takes over when that one is killed.

use libtest_mimic::Trial;
use salon_testkit::irc::FakeIrc;
use salon_testkit::nats::NatsServers;
use salon_testkit::{TestSocket, eventually, nats_trials};

use crate::gateways::{beside, connect, until};
use crate::salon::{Home, Signal};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![one_gateway_runs_a_bridge_and_another_takes_over,]
}

async fn say(socket: &mut TestSocket, text: &str) {
    let line = format!(
        r#"{{"protocol":"mcp-x/v0","id":"{text}","ts":"2025-08-17T14:00:00Z","from":"alice","kind":"mcp","payload":{{"jsonrpc":"2.0","method":"notifications/chat/message","params":{{"text":"{text}"}}}}}}"#
    );
    socket.text(&line).await.expect("sent");
    until(socket, |came| came["id"] == text).await;
}

async fn shown(irc: &FakeIrc, text: &str) {
    let line = format!("<alice> {text}");
    let look = async || irc.said().contains(&line).then_some(());
    eventually(&line, look).await.expect("it is shown on the platform");
}

async fn one_gateway_runs_a_bridge_and_another_takes_over() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let irc = FakeIrc::start().await;
    let config = format!(
        "[bridges.office]\nplatform = \"irc\"\nserver = \"{}\"\nchannels = {{ \"#lab\" = \"room:a\" }}\nline_interval_ms = 1\n",
        irc.address
    );
    let serve = format!("--config salon.toml --test-timings --store {}", servers.url());
    let home = Home::new();
    home.write("salon.toml", &config);
    let one = home.serve(&serve).await;
    eventually("the bridge is in the channel", async || (irc.members().0 == 1).then_some(())).await.expect("it is");
    let other = beside(&home);
    other.write("salon.toml", &config);
    let mut two = other.serve(&serve).await;
    two.complained("another gateway runs it, waiting").await;

    let mut alice = connect(&other, &two, "alice", "").await;
    say(&mut alice, "first").await;
    shown(&irc, "first").await;
    irc.say("ann", "from irc");
    until(&mut alice, |came| came["from"] == "irc:ann" && came["payload"]["params"]["text"] == "from irc").await;

    one.signal(Signal::KILL);
    say(&mut alice, "second").await;
    shown(&irc, "second").await;
    irc.say("ann", "from irc again");
    until(&mut alice, |came| came["from"] == "irc:ann" && came["payload"]["params"]["text"] == "from irc again").await;
    say(&mut alice, "third").await;
    shown(&irc, "third").await;
    assert_eq!(irc.said(), ["<alice> first", "<alice> second", "<alice> third"], "once each");
    assert_eq!(irc.members(), (1, 1), "never both");
    two.signal(Signal::TERM);
    assert_eq!(two.end().await.code, Some(0));
}
