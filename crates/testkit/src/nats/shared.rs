//! The server that many gateways share, each with a log of its own.
//!
//! A run of `cargo nextest` starts one for all of its processes (`scripts/nats-for-tests`, which `.config/nextest.toml` names) and says by
//! `SALON_NATS_URL` where it is. Elsewhere each process starts one when it first needs it.

use std::env;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::wire::ask;
use super::{NatsServers, found};
use crate::Failure;

static SHARED: Mutex<Option<SharedServer>> = Mutex::new(None);

/// A server that this process uses, and the logs it has there.
pub(crate) struct SharedServer {
    url: String,
    /// Where it is this process's own.
    own: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl SharedServer {
    /// Where a new log can be, and what it is called there: as no other, of whichever process.
    pub(crate) fn new_log() -> Result<(String, String), Failure> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let mut shared = SHARED.lock();
        if shared.is_none() {
            *shared = Some(Self::open()?);
        }
        let url = shared.as_ref().map(|shared| shared.url.clone()).unwrap_or_default();
        Ok((url, format!("{}{}", prefix(), COUNT.fetch_add(1, Ordering::Relaxed))))
    }

    fn open() -> Result<Self, Failure> {
        if let Ok(url) = env::var("SALON_NATS_URL") {
            return Ok(Self { url, own: None });
        }
        found().ok_or(super::MISSING)?;
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        // A thread of its own, because each test has a runtime that ends with it.
        let thread = std::thread::spawn(move || {
            crate::run(async {
                let servers = NatsServers::one().await;
                let _ = tell.send(servers.as_ref().map(NatsServers::url).map_err(Clone::clone));
                // A sender that is dropped wants it stopped, too.
                let _ = stopped.await;
                drop(servers);
            });
        });
        let url = told.recv().map_err(|_| "the NATS server of all tests does not start")??;
        Ok(Self { url, own: Some((stop, thread)) })
    }
}

/// How the logs of this process begin, so that they can be told from those of others.
fn prefix() -> &'static str {
    static PREFIX: OnceLock<String> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let random = uuid::Uuid::new_v4().simple().to_string();
        format!("t{}x", &random[..12])
    })
}

/// Stops the server that this process shares between its tests, or removes what they have left on one that other processes use. To be
/// called when all of them have ended.
pub fn close_shared() {
    let shared = SHARED.lock().take();
    match shared {
        Some(SharedServer { own: Some((stop, thread)), .. }) => {
            let _ = stop.send(());
            // A thread that failed has said so.
            let _ = thread.join();
        }
        // What stays is gone with the server; the tests have passed or failed by now.
        Some(SharedServer { url, own: None }) => _ = crate::run(remove_logs(&url)),
        None => {}
    }
}

/// Deletes every stream of this process's logs, so that those of a whole run do not pile up.
async fn remove_logs(url: &str) -> Result<(), Failure> {
    let address = url.strip_prefix("nats://").ok_or("no URL of a NATS server")?;
    let mut names = Vec::new();
    loop {
        let told = ask(address, "STREAM.NAMES", &json!({ "offset": names.len() })).await?;
        let page = told["streams"].as_array().cloned().unwrap_or_default();
        let is_last = page.is_empty();
        names.extend(page);
        if is_last || told["total"].as_u64().is_none_or(|total| names.len() as u64 >= total) {
            break;
        }
    }
    for name in names.iter().filter_map(Value::as_str).filter(|name| name.contains(prefix())) {
        ask(address, &format!("STREAM.DELETE.{name}"), &json!({})).await?;
    }
    Ok(())
}
