//! Answers the elicitations of one server during a client's call: the operator's hooks first, then the client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use switchboard::Host;
use switchboard::elicitation::{
    ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor, WaitFuture, WaitOutcome,
};
use switchboard_wire::client::RequestHandler;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::{CallOwner, Propagation};
use tokio::time::sleep;

use crate::downstream::channel::ClientResponse;
use crate::downstream::request_context::RequestContext;
use crate::json::payload;

const ELICITATION_CREATE: &str = "elicitation/create";
/// How long to wait for the server's notification after the client has opened a URL. The call is sent again after it.
const URL_COMPLETION_TIMEOUT: Duration = Duration::from_secs(300);

/// The way back to a client for one server, with the operator's hooks before the client.
pub(crate) struct HookedContext {
    pub(crate) context: Arc<RequestContext>,
    pub(crate) host: Host,
    pub(crate) server: String,
}

impl fmt::Debug for HookedContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HookedContext({})", self.server)
    }
}

impl RequestHandler for HookedContext {
    fn respond<'a>(&'a self, method: &'a str, params: Option<Payload>) -> ClientResponse<'a> {
        Box::pin(async move {
            if method == ELICITATION_CREATE {
                let asked = params.as_ref().and_then(|it| it.decode().ok()).unwrap_or_default();
                if let Some(result) = self.host.hook_result(&self.server, asked).await {
                    return Ok(payload(&result));
                }
            }
            self.context.respond(method, params).await
        })
    }
}

impl CallOwner for HookedContext {
    fn session(&self) -> u64 {
        self.context.session()
    }

    fn has_pending_request(&self) -> bool {
        self.context.has_pending_request()
    }

    fn on_notification(&self, method: &str, params: Option<&Payload>) -> Propagation {
        self.context.on_notification(method, params)
    }
}

/// Sends URL elicitations that a server requires before a call to the client of the call.
#[derive(Debug)]
pub(crate) struct UrlElicitationRelay(pub(crate) Arc<dyn CallOwner>);

#[derive(Deserialize)]
struct ElicitResponse {
    #[serde(default)]
    action: String,
}

impl Elicitor for UrlElicitationRelay {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> ElicitFuture<'a> {
        Box::pin(async move {
            let ElicitationKind::Url(url) = &elicitation.kind else {
                return ElicitResult::Decline("only URLs are asked for".to_owned());
            };
            let mut params =
                json!({"mode": "url", "message": url.message, "url": url.url.as_str()});
            if let Some(id) = &url.id {
                params["elicitationId"] = id.as_str().into();
            }
            let response = self.0.respond(ELICITATION_CREATE, Some(payload(&params))).await;
            let response = response.ok().and_then(|it| it.decode::<ElicitResponse>().ok());
            match response.map(|it| it.action).as_deref() {
                Some("accept") => ElicitResult::Accept(serde_json::Map::new()),
                Some("cancel") => ElicitResult::Cancel("the client cancelled".to_owned()),
                Some(_) => ElicitResult::Decline("the client declined".to_owned()),
                None => ElicitResult::Decline("the client could not be asked".to_owned()),
            }
        })
    }

    fn wait_for_completion<'a>(&'a self, _elicitation: &'a Elicitation) -> WaitFuture<'a> {
        Box::pin(async {
            sleep(URL_COMPLETION_TIMEOUT).await;
            WaitOutcome::Retry
        })
    }
}
