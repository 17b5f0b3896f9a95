//! Requests that a server refuses until the user has opened a URL: elicits, waits for the server's completion
//! notification, and retries.

use std::time::Duration;

use serde_json::Value as Json;
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use crate::elicitation::elicitor::{
    ElicitResult, Elicitation, ElicitationKind, InvalidElicitation, UrlElicitation, WaitOutcome,
};
use crate::host::Host;
use crate::request::send::{RequestError, ServerRequest};

/// The error code of a server that requires a URL elicitation first.
const URL_ELICITATION_REQUIRED: i64 = -32042;
/// How often one request may be refused this way.
const MAX_ROUNDS: usize = 3;
/// The maximum number of URLs in one error.
const MAX_URLS: usize = 8;
/// How long to wait for completion before the request is retried anyway.
const MAX_WAIT: Duration = Duration::from_secs(3600);

impl Host {
    /// Sends a request. If the server requires URL elicitations first, completes them with the user's consent and
    /// retries.
    pub(crate) async fn send_after_url_elicitation(
        &self,
        server: &str,
        request: ServerRequest,
    ) -> Result<Payload, RequestError> {
        for _ in 0..MAX_ROUNDS {
            // Subscribe before sending: the server may complete the elicitation before the wait begins.
            let mut completed = self.context().completed_elicitations.subscribe();
            let error_response = match self.send_with_retries(server, request.clone()).await {
                Err(RequestError::ErrorResponse(error))
                    if error.code == URL_ELICITATION_REQUIRED =>
                {
                    error
                }
                outcome => return outcome,
            };
            self.complete_url_elicitations(server, &error_response, &mut completed).await.map_err(
                |reason| {
                    let server = server.to_owned();
                    RequestError::UrlElicitationDeclined { server, reason }
                },
            )?;
        }
        self.send_with_retries(server, request).await
    }

    /// Completes all required elicitations. The error is the reason why one was declined.
    async fn complete_url_elicitations(
        &self,
        server: &str,
        error_response: &RpcError,
        completed: &mut Receiver<(String, String)>,
    ) -> Result<(), String> {
        let url_elicitations =
            parse_url_elicitations(error_response).map_err(|error| error.to_string())?;
        let elicitor = self.context().client_features.elicitor();
        for url_elicitation in url_elicitations {
            let id = url_elicitation.id.clone();
            let elicitation = Elicitation {
                server: server.to_owned(),
                kind: ElicitationKind::Url(url_elicitation),
            };
            match elicitor.elicit(&elicitation).await {
                ElicitResult::Accept(_) => {}
                ElicitResult::Decline(reason) | ElicitResult::Cancel(reason) => return Err(reason),
            }
            let completion = async {
                tokio::select! {
                    () = wait_for_notification(completed, server, id.as_deref()) => WaitOutcome::Retry,
                    outcome = elicitor.wait_for_completion(&elicitation) => outcome,
                }
            };
            match timeout(MAX_WAIT, completion).await {
                Ok(WaitOutcome::Retry) | Err(_) => {}
                Ok(WaitOutcome::GivenUp) => return Err("the user gave up waiting".to_owned()),
            }
        }
        Ok(())
    }
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
