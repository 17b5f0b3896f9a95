//! Built-in tools: the servers' resources and the rest of long results. They only read, may run in parallel, and
//! return results like other tools. `call` applies permissions and limits to them too.

mod authenticate;
mod list_resources;
mod read_resource;
mod read_result;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard_config::permission;
use switchboard_config::permission::PermissionRules;
use switchboard_wire::jsonrpc::message::Payload;

use crate::connection::status::ServerView;
use crate::engine::handle::EngineHandle;
use crate::engine::snapshot::Snapshot;
use crate::pool::naming::{NameOrigin, prefix};
use crate::pool::tool::{Tool, ToolKind};
use crate::request::error::RequestError;
use crate::resources::cache::ResourceReader;
use crate::tool_result::OutputLimits;
use crate::tool_result::spill::SpillStore;

use crate::tool_result::note::READ_RESULT;
pub(crate) use authenticate::placeholder_item;

/// The maximum length of a built-in tool's result in characters, whatever the caller accepts.
pub const MAX_CHARACTERS: usize = 100_000;

/// A permitted call of a built-in tool, with checked arguments.
pub(crate) struct BuiltinCall<'a> {
    pub(crate) tool: &'a Tool,
    pub(crate) arguments: Json,
    pub(crate) timeout: Duration,
    pub(crate) rules: Arc<PermissionRules>,
    pub(crate) limits: &'a OutputLimits,
    pub(crate) spill: &'a SpillStore,
    pub(crate) resources: &'a ResourceReader,
}

impl BuiltinCall<'_> {
    fn engine(&self) -> &EngineHandle {
        self.resources.requests().engine()
    }
}

/// Runs a built-in tool. The result is a result of `tools/call`.
pub(crate) async fn run(call: BuiltinCall<'_>) -> Result<Payload, RequestError> {
    match (call.tool.kind, call.tool.name.as_str()) {
        (ToolKind::LoginPlaceholder, _) => Ok(authenticate::run(call).await),
        (_, list_resources::NAME) => Ok(list_resources::run(&call)),
        (_, read_resource::NAME) => read_resource::run(call).await,
        (_, READ_RESULT) => Ok(read_result::run(call).await),
        (_, name) => Ok(error_result(&format!("there is no built-in tool `{name}`"))),
    }
}

/// All built-in tools.
pub fn definitions() -> &'static [Arc<Tool>] {
    static ALL: OnceLock<Vec<Arc<Tool>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let tools =
            [list_resources::definition(), read_resource::definition(), read_result::definition()];
        tools.into_iter().map(Arc::new).collect()
    })
}

/// A built-in tool from its name, description and input schema.
fn builtin_tool(name: &str, description: &str, schema: &Json) -> Tool {
    let payload = |json: &Json| Payload::from_json(json.to_string().into());
    let raw = json!({"name": name, "description": description, "inputSchema": schema});
    Tool::built_in(name, description, (payload(schema), payload(&raw)))
}

/// A result with text blocks.
fn text_result(texts: &[&str]) -> Payload {
    let block = |text: &&str| json!({"type": "text", "text": text});
    let content: Vec<Json> = texts.iter().map(block).collect();
    Payload::from_json(json!({"content": content}).to_string().into())
}

/// A result with structured content, and a text that says the same.
fn structured_result(structured: &Json, text: &str) -> Payload {
    let content = json!([{"type": "text", "text": text}]);
    let result = json!({"content": content, "structuredContent": structured});
    Payload::from_json(result.to_string().into())
}

/// A result that tells the model about an error.
fn error_result(message: &str) -> Payload {
    let content = json!([{"type": "text", "text": message}]);
    Payload::from_json(json!({"content": content, "isError": true}).to_string().into())
}

/// Does a rule deny the whole server? Then its contents are not listed.
fn is_hidden(rules: &PermissionRules, snapshot: &Snapshot, server: &str) -> bool {
    let view = snapshot.servers.get(server);
    let origin = view.map_or(NameOrigin::Configured, |view| NameOrigin::of(view.scope));
    permission::server_hidden_by(rules, &prefix(server, origin)).is_some()
}

fn unknown_server(name: &str) -> Payload {
    error_result(&format!("there is no server `{name}`"))
}

fn no_resources(name: &str) -> Payload {
    error_result(&format!("`{name}` has no resources"))
}

fn not_connected(view: &ServerView) -> Payload {
    error_result(&format!("`{}` is not connected: {}", view.name, status_reason(view)))
}

/// The reason why a server is not connected, in few words.
fn status_reason(view: &ServerView) -> String {
    view.status.cause().map_or_else(|| view.status.label(), ToString::to_string)
}

fn str_argument<'a>(arguments: &'a Json, name: &str) -> &'a str {
    arguments[name].as_str().unwrap_or_default()
}
