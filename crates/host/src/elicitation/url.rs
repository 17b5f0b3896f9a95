//! Requests that a server refuses until the user has opened a URL: elicits, waits for the server's completion
//! notification, and retries.

use std::time::Duration;

use serde_json::Value as Json;
use switchboard_wire::jsonrpc::message::RpcError;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;
use tracing::info;

use crate::elicitation::elicitor::{
    ElicitResult, Elicitation, ElicitationKind, Elicitor, InvalidElicitation, UrlElicitation,
    WaitOutcome,
};

/// The error code of a server that requires a URL elicitation first.
const URL_ELICITATION_REQUIRED: i64 = -32042;
/// The maximum number of rounds of URL elicitations for one request.
pub(crate) const MAX_ROUNDS: usize = 3;
/// The maximum number of URLs in one round.
const MAX_URLS: usize = 8;
/// How long to wait for completion before the request is retried anyway.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Whether an error says that URL elicitations must be completed first.
pub(crate) fn is_required_by(error: &RpcError) -> bool {
    error.code == URL_ELICITATION_REQUIRED
}

/// Asks the user to visit every URL that an error names, and waits for each. The error is why one was not completed.
pub(crate) async fn complete_url_elicitations(
    elicitor: &dyn Elicitor,
    server: &str,
    error_response: &RpcError,
    completed: &mut Receiver<(String, String)>,
) -> Result<(), String> {
    let url_elicitations =
        parse_url_elicitations(error_response).map_err(|error| error.to_string())?;
    for url_elicitation in url_elicitations {
        let id = url_elicitation.id.clone();
        let elicitation =
            Elicitation { server: server.to_owned(), kind: ElicitationKind::Url(url_elicitation) };
        let reply = elicitor.elicit(&elicitation).await;
        info!(server, kind = "url", action = reply.action(), "elicitation answered");
        match reply {
            ElicitResult::Accept(_) => {}
            ElicitResult::Decline(reason) | ElicitResult::Cancel(reason) => return Err(reason),
        }
        let over = async {
            tokio::select! {
                () = wait_for_notification(completed, server, id.as_deref()) => WaitOutcome::Retry,
                waited = elicitor.wait_for_completion(&elicitation) => waited,
            }
        };
        match timeout(MAX_WAIT, over).await {
            Ok(WaitOutcome::Retry) | Err(_) => {}
            Ok(WaitOutcome::GivenUp) => return Err("the user gave up waiting".to_owned()),
        }
    }
    Ok(())
}

/// Waits until the server reports the elicitation as complete.
async fn wait_for_notification(
    completed: &mut Receiver<(String, String)>,
    server: &str,
    id: Option<&str>,
) {
    let Some(id) = id else { return std::future::pending().await };
    loop {
        match completed.recv().await {
            Ok((from, completed_id)) if from == server && completed_id == id => return,
            Ok(_) => {}
            // One of the missed notifications may have been the awaited one.
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

/// The elicitations in an error's data.
fn parse_url_elicitations(error: &RpcError) -> Result<Vec<UrlElicitation>, InvalidElicitation> {
    let data: Json = error.data.as_ref().and_then(|it| it.decode().ok()).unwrap_or_default();
    let elicitations = data["elicitations"].as_array().cloned().unwrap_or_default();
    if elicitations.is_empty() {
        return Err(InvalidElicitation::Url);
    }
    elicitations.iter().take(MAX_URLS).map(UrlElicitation::parse).collect()
}
