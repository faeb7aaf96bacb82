//! One sign-in, from a server's challenge to tokens: MCP 2025-11-25, "Authorization", from the client's side.
//!
//! Sans-IO: every input is answered with the next [`SignInStep`], and its owner performs it. Time and randomness are arguments.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;
use reqwest::Url;

use super::challenge::BearerChallenge;
use super::client::{RegisteredClient, registered, registration};
use super::device::{DeviceGrant, DevicePoll, DevicePrompt};
use super::exchange::{Form, OAuthAnswer, OAuthFailure, OAuthRequest};
use super::metadata::{AuthorizationServer, ProtectedResource, resource_addresses, server_addresses};
use super::tokens::{OAuthTokens, TokenTerms, union};
use super::{AuthorizationError, ResourceUrl, SignInWay};

/// What is to be done next.
#[derive(Debug)]
pub(super) enum SignInStep {
    /// Send a request; [`GuestSignIn::answered`] takes the answer.
    Ask(OAuthRequest),
    /// Have a person open the page; [`GuestSignIn::redirected`] takes what the browser comes back with.
    Browse(Url),
    /// Show a code, where there is a new one, and call [`GuestSignIn::waited`] after the time.
    Wait { prompt: Option<DevicePrompt>, time: Duration },
    /// Keep the tokens.
    Done(Box<OAuthTokens>),
}

/// What a sign-in begins with.
pub(super) struct SignInOptions {
    pub(super) resource: ResourceUrl,
    pub(super) challenge: BearerChallenge,
    /// Scopes to ask for beside those of the challenge.
    pub(super) scope: Option<String>,
    pub(super) client: Option<RegisteredClient>,
    pub(super) way: SignInWay,
    /// Where the browser comes back to.
    pub(super) redirect: Option<String>,
    /// Two random words: `state`, and the code verifier of PKCE.
    pub(super) secrets: [String; 2],
}

/// Whether a request of a browser was the one that was waited for.
pub(super) enum RedirectOutcome {
    /// It has nothing to do with this sign-in, and waiting goes on.
    Unrelated,
    /// It ends the waiting.
    Answered(Result<SignInStep, AuthorizationError>),
}

/// A sign-in under way.
pub(super) struct GuestSignIn {
    options: SignInOptions,
    state: SignInState,
    resource: String,
    scope: Option<String>,
}

enum SignInState {
    /// The addresses where metadata may be besides, and the one that was asked.
    FindingResource(VecDeque<Url>, Url),
    /// Issuers, each with an address where its metadata may be.
    FindingServer(VecDeque<(Url, Url)>, Url),
    Registering(AuthorizationServer),
    Browsing(AuthorizationServer, RegisteredClient),
    TradingCode(AuthorizationServer, RegisteredClient),
    AskingDevice(AuthorizationServer, RegisteredClient),
    Polling(AuthorizationServer, RegisteredClient, DeviceGrant),
    Over,
}

impl GuestSignIn {
    pub(super) fn begin(options: SignInOptions) -> Result<(Self, SignInStep), AuthorizationError> {
        let mut addresses = resource_addresses(&options.resource, options.challenge.resource_metadata.as_deref())?;
        let first = addresses.pop_front().ok_or(AuthorizationError::NoMetadata)?;
        let resource = options.resource.as_str().to_owned();
        let state = SignInState::FindingResource(addresses, first.clone());
        Ok((Self { options, state, resource, scope: None }, SignInStep::Ask(OAuthRequest::get(first))))
    }

    /// Takes the answer to the last request, or why there is none. `clock` is in seconds since 1970.
    pub(super) fn answered(
        &mut self,
        answer: Result<OAuthAnswer, AuthorizationError>,
        now: Instant,
        clock: u64,
    ) -> Result<SignInStep, AuthorizationError> {
        match std::mem::replace(&mut self.state, SignInState::Over) {
            SignInState::FindingResource(rest, from) => self.resource_answered(answer, rest, &from),
            SignInState::FindingServer(rest, issuer) => self.server_answered(answer, rest, &issuer),
            SignInState::Registering(server) => {
                let client = registered(&answer?)?;
                self.authorize(server, client)
            }
            SignInState::TradingCode(server, client) => self.done(&answer?, server, client, clock),
            SignInState::AskingDevice(server, client) => {
                let (grant, prompt) = DeviceGrant::read(&answer?, &server.issuer, &self.resource, now)?;
                let time = grant.interval();
                self.state = SignInState::Polling(server, client, grant);
                Ok(SignInStep::Wait { prompt: Some(prompt), time })
            }
            SignInState::Polling(server, client, mut grant) => match grant.polled(answer, now)? {
                DevicePoll::Granted(answer) => self.done(&answer, server, client, clock),
                DevicePoll::Pending => {
                    let time = grant.interval();
                    self.state = SignInState::Polling(server, client, grant);
                    Ok(SignInStep::Wait { prompt: None, time })
                }
            },
            SignInState::Browsing(..) | SignInState::Over => {
                Err(AuthorizationError::Answer("it was not asked for".into()))
            }
        }
    }

    fn resource_answered(
        &mut self,
        answer: Result<OAuthAnswer, AuthorizationError>,
        mut rest: VecDeque<Url>,
        from: &Url,
    ) -> Result<SignInStep, AuthorizationError> {
        let found = answer.and_then(|answer| ProtectedResource::read(&answer, from, &self.options.resource));
        // What the challenge names must be good; the well-known addresses are tried one after the other.
        let named = self.options.challenge.resource_metadata.is_some();
        let (issuers, scopes) = match found {
            Ok(found) => {
                self.resource = found.resource;
                (found.issuers, found.scopes)
            }
            Err(why) if named => return Err(why),
            Err(why) if why.is_answer() => match rest.pop_front() {
                Some(next) => {
                    self.state = SignInState::FindingResource(rest, next.clone());
                    return Ok(SignInStep::Ask(OAuthRequest::get(next)));
                }
                // Revision 2025-03-26 knows no metadata of resources: there the server is its own authorization server.
                None => {
                    let mut origin = self.options.resource.url().clone();
                    origin.set_path("");
                    (vec![origin], Vec::new())
                }
            },
            Err(why) => return Err(why),
        };
        let issuers = match &self.options.client {
            Some(client) => client.own_issuers(issuers)?,
            None => issuers,
        };
        // MCP 2025-11-25, "Scope Selection Strategy".
        let scope = self.options.challenge.scope.clone().or((!scopes.is_empty()).then(|| scopes.join(" ")));
        self.scope = union(scope.as_deref(), self.options.scope.as_deref());
        let each = issuers
            .into_iter()
            .flat_map(|issuer| server_addresses(&issuer).into_iter().map(move |url| (issuer.clone(), url)));
        self.look_for_server(each.collect())
    }

    fn look_for_server(&mut self, mut addresses: VecDeque<(Url, Url)>) -> Result<SignInStep, AuthorizationError> {
        let (issuer, next) = addresses.pop_front().ok_or(AuthorizationError::NoMetadata)?;
        self.state = SignInState::FindingServer(addresses, issuer);
        Ok(SignInStep::Ask(OAuthRequest::get(next)))
    }

    fn server_answered(
        &mut self,
        answer: Result<OAuthAnswer, AuthorizationError>,
        rest: VecDeque<(Url, Url)>,
        issuer: &Url,
    ) -> Result<SignInStep, AuthorizationError> {
        let server = match answer.and_then(|answer| AuthorizationServer::read(&answer, issuer)) {
            Ok(server) => server,
            Err(why) if why.is_answer() => return self.look_for_server(rest),
            // Another server of the list may be within reach.
            Err(AuthorizationError::Unreachable { .. }) if rest.iter().any(|(other, _)| other != issuer) => {
                return self.look_for_server(rest.into_iter().filter(|(other, _)| other != issuer).collect());
            }
            Err(why) => return Err(why),
        };
        let by_device = self.by_device(&server)?;
        if !by_device {
            server.browser_endpoint()?;
        }
        // A token that can be refreshed without the person (OpenID Connect Core §11), where the server has that scope.
        let offline = server.scopes_supported.iter().any(|scope| scope == "offline_access");
        if offline && self.scope.is_some() {
            self.scope = union(self.scope.as_deref(), Some("offline_access"));
        }
        if let Some(client) = self.options.client.clone() {
            let client = client.for_server(&server);
            return self.authorize(server, client);
        }
        let redirect = self.options.redirect.as_deref().filter(|_| !by_device);
        let request = registration(&server, redirect, self.scope.as_deref())?;
        self.state = SignInState::Registering(server);
        Ok(SignInStep::Ask(request))
    }

    fn by_device(&self, server: &AuthorizationServer) -> Result<bool, AuthorizationError> {
        match (self.options.way, server.device_authorization_endpoint.is_some()) {
            (SignInWay::Device, false) => Err(AuthorizationError::NoDeviceFlow),
            (SignInWay::Device | SignInWay::DeviceIfOffered, true) => Ok(true),
            (SignInWay::Browser, _) | (SignInWay::DeviceIfOffered, false) => Ok(false),
        }
    }

    fn authorize(
        &mut self,
        server: AuthorizationServer,
        client: RegisteredClient,
    ) -> Result<SignInStep, AuthorizationError> {
        if self.by_device(&server)? {
            let url = server.device_authorization_endpoint.clone().ok_or(AuthorizationError::NoDeviceFlow)?;
            let form = Form::default().with_some("scope", self.scope.as_deref()).with("resource", &self.resource);
            let request = client.request(url, form);
            self.state = SignInState::AskingDevice(server, client);
            return Ok(SignInStep::Ask(request));
        }
        let mut page = server.browser_endpoint()?.clone();
        let [state, verifier] = &self.options.secrets;
        let form = Form::default()
            .with("response_type", "code")
            .with("client_id", &client.id)
            .with("redirect_uri", self.options.redirect.clone().unwrap_or_default())
            .with("state", state)
            .with("code_challenge", BASE64URL_NOPAD.encode(digest(&SHA256, verifier.as_bytes()).as_ref()))
            .with("code_challenge_method", "S256")
            .with("resource", &self.resource)
            .with_some("scope", self.scope.as_deref());
        let offline = self.scope.as_deref().is_some_and(|scope| scope.split(' ').any(|one| one == "offline_access"));
        // OpenID Connect Core §11: without it the scope is ignored.
        form.with_some("prompt", offline.then_some("consent")).append_to(&mut page);
        self.state = SignInState::Browsing(server, client);
        Ok(SignInStep::Browse(page))
    }

    /// Takes the query that a browser came back with.
    pub(super) fn redirected(&mut self, query: &str) -> RedirectOutcome {
        let mut url = self.options.resource.url().clone();
        url.set_query(Some(query));
        let field = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        // Every page in the browser can send a request here, but none knows the state.
        if field("state").as_deref() != Some(&self.options.secrets[0]) {
            return RedirectOutcome::Unrelated;
        }
        let (server, client) = match std::mem::replace(&mut self.state, SignInState::Over) {
            SignInState::Browsing(server, client) => (server, client),
            other => {
                self.state = other;
                return RedirectOutcome::Unrelated;
            }
        };
        RedirectOutcome::Answered(self.trade(
            server,
            client,
            field("iss"),
            field("error"),
            field("error_description"),
            field("code"),
        ))
    }

    fn trade(
        &mut self,
        server: AuthorizationServer,
        client: RegisteredClient,
        iss: Option<String>,
        error: Option<String>,
        description: Option<String>,
        code: Option<String>,
    ) -> Result<SignInStep, AuthorizationError> {
        // RFC 9207 §2.4.
        let is_ours = match &iss {
            Some(iss) => *iss == server.issuer,
            None => !server.authorization_response_iss_parameter_supported,
        };
        if !is_ours {
            return Err(AuthorizationError::OtherIssuer);
        }
        match (error.as_deref(), code) {
            (Some("access_denied"), _) => Err(AuthorizationError::Denied),
            (Some(error), _) => {
                Err(AuthorizationError::Refused(OAuthFailure::new(error, description.as_deref()).to_string()))
            }
            (None, None) => Err(AuthorizationError::Answer("the browser brought no code".into())),
            (None, Some(code)) => {
                let form = Form::default()
                    .with("grant_type", "authorization_code")
                    .with("code", code)
                    .with("redirect_uri", self.options.redirect.clone().unwrap_or_default())
                    .with("code_verifier", &self.options.secrets[1])
                    .with("resource", &self.resource);
                let request = client.request(server.token_endpoint.clone(), form);
                self.state = SignInState::TradingCode(server, client);
                Ok(SignInStep::Ask(request))
            }
        }
    }

    /// The time of a [`SignInStep::Wait`] is over.
    pub(super) fn waited(&mut self, now: Instant) -> Result<SignInStep, AuthorizationError> {
        match &self.state {
            SignInState::Polling(server, client, grant) => {
                let form = grant.poll(now)?.with("resource", &self.resource);
                Ok(SignInStep::Ask(client.request(server.token_endpoint.clone(), form)))
            }
            _ => Err(AuthorizationError::Expired),
        }
    }

    fn done(
        &self,
        answer: &OAuthAnswer,
        server: AuthorizationServer,
        client: RegisteredClient,
        clock: u64,
    ) -> Result<SignInStep, AuthorizationError> {
        let terms = TokenTerms {
            url: &self.options.resource,
            resource: self.resource.clone(),
            issuer: server.issuer,
            token_endpoint: server.token_endpoint,
            client,
            scope: self.scope.clone(),
        };
        OAuthTokens::granted(answer, terms, clock).map(|tokens| SignInStep::Done(Box::new(tokens)))
    }
}
