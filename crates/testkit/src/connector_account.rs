//! A connector account: a list of connectors behind a bearer token, and a proxy for each connector.

use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::http::loopback::{LoopbackListener, ServerThread};
use crate::http::recorded_request::{RecordedRequest, recorded_headers};
use crate::http::response::{empty_response, json_response, with_header};
use crate::random::random_token;
use crate::scripted::script::Script;
use crate::scripted::{RunMode, ServerState, Transport, router};

/// A connector of the account.
#[derive(Debug, Clone)]
pub struct Connector {
    /// The display name.
    pub name: String,
    /// The vendor's URL, which is never contacted.
    pub vendor_url: String,
    /// The server behind the proxy.
    pub script: Script,
}

impl Connector {
    /// A compliant connector.
    pub fn new(name: &str) -> Connector {
        let vendor_url = format!("https://mcp.{}.example/", name.to_lowercase().replace(' ', "-"));
        Connector { name: name.to_owned(), vendor_url, script: Script::both() }
    }
}

/// The account's service on its own thread. Dropping it ends the service and every connection to it.
#[derive(Debug)]
pub struct ConnectorService {
    origin: String,
    state: Arc<AccountState>,
    /// Ends the servers when dropped.
    _thread: ServerThread,
}

#[derive(Debug)]
struct AccountState {
    connectors: Vec<Value>,
    page_size: usize,
    bearer: Mutex<String>,
    recorded: Mutex<Vec<RecordedRequest>>,
}

impl ConnectorService {
    /// Starts a service with these connectors, listed in pages of `page_size`.
    pub fn start(connectors: &[Connector], page_size: usize) -> io::Result<ConnectorService> {
        let port = LoopbackListener::bind()?;
        let origin = port.origin.clone();
        let entries = connectors.iter().enumerate().map(|(index, connector)| {
            let vendor: String =
                form_urlencoded::byte_serialize(connector.vendor_url.as_bytes()).collect();
            let url = format!("{origin}/proxy/{index}/mcp?mcp_url={vendor}");
            json!({"id": format!("connector-{index}"), "name": connector.name, "url": url})
        });
        let state = Arc::new(AccountState {
            connectors: entries.collect(),
            page_size: page_size.max(1),
            bearer: Mutex::new(new_token()),
            recorded: Mutex::default(),
        });
        let mut routes = Router::new().route("/v1/connectors", get(list_connectors));
        for (index, connector) in connectors.iter().enumerate() {
            let server = ServerState::new(connector.script.clone(), RunMode::InTest);
            routes =
                routes.nest_service(&format!("/proxy/{index}"), router(Transport::Http, server));
        }
        let routes = routes.with_state(Arc::clone(&state));
        let routes = routes.layer(from_fn_with_state(Arc::clone(&state), authenticate));
        let thread = ServerThread::spawn("connectors", vec![(port, routes)])?;
        Ok(ConnectorService { origin, state, _thread: thread })
    }

    /// The URL of the list.
    pub fn url(&self) -> String {
        format!("{}/v1/connectors", self.origin)
    }

    /// The currently valid token.
    pub fn bearer_token(&self) -> String {
        self.state.current_token().clone()
    }

    /// Replaces the token; the old one becomes invalid.
    pub fn rotate_token(&self) -> String {
        let new = new_token();
        self.state.current_token().clone_from(&new);
        new
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.recorded.lock().expect("no holder of the lock panics").clone()
    }
}

impl AccountState {
    fn current_token(&self) -> std::sync::MutexGuard<'_, String> {
        self.bearer.lock().expect("no holder of the lock panics")
    }
}

fn new_token() -> String {
    format!("session-{}", random_token())
}

async fn authenticate(
    State(state): State<Arc<AccountState>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return empty_response(StatusCode::BAD_REQUEST);
    };
    state.recorded.lock().expect("no holder of the lock panics").push(RecordedRequest {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        headers: recorded_headers(&parts.headers),
        body: serde_json::from_slice(&bytes).ok(),
    });
    let expected = format!("Bearer {}", *state.current_token());
    let is_authorized =
        parts.headers.get("authorization").is_some_and(|it| it.as_bytes() == expected.as_bytes());
    match is_authorized {
        true => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        false => {
            let refusal = json_response(StatusCode::UNAUTHORIZED, Body::from("{}"));
            with_header(refusal, "www-authenticate", "Bearer error=\"invalid_token\"")
        }
    }
}

/// A page of the list. A cursor is the index of the page's first connector.
async fn list_connectors(State(state): State<Arc<AccountState>>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let cursor = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "cursor");
    let Ok(from) = cursor.map_or(Ok(0), |(_, value)| value.parse::<usize>()) else {
        return empty_response(StatusCode::BAD_REQUEST);
    };
    let all = &state.connectors;
    let page: Vec<&Value> = all.iter().skip(from).take(state.page_size).collect();
    let next = from + page.len();
    let next = (next < all.len()).then(|| next.to_string());
    let body = json!({"connectors": page, "nextCursor": next});
    json_response(StatusCode::OK, Body::from(body.to_string()))
}
