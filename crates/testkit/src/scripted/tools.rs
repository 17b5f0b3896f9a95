//! The behaviour of the built-in tools.

mod ask;

use std::env;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::client_session::{ClientRequest, ClientSession};
use super::protocol::{RequestEra, RequestFailure, RpcError};
use super::server_state::RunMode;
use super::{catalogue, response_quirks};
use crate::scripted::quirk::Quirk;
use ask::{
    ask_legacy, ask_modern, concurrent_elicitations, gated_by_url, talk, withdrawn_elicitation,
};

/// Calls a tool.
pub async fn call_tool(
    session: &Arc<ClientSession>,
    call: &ClientRequest,
) -> Result<Value, RequestFailure> {
    let server = &session.server;
    let name = call.params["name"].as_str().unwrap_or_default();
    let arguments = &call.params["arguments"];
    let mut result = match name {
        "echo" => text_result(arguments["text"].as_str().unwrap_or_default()),
        "add" => {
            let number = |it: &str| arguments[it].as_f64().unwrap_or_default();
            let sum = number("a") + number("b");
            structured_and_text(&json!({"sum": sum}), &sum.to_string())
        }
        "slow" => slow(call).await,
        "big" => text_result(&response_quirks::repeated_letters(count_or(&arguments["bytes"], 0))),
        "fail" => error_result(arguments["text"].as_str().unwrap_or("it failed")),
        "explode" => {
            let code = arguments["code"].as_i64().unwrap_or(-32603);
            let mut rpc_error = RpcError::new(code, "it exploded");
            rpc_error.data = arguments.get("data").cloned();
            return Err(rpc_error.into());
        }
        "crash" => return Err(RequestFailure::Crash),
        "ask" if arguments["kind"] == "gate" => gated_by_url(session)?,
        "ask" if arguments["kind"] == "withdrawn" => withdrawn_elicitation(session, call).await,
        "ask" if arguments["kind"] == "crowd" => concurrent_elicitations(session, call).await,
        "ask" => match call.era {
            RequestEra::Legacy => ask_legacy(session, call).await,
            RequestEra::Modern => ask_modern(session, call)?,
        },
        "env" => match server.run_mode {
            RunMode::StdioProgram => {
                let names: Vec<String> =
                    env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
                structured_result(&json!({"names": names}))
            }
            RunMode::NetworkProgram | RunMode::InTest => error_result("only over stdio"),
        },
        "change_tools" => structured_result(&json!({"added": server.change_tools()})),
        "touch" => {
            let params = json!({"uri": arguments["uri"]});
            server.notify_all("notifications/resources/updated", &params);
            text_result("touched")
        }
        "count" => structured_result(&server.counts()),
        "whoami" => structured_result(&whoami(session, call)),
        "route" => text_result(arguments["region"].as_str().unwrap_or("nowhere")),
        "say" if server.script.has_quirk(&Quirk::HasSayTool) => arguments["result"].clone(),
        "talk" if server.script.has_quirk(&Quirk::HasTalkTool) => talk(session, call).await?,
        "end_listening" => {
            server.end_subscriptions();
            text_result("ended")
        }
        name if catalogue::has_generated_tool(server, name) => {
            text_result(&format!("{name} got {arguments}"))
        }
        name => return Err(RpcError::invalid_params(format!("there is no tool `{name}`")).into()),
    };
    response_quirks::add_unknown_content(server, &mut result);
    Ok(result)
}

fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn error_result(message: &str) -> Value {
    json!({"content": [{"type": "text", "text": message}], "isError": true})
}

/// A structured result with another text.
fn structured_and_text(structured: &Value, text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "structuredContent": structured})
}

fn structured_result(structured: &Value) -> Value {
    structured_and_text(structured, &structured.to_string())
}

fn count_or(value: &Value, default: usize) -> usize {
    value.as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or(default)
}

async fn slow(call: &ClientRequest) -> Value {
    let arguments = &call.params["arguments"];
    let ms = arguments["ms"].as_u64().unwrap_or(100);
    let steps = count_or(&arguments["steps"], 5).max(1);
    let token = &call.params["_meta"]["progressToken"];
    for step in 1..=steps {
        let step_ms = ms / u64::try_from(steps).unwrap_or(u64::MAX);
        tokio::time::sleep(Duration::from_millis(step_ms)).await;
        if !token.is_null() {
            call.notifications.send_message(&json!({
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": step, "total": steps,
                           "message": format!("step {step} of {steps}")},
            }));
        }
    }
    text_result(&format!("took {ms} ms"))
}

fn whoami(session: &ClientSession, call: &ClientRequest) -> Value {
    let meta = &call.params["_meta"];
    let initialize_params = session.initialize_params();
    let (era, version, client) = match call.era {
        RequestEra::Legacy => {
            ("legacy", &initialize_params["protocolVersion"], &initialize_params["clientInfo"])
        }
        RequestEra::Modern => {
            let version = &meta["io.modelcontextprotocol/protocolVersion"];
            ("modern", version, &meta["io.modelcontextprotocol/clientInfo"])
        }
    };
    let name = &session.server.script.name;
    json!({"name": name, "pid": std::process::id(), "era": era, "version": version,
           "client": client, "headers": call.headers})
}

/// The header that must repeat one of the tool's arguments, with its value.
pub fn param_header(params: &Value) -> Option<(&'static str, Option<String>)> {
    (params["name"] == "route").then(|| {
        let region = params["arguments"]["region"].as_str().map(str::to_owned);
        ("mcp-param-region", region)
    })
}
