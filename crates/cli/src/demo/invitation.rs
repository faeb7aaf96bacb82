//! The lines with which a person joins the demo's room from another terminal.

use std::net::SocketAddr;

/// Everything to paste is free of comments, which not every shell takes at its prompt.
pub(crate) fn text(address: SocketAddr, topic: &str, token: &str, link: &str) -> String {
    let room = format!("http://{address}/v0/topics/{topic}");
    format!(
        r#"This is {topic} on {address}. Ctrl-C ends it.

To join in, open this in a browser (it works once, for 10 minutes):

{link}

Or paste this into another terminal:

TOKEN={token}
say() {{ curl -sS {room}/messages -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{{"protocol":"mcp-x/v0","id":"visitor-'$(date +%s)-$$-$((said=said+1))'","ts":"'$(date -u +%Y-%m-%dT%H:%M:%SZ)'","from":"visitor","kind":"mcp","payload":{{"jsonrpc":"2.0","method":"notifications/chat/message","params":{{"text":"'"$*"'"}}}}}}'; echo; }}

Then say something; rover, calc and coordinator answer to their names:

say 'coordinator, go to 2 3'
say 'coordinator, what is 6 * 7?'
say 'rover, where are you?'

Read what was said, or follow it live:

curl -sS '{room}/history?limit=5' -H "Authorization: Bearer $TOKEN"
curl -sSN '{room}/stream' -H "Authorization: Bearer $TOKEN"

The same with `salon`, which can do more:

export SALON_GATEWAY=http://{address} SALON_TOKEN=$TOKEN
salon chat {topic}
salon call {topic} rover position

A WebSocket client enters at ws://{address}/v0/ws?topic={topic} with the same header.
"#
    )
}
