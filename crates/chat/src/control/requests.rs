//! Answers the control requests of a program. `session` owns what changes a running turn.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value as Json, json};
use switchboard::config::permission::{self, PermissionMode};
use switchboard::connection::Status;
use switchboard::permission::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use switchboard::pool::naming::{NameOrigin, prefix, sanitise};
use switchboard::{CallContext, Host, ReadResource, ServerView, Snapshot, ToolCall};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::control::backend::{
    InitializeFields, ModelSelection, ProgramServers, ServerChanges, SessionBackend,
    SystemPromptChange, ThinkingLimit, Toggle, UnusedServer,
};
use crate::control::change_order::ChangeTurn;
use crate::control::frame_limit::{TOO_LARGE, fits_answer};
use crate::control::frames::{EMULATED_VERSION, usage_json};
use crate::control::hook_table::HookTable;
use crate::control::incoming::IncomingRequest;
use crate::control::peer::{ControlPeer, RequestFailure};
use crate::control::sdk_servers::SdkServers;
use crate::control::session_command::SessionCommand;
use crate::control::state::{BypassMode, OpenRequest, SharedState, mode_id, parse_mode};
use crate::conversation::handle::Conversation;
use crate::conversation::result_content;
use crate::conversation::structured_output::StructuredOutput;

/// The characters of a text that make one token, roughly.
const CHARS_PER_TOKEN: usize = 4;
/// Fields of `initialize` that change something only in the program whose protocol this is.
const UNUSED_FIELDS: [&str; 6] =
    ["agents", "skills", "toolAliases", "planModeInstructions", "title", "excludeDynamicSections"];
/// The error code of a request that is not known.
const UNSUPPORTED: &str = "unsupported_request";

/// What the requests of a session work on.
pub(crate) struct RequestContext {
    pub(crate) host: Host,
    pub(crate) peer: ControlPeer,
    pub(crate) backend: Arc<dyn SessionBackend>,
    pub(crate) servers: SdkServers,
    pub(crate) conversation: Conversation,
    pub(crate) state: SharedState,
    /// Decides about the calls of the model.
    pub(crate) prompt: Arc<dyn PermissionPrompt>,
    pub(crate) commands: mpsc::Sender<SessionCommand>,
    pub(crate) bypass: BypassMode,
}

/// Allows what the rules would ask about: for calls that the program makes for itself. A tool whose definition has changed
/// is not approved for the model by such a call, which shows no one the change.
pub(crate) struct AllowAll;

impl PermissionPrompt for AllowAll {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        let decision = match &request.definition_diff {
            Some(_) => PermissionDecision::Deny(request.because.clone()),
            None => PermissionDecision::Allow {
                decided_by: "the program made the call for itself".to_owned(),
                scope: GrantScope::Once,
            },
        };
        Box::pin(std::future::ready(decision))
    }
}

type Outcome = Result<Json, RequestFailure>;

impl RequestContext {
    /// Answers a request when its turn comes, unless the program has withdrawn it. Returns its id.
    pub(crate) async fn answer(&self, request: IncomingRequest, mut turn: ChangeTurn) -> String {
        let IncomingRequest { id, subtype, body } = request;
        turn.begin().await;
        let outcome = self.outcome(&subtype, &body, turn).await;
        // Before the answer: the program may use the id again once it has it.
        let open = self.state.update(|it| it.open_requests.remove(&id));
        if open == Some(OpenRequest::Wanted) {
            match subtype.as_str() {
                "initialize" => self.respond_to_initialize(&id, outcome).await,
                _ => self.peer.respond(&id, outcome).await,
            }
        }
        id
    }

    /// The answer to `initialize` contains the permission requests that are open: a program that sends it again may have
    /// lost them.
    pub(crate) async fn respond_to_initialize(&self, id: &str, outcome: Outcome) {
        let open: Vec<Json> = self.state.read(|it| it.open_questions.values().cloned().collect());
        let pending =
            json!({"pending_permission_requests": open, "pending_user_dialog_requests": []});
        self.peer.respond_with(&id.into(), outcome, pending).await;
    }

    /// Does what a request says. Later changes may begin once `turn` is dropped.
    async fn outcome(&self, subtype: &str, body: &Json, turn: ChangeTurn) -> Outcome {
        match subtype {
            "initialize" => self.initialize(body).await,
            "set_permission_mode" => self.set_mode(required(body, "mode")?).await,
            "set_model" => self.set_model(body).await,
            "set_max_thinking_tokens" => self.set_thinking(body).await,
            "mcp_status" => Ok(json!({"mcpServers": self.server_statuses()})),
            "mcp_reconnect" => self.reconnect(required(body, "serverName")?).await,
            "mcp_toggle" => {
                self.toggle(required(body, "serverName")?, &body["enabled"], turn).await
            }
            "mcp_set_servers" => self.set_servers(body, turn).await,
            "mcp_message" => self.server_message(body).await,
            "mcp_call" => self.call(body).await,
            "mcp_read_resource" => self.read_resource(body).await,
            "mcp_authenticate" => self.authenticate(required(body, "serverName")?),
            "rewind_files" => Err(RequestFailure::new("File rewinding is not enabled.")),
            "get_context_usage" => Ok(self.context_usage()),
            "list_permission_rules" => Ok(self.rules()),
            "get_settings" => Ok(self.settings()),
            "list_models" => Ok(json!({"models": self.backend.models()})),
            "get_binary_version" => Ok(
                json!({"version": EMULATED_VERSION, "switchboard_version": self.backend.version()}),
            ),
            "get_session_cost" => Ok(self.cost()),
            "reload_plugins" => self.reload().await,
            "stop_task" => Ok(json!({})),
            _ => Err(RequestFailure {
                message: format!("Unsupported control request subtype: {subtype}"),
                code: Some(UNSUPPORTED),
            }),
        }
    }

    /// The answer to `initialize`, after everything in it has been set up.
    pub(crate) async fn initialize(&self, body: &Json) -> Outcome {
        let fields = initialize_fields(body)?;
        let structured_output = answer_schema(body)?;
        // The SDKs end a session that does not confirm them.
        let applied = [
            ("disallowed_tools_applied", !body["disallowedTools"].is_null()),
            ("settings_applied", fields.settings.is_some()),
            ("mcp_servers_applied", !body["mcpServers"].is_null()),
        ];
        self.apply_fields(fields).await?;
        let table = HookTable::parse(&body["hooks"]);
        if !table.unsupported.is_empty() {
            let names = table.unsupported.join(", ");
            self.backend.warn(&format!("hooks for these events are never called: {names}"));
        }
        self.state.update(|it| it.hook_table = Arc::new(table));
        let unused: Vec<&str> =
            UNUSED_FIELDS.into_iter().filter(|it| is_given(&body[*it])).collect();
        if !unused.is_empty() {
            let names = unused.join(", ");
            self.backend.warn(&format!("fields of `initialize` have no effect here: {names}"));
        }
        let texts = |value: &Json| match value {
            Json::String(text) => Some(text.clone()),
            Json::Array(parts) => {
                let parts: Vec<&str> = parts.iter().filter_map(Json::as_str).collect();
                Some(parts.join("\n\n"))
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => None,
        };
        let change = SystemPromptChange {
            replacement: texts(&body["systemPrompt"]),
            appended: texts(&body["appendSystemPrompt"]),
        };
        if change != SystemPromptChange::default() {
            let prompt = self.backend.system_prompt(&change);
            self.conversation.set_system_prompt(prompt.into()).await;
        }
        if let Some(output) = structured_output {
            self.conversation.set_structured_output(output).await;
        }
        let hosted = hosted_servers(body);
        if !hosted.is_empty() {
            match self.backend.set_servers(ProgramServers::Hosted(hosted)).await {
                Ok(changes) => {
                    for (name, why) in changes.errors {
                        let text =
                            format!("the server `{name}` of the program cannot be used: {why}");
                        self.backend.warn(&text);
                    }
                }
                Err(why) => {
                    self.backend.warn(&format!("the servers of the program cannot be used: {why}"));
                }
            }
        }
        let mut answer = json!({
            "commands": self.prompts(),
            "agents": [],
            "output_style": "default",
            "available_output_styles": ["default"],
            "models": self.backend.models(),
            "account": {"apiKeySource": self.backend.api_key_source()},
            "pid": std::process::id(),
            "claude_code_version": EMULATED_VERSION,
            "switchboard_version": self.backend.version(),
            "current_permission_mode": self.state.read(|it| it.mode_id()),
            "hooks_applied": true,
            "hook_on_failure_supported": true,
            "session_state": self.state.read(|it| it.state.id()),
            "capabilities": [],
        });
        for (name, _) in applied.into_iter().filter(|it| it.1) {
            answer[name] = true.into();
        }
        Ok(answer)
    }

    async fn apply_fields(&self, fields: InitializeFields) -> Result<(), RequestFailure> {
        if fields == InitializeFields::default() {
            return Ok(());
        }
        let has_settings = fields.settings.is_some();
        let applied = self.backend.apply_fields(fields).await.map_err(RequestFailure::new)?;
        if let Some(mode) = applied.mode {
            self.set_mode(mode_id(mode)).await?;
        }
        if has_settings {
            // A model that cannot be used says so when it is asked.
            let _unusable = self.use_model(ModelSelection::default()).await;
        }
        Ok(())
    }

    pub(crate) async fn set_mode(&self, text: &str) -> Outcome {
        let mode = parse_mode(text)
            .ok_or_else(|| RequestFailure::new(format!("`{text}` is not a permission mode")))?;
        if mode == PermissionMode::Bypass && self.bypass == BypassMode::Unavailable {
            return Err(RequestFailure::new(
                "the mode bypassPermissions is only available with --dangerously-skip-permissions or \
                 --allow-dangerously-skip-permissions",
            ));
        }
        let rules = self.state.read(|it| it.call_context.rules.current());
        if rules.effective_mode(mode) != mode {
            let message = format!("the administrator's settings forbid the mode {text}");
            return Err(RequestFailure::new(message));
        }
        let context = self.state.update(|it| {
            let changed = CallContext { mode, ..CallContext::clone(&it.call_context) };
            it.call_context = Arc::new(changed);
            it.call_context.clone()
        });
        let of_model = CallContext { prompt: self.prompt.clone(), ..CallContext::clone(&context) };
        self.conversation.set_call_context(Arc::new(of_model));
        let frame = self.state.update(|it| {
            it.mode = mode;
            it.frames.system("status", json!({"status": null, "permissionMode": mode_id(mode)}))
        });
        self.peer.send(&frame).await;
        Ok(json!({"mode": mode_id(mode)}))
    }

    async fn set_model(&self, body: &Json) -> Outcome {
        let name = match &body["model"] {
            Json::Null => String::new(),
            Json::String(name) if name == "default" => String::new(),
            Json::String(name) => name.clone(),
            Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                return Err(RequestFailure::new("`model` must be a text or null"));
            }
        };
        let selection = ModelSelection { name: Some(name), ..ModelSelection::default() };
        let name = self.use_model(selection).await?;
        Ok(json!({"model": name}))
    }

    async fn set_thinking(&self, body: &Json) -> Outcome {
        let tokens = &body["max_thinking_tokens"];
        let max_thinking_tokens = match (tokens.is_null(), tokens.as_u64()) {
            (true, _) => ThinkingLimit::Configured,
            (false, Some(tokens)) => ThinkingLimit::Tokens(tokens),
            (false, None) => {
                let message = "`max_thinking_tokens` must be a whole number or null";
                return Err(RequestFailure::new(message));
            }
        };
        let max_thinking_tokens = Some(max_thinking_tokens);
        self.use_model(ModelSelection { max_thinking_tokens, ..ModelSelection::default() }).await?;
        Ok(Json::Null)
    }

    async fn use_model(&self, selection: ModelSelection) -> Result<String, RequestFailure> {
        let model = self.backend.open_model(selection).await.map_err(RequestFailure::new)?;
        let name = model.name().to_owned();
        self.state.update(|it| it.model_name.clone_from(&name));
        self.conversation.set_model(Some(model.clone())).await;
        let _session_ended = self.commands.send(SessionCommand::ModelChanged(model)).await;
        Ok(name)
    }

    /// The servers that a program sees.
    pub(crate) fn listed_servers(&self) -> Vec<Arc<ServerView>> {
        let snapshot = self.host.snapshot();
        let servers = snapshot.servers.values().filter(|it| !self.backend.is_built_in(&it.name));
        servers.cloned().collect()
    }

    pub(crate) fn tool_names(&self) -> Vec<String> {
        let pool = self.host.pool();
        pool.tools().iter().map(|it| it.exposed_name.clone()).collect()
    }

    /// The prompts of servers as commands.
    fn prompts(&self) -> Vec<Json> {
        let pool_prompts = self.listed_servers();
        let mut commands = Vec::new();
        for view in &pool_prompts {
            for (name, prompt) in prompt_commands(view) {
                let arguments = prompt["arguments"].as_array().into_iter().flatten();
                let hint: Vec<&str> = arguments.filter_map(|it| it["name"].as_str()).collect();
                commands.push(json!({
                    "name": name,
                    "description": prompt["description"].as_str().unwrap_or_default(),
                    "argumentHint": hint.join(" "),
                }));
            }
        }
        commands
    }

    pub(crate) fn command_names(&self) -> Vec<String> {
        let servers = self.listed_servers();
        servers.iter().flat_map(|view| prompt_commands(view)).map(|it| it.0).collect()
    }

    fn server_statuses(&self) -> Vec<Json> {
        let pool = self.host.pool();
        let servers = self.listed_servers();
        let status = |view: &Arc<ServerView>| {
            let mut status = json!({
                "name": view.name,
                "status": status_word(&view.status),
                "transport": view.transport.id(),
                "scope": view.scope.id(),
                "source": self.backend.server_source(&view.name),
            });
            if let Some(info) = &view.server_info {
                status["serverInfo"] = json!({"name": info.name, "version": info.server_version});
            }
            if let Some(cause) = view.status.cause() {
                let remedy = cause.remedy(&view.name);
                status["error"] = format!("{}; {remedy}", failure_text(cause)).into();
            }
            let tools = pool.tools().iter().filter(|it| it.server == view.name);
            let tools = tools.map(|tool| {
                let hints = &tool.annotations;
                json!({"name": tool.name, "description": tool.description, "annotations": {
                    "readOnly": hints.read_only, "destructive": hints.destructive,
                    "openWorld": hints.open_world,
                }})
            });
            status["tools"] = tools.collect();
            status
        };
        let unused = self.backend.unused_servers().into_iter();
        let unused = unused.filter(|it| !servers.iter().any(|view| view.name == it.name));
        let unused = unused.map(|UnusedServer { name, status, why }| {
            let source = self.backend.server_source(&name);
            let mut listed =
                json!({"name": name, "status": status.id(), "source": source, "tools": []});
            if let Some(why) = why {
                listed["error"] = why.into();
            }
            listed
        });
        servers.iter().map(status).chain(unused).collect()
    }

    fn find_server(&self, name: &str) -> Result<Arc<ServerView>, RequestFailure> {
        let found = self.listed_servers().into_iter().find(|it| it.name == name);
        found.ok_or_else(|| RequestFailure::new(format!("Server not found: {name}")))
    }

    async fn reconnect(&self, name: &str) -> Outcome {
        self.find_server(name)?;
        let mut snapshots = self.host.watch();
        let before = snapshots.borrow_and_update().servers.get(name).cloned();
        if self.host.reconnect(name).await.is_none() {
            return Err(RequestFailure::new(format!("Server not found: {name}")));
        }
        // Until then the old connection looks like a new one.
        let is_replaced = |snapshot: &Arc<Snapshot>| match (snapshot.servers.get(name), &before) {
            (Some(now), Some(before)) => !Arc::ptr_eq(now, before) && now.status.is_settled(),
            (_, _) => true,
        };
        // A value of the channel must not be held while anything waits.
        let replaced = async { snapshots.wait_for(is_replaced).await.is_ok() };
        let _too_slow = timeout(self.host.connect_timeout(name), replaced).await;
        match self.host.ensure_connected(name).await {
            Ok(()) => Ok(Json::Null),
            Err(error) => {
                let cause = self.find_server(name)?.status.cause().map(|it| failure_text(it));
                Err(RequestFailure::new(cause.unwrap_or_else(|| error.to_string())))
            }
        }
    }

    async fn toggle(&self, name: &str, enabled: &Json, turn: ChangeTurn) -> Outcome {
        let toggle = match enabled.as_bool() {
            Some(true) => Toggle::Enabled,
            Some(false) => Toggle::Disabled,
            None => return Err(RequestFailure::new("`enabled` must be true or false")),
        };
        self.backend.toggle_server(name, toggle).await.map_err(RequestFailure::new)?;
        drop(turn);
        if toggle == Toggle::Enabled {
            // The program reads the status next; a server that fails says so there.
            let _not_connected = self.host.ensure_connected(name).await;
        }
        Ok(Json::Null)
    }

    async fn set_servers(&self, body: &Json, turn: ChangeTurn) -> Outcome {
        let servers = body["servers"].as_object().cloned();
        let servers =
            servers.ok_or_else(|| RequestFailure::new("`servers` must be an object of entries"))?;
        let changes = self.backend.set_servers(ProgramServers::Replaced(servers)).await;
        let ServerChanges { added, removed, errors } = changes.map_err(RequestFailure::new)?;
        // To connect takes time, and the next change may end it.
        drop(turn);
        let mut errors: Map<String, Json> =
            errors.into_iter().map(|(name, why)| (name, why.into())).collect();
        for name in &added {
            if let Err(error) = self.host.ensure_connected(name).await {
                let view = self.find_server(name).ok();
                // The state may not be published yet.
                let cause = view.and_then(|it| it.status.cause().map(|it| failure_text(it)));
                errors.insert(name.clone(), cause.unwrap_or_else(|| error.to_string()).into());
            }
        }
        self.host.settled_pool().await;
        Ok(json!({"added": added, "removed": removed, "errors": errors}))
    }

    async fn server_message(&self, body: &Json) -> Outcome {
        let server = required(body, "server_name")?;
        let message = Bytes::from(body["message"].to_string());
        match self.servers.deliver(server, message).await {
            true => Ok(json!({})),
            false => Err(RequestFailure::new(format!("Server not found: {server}"))),
        }
    }

    /// Calls a tool for the program itself: the model does not see it.
    async fn call(&self, body: &Json) -> Outcome {
        let server = server_name(body);
        let tool = body["tool_name"].as_str().or(body["tool"].as_str()).unwrap_or_default();
        let pool = self.host.pool();
        let exposed = || pool.find(tool).filter(|it| it.server == server);
        let found = pool.find_by_server(server, tool).or_else(exposed);
        let Some(found) = found else {
            let message = format!("Tool not found: {tool} of {server}");
            return Err(RequestFailure::new(message));
        };
        let arguments = [&body["arguments"], &body["input"]].into_iter().find(|it| it.is_object());
        let arguments = arguments.cloned().unwrap_or_else(|| json!({}));
        let call = ToolCall {
            caller: "program".to_owned(),
            ..ToolCall::new(&found.exposed_name, arguments)
        };
        let context = self.state.read(|it| it.call_context.clone());
        let output = self.host.call_with(&context, call).await;
        let output = output
            .map_err(|error| RequestFailure::new(result_content::from_failure(&error).text))?;
        let result = result_content::from_output(output);
        let content: Vec<Json> =
            result.content.iter().filter_map(crate::control::frames::block_json).collect();
        let answer = json!({"content": content, "isError": result.is_error});
        let mut whole = answer.clone();
        if let (Some(whole), Some(Json::Object(details))) = (whole.as_object_mut(), result.details)
        {
            whole.extend(details);
        }
        // A part of the details would be taken for all of them.
        Ok(if fits_answer(&whole) { whole } else { answer })
    }

    async fn read_resource(&self, body: &Json) -> Outcome {
        let server = server_name(body);
        let uri = required(body, "uri")?;
        let view = self.find_server(server)?;
        let rules = self.state.read(|it| it.call_context.rules.current());
        let named = prefix(&view.name, NameOrigin::of(view.scope));
        if let Some(reason) = permission::server_hidden_by(&rules, &named) {
            return Err(RequestFailure::new(reason.without_paths()));
        }
        let read = self.host.read_resource_raw(server, ReadResource::new(uri)).await;
        let raw = read.map_err(|error| RequestFailure::new(error.to_string()))?;
        let result: Json = raw.decode().map_err(|error| RequestFailure::new(error.to_string()))?;
        let has_blob = result["contents"].as_array().into_iter().flatten().any(is_blob);
        // A part of a text is marked as one; a part of a blob would be taken for the whole.
        match has_blob && !fits_answer(&result) {
            true => Err(RequestFailure::new(TOO_LARGE)),
            false => Ok(result),
        }
    }

    fn authenticate(&self, name: &str) -> Outcome {
        self.find_server(name)?;
        let message = format!("sign in with `swb login {name}`, then reconnect the server");
        Err(RequestFailure::new(message))
    }

    fn context_usage(&self) -> Json {
        let status = self.conversation.status();
        let pool = self.host.pool();
        let tool_chars = pool.tools().iter().filter(|it| !pool.is_deferred(it)).map(|it| {
            it.exposed_name.len() + it.description.len() + it.input_schema.as_bytes().len()
        });
        let tools = tool_chars.sum::<usize>() / CHARS_PER_TOKEN;
        let tools = u64::try_from(tools).unwrap_or(u64::MAX).min(status.context_tokens.max(1));
        let messages = status.context_tokens.saturating_sub(tools);
        let category = |id: &str, name: &str, tokens: u64| json!({"id": id, "name": name, "tokens": tokens, "kind": "used"});
        json!({
            "categories": [
                category("mcp_tools", "Tools (estimated)", tools),
                category("messages", "System prompt and messages", messages),
            ],
            "totalTokens": status.context_tokens,
            "model": self.state.read(|it| it.model_name.clone()),
        })
    }

    fn rules(&self) -> Json {
        let rules = self.state.read(|it| it.call_context.rules.current());
        let rules = rules.entries().iter().map(|entry| {
            json!({
                "behavior": entry.effect.id(),
                "source": entry.origin.scope().id(),
                "rule": self.backend.rule_text(&entry.rule).to_text(),
                "editability": "read_only",
            })
        });
        json!({"state": {
            "rules": rules.collect::<Vec<_>>(), "mode": self.state.read(|it| it.mode_id()),
        }})
    }

    fn settings(&self) -> Json {
        self.state.read(|it| {
            json!({
                "model": it.model_name,
                "permissionMode": it.mode_id(),
                "cwd": it.folder,
                "sessionId": it.frames.session_id,
            })
        })
    }

    fn cost(&self) -> Json {
        let usage = self.state.read(|it| it.total_usage);
        json!({"total_cost_usd": 0.0, "usage": usage_json(&usage)})
    }

    async fn reload(&self) -> Outcome {
        self.backend.reload().await.map_err(RequestFailure::new)?;
        Ok(json!({"commands": self.prompts(), "agents": [], "plugins": self.backend.plugins(),
            "mcpServers": self.server_statuses(), "error_count": 0}))
    }
}

/// Reads the fields that take the place of options of the command line. What would be lost in part is an error.
fn initialize_fields(body: &Json) -> Result<InitializeFields, RequestFailure> {
    let wrong = |name: &str, kind: &str| RequestFailure::new(format!("`{name}` must be {kind}"));
    let disallowed_tools = match &body["disallowedTools"] {
        Json::Null => Some(Vec::new()),
        Json::Array(rules) => rules.iter().map(|it| it.as_str().map(str::to_owned)).collect(),
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => None,
    };
    let settings = match &body["settings"] {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        settings @ Json::Object(_) => Some(settings.to_string()),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) => {
            return Err(wrong("settings", "an object or a text"));
        }
    };
    let servers = match &body["mcpServers"] {
        Json::Null => Map::new(),
        Json::Object(servers) => servers.clone(),
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            return Err(wrong("mcpServers", "an object"));
        }
    };
    Ok(InitializeFields {
        disallowed_tools: disallowed_tools
            .ok_or_else(|| wrong("disallowedTools", "a list of texts"))?,
        settings,
        servers,
    })
}

/// Does a field say anything?
fn is_given(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(value) => *value,
        Json::Number(_) => true,
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(members) => !members.is_empty(),
    }
}

/// The schema of the answers, where the program wants JSON.
fn answer_schema(body: &Json) -> Result<Option<StructuredOutput>, RequestFailure> {
    match &body["jsonSchema"] {
        Json::Null => Ok(None),
        schema @ Json::Object(_) => Ok(Some(StructuredOutput::new(schema.clone()))),
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Err(RequestFailure::new("`jsonSchema` must be an object"))
        }
    }
}

/// The servers that the program hosts, as entries: their names, and what the program says about them besides. A value of
/// a wrong type counts as absent.
fn hosted_servers(body: &Json) -> Map<String, Json> {
    let names = body["sdkMcpServers"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let entry = |name: &str| {
        let mut entry = json!({"type": "sdk", "name": name});
        let settings = &body["sdkMcpServerConfigs"][name];
        if settings["timeout"].is_number() {
            entry["timeout"] = settings["timeout"].clone();
        }
        if settings["tools"].is_array() {
            entry["tools"] = settings["tools"].clone();
        }
        (name.to_owned(), entry)
    };
    names.map(entry).collect()
}

/// The server that a request names. Requests do not agree on the member.
fn server_name(body: &Json) -> &str {
    let names = ["serverName", "server_name", "server"].into_iter();
    names.filter_map(|name| body[name].as_str()).next().unwrap_or_default()
}

fn is_blob(contents: &Json) -> bool {
    contents["blob"].is_string()
}

fn required<'a>(body: &'a Json, name: &str) -> Result<&'a str, RequestFailure> {
    body[name].as_str().ok_or_else(|| RequestFailure::new(format!("`{name}` is missing")))
}

fn failure_text(failure: &switchboard::ConnectionFailure) -> String {
    failure.without_paths()
}

/// The prompts of a server: the name as a command, and the definition.
fn prompt_commands(view: &ServerView) -> Vec<(String, Json)> {
    use switchboard::catalogue::ListKind;
    let server = prefix(&view.name, NameOrigin::of(view.scope));
    let items = view.catalogue.items(ListKind::Prompts).iter();
    let command = |it: &switchboard::catalogue::ListItem| {
        let definition = it.raw.decode::<Json>().unwrap_or_default();
        (format!("mcp__{server}__{}", sanitise(&it.name)), definition)
    };
    items.map(command).collect()
}

/// The status of a server in the words of the SDKs, which have none for a refused session.
pub(crate) fn status_word(status: &Status) -> &'static str {
    match status {
        Status::SessionRefused(_) => "failed",
        Status::Pending { .. }
        | Status::Connected
        | Status::Failed(_)
        | Status::NeedsAuth(_)
        | Status::Disabled => status.id(),
    }
}

#[cfg(test)]
mod tests {
    use crate::control::subtypes::ACCEPTED_REQUESTS;

    #[test]
    fn the_list_names_the_requests_that_are_answered_here_and_by_the_session() {
        let source = include_str!("requests.rs");
        let (_, dispatch) = source.split_once("match subtype {").expect("it is there");
        let (dispatch, _) = dispatch.split_once("_ => Err").expect("it has an end");
        let arms = dispatch.lines().filter_map(|it| it.trim().split_once("\" =>"));
        let mut answered: Vec<&str> = arms.map(|(name, _)| name.trim_start_matches('"')).collect();
        answered.push("interrupt");
        answered.sort_unstable();
        let mut listed: Vec<&str> = ACCEPTED_REQUESTS.iter().map(|it| it.0).collect();
        listed.sort_unstable();
        assert_eq!(answered, listed);
    }
}
