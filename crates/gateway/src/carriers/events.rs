//! Server-sent events as bytes.

use std::fmt::Write;

use axum::body::Bytes;
use salon_dialects::EventFrame;

/// Says nothing, and keeps whatever lies between from taking the stream for dead.
pub(super) const KEEP_ALIVE: Bytes = Bytes::from_static(b": \n\n");

/// One event.
pub(super) fn encode(event: &EventFrame) -> Bytes {
    let mut text = String::with_capacity(event.data.len() + 64);
    let infallible = "writing to a string cannot fail";
    if let Some(name) = event.name {
        writeln!(text, "event: {name}").expect(infallible);
    }
    if let Some(id) = &event.id {
        writeln!(text, "id: {id}").expect(infallible);
    }
    if let Some(retry) = event.retry {
        writeln!(text, "retry: {}", retry.as_millis()).expect(infallible);
    }
    // An event's data cannot hold a line break; a reader joins the lines again. Within JSON that is only ever white space.
    for line in event.data.split(['\n', '\r']) {
        writeln!(text, "data: {line}").expect(infallible);
    }
    text.push('\n');
    Bytes::from(text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
