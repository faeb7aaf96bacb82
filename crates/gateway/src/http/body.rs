//! Bodies, read with a limit and a deadline.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use salon_protocol::{Code, Refusal};

/// How long a client may take for a body.
const BODY_TIME: Duration = Duration::from_secs(15);

/// Reads a whole body of at most `most` bytes.
pub(crate) async fn read(body: Body, most: usize) -> Result<Bytes, Refusal> {
    match tokio::time::timeout(BODY_TIME, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(Refusal::new(Code::TooLarge, format!("the body is longer than the limit of {most} bytes")))
        }
        Ok(Err(_)) => Err(Refusal::new(Code::InvalidParameters, "the body could not be read to its end")),
        Err(_) => Err(Refusal::new(Code::Timeout, "the body took too long")),
    }
}
