//! Built-in tools: the servers' resources and the rest of long results. They only read, may run in parallel, and
//! return results like other tools. `call` applies permissions and limits to them too.

mod authenticate;
mod list_resources;
mod read_resource;
mod read_result;

use std::sync::{Arc, OnceLock};

use serde_json::{Value as Json, json};
use switchboard_config::permission;
use switchboard_wire::jsonrpc::message::Payload;

use crate::call::executor::ToolExecutor;
use crate::call::pipeline::CallContext;
use crate::connection::ServerView;
use crate::host::Snapshot;
use crate::pool::naming::{NameOrigin, prefix};
use crate::pool::tool::Tool;

pub(crate) use authenticate::{Authenticate, placeholder_item};
pub use read_result::NAME as READ_RESULT;

/// The maximum length of a built-in tool's result in characters, whatever the caller accepts.
pub const MAX_CHARACTERS: usize = 100_000;

/// The definitions of all built-in tools.
pub fn definitions() -> &'static [Arc<Tool>] {
    static ALL: OnceLock<Vec<Arc<Tool>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let tools =
            [list_resources::definition(), read_resource::definition(), read_result::definition()];
        tools.into_iter().map(Arc::new).collect()
    })
}

/// A built-in tool from its name, description, input schema and executor.
fn builtin_tool(
    name: &str,
    description: &str,
    schema: &Json,
    executor: &'static dyn ToolExecutor,
) -> Tool {
    let payload = |json: &Json| Payload::from_json(json.to_string().into());
    let raw = json!({"name": name, "description": description, "inputSchema": schema});
    Tool::built_in(name, description, (payload(schema), payload(&raw)), executor)
}

/// A result with text blocks.
fn text_result(texts: &[&str]) -> Payload {
    let block = |text: &&str| json!({"type": "text", "text": text});
    let content: Vec<Json> = texts.iter().map(block).collect();
    Payload::from_json(json!({"content": content}).to_string().into())
}

/// A result that tells the model about an error.
fn error_result(message: &str) -> Payload {
    let content = json!([{"type": "text", "text": message}]);
    Payload::from_json(json!({"content": content, "isError": true}).to_string().into())
}

/// Whether a rule denies the whole server. Its resources are then hidden.
fn is_hidden(context: &CallContext, snapshot: &Snapshot, server: &str) -> bool {
    let view = snapshot.servers.get(server);
    let origin = view.map_or(NameOrigin::Configured, |view| NameOrigin::of(view.scope));
    permission::server_hidden_by(&context.rules.current(), &prefix(server, origin)).is_some()
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
    view.status.cause().map_or_else(|| view.status.id().to_owned(), ToString::to_string)
}

fn str_argument<'a>(arguments: &'a Json, name: &str) -> &'a str {
    arguments[name].as_str().unwrap_or_default()
}
