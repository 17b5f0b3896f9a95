//! `mcp__<server>__authenticate`: a placeholder for a server that requires a login; it returns the login URL. The
//! login runs in the background; `login::pending` tracks it.

use std::time::Duration;

use serde_json::json;
use switchboard_wire::jsonrpc::message::Payload;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{
    BuiltinCall, error_result, status_reason, structured_result, text_result, unknown_server,
};
use crate::catalogue::lists::ListItem;
use crate::connection::handle::ConnectionHandle;
use crate::connection::status::Status;
use crate::engine::handle::EngineHandle;
use crate::login::method::LoginMethod;
use crate::login::pending::{LoginProgress, LoginStage};

/// The tool's name on its server.
const NAME: &str = "authenticate";
/// The argument with the callback URL of the browser.
const CALLBACK_ARGUMENT: &str = "callback_url";
/// The maximum length of the callback URL.
const MAX_CALLBACK_CHARS: usize = 16 * 1024;
/// How long an authorization server may take to start a login or to accept a callback.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The tool that stands for a server, as the server would list it.
pub(crate) fn placeholder_item(server: &str, method: LoginMethod) -> ListItem {
    let description = match method {
        LoginMethod::OAuth => format!(
            "`{server}` needs a login before it shows its tools. This starts one and answers with the page that the \
             person has to open; when they are done, the server's own tools take the place of this one."
        ),
        LoginMethod::ConnectorAccount => format!(
            "`{server}` is a connector that needs a login of its own in the connector account. This tool says what the \
             user can do."
        ),
    };
    let callback_description = "if the browser cannot reach this machine: the URL that it ended at, or the code \
                    in it";
    let properties = match method {
        LoginMethod::OAuth => json!({CALLBACK_ARGUMENT: {
            "type": "string", "description": callback_description, "minLength": 1, "maxLength": MAX_CALLBACK_CHARS,
        }}),
        LoginMethod::ConnectorAccount => json!({}),
    };
    let raw = json!({
        "name": NAME,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties, "additionalProperties": false},
        "annotations": {
            "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true,
        },
    });
    ListItem { name: NAME.to_owned(), raw: Payload::from_json(raw.to_string().into()) }
}

/// Starts a login, or passes the pasted address to the one under way.
pub(super) async fn run(call: BuiltinCall<'_>) -> Payload {
    let (engine, server) = (call.engine(), &call.tool.server);
    let Some(handle) = engine.connection(server) else {
        return unknown_server(server);
    };
    let view = handle.view();
    match &view.status {
        Status::NeedsAuth(_) => {}
        Status::Connected => return text_result(&[&format!("`{server}` is connected")]),
        Status::Pending { .. }
        | Status::Failed(_)
        | Status::SessionRefused(_)
        | Status::Disabled => {
            return error_result(&format!(
                "`{server}` waits for no login: {}",
                status_reason(&view)
            ));
        }
    }
    let wait = call.timeout.min(MAX_WAIT);
    match handle.login_method() {
        Some(LoginMethod::OAuth) => {
            match call.arguments[CALLBACK_ARGUMENT].as_str().map(str::to_owned) {
                None => start_login(engine, server, wait).await,
                Some(text) => submit_callback(engine, &handle, text, wait).await,
            }
        }
        Some(LoginMethod::ConnectorAccount) => text_result(&[&format!(
            "`{server}` is a connector, and its login is in the connector account: use `/mcp`, which says where. To the \
             user: {}",
            status_reason(&view)
        )]),
        None => error_result(&format!("`{server}` is not a server that one signs in to")),
    }
}

async fn start_login(engine: &EngineHandle, server: &str, wait: Duration) -> Payload {
    let Some(LoginProgress { mut stage, previous_failure }) = engine.begin_login(server).await
    else {
        return logins_closed();
    };
    let changed = timeout(wait, stage.wait_for(|it| *it != LoginStage::Preparing)).await;
    let current = match changed {
        Ok(Ok(current)) => current.clone(),
        Ok(Err(_)) => return logins_closed(),
        Err(_) => LoginStage::Preparing,
    };
    stage_result(server, current, previous_failure)
}

async fn submit_callback(
    engine: &EngineHandle,
    handle: &ConnectionHandle,
    text: String,
    wait: Duration,
) -> Payload {
    let server = handle.desired().name();
    let Some(LoginProgress { stage, .. }) = engine.submit_to_login(server, text).await else {
        return error_result(&format!(
            "no login to `{server}` is waiting for a callback; call this tool without `{CALLBACK_ARGUMENT}` first"
        ));
    };
    match next_stage(stage, wait).await {
        Some(LoginStage::SignedIn) => connection_result(handle, wait).await,
        Some(LoginStage::AwaitingUser { url, rejection }) => {
            let why = rejection.unwrap_or_else(|| "it does not belong to this login".to_owned());
            error_result(&format!(
                "the callback was rejected: {why}\n\nThe page to open is still\n\n{url}"
            ))
        }
        Some(current @ (LoginStage::Preparing | LoginStage::Failed(_))) => {
            stage_result(server, current, None)
        }
        None => logins_closed(),
    }
}

/// The stage of a login after its next change, or `Preparing` if nothing changes in time.
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
            "Signed in to `{server}`. It is connected: its own tools replace this one."
        )]),
        Ok(Err(view)) => error_result(&format!(
            "Signed in to `{server}`, but it is not connected: {}",
            status_reason(&view)
        )),
        Err(_) => text_result(&[&format!("Signed in to `{server}`. It is connecting.")]),
    }
}

fn stage_result(server: &str, current: LoginStage, previous_failure: Option<String>) -> Payload {
    match current {
        LoginStage::Preparing => error_result(&format!(
            "the login to `{server}` takes longer than usual; call this tool again in a moment"
        )),
        LoginStage::AwaitingUser { url, .. } => {
            let previous_failure =
                previous_failure.map(|why| format!("The previous login failed: {why}\n\n"));
            let text = format!(
                "{}To sign in to `{server}`, the user has to open this page in a browser:\n\n{url}\n\nAfter the \
                 login, the server's own tools replace this one. If the browser is on another machine, \
                 it ends at a page that it cannot load: then call this tool again, with `{CALLBACK_ARGUMENT}` set to the URL \
                 in its address bar.",
                previous_failure.unwrap_or_default()
            );
            let structured = json!({"status": "auth_url", "authUrl": url.as_str()});
            structured_result(&structured, &text)
        }
        LoginStage::SignedIn => text_result(&[&format!("Already signed in to `{server}`.")]),
        LoginStage::Failed(why) => error_result(&format!("the login to `{server}` failed: {why}")),
    }
}

fn logins_closed() -> Payload {
    error_result("the host is shutting down; logins have ended")
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    #[test]
    fn only_an_oauth_login_takes_a_callback() {
        let argument_names = |method| {
            let raw: Json = placeholder_item("s", method).raw.decode().expect("JSON");
            let properties = raw["inputSchema"]["properties"].as_object().cloned();
            properties.expect("an object").keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(argument_names(LoginMethod::OAuth), [CALLBACK_ARGUMENT]);
        assert_eq!(argument_names(LoginMethod::ConnectorAccount), [""; 0]);
    }
}
