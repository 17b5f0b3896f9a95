//! A server and its authorization server on a loopback port. Refresh tokens rotate, and reuse of one ends the
//! login. Its behaviour can be changed.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use http::HeaderMap;
use serde_json::{Value, json};
use switchboard_auth::fetch::HttpFetcher;
use switchboard_auth::flow::callback::{CallbackError, CallbackSource};
use switchboard_auth::flow::runner::{
    CallbackFuture, CallbackInput, UserInteraction, UserUnavailable,
};
use switchboard_auth::flow::{DeviceAuthorization, LoginGrant, LoginPlan};
use switchboard_wire::http::client::{HttpClient, HttpSettings, ProxySettings};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use url::Url;

pub const REDIRECT: &str = "http://127.0.0.1:1/callback";

/// A recorded request.
#[derive(Debug, Clone)]
pub struct SeenRequest {
    pub path: String,
    pub headers: HeaderMap,
    pub form: HashMap<String, String>,
}

/// How the token endpoint behaves.
pub enum TokenBehavior {
    Good,
    /// Sends this response and issues nothing.
    Returns(u16, &'static str),
    /// Reports the request and never responds.
    Stalls(mpsc::Sender<String>),
    /// Every nth refresh fails.
    DownEvery(u32),
}

pub struct AuthServerState {
    pub behavior: TokenBehavior,
    pub lifetime: Duration,
    /// Whether the server accepts only bound tokens, with a nonce in each proof.
    pub requires_dpop: bool,
    /// Whether the server refuses every token.
    pub rejects_all_tokens: bool,
    pub seen: Vec<SeenRequest>,
    pub refreshes: u32,
    pub reused_refresh_tokens: u32,
    pub max_in_flight: u32,
    in_flight: u32,
    next: u64,
    codes: HashSet<String>,
    refresh: HashSet<String>,
    spent: HashSet<String>,
    access: HashMap<String, Instant>,
    required_scope: Option<&'static str>,
}

impl AuthServerState {
    /// Invalidates every access token.
    pub fn invalidate_access_tokens(&mut self) {
        self.access.clear();
    }

    pub fn invalidate_refresh_tokens(&mut self) {
        self.refresh.clear();
    }

    pub fn require_scope(&mut self, scope: &'static str) {
        self.required_scope = Some(scope);
    }

    pub fn require_no_scope(&mut self) {
        self.required_scope = None;
    }

    pub fn token_requests(&self) -> usize {
        self.seen.iter().filter(|seen| seen.path == "/token").count()
    }

    fn issue(&mut self, kind: &str) -> Value {
        self.next += 1;
        let (access, refresh) = (format!("access-{}", self.next), format!("refresh-{}", self.next));
        self.access.insert(access.clone(), Instant::now() + self.lifetime);
        self.refresh.insert(refresh.clone());
        json!({
            "access_token": access,
            "refresh_token": refresh,
            "token_type": kind,
            "expires_in": self.lifetime.as_secs(),
        })
    }
}

/// Runs until it is dropped.
pub struct AuthServer {
    pub address: SocketAddr,
    state: Arc<Mutex<AuthServerState>>,
    task: JoinHandle<()>,
}

impl Drop for AuthServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl AuthServer {
    pub async fn start() -> AuthServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(AuthServerState {
            behavior: TokenBehavior::Good,
            lifetime: Duration::from_secs(3600),
            requires_dpop: false,
            rejects_all_tokens: false,
            seen: Vec::new(),
            refreshes: 0,
            reused_refresh_tokens: 0,
            max_in_flight: 0,
            in_flight: 0,
            next: 0,
            codes: HashSet::new(),
            refresh: HashSet::new(),
            spent: HashSet::new(),
            access: HashMap::new(),
            required_scope: None,
        }));
        let shared = state.clone();
        let router = Router::new().fallback(move |request: Request| {
            let state = shared.clone();
            async move { answer(&state, address, request).await }
        });
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves until it is dropped");
        });
        AuthServer { address, state, task }
    }

    pub fn state(&self) -> MutexGuard<'_, AuthServerState> {
        self.state.lock().expect("unpoisoned")
    }

    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).expect("a URL")
    }

    pub fn server(&self) -> Url {
        self.url("/mcp")
    }

    pub fn plan(&self, method: LoginGrant) -> LoginPlan {
        LoginPlan::new(self.server(), method, "Switchboard")
    }
}

async fn answer(state: &Mutex<AuthServerState>, address: SocketAddr, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.expect("a body");
    let path = parts.uri.path().to_owned();
    let encoded = match path.as_str() {
        "/authorize" => parts.uri.query().unwrap_or_default().as_bytes().to_vec(),
        _ => body.to_vec(),
    };
    let form = url::form_urlencoded::parse(&encoded).into_owned().collect();
    let seen = SeenRequest { path: path.clone(), headers: parts.headers, form };
    state.lock().expect("unpoisoned").seen.push(seen.clone());
    let base = format!("http://{address}");
    match path.as_str() {
        "/.well-known/oauth-protected-resource/mcp" => json_response(
            200,
            &json!({
                "resource": format!("{base}/mcp"),
                "authorization_servers": [base],
            }),
        ),
        "/.well-known/oauth-authorization-server" => json_response(
            200,
            &json!({
                "issuer": base,
                "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"),
                "registration_endpoint": format!("{base}/register"),
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
                "dpop_signing_alg_values_supported": ["ES256"],
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
            }),
        ),
        "/register" => json_response(201, &json!({ "client_id": "me", "client_secret": "shh" })),
        "/authorize" => authorize(&mut state.lock().expect("unpoisoned"), &seen, &base),
        "/token" => tokens(state, &seen).await,
        "/mcp" => resource(&mut state.lock().expect("unpoisoned"), &seen, &base, &body),
        _ => json_response(404, &json!({})),
    }
}

fn authorize(state: &mut AuthServerState, seen: &SeenRequest, base: &str) -> Response {
    state.next += 1;
    let code = format!("code-{}", state.next);
    state.codes.insert(code.clone());
    let mut back = Url::parse(&seen.form["redirect_uri"]).expect("a URL");
    back.query_pairs_mut()
        .append_pair("code", &code)
        .append_pair("state", &seen.form["state"])
        .append_pair("iss", base);
    let builder = Response::builder().status(302).header("location", back.as_str());
    builder.body(Body::empty()).expect("a response")
}

async fn tokens(state: &Mutex<AuthServerState>, seen: &SeenRequest) -> Response {
    let stalled = match &state.lock().expect("unpoisoned").behavior {
        TokenBehavior::Stalls(sender) => Some(sender.clone()),
        TokenBehavior::Good | TokenBehavior::Returns(..) | TokenBehavior::DownEvery(_) => None,
    };
    if let Some(sender) = stalled {
        let who = seen.headers.get("user-agent").and_then(|it| it.to_str().ok());
        let _test_over = sender.send(who.unwrap_or_default().to_owned()).await;
        std::future::pending::<()>().await;
    }
    {
        let mut state = state.lock().expect("unpoisoned");
        state.in_flight += 1;
        state.max_in_flight = state.max_in_flight.max(state.in_flight);
    }
    // Give a concurrent request time to interleave.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let mut state = state.lock().expect("unpoisoned");
    state.in_flight -= 1;
    grant(&mut state, seen)
}

fn grant(state: &mut AuthServerState, seen: &SeenRequest) -> Response {
    let is_refresh = seen.form["grant_type"] == "refresh_token";
    state.refreshes += u32::from(is_refresh);
    match state.behavior {
        TokenBehavior::Returns(status, body) => return response(status, body.to_owned()),
        TokenBehavior::DownEvery(count) if is_refresh && state.refreshes.is_multiple_of(count) => {
            return response(503, "down".to_owned());
        }
        TokenBehavior::Good | TokenBehavior::DownEvery(_) | TokenBehavior::Stalls(_) => {}
    }
    let kind = match seen.headers.contains_key("dpop") {
        true => "DPoP",
        false => "Bearer",
    };
    if kind == "DPoP" && nonce_in(&seen.headers).as_deref() != Some("as-nonce") {
        let mut response = json_response(400, &json!({ "error": "use_dpop_nonce" }));
        let nonce = "as-nonce".parse().expect("a value");
        response.headers_mut().insert("dpop-nonce", nonce);
        return response;
    }
    let is_good = match seen.form["grant_type"].as_str() {
        "authorization_code" => state.codes.remove(&seen.form["code"]),
        "refresh_token" => {
            let token = &seen.form["refresh_token"];
            if state.spent.contains(token) {
                // Reuse detection: the login ends.
                state.reused_refresh_tokens += 1;
                state.refresh.clear();
            }
            let is_good = state.refresh.remove(token);
            state.spent.insert(token.clone());
            is_good
        }
        "client_credentials" => true,
        _ => false,
    };
    let is_known = seen.form.get("client_secret").is_some_and(|secret| secret == "shh");
    match (is_good, is_known) {
        (true, true) => json_response(200, &state.issue(kind)),
        (true, false) => json_response(401, &json!({ "error": "invalid_client" })),
        (false, _) => json_response(400, &json!({ "error": "invalid_grant" })),
    }
}

fn nonce_in(headers: &HeaderMap) -> Option<String> {
    use base64::Engine;
    let proof = headers.get("dpop")?.to_str().ok()?;
    let payload = proof.split('.').nth(1)?;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Value = serde_json::from_slice(&bytes).ok()?;
    claims["nonce"].as_str().map(str::to_owned)
}

fn resource(state: &mut AuthServerState, seen: &SeenRequest, base: &str, body: &[u8]) -> Response {
    let presented = seen.headers.get("authorization").and_then(|it| it.to_str().ok());
    let (scheme, token) =
        presented.and_then(|presented| presented.split_once(' ')).unwrap_or_default();
    let expected = match state.requires_dpop {
        true => "DPoP",
        false => "Bearer",
    };
    let metadata = format!("resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"");
    let reject = |status, more: &str| {
        let mut response = json_response(status, &json!({}));
        let challenge = format!("{expected} {metadata}{more}").parse().expect("a value");
        response.headers_mut().insert("www-authenticate", challenge);
        response.headers_mut().insert("dpop-nonce", "rs-nonce".parse().expect("a value"));
        response
    };
    let is_good = state.access.get(token).is_some_and(|until| Instant::now() < *until);
    if !is_good || scheme != expected || state.rejects_all_tokens {
        return reject(401, "");
    }
    if state.requires_dpop && nonce_in(&seen.headers).as_deref() != Some("rs-nonce") {
        return reject(401, ", error=\"use_dpop_nonce\"");
    }
    if let Some(scope) = state.required_scope {
        return reject(403, &format!(", error=\"insufficient_scope\", scope=\"{scope}\""));
    }
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    json_response(200, &json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} }))
}

pub fn json_response(status: u16, value: &Value) -> Response {
    response(status, value.to_string())
}

fn response(status: u16, body: String) -> Response {
    let builder = Response::builder().status(status).header("content-type", "application/json");
    builder.body(body.into()).expect("a response")
}

/// An HTTP client without proxies.
pub fn network(user_agent: &str) -> HttpClient {
    let settings = HttpSettings {
        user_agent: user_agent.to_owned(),
        proxies: ProxySettings::default(),
        extra_ca: Vec::new(),
        identity: None,
        connect_timeout: Duration::from_secs(5),
    };
    HttpClient::new(&settings).expect("a network")
}

pub fn http_fetcher() -> HttpFetcher {
    HttpFetcher::new(network("test"))
}

/// A user who approves at once.
pub struct AutoApprovingUser;

impl UserInteraction for AutoApprovingUser {
    fn open_url<'a>(&'a self, url: &'a Url) -> CallbackFuture<'a> {
        Box::pin(async move {
            let client = network("browser").reqwest_client(|builder| builder).expect("a client");
            let response = client.get(url.clone()).send().await.map_err(|_| UserUnavailable)?;
            let location = response.headers()["location"].to_str().expect("text");
            assert!(location.starts_with(REDIRECT), "{location}");
            let back = Url::parse(location).expect("a URL");
            let text = back.query().unwrap_or_default().to_owned();
            Ok(CallbackInput { text, source: CallbackSource::Listener })
        })
    }

    fn reject_callback<'a>(&'a self, _: CallbackError) -> CallbackFuture<'a> {
        Box::pin(std::future::ready(Err(UserUnavailable)))
    }

    fn show_device_code(&self, _: &DeviceAuthorization) -> Result<(), UserUnavailable> {
        Err(UserUnavailable)
    }
}

/// A browser login.
pub fn browser_method() -> LoginGrant {
    LoginGrant::Browser { redirect_uri: Url::parse(REDIRECT).expect("a URL") }
}
