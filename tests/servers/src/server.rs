//! What one client talks to, and what all clients of this process share.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CompleteRequestParams, CompleteResult, CompletionInfo, Cursor, GetPromptRequestParams,
    GetPromptResponse, Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, LoggingLevel, LoggingMessageNotificationParam, PaginatedRequestParams, ProgressNotificationParam,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use uuid::Uuid;

use crate::answers::{self, ToolResult};
use crate::arguments::Arguments;
use crate::changes::Changes;
use crate::{asking, catalogue, content, ours, prompts, resources, rounds};

pub(crate) type Context = RequestContext<RoleServer>;

/// What the clients of this process have in common.
pub(crate) struct Shared {
    pub(crate) arguments: Arguments,
    pub(crate) changes: Changes,
    /// Whether the tool that comes and goes is there.
    pub(crate) appeared: AtomicBool,
    /// How many calls of `slow` were cancelled.
    pub(crate) cancelled: AtomicU64,
    /// The `requestState`s given out: one that is not among them was made up or altered.
    pub(crate) states: Mutex<HashSet<String>>,
}

impl Shared {
    pub(crate) fn new(arguments: Arguments) -> Self {
        Self {
            arguments,
            changes: Changes::default(),
            appeared: AtomicBool::new(false),
            cancelled: AtomicU64::new(0),
            states: Mutex::default(),
        }
    }
}

/// The server as one session sees it. A stateless request is a session of its own.
pub(crate) struct TestServer {
    pub(crate) shared: Arc<Shared>,
    id: Uuid,
    level: Mutex<LoggingLevel>,
}

impl TestServer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, id: Uuid::new_v4(), level: Mutex::new(LoggingLevel::Debug) }
    }

    /// Sends a log line if the client wants lines of that level. A stateless client says so in each request.
    pub(crate) async fn log(&self, context: &Context, level: LoggingLevel, line: &str) {
        let wanted = match context.meta.protocol_version() {
            Some(_) => context.meta.log_level(),
            None => Some(*self.level.lock()),
        };
        if wanted.is_some_and(|wanted| level as u8 >= wanted as u8) {
            let line = LoggingMessageNotificationParam::new(level, json!(line)).with_logger("rmcp-server");
            // The client may be gone; there is nobody else to tell.
            context.peer.notify_logging_message(line).await.ok();
        }
    }

    /// Sends progress if the client asked for it.
    pub(crate) async fn progress(&self, context: &Context, progress: f64, total: f64, message: &str) {
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, progress).with_total(total).with_message(message);
            context.peer.notify_progress(progress).await.ok();
        }
    }

    fn tools(&self) -> Vec<Tool> {
        catalogue::tools(self.shared.appeared.load(Ordering::Relaxed))
    }

    /// The page of `all` that `request` asks for, and where the next one begins.
    fn page<T>(
        &self,
        all: Vec<T>,
        request: Option<PaginatedRequestParams>,
    ) -> Result<(Vec<T>, Option<Cursor>), ErrorData> {
        let size = self.shared.arguments.page;
        let start = match request.and_then(|request| request.cursor) {
            Some(cursor) => cursor.parse().map_err(|_| answers::invalid(format!("unknown cursor `{cursor}`")))?,
            None => 0,
        };
        let end = usize::saturating_add(start, size);
        let next = (end < all.len()).then(|| end.to_string());
        Ok((all.into_iter().skip(start).take(size).collect(), next))
    }
}

/// A list with the page of what it lists.
macro_rules! listed {
    ($Result:ident, $field:ident, $page:expr) => {{
        let ($field, next_cursor) = $page?;
        Ok($Result { $field, next_cursor, ..Default::default() })
    }};
}

impl ServerHandler for TestServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("rmcp-server", env!("CARGO_PKG_VERSION")))
            .with_instructions("A server for tests.")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(self.shared.arguments.revisions.clone())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        listed!(ListToolsResult, tools, self.page(self.tools(), request))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: Context) -> ToolResult {
        let name = request.name.clone();
        if let Some(blocks) = content::of(&name) {
            return answers::content(blocks);
        }
        if name.starts_with("test_input_required_result_") || name == "test_streaming_elicitation" {
            return rounds::call(&self.shared, request, &context);
        }
        let arguments = request.arguments.unwrap_or_default();
        match name.as_ref() {
            "test_sampling"
            | "test_elicitation"
            | "test_elicitation_sep1034_defaults"
            | "test_elicitation_sep1330_enums"
            | "test_roots"
            | "test_missing_capability" => asking::call(&name, arguments, &context).await,
            _ => ours::call(self, &name, arguments, &context).await,
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        listed!(ListResourcesResult, resources, self.page(resources::resources(), request))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        listed!(ListResourceTemplatesResult, resource_templates, self.page(resources::templates(), request))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(&request.uri).map(ReadResourceResponse::from)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        listed!(ListPromptsResult, prompts, self.page(prompts::prompts(), request))
    }

    async fn get_prompt(&self, request: GetPromptRequestParams, _: Context) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(request)
    }

    async fn complete(&self, request: CompleteRequestParams, _: Context) -> Result<CompleteResult, ErrorData> {
        let begun = &request.argument.value;
        let values = ["paris", "park", "party", "salon"].into_iter().filter(|word| word.starts_with(begun));
        let completion = CompletionInfo::with_all_values(values.map(str::to_owned).collect());
        Ok(CompleteResult::new(completion.map_err(answers::invalid)?))
    }

    async fn set_level(&self, request: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        *self.level.lock() = request.level;
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.shared.changes.enter(self.id, context.peer);
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        self.shared.changes.subscribe(self.id, request.uri);
        Ok(())
    }

    async fn unsubscribe(&self, request: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        self.shared.changes.unsubscribe(self.id, &request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.shared.changes.forward(context).await;
        Ok(())
    }
}
