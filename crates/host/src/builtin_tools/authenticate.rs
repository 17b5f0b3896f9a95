//! `mcp__<server>__authenticate`: stands for a server that somebody has to sign in to, and tells where that is done.
//! The login goes on behind it; `doorman` knows which are under way.

use std::time::Duration;

use serde_json::json;
use switchboard_wire::jsonrpc::message::Payload;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{error_result, status_reason, text_result, unknown_server};
use crate::call::executor::{ExecutionFuture, ToolExecution, ToolExecutor};
use crate::call::pipeline::Permit;
use crate::catalogue::fetch::ListItem;
use crate::connection::{ConnectionHandle, Status};
use crate::host::Host;
use crate::login::pending::{LoginProgress, LoginStage};
use crate::login::server_login::LoginMethod;

/// What its server would call it.
const NAME: &str = "authenticate";
/// What holds the address that a browser ended at.
const CALLBACK_ARGUMENT: &str = "callback_url";
/// The longest such address.
const MAX_CALLBACK_CHARS: usize = 16 * 1024;
/// How long an authorization server may take to say where to go, or whether it takes what was pasted.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Performs every such tool.
#[derive(Debug)]
pub(crate) struct Authenticate;

/// The tool that stands for a server, as the server would list it.
pub(crate) fn placeholder_item(server: &str, method: LoginMethod) -> ListItem {
    let about = match method {
        LoginMethod::OAuth => format!(
            "`{server}` needs a login before it shows its tools. This starts one and answers with the page that the \
             person has to open; when they are done, the server's own tools take the place of this one."
        ),
        LoginMethod::ConnectorAccount => format!(
            "`{server}` is a connector, and your connector account's token is missing or refused. This tells what \
             the person can do."
        ),
    };
    let callback = "where the browser cannot come back to this machine: the address that it ended at, or the code \
                    in it";
    let properties = match method {
        LoginMethod::OAuth => json!({CALLBACK_ARGUMENT: {
            "type": "string", "description": callback, "minLength": 1, "maxLength": MAX_CALLBACK_CHARS,
        }}),
        LoginMethod::ConnectorAccount => json!({}),
    };
    let raw = json!({
        "name": NAME,
        "description": about,
        "inputSchema": {"type": "object", "properties": properties, "additionalProperties": false},
        "annotations": {
            "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true,
        },
    });
    ListItem { name: NAME.to_owned(), raw: Payload::from_json(raw.to_string().into()) }
}

impl ToolExecutor for Authenticate {
    fn execute<'a>(&'a self, _permit: Permit, work: ToolExecution<'a>) -> ExecutionFuture<'a> {
        Box::pin(async move {
            let server = &work.tool.server;
            let Some(handle) = work.host.connection(server) else {
                return Ok(unknown_server(server));
            };
            let view = handle.view();
            match &view.status {
                Status::NeedsAuth(_) => {}
                Status::Connected => {
                    return Ok(text_result(&[&format!("`{server}` is connected")]));
                }
                Status::Pending { .. } | Status::Failed(_) | Status::Disabled => {
                    return Ok(error_result(&format!(
                        "`{server}` waits for no login: {}",
                        status_reason(&view)
                    )));
                }
            }
            let wait = work.call.timeout.min(MAX_WAIT);
            Ok(match handle.login_method() {
                Some(LoginMethod::OAuth) => {
                    let pasted = work.call.arguments[CALLBACK_ARGUMENT].as_str().map(str::to_owned);
                    match pasted {
                        None => start_login(work.host, server, wait).await,
                        Some(text) => submit_callback(work.host, &handle, text, wait).await,
                    }
                }
                Some(LoginMethod::ConnectorAccount) => text_result(&[&format!(
                    "`{server}` is a connector of your account. Nobody can sign in to it from here: use `/mcp`, or \
                     renew the account's token."
                )]),
                None => error_result(&format!("`{server}` is not a server that one signs in to")),
            })
        })
    }
}

async fn start_login(host: &Host, server: &str, wait: Duration) -> Payload {
    let Some(LoginProgress { mut stage, previous_failure: previous_failure }) =
        host.begin_login(server).await
    else {
        return logins_closed();
    };
    let known = timeout(wait, stage.wait_for(|it| *it != LoginStage::Preparing)).await;
    let now = match known {
        Ok(Ok(now)) => now.clone(),
        Ok(Err(_)) => return logins_closed(),
        Err(_) => LoginStage::Preparing,
    };
    stage_result(server, now, previous_failure)
}

async fn submit_callback(
    host: &Host,
    handle: &ConnectionHandle,
    text: String,
    wait: Duration,
) -> Payload {
    let server = handle.desired().name();
    let Some(LoginProgress { stage, .. }) = host.submit_to_login(server, text).await else {
        return error_result(&format!(
            "no login to `{server}` waits for that; call this without `{CALLBACK_ARGUMENT}` first"
        ));
    };
    match next_stage(stage, wait).await {
        Some(LoginStage::SignedIn) => connection_result(handle, wait).await,
        Some(LoginStage::AwaitingUser { url, rejection: not_taken }) => {
            let why = not_taken.unwrap_or_else(|| "it says nothing of this login".to_owned());
            error_result(&format!(
                "that was not taken: {why}\n\nThe page to open is still\n\n{url}"
            ))
        }
        Some(now @ (LoginStage::Preparing | LoginStage::Failed(_))) => {
            stage_result(server, now, None)
        }
        None => logins_closed(),
    }
}

/// Where a login is after something happened to it, or after nothing did for too long.
async fn next_stage(mut stage: watch::Receiver<LoginStage>, wait: Duration) -> Option<LoginStage> {
    match timeout(wait, stage.changed()).await {
        Ok(Ok(())) => Some(stage.borrow().clone()),
        Ok(Err(_)) => None,
        Err(_) => Some(LoginStage::Preparing),
    }
}

async fn connection_result(handle: &ConnectionHandle, wait: Duration) -> Payload {
    let server = handle.desired().name();
    match timeout(wait, handle.ensure_active(None)).await {
        Ok(Ok(_)) => text_result(&[&format!(
            "Somebody is signed in to `{server}`, and it is connected: its own tools take the place of this one."
        )]),
        Ok(Err(view)) => error_result(&format!(
            "Somebody is signed in to `{server}`, and yet it is not connected: {}",
            status_reason(&view)
        )),
        Err(_) => {
            text_result(&[&format!("Somebody is signed in to `{server}`; it is being connected.")])
        }
    }
}

fn stage_result(server: &str, now: LoginStage, previous_failure: Option<String>) -> Payload {
    match now {
        LoginStage::Preparing => error_result(&format!(
            "the login to `{server}` takes longer than usual; call this again in a moment"
        )),
        LoginStage::AwaitingUser { url, .. } => {
            let previous_failure =
                previous_failure.map(|why| format!("The login before came to nothing: {why}\n\n"));
            text_result(&[&format!(
                "{}To sign in to `{server}`, the person has to open this page in a browser:\n\n{url}\n\nWhen they \
                 are done, the server's own tools take the place of this one. If the browser is on another machine \
                 it ends at a page that cannot be shown: call this again then, with `{CALLBACK_ARGUMENT}` set to the address \
                 in its address bar.",
                previous_failure.unwrap_or_default()
            )])
        }
        LoginStage::SignedIn => {
            text_result(&[&format!("Somebody is signed in to `{server}` already.")])
        }
        LoginStage::Failed(why) => {
            error_result(&format!("nobody is signed in to `{server}`: {why}"))
        }
    }
}

fn logins_closed() -> Payload {
    error_result("logins have ended here")
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    #[test]
    fn a_connector_takes_nothing_and_another_server_what_was_pasted() {
        let takes = |method| {
            let raw: Json = placeholder_item("s", method).raw.decode().expect("JSON");
            let properties = raw["inputSchema"]["properties"].as_object().cloned();
            properties.expect("an object").keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(takes(LoginMethod::OAuth), [CALLBACK_ARGUMENT]);
        assert_eq!(takes(LoginMethod::ConnectorAccount), [""; 0]);
    }
}
