//! Which session a frame is for. Pure: the owner of the connection decides what follows.

use salon_protocol::{Code, Refusal, Timestamp};

use super::body::{self, Connect};
use super::frame;
use super::header::{self, FramedHeader, Method, Regarding};

/// What is to be done with a frame.
pub enum FrameRoute {
    /// A peer asks for a session.
    Connect(Box<Connect>),
    /// It is for the session of this id.
    Session(Box<str>),
    /// It cannot be worked with.
    Refused(Refusal),
}

/// Which session a whole frame is for.
pub fn route(frame: &[u8]) -> FrameRoute {
    read(frame).unwrap_or_else(FrameRoute::Refused)
}

fn read(frame: &[u8]) -> Result<FrameRoute, Refusal> {
    let broken = || Refusal::new(Code::InvalidEnvelope, "the lengths are not those of one frame");
    let (header, body) = frame::split(frame).ok_or_else(broken)?;
    let header = FramedHeader::read(header).1?;
    if header.method == Method::Connect {
        return Ok(FrameRoute::Connect(Box::new(body::connect(body)?)));
    }
    let named = match header.content_type {
        None => body::session(body),
        Some(_) => Ok(None),
    };
    let session = match (named, header.session_id) {
        (Ok(Some(session)), _) => session.into(),
        (_, Some(session)) => session,
        (Ok(None), None) => {
            return Err(Refusal::new(Code::Unauthorized, "`sessionId` is missing; begin with CONNECT"));
        }
        (Err(refusal), None) => return Err(refusal),
    };
    Ok(FrameRoute::Session(session))
}

/// The refusal of a frame that reaches no session.
pub fn refuse(frame: &[u8], refusal: &Refusal, at: Timestamp) -> Box<[u8]> {
    refuse_header(frame::split(frame).map(|(header, _)| header), refusal, at)
}

/// The refusal of a frame of which at most the header has come.
pub fn refuse_header(header: Option<&[u8]>, refusal: &Refusal, at: Timestamp) -> Box<[u8]> {
    header::refuse(&header.map(Regarding::read).unwrap_or_default(), "error", refusal, at)
}
