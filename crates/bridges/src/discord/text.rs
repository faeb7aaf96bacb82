//! Discord's Markdown, parsed into neutral text.
//!
//! Discord API v10, "Message Formatting": Markdown with mentions, custom emoji and timestamps between angle brackets.

use salon_protocol::Timestamp;

use super::gateway_payload::DiscordUser;
use crate::platform::PlatformUserId;
use crate::rich::{InlineText, MentionTarget, RichText, markdown};

/// Between the brackets of a mention there is little.
const MAX_TOKEN_BYTES: usize = 64;

/// Parses a message's content. `mentions` are the users that Discord says are mentioned.
pub fn parse(content: &str, mentions: &[DiscordUser]) -> RichText {
    // A spoiler is hidden until it is clicked; the room has nothing like it.
    let content = content.replace("||", "");
    markdown::parse(&content).flat_map_text(&|text| split(text, mentions))
}

fn split(text: &str, mentions: &[DiscordUser]) -> Vec<InlineText> {
    let mut found = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let near = &rest[..rest.floor_char_boundary(MAX_TOKEN_BYTES)];
        let token = near.find('>').and_then(|end| Some((token(&near[1..end], mentions)?, end + 1)));
        match token {
            Some((InlineText::Text(shown), length)) => {
                plain.push_str(&shown);
                rest = &rest[length..];
            }
            Some((inline, length)) => {
                if !plain.is_empty() {
                    found.push(InlineText::Text(std::mem::take(&mut plain)));
                }
                found.push(inline);
                rest = &rest[length..];
            }
            None => {
                plain.push('<');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        found.push(InlineText::Text(plain));
    }
    found
}

/// What stands between angle brackets.
fn token(inner: &str, mentions: &[DiscordUser]) -> Option<InlineText> {
    if let Some(role) = inner.strip_prefix("@&").filter(|id| is_snowflake(id)) {
        return Some(InlineText::Text(format!("@role {role}")));
    }
    if let Some(user) = inner.strip_prefix("@!").or_else(|| inner.strip_prefix('@')) {
        let known = mentions.iter().find(|mentioned| mentioned.id == user);
        let label = known.map_or_else(|| user.to_owned(), |user| user.shown_name().to_owned());
        let target = MentionTarget::User(PlatformUserId::new(user));
        return is_snowflake(user).then_some(InlineText::Mention { target, label });
    }
    if let Some(channel) = inner.strip_prefix('#').filter(|id| is_snowflake(id)) {
        return Some(InlineText::Text(format!("#{channel}")));
    }
    if let Some(time) = inner.strip_prefix("t:") {
        let seconds: u64 = time.split(':').next()?.parse().ok()?;
        return Some(InlineText::Text(Timestamp(seconds.checked_mul(1000)?).to_string()));
    }
    // `<:name:id>` and `<a:name:id>`.
    let emoji = inner.strip_prefix('a').unwrap_or(inner).strip_prefix(':')?;
    let (name, id) = emoji.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name && is_snowflake(id)).then(|| InlineText::Text(format!(":{name}:")))
}

/// An id of Discord: a number of 64 bits.
pub(super) fn is_snowflake(id: &str) -> bool {
    !id.is_empty() && id.len() <= 20 && id.bytes().all(|byte| byte.is_ascii_digit())
}
