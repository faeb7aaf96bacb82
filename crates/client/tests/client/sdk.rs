//! The official Rust SDK in a room: its server as a participant, its client to a peer.
#![expect(deprecated, reason = "sampling is how servers of the legacy era ask back")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    ClientRequest, ContentBlock, CreateMessageRequestParams, CreateMessageResult, Implementation, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, SamplingMessage, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient, RoleServer, ServerHandler, ServiceExt};
use salon_client::rmcp::Server;
use salon_client::{CallError, ToolCall};
use salon_testkit::within;
use serde_json::json;
use tokio::sync::mpsc;

use crate::peers::{count, echo, stuck, until_sent};
use crate::stage::{entering, gateway, id};

/// An rmcp server. Each caller has its own count; it tells when it is dropped.
struct Counter {
    calls: Arc<AtomicU32>,
    told: mpsc::Sender<&'static str>,
}

fn server() -> (Server<impl Fn() -> Counter + Send + Sync + 'static>, mpsc::Receiver<&'static str>) {
    let (told, hearing) = mpsc::channel(16);
    (Server::new(move || Counter { calls: Arc::default(), told: told.clone() }), hearing)
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = self.told.try_send("ended");
    }
}

impl ServerHandler for Counter {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::default();
        info.capabilities = ServerCapabilities::builder().enable_tools().build();
        info.server_info = Implementation::new("counter", "1.0.0");
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Arc::new(json!({"type": "object"}).as_object().cloned().unwrap_or_default());
        let tools = ["count", "wait", "ask"].map(|name| Tool::new(name, "", schema.clone()));
        Ok(ListToolsResult::with_all_items(tools.into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = match &*request.name {
            "count" => {
                let count = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
                if let Some(token) = context.meta.get_progress_token() {
                    let half = ProgressNotificationParam::new(token, 0.5).with_total(1.0).with_message("half");
                    context.peer.notify_progress(half).await.map_err(internal)?;
                }
                format!("call {count}")
            }
            "wait" => {
                self.told.send("begun").await.map_err(internal)?;
                context.ct.cancelled().await;
                self.told.send("cancelled").await.map_err(internal)?;
                "too late".into()
            }
            "ask" => {
                let question = CreateMessageRequestParams::new(vec![SamplingMessage::user_text("a word")], 10);
                let answer = context.peer.create_message(question).await.map_err(internal)?;
                json!(answer.message.content)["text"].as_str().unwrap_or_default().to_owned()
            }
            name => return Err(ErrorData::invalid_params(format!("there is no `{name}`"), None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// An rmcp client that answers questions and keeps what it hears.
#[derive(Clone)]
struct Person {
    progress: mpsc::Sender<f64>,
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        info.capabilities = ClientCapabilities::builder().enable_sampling().build();
        info
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("hello"), "a model".into()))
    }

    async fn on_progress(&self, told: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let _ = self.progress.try_send(told.progress);
    }
}

fn text_of(result: CallToolResult) -> String {
    json!(result)["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn an_rmcp_server_serves_each_caller_by_itself() {
    let gateway = gateway().await;
    let (counter, mut told) = server();
    let _bob = entering(&gateway, "bob").offer(counter).join().await.unwrap();
    let alice = entering(&gateway, "alice").join().await.unwrap();
    let carol = entering(&gateway, "carol").join().await.unwrap();
    let (alices, carols) = (alice.peer(&id("bob")), carol.peer(&id("bob")));

    assert_eq!(alices.server().await.unwrap().server_info.as_ref().unwrap().name, "counter");
    assert_eq!(alices.tools().await.unwrap().len(), 3);
    for (peer, text) in [(&alices, "call 1"), (&alices, "call 2"), (&carols, "call 1")] {
        let (tell, mut progress) = mpsc::channel(4);
        let call = peer.call_tool("count", &json!({})).on_progress(move |at| tell.try_send(at).unwrap());
        assert_eq!(within("an answer", call.into_future()).await.unwrap().unwrap().text(), text);
        let half = progress.recv().await.unwrap();
        assert_eq!((half.progress, half.total, half.message.as_deref()), (0.5, Some(1.0), Some("half")));
    }
    let refused = alices.call_tool("nothing", &()).await.unwrap_err();
    assert!(matches!(refused, CallError::Answered(ref error) if error.code == -32602), "{refused}");

    let waiting = alices.call_tool("wait", &()).start().await.unwrap();
    assert_eq!(within("the tool", told.recv()).await.unwrap(), Some("begun"));
    waiting.cancel("enough").await;
    assert_eq!(within("the tool", told.recv()).await.unwrap(), Some("cancelled"));
    // A participant that leaves is forgotten, and starts at one when it comes back.
    alice.leave().await;
    assert_eq!(within("the end of its service", told.recv()).await.unwrap(), Some("ended"));
    let alice = entering(&gateway, "alice").join().await.unwrap();
    assert_eq!(alice.peer(&id("bob")).call_tool("count", &()).await.unwrap().text(), "call 1");
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn an_rmcp_client_talks_to_a_peer() {
    let gateway = gateway().await;
    let (stuck, mut told) = stuck();
    let counting = stuck.tool("count", "Counts", json!({"type": "object"}), |call: ToolCall| async move {
        call.progress(0.5, Some(1.0), None).await;
        let said = call.sample(&salon_client::mcp::Sampling::new([], 10)).await?;
        Ok(said.content.as_text().unwrap_or_default().into())
    });
    let bob = entering(&gateway, "bob").offer(counting.clone()).join().await.unwrap();
    let (alice, mut events) = entering(&gateway, "alice").join_listening().await.unwrap();
    let (progress, mut heard) = mpsc::channel(4);
    let client = Person { progress }.serve(alice.rmcp_client_transport(&id("bob"))).await.unwrap();
    let tools = within("the list", client.list_all_tools()).await.unwrap().unwrap();
    assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["count", "wait"]);

    let result = within("the call", client.call_tool(CallToolRequestParams::new("count"))).await.unwrap().unwrap();
    assert_eq!(text_of(result), "hello");
    assert_eq!(within("progress", heard.recv()).await.unwrap(), Some(0.5));
    // The room's own calls go on beside it, with numbers of their own.
    assert_eq!(alice.peer(&id("bob")).tools().await.unwrap().len(), 2);

    let request = ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new("wait")));
    let running = client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap();
    assert_eq!(within("the tool", told.recv()).await.unwrap(), Some("begun"));
    running.cancel(Some("enough".into())).await.unwrap();
    assert_eq!(within("the tool", told.recv()).await.unwrap(), Some("dropped"));
    until_sent(&mut events, "alice", "notifications/cancelled").await;

    let failed = client.call_tool(CallToolRequestParams::new("nothing")).await.unwrap_err();
    assert!(failed.to_string().contains("there is no tool `nothing` here"), "{failed}");

    // When the peer leaves, the client is notified at once.
    bob.leave().await;
    within("the end", client.waiting()).await.unwrap().unwrap();
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn an_rmcp_client_and_an_rmcp_server_meet() {
    let gateway = gateway().await;
    let (counter, _told) = server();
    let bob = entering(&gateway, "bob").offer(counter).join().await.unwrap();
    // It has tools of its own as well, and is asked nothing that is meant for the client.
    let alice = entering(&gateway, "alice").offer(echo()).join().await.unwrap();
    let (progress, mut heard) = mpsc::channel(4);
    let client = Person { progress }.serve(alice.rmcp_client_transport(&id("bob"))).await.unwrap();
    let asked = within("the call", client.call_tool(CallToolRequestParams::new("ask"))).await.unwrap().unwrap();
    assert_eq!(text_of(asked), "hello");
    let counted = within("the call", client.call_tool(CallToolRequestParams::new("count"))).await.unwrap().unwrap();
    assert_eq!(text_of(counted), "call 1");
    assert_eq!(within("progress", heard.recv()).await.unwrap(), Some(0.5));
    assert_eq!(count(&alice, "bob", "sampling/createMessage").await, 1);
    client.cancel().await.unwrap();
    // With the client gone nobody answers for it.
    let bobs_view = bob.request(&id("alice"), "sampling/createMessage", &json!({})).await.unwrap().result().await;
    assert!(matches!(bobs_view, Err(CallError::Answered(ref error)) if error.code == -32601), "{bobs_view:?}");
    gateway.stop().await.unwrap();
}
