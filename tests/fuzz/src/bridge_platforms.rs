//! What servers of chat platforms send to bridges. The first byte of an input names the platform.

use salon_bridges::rich::MentionTarget;
use salon_bridges::{discord, irc, matrix, slack, xmpp};
use salon_protocol::Timestamp;

pub(crate) fn run(bytes: &[u8]) -> bool {
    let Some((platform, input)) = bytes.split_first() else { return false };
    match platform {
        b'i' => {
            irc::read_lines(input);
        }
        b'x' => {
            xmpp::read_stream(input);
        }
        b'm' => {
            drop(matrix::events::decode_transaction(input));
            let html = String::from_utf8_lossy(input);
            let mentioned = |user: &str| MentionTarget::User(salon_bridges::platform::PlatformUserId::new(user));
            drop(matrix::html::parse(&html, &mentioned));
        }
        b's' => {
            drop(slack::events::decode(input));
            drop(slack::mrkdwn::parse(&String::from_utf8_lossy(input), &|_| None));
        }
        b'S' => {
            let text = String::from_utf8_lossy(input);
            let mut lines = text.splitn(3, '\n');
            let (timestamp, signature, body) = (lines.next(), lines.next(), lines.next().unwrap_or_default());
            let now = Timestamp(1_700_000_000_000);
            let verified = slack::signature::verify("secret", timestamp, signature, body.as_bytes(), now);
            assert!(verified.is_err(), "nobody guesses a signature");
        }
        b'd' => {
            let text = String::from_utf8_lossy(input);
            drop(discord::gateway_payload::decode(&text));
            drop(discord::text::parse(&text, &[]));
            let now = std::time::Instant::now();
            let mut session = discord::gateway_session::GatewaySession::new("token", "wss://gateway.example.org");
            session.opened(now);
            drop(session.handle_text(&text, now, 7));
        }
        _ => return false,
    }
    true
}
