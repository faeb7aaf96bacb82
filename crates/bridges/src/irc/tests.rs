use insta::assert_snapshot;
use salon_protocol::Timestamp;

use super::registration::{IrcAccount, IrcLogin};
use super::session::{IrcOutput, IrcSession};
use crate::config::PlatformSecret;
use crate::platform::{PlatformChannel, PlatformEvent};
use crate::rich::{Flavour, render};

/// A conversation: lines of the server, each with what the session does; `~ 30000` lets time pass.
fn converse(lines: &str) -> String {
    converse_as(None, lines)
}

fn converse_as(account: Option<IrcAccount>, lines: &str) -> String {
    let login = IrcLogin {
        nick: "salon".into(),
        real_name: "Salon bridge".into(),
        password: None,
        account,
        channels: vec![PlatformChannel::new("#Lab")],
        trusts_nicks: false,
    };
    let mut session = IrcSession::new(login);
    let mut now = Timestamp(0);
    let mut transcript = String::new();
    let show = |outputs: Vec<IrcOutput>, transcript: &mut String| {
        for output in outputs {
            let shown = match output {
                IrcOutput::Line(line) => format!("  → {line}"),
                IrcOutput::Event(channel, PlatformEvent::Message(message)) => {
                    let author = message.author;
                    let verified = if author.is_verified { " (verified)" } else { "" };
                    let content = render(&message.content, Flavour::Markdown);
                    format!("  {channel}: {} as {}{verified}, {:?}: {content}", author.name, author.id, author.origin)
                }
                IrcOutput::Event(channel, PlatformEvent::Join { author }) => format!("  {channel}: join {}", author.id),
                IrcOutput::Event(channel, PlatformEvent::Leave { user }) => format!("  {channel}: leave {user}"),
                IrcOutput::Event(channel, event) => format!("  {channel}: {event:?}"),
                other => format!("  {other:?}"),
            };
            transcript.push_str(&shown);
            transcript.push('\n');
        }
    };
    show(session.start(), &mut transcript);
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        transcript.push_str(&format!("{}\n", line.replace('\u{1}', "^A").replace('\u{2}', "^B")));
        let outputs = match line.strip_prefix("~ ") {
            Some(ms) => {
                now.0 += ms.parse::<u64>().expect("a number");
                session.tick(now)
            }
            None => session.line(line, now),
        };
        show(outputs, &mut transcript);
    }
    transcript
}

#[test]
fn an_account_is_logged_in_to_before_the_session_begins() {
    let account = |password: &str| Some(IrcAccount { name: "bot".into(), password: PlatformSecret::new(password) });
    assert_snapshot!(converse_as(account("secret"), "
        :irc.x CAP * LS * :multi-prefix
        :irc.x CAP * LS :sasl=EXTERNAL,PLAIN
        :irc.x CAP salon ACK :multi-prefix sasl
        AUTHENTICATE +
        :irc.x 900 salon salon!s@h bot :You are now logged in as bot
        :irc.x 903 salon :SASL authentication successful
        :irc.x 001 salon :Welcome"), @"
      → CAP LS 302
      → NICK salon
      → USER salon 0 * :Salon bridge
    :irc.x CAP * LS * :multi-prefix
    :irc.x CAP * LS :sasl=EXTERNAL,PLAIN
      → CAP REQ :multi-prefix sasl
    :irc.x CAP salon ACK :multi-prefix sasl
      → AUTHENTICATE PLAIN
    AUTHENTICATE +
      → AUTHENTICATE AGJvdABzZWNyZXQ=
    :irc.x 900 salon salon!s@h bot :You are now logged in as bot
    :irc.x 903 salon :SASL authentication successful
      → CAP END
    :irc.x 001 salon :Welcome
      → JOIN #Lab
    ");
    // Never without the account, where one is configured.
    assert_snapshot!(converse_as(account("wrong"), "
        :irc.x CAP * LS :sasl
        :irc.x CAP salon ACK :sasl
        :irc.x 904 salon :SASL authentication failed
        "), @r#"
      → CAP LS 302
      → NICK salon
      → USER salon 0 * :Salon bridge
    :irc.x CAP * LS :sasl
      → CAP REQ :sasl
    :irc.x CAP salon ACK :sasl
      → AUTHENTICATE PLAIN
    :irc.x 904 salon :SASL authentication failed
      Refused("the account is not accepted: SASL authentication failed")
    "#);
    assert_snapshot!(converse_as(account("secret"), ":irc.x CAP * LS :sasl=EXTERNAL"), @r#"
      → CAP LS 302
      → NICK salon
      → USER salon 0 * :Salon bridge
    :irc.x CAP * LS :sasl=EXTERNAL
      Refused("it does not log in to accounts by SASL PLAIN")
    "#);
    // 300 bytes and an exact multiple of 400 in base64, which an empty piece ends.
    let long = converse_as(account(&"x".repeat(295)), "AUTHENTICATE +");
    let pieces: Vec<_> = long.lines().filter(|line| line.contains("→ AUTHENTICATE")).collect();
    assert_eq!(pieces.len(), 2, "{long}");
    assert_eq!(pieces[1], "  → AUTHENTICATE +");
}

#[test]
fn a_server_with_capabilities() {
    assert_snapshot!(converse(
        ":irc.x CAP * LS :account-tag sasl=PLAIN server-time
         :irc.x CAP salon ACK :account-tag server-time
         :irc.x 433 * salon :Nickname is already in use
         :irc.x 001 salon_ :Welcome
         :salon_!s@h JOIN #lab
         :irc.x 353 salon_ = #lab :@ann +bob salon_
         :irc.x 366 salon_ #lab :End of NAMES
         @account=ann :ann!a@h PRIVMSG #LAB :hello \u{2}all\u{2}
         @account=eve :ann!a@h PRIVMSG #LAB :not the account of this nick
         :bob!b@h PRIVMSG #lab :\u{1}ACTION waves\u{1}
         :bob!b@h PRIVMSG #lab :\u{1}VERSION\u{1}
         :bob!b@h PRIVMSG salon_ :psst
         :salon_!s@h PRIVMSG #lab :an echo
         PING :irc.x
         :bob!b@h NICK robert
         :ann!a@h PART #lab :bye
         :robert!b@h QUIT :gone"
    ));
}

#[test]
fn channels_that_cannot_be_entered_are_tried_again() {
    assert_snapshot!(converse(
        ":irc.x 421 * CAP :Unknown command
         :irc.x 001 salon :Welcome
         :irc.x 474 salon #lab :Cannot join channel (+b)
         ~ 29999
         ~ 1
         :salon!s@h JOIN :#lab
         :ann!a@h KICK #lab salon :out
         ~ 30000
         :salon!s@h JOIN :#lab
         :irc.x 404 salon #lab :Cannot send to channel
         :irc.x PONG irc.x :salon-7
         ERROR :Closing link"
    ));
}

#[test]
fn a_password_that_is_wrong_is_told() {
    assert_snapshot!(converse(":irc.x 464 * :Password incorrect"));
}

/// Two bridges in one channel that relayed each other would never end.
#[test]
fn lines_of_another_bridge_are_a_bots() {
    let [line, _] = IrcSession::say(&PlatformChannel::new("#lab"), "<bob> hi", 1);
    let heard = converse(&format!(":irc.x 001 salon :Welcome\n:salon!s@h JOIN #lab\n:other!o@h {line}"));
    assert!(heard.ends_with("  #Lab: other as other, Bot: <bob> hi\n"), "{heard}");
}
