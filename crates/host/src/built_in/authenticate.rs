//! `mcp__<server>__authenticate`: stands for a server that somebody has to sign in to, and tells where that is done.
//! The login goes on behind it; `doorman` knows which are under way.

use std::time::Duration;

use serde_json::json;
use switchboard_wire::message::Payload;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{failure, no_server, texts, why};
use crate::calling::Permit;
use crate::catalogue::Item;
use crate::connection::{Handle, Status};
use crate::doorman::{Admission, Stage};
use crate::engine::Host;
use crate::perform::{Perform, Performing, Work};
use crate::signing::Entrance;

/// What its server would call it.
const NAME: &str = "authenticate";
/// What holds the address that a browser ended at.
const CALLBACK: &str = "callback_url";
/// The longest such address.
const LONGEST_CALLBACK: usize = 16 * 1024;
/// How long an authorization server may take to say where to go, or whether it takes what was pasted.
const PATIENCE: Duration = Duration::from_secs(60);

/// Performs every such tool.
#[derive(Debug)]
pub(crate) struct Authenticate;

/// The tool that stands for a server, as the server would list it.
pub(crate) fn item(server: &str, entrance: Entrance) -> Item {
    let about = match entrance {
        Entrance::Login => format!(
            "`{server}` wants a login before it shows its tools. This starts one and answers with the page that the \
             person has to open; when they are done, the server's own tools take the place of this one."
        ),
        Entrance::Account => format!(
            "`{server}` is a connector, and your connector account's token is missing or refused. This tells what \
             the person can do."
        ),
    };
    let callback = "where the browser cannot come back to this machine: the address that it ended at, or the code \
                    in it";
    let properties = match entrance {
        Entrance::Login => json!({CALLBACK: {
            "type": "string", "description": callback, "minLength": 1, "maxLength": LONGEST_CALLBACK,
        }}),
        Entrance::Account => json!({}),
    };
    let raw = json!({
        "name": NAME,
        "description": about,
        "inputSchema": {"type": "object", "properties": properties, "additionalProperties": false},
        "annotations": {
            "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true,
        },
    });
    Item { name: NAME.to_owned(), raw: Payload::from_json(raw.to_string().into()) }
}

impl Perform for Authenticate {
    fn perform<'a>(&'a self, _leave: Permit, work: Work<'a>) -> Performing<'a> {
        Box::pin(async move {
            let server = &work.tool.server;
            let Some(handle) = work.host.handle(server) else { return Ok(no_server(server)) };
            let view = handle.view();
            match &view.status {
                Status::NeedsAuth(_) => {}
                Status::Connected => return Ok(texts(&[&format!("`{server}` is connected")])),
                Status::Pending { .. } | Status::Failed(_) | Status::Disabled => {
                    return Ok(failure(&format!("`{server}` waits for no login: {}", why(&view))));
                }
            }
            let patience = work.call.patience.min(PATIENCE);
            Ok(match handle.entrance() {
                Some(Entrance::Login) => {
                    let pasted = work.call.arguments[CALLBACK].as_str().map(str::to_owned);
                    match pasted {
                        None => begun(work.host, server, patience).await,
                        Some(text) => handed_over(work.host, &handle, text, patience).await,
                    }
                }
                Some(Entrance::Account) => texts(&[&format!(
                    "`{server}` is a connector of your account. Nobody can sign in to it from here: use `/mcp`, or \
                     renew the account's token."
                )]),
                None => failure(&format!("`{server}` is not a server that one signs in to")),
            })
        })
    }
}

async fn begun(host: &Host, server: &str, patience: Duration) -> Payload {
    let Some(Admission { mut stage, before }) = host.begin_login(server).await else {
        return gone();
    };
    let known = timeout(patience, stage.wait_for(|it| *it != Stage::Preparing)).await;
    let now = match known {
        Ok(Ok(now)) => now.clone(),
        Ok(Err(_)) => return gone(),
        Err(_) => Stage::Preparing,
    };
    told(server, now, before)
}

async fn handed_over(host: &Host, handle: &Handle, text: String, patience: Duration) -> Payload {
    let server = handle.wanted().name();
    let Some(Admission { stage, .. }) = host.hand_to_login(server, text).await else {
        return failure(&format!(
            "no login to `{server}` waits for that; call this without `{CALLBACK}` first"
        ));
    };
    match after(stage, patience).await {
        Some(Stage::SignedIn) => connected(handle, patience).await,
        Some(Stage::Waiting { url, not_taken }) => {
            let why = not_taken.unwrap_or_else(|| "it says nothing of this login".to_owned());
            failure(&format!("that was not taken: {why}\n\nThe page to open is still\n\n{url}"))
        }
        Some(now @ (Stage::Preparing | Stage::Failed(_))) => told(server, now, None),
        None => gone(),
    }
}

/// Where a login is after something happened to it, or after nothing did for too long.
async fn after(mut stage: watch::Receiver<Stage>, patience: Duration) -> Option<Stage> {
    match timeout(patience, stage.changed()).await {
        Ok(Ok(())) => Some(stage.borrow().clone()),
        Ok(Err(_)) => None,
        Err(_) => Some(Stage::Preparing),
    }
}

async fn connected(handle: &Handle, patience: Duration) -> Payload {
    let server = handle.wanted().name();
    match timeout(patience, handle.live(None)).await {
        Ok(Ok(_)) => texts(&[&format!(
            "Somebody is signed in to `{server}`, and it is connected: its own tools take the place of this one."
        )]),
        Ok(Err(view)) => failure(&format!(
            "Somebody is signed in to `{server}`, and yet it is not connected: {}",
            why(&view)
        )),
        Err(_) => texts(&[&format!("Somebody is signed in to `{server}`; it is being connected.")]),
    }
}

fn told(server: &str, now: Stage, before: Option<String>) -> Payload {
    match now {
        Stage::Preparing => failure(&format!(
            "the login to `{server}` takes longer than usual; call this again in a moment"
        )),
        Stage::Waiting { url, .. } => {
            let before = before.map(|why| format!("The login before came to nothing: {why}\n\n"));
            texts(&[&format!(
                "{}To sign in to `{server}`, the person has to open this page in a browser:\n\n{url}\n\nWhen they \
                 are done, the server's own tools take the place of this one. If the browser is on another machine \
                 it ends at a page that cannot be shown: call this again then, with `{CALLBACK}` set to the address \
                 in its address bar.",
                before.unwrap_or_default()
            )])
        }
        Stage::SignedIn => texts(&[&format!("Somebody is signed in to `{server}` already.")]),
        Stage::Failed(why) => failure(&format!("nobody is signed in to `{server}`: {why}")),
    }
}

fn gone() -> Payload {
    failure("logins have ended here")
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    #[test]
    fn a_connector_takes_nothing_and_another_server_what_was_pasted() {
        let takes = |entrance| {
            let raw: Json = item("s", entrance).raw.decode().expect("JSON");
            let properties = raw["inputSchema"]["properties"].as_object().cloned();
            properties.expect("an object").keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(takes(Entrance::Login), [CALLBACK]);
        assert_eq!(takes(Entrance::Account), [""; 0]);
    }
}
