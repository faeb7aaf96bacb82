//! Guests behind OAuth: signing in at the authorization server that an MCP server names, and tokens from there.
//!
//! [`sign_in::GuestSignIn`] is the flow, sans-IO; `wire` and `redirect` carry it, `store` keeps what comes of it, and [`GuestAccess`] gives
//! requests their tokens and refreshes them. Invariants: a token goes to the server it is for and its refresh token to the server that gave it out,
//! never after a redirect, and none is printed. Deliberately absent: browsers and terminals, which are the owner's ([`SignInPrompt`]).

mod access;
mod address;
mod challenge;
mod client;
mod device;
mod error;
mod exchange;
mod metadata;
mod redirect;
mod renewal;
mod running;
mod sign_in;
mod store;
#[cfg(test)]
mod tests;
mod tokens;
mod wire;

use std::fmt;
use std::sync::Arc;

pub(crate) use access::GuestAccess;
pub use address::ResourceUrl;
pub(crate) use address::is_loopback;
pub(crate) use challenge::BearerChallenge;
pub use client::RegisteredClient;
pub use device::DevicePrompt;
pub use error::AuthorizationError;
pub use running::{GuestSignInError, GuestSignInOutcome, sign_in};
pub use store::TokenStore;
pub use tokens::OAuthTokens;

/// How a guest behind OAuth gets its tokens.
#[derive(Debug, Clone)]
pub struct OAuthOptions {
    /// Where tokens are stored.
    pub store: TokenStore,
    /// The client to be, where the authorization server registers none.
    pub client: Option<RegisteredClient>,
    /// How to have a person sign in. Without it, stored tokens are waited for.
    pub prompt: Option<SignInPrompt>,
}

/// How a person is asked to sign in.
#[derive(Clone)]
pub struct SignInPrompt {
    /// Which flow.
    pub way: SignInWay,
    /// Shows a page or a code. Must not block.
    pub show: Arc<dyn Fn(&SignInNotice) + Send + Sync>,
}

impl fmt::Debug for SignInPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignInPrompt").field("way", &self.way).finish_non_exhaustive()
    }
}

/// Which flow a sign-in uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignInWay {
    /// The authorization code flow, in a browser on this machine.
    Browser,
    /// The device flow where the server has it, else a browser.
    DeviceIfOffered,
    /// The device flow.
    Device,
}

/// What a person is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignInNotice {
    /// Open a page in a browser on this machine.
    Browse {
        /// The page.
        url: String,
    },
    /// Type a code into a page, on any machine.
    Code(DevicePrompt),
}
