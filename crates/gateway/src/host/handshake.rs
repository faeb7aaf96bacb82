//! Making somebody's acquaintance: `initialize`, `notifications/initialized`, then a list, every page of it. Whoever speaks only the modern
//! era is asked for the list at once, as that era asks.

use std::sync::Arc;
use std::time::Duration;

use salon_mcp::listing::{Item, Listing, read_page};
use salon_mcp::{Era, meta};
use salon_protocol::{McpVersion, Members, ParticipantId, RpcError};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::calls::{Answer, Asked, Lack};
use super::catalogue::{Errand, Met, weight};
use super::implementation;
use super::office::Office;
use super::speech::text;

/// How long a participant may take for one answer. Nobody waits for it that long; its lists are told of when they come.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a list may be: pages, items, and bytes.
const MAX_PAGES: usize = 64;
const MAX_ITEMS: usize = 4096;
const MAX_BYTES: usize = 4 << 20;

/// How often a list is asked for again because it changed meanwhile.
const MAX_ATTEMPTS: usize = 3;

/// Sees to an errand, and settles it.
pub(super) async fn run(office: Arc<Office>, errand: Errand) {
    let items = match office.handshakes.acquire().await {
        Ok(_permit) => fetch(&office, &errand).await,
        Err(_) => Err(Lack::Unasked),
    };
    office.catalogue().settle(&errand, items);
}

async fn fetch(office: &Arc<Office>, errand: &Errand) -> Result<Vec<Item>, Lack> {
    let Errand { who, listing, meeting, said } = errand;
    let met = {
        let mut meeting = meeting.lock().await;
        match *meeting {
            Some(met) => met,
            None => *meeting.insert(meet(office, who).await?),
        }
    };
    if !met.has[*listing as usize] && !said {
        return Ok(Vec::new());
    }
    let mut attempts = 0;
    loop {
        office.catalogue().begin_listing(errand, Instant::now());
        let items = list(office, &who.id, *listing, met.era).await?;
        attempts += 1;
        if attempts == MAX_ATTEMPTS || !office.catalogue().is_stale(errand) {
            return Ok(items);
        }
    }
}

/// Shakes hands where that is the way; says what there is.
async fn meet(office: &Arc<Office>, who: &salon_protocol::Participant) -> Result<Met, Lack> {
    let era = Era::Legacy.with(&who.mcp);
    if era == Era::Modern {
        return Ok(Met { era, has: [true; 4] });
    }
    let params =
        json!({ "protocolVersion": McpVersion::HANDSHAKES[0], "capabilities": {}, "clientInfo": implementation() });
    let answer = ask(office, &who.id, "initialize", &params).await?;
    let has = match answer.outcome() {
        Ok(result) => {
            let said = Members::parse(result.get()).ok_or(Lack::Unreadable)?;
            let capabilities = said.get("capabilities").and_then(|said| Members::parse(said.get())).unwrap_or_default();
            Listing::ALL.map(|listing| capabilities.get(listing.capability()).is_some())
        }
        // It is no server. That is an answer, too.
        Err(error) if is_unknown_method(error) => return Ok(Met { era, has: [false; 4] }),
        Err(_) => return Err(Lack::Declined),
    };
    office.tell(&who.id, answer.0.envelope.id(), "notifications/initialized", &json!({}));
    Ok(Met { era, has })
}

/// All of a list of somebody's.
async fn list(office: &Arc<Office>, who: &ParticipantId, listing: Listing, era: Era) -> Result<Vec<Item>, Lack> {
    let (mut items, mut bytes) = (Vec::new(), 0);
    let mut cursor: Option<Box<str>> = None;
    for _ in 0..MAX_PAGES {
        let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let params = in_era(text(&params), era);
        let answer = ask(office, who, listing.method(), &params).await?;
        let result = match answer.outcome() {
            Ok(result) => result,
            Err(error) if is_unknown_method(error) => return Ok(items),
            Err(_) => return Err(Lack::Unreadable),
        };
        let (page, next) = read_page(listing, result).ok_or(Lack::Unreadable)?;
        bytes += page.iter().map(weight).sum::<usize>();
        items.extend(page);
        if items.len() > MAX_ITEMS || bytes > MAX_BYTES {
            return Err(Lack::TooLong);
        }
        match next {
            None => return Ok(items),
            // A cursor that leads to itself leads nowhere.
            next if next == cursor => return Err(Lack::Unreadable),
            next => cursor = next,
        }
    }
    Err(Lack::TooLong)
}

/// Parameters as an era has them.
fn in_era(params: Box<RawValue>, era: Era) -> Box<RawValue> {
    if era == Era::Legacy {
        return params;
    }
    let (capabilities, info) = (text(&json!({})), text(&implementation()));
    let asker = meta::Asker { capabilities: &capabilities, info: &info, level: None };
    meta::upgrade(Some(&params), asker).unwrap_or(params)
}

async fn ask(
    office: &Arc<Office>,
    who: &ParticipantId,
    method: &str,
    params: &impl serde::Serialize,
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
