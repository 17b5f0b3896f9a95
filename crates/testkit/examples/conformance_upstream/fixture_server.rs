//! The server as an SDK handler: lists the fixtures and dispatches to the modules that implement them.
#![expect(deprecated, reason = "the suite also tests features that the 2026 protocol deprecates")]

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value as Json, json};

use crate::change_notifier::{
    ChangeNotifier, SubscribedResources, WATCHED_RESOURCE, notify_session, notify_subscriber,
};
use crate::client_input::{ClientInput, InputOutcome, is_modern, request_input};
use crate::era::SupportedEras;
use crate::fixtures::{fixtures, from_json, image_block, resource_text};
use crate::sealed_state::Seal;
use crate::skills;
use crate::task_fixtures::TASK_ONLY_TOOLS;
use crate::tool_fixtures::{self, Call};

/// The completion candidates.
const COMPLETION_WORDS: &[&str] =
    &["test", "testify", "testament", "text", "paris", "park", "party"];

/// State that all connections share.
pub struct SharedFixtures {
    /// Reports changes.
    pub notifier: ChangeNotifier,
    /// Runs tasks.
    pub tasks: TaskManager,
    /// Seals state that clients carry.
    pub seal: Seal,
}

/// The server for one connection, or for one request in the modern era.
#[derive(Clone)]
pub struct FixtureServer {
    /// Shared with all other connections.
    pub shared: Arc<SharedFixtures>,
    era: SupportedEras,
    /// The minimum log level of a legacy client.
    level: Arc<Mutex<LoggingLevel>>,
    subscribed: Arc<SubscribedResources>,
}

impl std::fmt::Debug for FixtureServer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("FixtureServer").field("era", &self.era).finish_non_exhaustive()
    }
}

impl FixtureServer {
    /// A server without connections.
    pub fn new(era: SupportedEras) -> FixtureServer {
        let (notifier, tasks, seal) = (ChangeNotifier::new(), TaskManager::new(), Seal::new());
        FixtureServer::with_shared(Arc::new(SharedFixtures { notifier, tasks, seal }), era)
    }

    /// The server for a new connection.
    pub fn for_new_connection(&self) -> FixtureServer {
        FixtureServer::with_shared(self.shared.clone(), self.era)
    }

    fn with_shared(shared: Arc<SharedFixtures>, era: SupportedEras) -> FixtureServer {
        let level = Arc::new(Mutex::new(LoggingLevel::Debug));
        FixtureServer { shared, era, level, subscribed: Arc::default() }
    }

    /// Logs a line to the client if its level permits.
    pub async fn log(&self, context: &RequestContext<RoleServer>, line: &str) {
        let minimum_level = match is_modern(context) {
            true => context.meta.log_level(),
            false => Some(*self.level.lock().expect("no holder of the lock panics")),
        };
        if minimum_level.is_some_and(|it| it as u8 <= LoggingLevel::Info as u8) {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(line));
            let _client_left = context.peer.notify_logging_message(message).await;
        }
    }

    fn tools(&self) -> Vec<Tool> {
        let is_listed =
            |it: &&Tool| self.era.has_tasks() || !TASK_ONLY_TOOLS.contains(&it.name.as_ref());
        let changing = self.shared.notifier.has_tool().then_some(&fixtures().changing_tool);
        fixtures().tools.iter().filter(is_listed).chain(changing).cloned().collect()
    }

    fn prompts(&self) -> Vec<Prompt> {
        let changing = self.shared.notifier.has_prompt().then_some(&fixtures().changing_prompt);
        fixtures().prompts.iter().chain(changing).cloned().collect()
    }
}

impl ServerHandler for FixtureServer {
    fn get_info(&self) -> ServerConfig {
        let mut extensions = ExtensionCapabilities::new();
        extensions.insert(skills::EXTENSION.to_owned(), skills::capability());
        if self.era.has_tasks() {
            extensions.insert(TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        }
        let capabilities: ServerCapabilities = from_json(json!({
            "tools": {"listChanged": true},
            "prompts": {"listChanged": true},
            "resources": {"subscribe": true, "listChanged": true},
            "logging": {},
            "completions": {},
            "extensions": extensions,
        }));
        let mut info = ServerConfig::new(capabilities);
        // The fallback of `initialize`; a modern server has none.
        info.protocol_version = match self.era {
            SupportedEras::Both | SupportedEras::Legacy => ProtocolVersion::LATEST_WITH_INITIALIZE,
            SupportedEras::Modern => ProtocolVersion::LATEST,
        };
        info.server_info = Implementation::new("conformance-upstream", env!("CARGO_PKG_VERSION"));
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.era.versions())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let answer = self.negotiate_initialize(&request)?;
        context.peer.set_peer_info(request);
        let (subscribed, changes) = (self.subscribed.clone(), self.shared.notifier.subscribe());
        // Ends with the connection, at the next change.
        tokio::spawn(async move { notify_session(context.peer, &subscribed, changes).await });
        Ok(answer)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|it| it.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = Call { server: self, params: &request, context: &context };
        tool_fixtures::call(&call).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = fixtures().resources.iter().cloned().chain(skills::resources());
        Ok(ListResourcesResult::with_all_items(resources.collect()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(fixtures().templates.clone()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        match read(&uri) {
            Some(contents) => Ok(ReadResourceResult::new(vec![contents]).into()),
            None => {
                let data = json!({"uri": uri});
                Err(ErrorData::resource_not_found("there is no such resource", Some(data)))
            }
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(self.prompts()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let argument = |name: &str| {
            let value = request.arguments.as_ref().and_then(|it| it.get(name)?.as_str());
            let missing = || ErrorData::invalid_params(format!("`{name}` is missing"), None);
            value.ok_or_else(missing)
        };
        let contents = match request.name.as_str() {
            "test_simple_prompt" => {
                vec![ContentBlock::text("This is a simple prompt for testing.")]
            }
            "test_prompt_with_arguments" => {
                let (first, second) = (argument("arg1")?, argument("arg2")?);
                let text = format!("Prompt with arguments: arg1='{first}', arg2='{second}'");
                vec![ContentBlock::text(text)]
            }
            "test_prompt_with_embedded_resource" => {
                let text = "Embedded resource content for testing.";
                let inside = resource_text(argument("resourceUri")?, "text/plain", text);
                let wish = ContentBlock::text("Please process the embedded resource above.");
                vec![ContentBlock::resource(inside), wish]
            }
            "test_prompt_with_image" => {
                vec![image_block(), ContentBlock::text("Please analyze the image above.")]
            }
            "test_changing_prompt" if self.shared.notifier.has_prompt() => {
                vec![ContentBlock::text("Still here.")]
            }
            "test_input_required_result_prompt" => {
                let message = "What context should the prompt use?";
                let input = ClientInput::field("user_context", message, ("context", "string"));
                match request_input(&context, request.input_responses.as_ref(), &[input]).await? {
                    InputOutcome::Required(later) => return Ok(later.into()),
                    InputOutcome::Responses(answers) => {
                        let answer = &answers["user_context"]["content"]["context"];
                        vec![ContentBlock::text(format!("In this context: {answer}"))]
                    }
                }
            }
            unknown => {
                let message = format!("there is no prompt `{unknown}`");
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        let messages = contents.into_iter().map(|it| PromptMessage::new(Role::User, it));
        Ok(GetPromptResult::new(messages.collect()).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let prefix = request.argument.value;
        let matching = COMPLETION_WORDS.iter().filter(|word| word.starts_with(&prefix));
        let values: Vec<String> = matching.map(|word| (*word).to_owned()).collect();
        let total = values.len();
        let completion = json!({"values": values, "total": total, "hasMore": false});
        Ok(CompleteResult::new(from_json(completion)))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_modern(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.level.lock().expect("no holder of the lock panics") = request.level;
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.add(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        notify_subscriber(&context, self.shared.notifier.subscribe()).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let params = request.params.unwrap_or_default();
        let Some(answer) = skills::respond(&request.method, &params) else {
            let message = format!("there is no method `{}`", request.method);
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None));
        };
        let mut answer = answer?;
        if is_modern(&context) {
            answer["resultType"] = json!("complete");
            let name = "io.modelcontextprotocol/serverInfo";
            answer["_meta"] = json!({name: self.get_info().server_info});
        }
        Ok(CustomResult::new(answer))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.shared.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.shared.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.shared.tasks.cancel_task(&request.task_id)
    }
}

/// The contents of a resource.
fn read(uri: &str) -> Option<ResourceContents> {
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    if let Some(id) = id {
        let data: Json =
            json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
        return Some(resource_text(uri, "application/json", &data.to_string()));
    }
    match uri {
        "test://static-text" => {
            let text = "This is the content of the static text resource.";
            Some(resource_text(uri, "text/plain", text))
        }
        "test://static-binary" => {
            let image = ResourceContents::blob(fixtures().png.clone(), uri);
            Some(image.with_mime_type("image/png"))
        }
        WATCHED_RESOURCE => Some(resource_text(uri, "text/plain", "A resource with subscribers.")),
        _ => skills::read(uri),
    }
}
