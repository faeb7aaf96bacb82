//! Making somebody's acquaintance: `initialize`, `notifications/initialized`, then its lists, every page of them.

use std::sync::Arc;
use std::time::Duration;

use salon_protocol::{McpVersion, ParticipantId, RpcError};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::calls::{Answer, Asked, Lack};
use super::catalogue::{Errand, Tool};
use super::implementation;
use super::office::Office;

/// How long a participant may take for one answer before it is left out.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long a list may be: pages, tools, and bytes.
const MOST_PAGES: usize = 64;
const MOST_TOOLS: usize = 4096;
const MOST_BYTES: usize = 4 << 20;

/// How often a list is asked for again because it changed meanwhile.
const MOST_ATTEMPTS: usize = 3;

/// Sees to an errand, and settles it.
pub(super) async fn run(office: Arc<Office>, errand: Errand) {
    let tools = match office.handshakes.acquire().await {
        Ok(_permit) => meet(&office, &errand).await,
        Err(_) => Err(Lack::Unasked),
    };
    office.catalogue().settle(&errand.who, tools);
}

async fn meet(office: &Arc<Office>, Errand { who, met }: &Errand) -> Result<Vec<Tool>, Lack> {
    // Whoever says that its tools changed has some, whatever it said before.
    let has_tools = *met || initialize(office, &who.id).await?;
    office.catalogue().met(who);
    if !has_tools {
        return Ok(Vec::new());
    }
    let mut attempts = 0;
    loop {
        office.catalogue().begin_listing(who);
        let tools = list(office, &who.id).await?;
        attempts += 1;
        if attempts == MOST_ATTEMPTS || !office.catalogue().is_stale(who) {
            return Ok(tools);
        }
    }
}

/// Shakes hands; says whether there are tools.
async fn initialize(office: &Arc<Office>, who: &ParticipantId) -> Result<bool, Lack> {
    #[derive(Deserialize, Default)]
    struct Initialized<'a> {
        #[serde(borrow, default)]
        capabilities: Offered<'a>,
    }
    #[derive(Deserialize, Default)]
    struct Offered<'a> {
        #[serde(borrow)]
        tools: Option<&'a RawValue>,
    }
    let params =
        json!({ "protocolVersion": McpVersion::HANDSHAKES[0], "capabilities": {}, "clientInfo": implementation() });
    let answer = ask(office, who, "initialize", &params).await?;
    let has_tools = match answer.outcome() {
        Ok(result) => {
            let Initialized { capabilities } = serde_json::from_str(result.get()).map_err(|_| Lack::Unreadable)?;
            capabilities.tools.is_some()
        }
        // It is no server. That is an answer, too.
        Err(error) if is_unknown_method(error) => return Ok(false),
        Err(_) => return Err(Lack::Declined),
    };
    office.tell(who, answer.0.envelope.id(), "notifications/initialized", &json!({}));
    Ok(has_tools)
}

/// All of somebody's tools.
async fn list(office: &Arc<Office>, who: &ParticipantId) -> Result<Vec<Tool>, Lack> {
    let (mut tools, mut bytes) = (Vec::new(), 0);
    let mut cursor: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let answer = ask(office, who, "tools/list", &params).await?;
        let result = match answer.outcome() {
            Ok(result) => result,
            Err(error) if is_unknown_method(error) => return Ok(tools),
            Err(_) => return Err(Lack::Unreadable),
        };
        let (page, next) = read_page(result).ok_or(Lack::Unreadable)?;
        bytes += page.iter().map(Tool::weight).sum::<usize>();
        tools.extend(page);
        if tools.len() > MOST_TOOLS || bytes > MOST_BYTES {
            return Err(Lack::TooLong);
        }
        match next {
            None => return Ok(tools),
            // A cursor that leads to itself leads nowhere.
            next if next == cursor => return Err(Lack::Unreadable),
            next => cursor = next,
        }
    }
    Err(Lack::TooLong)
}

/// A page's tools, and the cursor of the next.
fn read_page(result: &RawValue) -> Option<(Vec<Tool>, Option<String>)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Page<'a> {
        #[serde(borrow)]
        tools: Vec<&'a RawValue>,
        next_cursor: Option<String>,
    }
    // By name only: an array would be read as the fields in their order.
    let text = Some(result.get()).filter(|text| text.starts_with('{'))?;
    let Page { tools, next_cursor } = serde_json::from_str(text).ok()?;
    Some((tools.into_iter().filter_map(Tool::read).collect(), next_cursor))
}

async fn ask(
    office: &Arc<Office>,
    who: &ParticipantId,
    method: &str,
    params: &serde_json::Value,
) -> Result<Answer, Lack> {
    let answer = async { Asked::ask(office, who, method, params).await?.reply().await };
    timeout(PATIENCE, answer).await.unwrap_or(Err(Lack::Timeout))
}

fn is_unknown_method(error: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Error {
        code: i64,
    }
    serde_json::from_str::<Error>(error.get()).is_ok_and(|error| error.code == RpcError::METHOD_NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Option<(Vec<String>, Option<String>)> {
        let raw = RawValue::from_string(text.into()).expect("the test writes JSON");
        let (tools, next) = read_page(&raw)?;
        Some((tools.iter().map(|tool| tool.raw.get().to_owned()).collect(), next))
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let odd = r#"{ "name":"a", "inputSchema":{"maximum":123456789012345678901234567890} }"#;
        assert_eq!(page(&format!(r#"{{"tools":[{odd}]}}"#)), Some((vec![odd.into()], None)));
        assert_eq!(page(r#"{"tools":[],"nextCursor":"2"}"#), Some((vec![], Some("2".into()))));
        assert_eq!(page(r#"{"tools":[],"nextCursor":null}"#), Some((vec![], None)));
        assert_eq!(page(r#"{"tools":[{"title":"no name"},5]}"#), Some((vec![], None)));
        assert_eq!(page(r#"{"tools":{}}"#), None);
        assert_eq!(page(r#"{"tools":[],"nextCursor":5}"#), None);
        assert_eq!(page("[]"), None);
    }
}
