//! A connector account: a list of connectors behind a bearer token, a proxy for each connector, and an authorization server.

mod sign_in;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{any, get};
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
    /// More members of its item in the list.
    pub members: Value,
    /// Who may use it.
    pub access: ConnectorAccess,
}

/// Who may use a connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectorAccess {
    /// Everybody with the account's token.
    Account,
    /// No user, until a login at the vendor that never happens.
    OwnLogin,
}

impl Connector {
    /// A compliant connector.
    pub fn new(name: &str) -> Connector {
        let vendor_url = format!("https://mcp.{}.example/", name.to_lowercase().replace(' ', "-"));
        Connector {
            name: name.to_owned(),
            vendor_url,
            script: Script::both(),
            members: json!({}),
            access: ConnectorAccess::Account,
        }
    }

    /// The same with more members in the list, such as policies.
    pub fn with_members(self, members: Value) -> Connector {
        Connector { members, ..self }
    }

    /// The same with a login of its own.
    pub fn with_own_login(self) -> Connector {
        Connector { access: ConnectorAccess::OwnLogin, ..self }
    }
}

/// How the list of connectors is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListShape {
    /// `connectors` and `nextCursor`, at `/v1/connectors`.
    #[default]
    Cursor,
    /// `data`, `has_more` and `next_page`, at `/v1/mcp_servers`.
    Pages,
}

/// What the list answers instead of the connectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListFault {
    /// Nothing, ever.
    Silence,
    /// This status and body.
    Body(u16, String),
    /// The last page again and again, each time with the cursor of another one.
    EndlessPages,
}

/// The account's service on its own thread. Dropping it ends the service and every connection to it.
#[derive(Debug)]
pub struct ConnectorService {
    state: Arc<AccountState>,
    /// Ends the servers when dropped.
    _thread: ServerThread,
}

#[derive(Debug)]
struct AccountState {
    origin: String,
    shape: ListShape,
    connectors: Vec<Value>,
    /// The proxied paths of connectors that need a login of their own.
    own_logins: Vec<String>,
    page_size: usize,
    bearer: Mutex<String>,
    grants: Mutex<Grants>,
    fault: Mutex<Option<ListFault>>,
    recorded: Mutex<Vec<RecordedRequest>>,
}

/// What the authorization server issued and has not taken back.
#[derive(Debug, Default)]
struct Grants {
    codes: Vec<String>,
    refresh_tokens: Vec<String>,
    logins: usize,
    refreshes: usize,
}

impl ConnectorService {
    /// Starts a service with these connectors, listed in pages of `page_size`.
    pub fn start(connectors: &[Connector], page_size: usize) -> io::Result<ConnectorService> {
        ConnectorService::start_with(connectors, page_size, ListShape::default())
    }

    /// Like [`ConnectorService::start`], with a list of this shape.
    pub fn start_with(
        connectors: &[Connector],
        page_size: usize,
        shape: ListShape,
    ) -> io::Result<ConnectorService> {
        let port = LoopbackListener::bind()?;
        let origin = port.origin.clone();
        let entries = connectors.iter().enumerate().map(|(index, connector)| {
            let vendor: String =
                form_urlencoded::byte_serialize(connector.vendor_url.as_bytes()).collect();
            let url = format!("{origin}/proxy/{index}/mcp?mcp_url={vendor}");
            let name = match shape {
                ListShape::Cursor => "name",
                ListShape::Pages => "display_name",
            };
            let mut item = json!({"id": format!("connector-{index}"), "url": url});
            item[name] = connector.name.clone().into();
            for (key, value) in connector.members.as_object().into_iter().flatten() {
                item[key] = value.clone();
            }
            item
        });
        let own =
            connectors.iter().enumerate().filter(|it| it.1.access == ConnectorAccess::OwnLogin);
        let state = Arc::new(AccountState {
            shape,
            connectors: entries.collect(),
            own_logins: own.map(|(index, _)| format!("/proxy/{index}/")).collect(),
            page_size: page_size.max(1),
            bearer: Mutex::new(new_token()),
            grants: Mutex::default(),
            fault: Mutex::default(),
            recorded: Mutex::default(),
            origin,
        });
        let mut routes = Router::new()
            .route("/v1/connectors", get(list_connectors))
            .route("/v1/mcp_servers", get(list_connectors))
            .route("/redirect", any(redirect))
            .merge(sign_in::routes());
        for (index, connector) in connectors.iter().enumerate() {
            let server = ServerState::new(connector.script.clone(), RunMode::InTest);
            routes =
                routes.nest_service(&format!("/proxy/{index}"), router(Transport::Http, server));
        }
        let routes = routes.with_state(Arc::clone(&state));
        let routes = routes.layer(from_fn_with_state(Arc::clone(&state), authenticate));
        let thread = ServerThread::spawn("connectors", vec![(port, routes)])?;
        Ok(ConnectorService { state, _thread: thread })
    }

    /// The URL of the list.
    pub fn url(&self) -> String {
        self.state.list_url()
    }

    /// The origin of the service.
    pub fn origin(&self) -> String {
        self.state.origin.clone()
    }

    /// The currently valid token.
    pub fn bearer_token(&self) -> String {
        self.state.current_token().clone()
    }

    /// Replaces the token; the old one becomes invalid.
    pub fn rotate_token(&self) -> String {
        self.state.replace_token()
    }

    /// Ends the session: no token and no refresh token is valid any more.
    pub fn end_session(&self) {
        self.state.end_session();
    }

    /// How often a user signed in, and how often tokens were refreshed or tried to be.
    pub fn logins_and_refreshes(&self) -> (usize, usize) {
        let grants = self.state.grants();
        (grants.logins, grants.refreshes)
    }

    /// Lets the list fail from now on, or work again.
    pub fn set_fault(&self, fault: Option<ListFault>) {
        *self.state.fault.lock().expect("no holder of the lock panics") = fault;
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state.recorded.lock().expect("no holder of the lock panics").clone()
    }
}

impl AccountState {
    fn list_url(&self) -> String {
        let path = match self.shape {
            ListShape::Cursor => "/v1/connectors",
            ListShape::Pages => "/v1/mcp_servers",
        };
        format!("{}{path}", self.origin)
    }

    fn current_token(&self) -> MutexGuard<'_, String> {
        self.bearer.lock().expect("no holder of the lock panics")
    }

    fn replace_token(&self) -> String {
        let new = new_token();
        self.current_token().clone_from(&new);
        new
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().expect("no holder of the lock panics")
    }

    fn end_session(&self) {
        self.replace_token();
        self.grants().refresh_tokens.clear();
    }

    fn fault(&self) -> Option<ListFault> {
        self.fault.lock().expect("no holder of the lock panics").clone()
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
    let path = parts.uri.path().to_owned();
    let expected = format!("Bearer {}", *state.current_token());
    let is_authorized = sign_in::is_public(&path)
        || parts
            .headers
            .get("authorization")
            .is_some_and(|it| it.as_bytes() == expected.as_bytes());
    let needs_own_login = state.own_logins.iter().any(|it| path.starts_with(it.as_str()));
    match is_authorized && !needs_own_login {
        true => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        false => {
            let refusal = json_response(StatusCode::UNAUTHORIZED, Body::from("{}"));
            let metadata = format!("{}/.well-known/oauth-protected-resource", state.origin);
            let challenge =
                format!("Bearer error=\"invalid_token\", resource_metadata=\"{metadata}\"");
            with_header(refusal, "www-authenticate", &challenge)
        }
    }
}

/// Sends the client to the URL in the parameter `to`.
async fn redirect(request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let to = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "to");
    let to = to.map(|(_, url)| url.into_owned()).unwrap_or_default();
    with_header(empty_response(StatusCode::TEMPORARY_REDIRECT), "location", &to)
}

/// A page of the list. A cursor is the index of the page's first connector.
async fn list_connectors(State(state): State<Arc<AccountState>>, request: Request) -> Response {
    match state.fault() {
        Some(ListFault::Silence) => return std::future::pending().await,
        Some(ListFault::Body(status, text)) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
            return json_response(status, Body::from(text));
        }
        Some(ListFault::EndlessPages) => {
            let body =
                json!({"data": state.connectors, "has_more": true, "next_page": random_token()});
            return json_response(StatusCode::OK, Body::from(body.to_string()));
        }
        None => {}
    }
    let query = request.uri().query().unwrap_or_default();
    let parameter = match state.shape {
        ListShape::Cursor => "cursor",
        ListShape::Pages => "page",
    };
    let cursor = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == parameter);
    let Ok(from) = cursor.map_or(Ok(0), |(_, value)| value.parse::<usize>()) else {
        return empty_response(StatusCode::BAD_REQUEST);
    };
    let all = &state.connectors;
    let page: Vec<&Value> = all.iter().skip(from).take(state.page_size).collect();
    let next = from + page.len();
    let next = (next < all.len()).then(|| next.to_string());
    let body = match state.shape {
        ListShape::Cursor => json!({"connectors": page, "nextCursor": next}),
        ListShape::Pages => json!({"data": page, "has_more": next.is_some(), "next_page": next}),
    };
    json_response(StatusCode::OK, Body::from(body.to_string()))
}
