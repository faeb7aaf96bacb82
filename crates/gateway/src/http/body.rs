//! Bodies, read with a limit and with deadlines.

use axum::body::{Body, Bytes, HttpBody as _};
use http_body_util::BodyExt;
use salon_protocol::{Code, Refusal};
use tokio::time::{Instant, timeout_at};

use super::bodies::BodySender;
use crate::gateway::GatewayState;

/// Reads a whole body of at most `most` bytes.
pub(crate) async fn read(
    gateway: &GatewayState,
    sender: BodySender,
    mut body: Body,
    most: usize,
) -> Result<Bytes, Refusal> {
    let too_large = || Refusal::new(Code::TooLarge, format!("the body is longer than the limit of {most} bytes"));
    // Before any of it is read: a client that waits for `100 Continue` (RFC 9110 §10.1.1) is told so instead.
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    let mut intake = gateway.bodies.begin(sender)?;
    let timings = &gateway.config.timings;
    let deadline = Instant::now() + timings.body_timeout;
    let mut whole = Vec::new();
    loop {
        let silent = Instant::now() + timings.body_idle_timeout;
        let piece = match timeout_at(deadline.min(silent), body.frame()).await {
            Ok(None) => return Ok(whole.into()),
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(Some(Err(_))) => {
                return Err(Refusal::new(Code::InvalidParameters, "the body could not be read to its end"));
            }
            Err(_) => return Err(Refusal::new(Code::Timeout, "the body took too long")),
        };
        if whole.len() + piece.len() > most {
            return Err(too_large());
        }
        intake.grow(piece.len())?;
        // Most bodies come at once, and need not be copied.
        if whole.is_empty() && body.is_end_stream() {
            return Ok(piece);
        }
        whole.extend_from_slice(&piece);
    }
}
