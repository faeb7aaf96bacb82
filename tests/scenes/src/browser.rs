//! A browser that is signed in, as far as a trial needs one: its cookie, and tickets for it.

use salon_testkit::http::HttpCall;
use salon_testkit::{Failure, TestGateway, TestToken};
use serde_json::{Value, json};

/// A sign-in at a gateway.
pub(crate) struct BrowserSignIn<'g> {
    gateway: &'g TestGateway,
    cookie: String,
}

impl<'g> BrowserSignIn<'g> {
    pub(crate) async fn begin(gateway: &'g TestGateway, participant: &str) -> Result<Self, Failure> {
        let body = json!({ "token": gateway.token(&TestToken::new(participant))? }).to_string();
        let mut browser = Self { gateway, cookie: String::new() };
        let answer = browser.call("POST", "/v0/session").body(body).send(gateway.address()).await?;
        let set = answer.header("set-cookie").ok_or_else(|| format!("not signed in: {answer:?}"))?;
        browser.cookie = set.split(';').next().unwrap_or_default().to_owned();
        Ok(browser)
    }

    /// A request of the gateway's own page.
    pub(crate) fn call(&self, method: &str, path: &str) -> HttpCall {
        let call = HttpCall::new(method, path).header("Origin", format!("http://{}", self.gateway.address()));
        if self.cookie.is_empty() { call } else { call.header("Cookie", &self.cookie) }
    }

    /// A ticket to a topic.
    pub(crate) async fn ticket(&self, topic: &str) -> Result<String, Failure> {
        let asked = self.call("POST", "/v0/tickets").body(json!({ "topic": topic }).to_string());
        let answer = asked.send(self.gateway.address()).await?;
        let body: Value = serde_json::from_str(&answer.body).map_err(|error| format!("{error}: {answer:?}"))?;
        Ok(body["ticket"].as_str().ok_or_else(|| format!("no ticket: {answer:?}"))?.to_owned())
    }

    pub(crate) async fn sign_out(self) -> Result<(), Failure> {
        let answer = self.call("DELETE", "/v0/session").send(self.gateway.address()).await?;
        if answer.status == 204 { Ok(()) } else { Err(format!("not signed out: {answer:?}")) }
    }
}
