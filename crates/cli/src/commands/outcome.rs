//! How a command ends: its exit status, the error in words, and what might help.

use salon_client::{HttpRefusal, RestError};
use salon_protocol::TopicName;

use crate::access::GatewayUrl;
use crate::safe;
use crate::trouble::Trouble;

/// The participant is not there, or left before it answered.
pub(crate) const GONE: u8 = 3;
/// No answer in time.
pub(crate) const TIMED_OUT: u8 = 4;
/// The gateway or the room refused.
pub(crate) const REFUSED: u8 = 5;
/// The participant answered with an error of the protocol.
pub(crate) const PROTOCOL: u8 = 6;
/// Nobody answers there, or nobody who is a gateway.
pub(crate) const UNREACHABLE: u8 = 7;
/// Ctrl-C.
pub(crate) const CANCELLED: u8 = 130;

/// What `--help` says of the exit status.
pub(crate) const EXIT_STATUS: &str = "\
Exit status:
  0    the tool succeeded
  1    the tool reports an error
  2    the command line is wrong
  3    the participant is not there, or left before it answered
  4    no answer in time
  5    the gateway or the room refused
  6    the participant answered with a protocol error
  7    the gateway cannot be reached
  130  cancelled with Ctrl-C";

/// What helps when a gateway does not know the key that made the token.
pub(crate) const OTHER_KEY: &str = "the gateway may have its data, and so its key, in another directory: name that with `--data` or \
                                    `SALON_DATA`, or start this in the directory where its `salon.toml` is";

/// What was asked, for the hint to name.
#[derive(Clone, Copy)]
pub(crate) struct HintContext<'a> {
    pub(crate) gateway: &'a GatewayUrl,
    pub(crate) topic: Option<&'a TopicName>,
}

impl HintContext<'_> {
    /// The trouble that an unanswered question is.
    pub(crate) fn trouble(&self, error: &RestError) -> Trouble {
        let gateway = self.gateway;
        if let Some(hint) = other_scheme(gateway, error) {
            let told = format!("what answers at `{gateway}` does not speak {}", gateway.scheme());
            return Trouble::coded(UNREACHABLE, told, hint);
        }
        match error {
            RestError::Token(error) => {
                Trouble::usage(anyhow::anyhow!("there is no token: {}", safe::line(&error.to_string())))
            }
            RestError::Unreachable { source, .. } => {
                let why = safe::line(&source.to_string());
                let hint = if why.contains("peer certificate") {
                    "if the certificate is your own or from an authority of your own, give that with `--ca FILE`"
                } else if gateway.is_loopback() {
                    "start one with `salon serve`, or name another with `--gateway` or `SALON_GATEWAY`"
                } else {
                    "`salon doctor` looks for the cause"
                };
                Trouble::coded(UNREACHABLE, format_args!("the gateway at `{gateway}` cannot be reached: {why}"), hint)
            }
            RestError::Unreadable { source, .. } => {
                let why = safe::line(&source.to_string());
                let hint = "is it a Salon gateway? `salon doctor` looks further";
                Trouble::coded(UNREACHABLE, format_args!("what answers at `{gateway}` is not a gateway: {why}"), hint)
            }
            RestError::Refused(refusal) => self.refused(refusal),
            error => Trouble::Coded(UNREACHABLE, anyhow::anyhow!("{}", safe::line(&error.to_string()))),
        }
    }

    fn refused(&self, HttpRefusal { status, code, message, .. }: &HttpRefusal) -> Trouble {
        let message = safe::line(message);
        match (status, &**code, self.topic) {
            (401, ..) if let Some(data) = self.gateway.key() => {
                let told = format!("{message}: it was made with the key in `{}`", data.display());
                Trouble::coded(REFUSED, told, OTHER_KEY)
            }
            (401, ..) => {
                let hint = format!("`salon doctor` looks at the token; `salon login {}` stores another", self.gateway);
                Trouble::coded(REFUSED, message, hint)
            }
            (403, "forbidden", Some(topic)) => {
                let hint = format!(
                    "where the gateway runs, `salon token {} --as ID` makes a token that opens it",
                    safe::shell(topic.as_str())
                );
                Trouble::coded(REFUSED, message, hint)
            }
            (_, "", _) => Trouble::coded(UNREACHABLE, message, format_args!("is `{}` a Salon gateway?", self.gateway)),
            _ => Trouble::Coded(REFUSED, anyhow::anyhow!("{message}")),
        }
    }
}

/// The hint when the answer is not of the protocol in the address.
pub(crate) fn other_scheme(gateway: &GatewayUrl, error: &RestError) -> Option<String> {
    // The libraries have no better sign of it than what they say.
    let said = match error {
        RestError::Unreachable { source, .. } => source.to_string(),
        RestError::Unreadable { source, .. } => source.to_string(),
        _ => return None,
    };
    let other = match gateway.is_secure() {
        true if said.contains("InvalidContentType") => "http",
        // The answer of a TLS server to plain HTTP, read as HTTP.
        false if said.contains("invalid HTTP version") => "https",
        _ => return None,
    };
    Some(format!("it may speak {other}: try `--gateway {}`", gateway.with_scheme(other)))
}
