//! Server-sent events as bytes: the one encoder of the gateway (HTML Living Standard §9.2, "Server-sent events").

use std::fmt::Write;
use std::time::Duration;

use axum::body::Bytes;
use salon_dialects::EventFrame;

/// A comment. It carries nothing; proxies between do not take the stream for dead.
pub(crate) const KEEP_ALIVE: Bytes = Bytes::from_static(b": \n\n");

/// The fields of one event, borrowed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EventFields<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) id: Option<&'a str>,
    pub(crate) retry: Option<Duration>,
    pub(crate) data: &'a str,
}

impl EventFields<'_> {
    /// Appends the event to `out`.
    pub(crate) fn write(&self, out: &mut String) {
        let infallible = "writing to a string cannot fail";
        if let Some(name) = self.name {
            writeln!(out, "event: {name}").expect(infallible);
        }
        if let Some(id) = self.id {
            writeln!(out, "id: {id}").expect(infallible);
        }
        if let Some(retry) = self.retry {
            writeln!(out, "retry: {}", retry.as_millis()).expect(infallible);
        }
        // A line of data cannot hold a line break; a reader joins the lines again. Within JSON a break is only ever white space.
        for line in self.data.split(['\n', '\r']) {
            writeln!(out, "data: {line}").expect(infallible);
        }
        out.push('\n');
    }
}

/// One event of a dialect.
pub(super) fn encode(event: &EventFrame) -> Bytes {
    let mut text = String::with_capacity(event.data.len() + 64);
    let EventFrame { name, id, retry, data } = event;
    EventFields { name: *name, id: id.as_deref(), retry: *retry, data }.write(&mut text);
    Bytes::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: Option<&'static str>, id: Option<&str>, retry: Option<u64>, data: &str) -> String {
        let retry = retry.map(Duration::from_millis);
        let bytes = encode(&EventFrame { name, id: id.map(Into::into), retry, data: data.into() });
        String::from_utf8(bytes.to_vec()).expect("text")
    }

    #[test]
    fn an_event_has_its_fields_in_order_and_a_line_of_data_for_each_line() {
        assert_eq!(
            said(Some("message"), Some("3-7"), None, "{\"a\":1}"),
            "event: message\nid: 3-7\ndata: {\"a\":1}\n\n"
        );
        assert_eq!(said(None, None, None, "{\n \"a\": 1\r}"), "data: {\ndata:  \"a\": 1\ndata: }\n\n");
        assert_eq!(said(Some("endpoint"), None, None, "/message"), "event: endpoint\ndata: /message\n\n");
    }

    #[test]
    fn a_priming_event_has_a_line_of_data_with_nothing_in_it() {
        assert_eq!(said(None, Some("0-1"), Some(1000), ""), "id: 0-1\nretry: 1000\ndata: \n\n");
    }
}
