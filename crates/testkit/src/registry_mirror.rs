//! A registry of servers with hand-written pages: three pages, every type of package, both styles of keys, a deprecated and
//! a deleted server. Misbehaves on request.

mod hostile;

use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::http::loopback::{LoopbackListener, ServerThread};
use crate::http::recorded_request::{RecordedRequest, recorded_headers};
use crate::http::response::{empty_response, json_response};

pub use hostile::Hostility;

/// The hand-written pages.
const PAGES: [&str; 3] = [
    include_str!("registry_mirror/page-1.json"),
    include_str!("registry_mirror/page-2.json"),
    include_str!("registry_mirror/page-3.json"),
];

/// How a mirror behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirrorMode {
    /// The current API, `/v0.1`.
    Current,
    /// Only the older API, `/v0`, which ignores `version` and ends its pages with an empty cursor.
    Older,
    /// The current API with a fault.
    Hostile(Hostility),
}

/// A registry on its own thread. Dropping it ends the registry.
#[derive(Debug)]
pub struct RegistryMirror {
    origin: String,
    state: Arc<MirrorState>,
    /// Ends the server when dropped.
    _thread: ServerThread,
}

#[derive(Debug)]
struct MirrorState {
    mode: MirrorMode,
    pages: Vec<Vec<Value>>,
    bundle: Vec<u8>,
    recorded: Mutex<Vec<RecordedRequest>>,
}

impl RegistryMirror {
    /// Starts a mirror.
    pub fn start(mode: MirrorMode) -> io::Result<RegistryMirror> {
        RegistryMirror::start_with_bundle(mode, b"not a real bundle".to_vec())
    }

    /// Starts a mirror whose bundle has this content.
    pub fn start_with_bundle(mode: MirrorMode, bundle: Vec<u8>) -> io::Result<RegistryMirror> {
        let port = LoopbackListener::bind()?;
        let origin = port.origin.clone();
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &bundle);
        let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let page = |text: &&str| -> Vec<Value> {
            let text = text.replace("MIRROR_ORIGIN", &origin).replace("BUNDLE_SHA256", &digest);
            serde_json::from_str(&text).expect("the pages are JSON")
        };
        let mut pages: Vec<Vec<Value>> = PAGES.iter().map(page).collect();
        if let MirrorMode::Hostile(hostility) = mode {
            pages.push(hostile::servers(hostility, &origin));
        }
        let state = Arc::new(MirrorState { mode, pages, bundle, recorded: Mutex::default() });
        let routes = Router::new().fallback(respond).with_state(Arc::clone(&state));
        let thread = ServerThread::spawn("registry", vec![(port, routes)])?;
        Ok(RegistryMirror { origin, state, _thread: thread })
    }

    /// The base URL.
    pub fn url(&self) -> &str {
        &self.origin
    }

    /// The paths and queries of all requests so far, in order.
    pub fn paths(&self) -> Vec<String> {
        let recorded = self.state.recorded.lock().expect("no holder of the lock panics");
        recorded.iter().map(|it| it.path.clone()).collect()
    }
}

async fn respond(State(state): State<Arc<MirrorState>>, request: Request) -> Response {
    let uri = request.uri().clone();
    state.recorded.lock().expect("no holder of the lock panics").push(RecordedRequest {
        method: request.method().to_string(),
        path: uri.to_string(),
        headers: recorded_headers(request.headers()),
        body: None,
    });
    if let MirrorMode::Hostile(hostility) = state.mode
        && let Some(response) = hostile::respond(hostility, &uri)
    {
        return response;
    }
    if uri.path() == "/files/server.mcpb" {
        return Response::new(Body::from(state.bundle.clone()));
    }
    let version = match state.mode {
        MirrorMode::Current | MirrorMode::Hostile(_) => "/v0.1/servers",
        MirrorMode::Older => "/v0/servers",
    };
    let Some(rest) = uri.path().strip_prefix(version) else { return missing() };
    let segments: Vec<&str> = rest.split('/').skip(1).collect();
    let query: Vec<(String, String)> =
        form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    match &segments[..] {
        [] => state.list(&query),
        // A slash of the name is encoded; one that is not makes another path.
        [name, "versions"] => state.versions(&decode(name)),
        [name, "versions", version] => state.version(&decode(name), version),
        [..] => missing(),
    }
}

fn decode(segment: &str) -> String {
    segment.replace("%2F", "/")
}

fn missing() -> Response {
    json_response(StatusCode::NOT_FOUND, Body::from(json!({"error": "not found"}).to_string()))
}

fn page_response(rows: &[&Value], next: &Value) -> Response {
    let page = json!({"servers": rows, "metadata": {"nextCursor": next, "count": rows.len()}});
    json_response(StatusCode::OK, Body::from(page.to_string()))
}

/// The server inside a row.
fn server_of(row: &Value) -> &Value {
    row.get("server").unwrap_or(row)
}

fn is_latest(row: &Value) -> bool {
    let meta = |of: &Value| of["_meta"]["io.modelcontextprotocol.registry/official"].clone();
    [meta(row), meta(server_of(row))]
        .iter()
        .any(|it| it["isLatest"] == true || it["is_latest"] == true)
}

impl MirrorState {
    fn list(&self, query: &[(String, String)]) -> Response {
        let value = |name: &str| query.iter().find(|(it, _)| it == name).map(|(_, it)| it.as_str());
        let number = match value("cursor") {
            None => 0,
            Some(cursor) => match cursor.strip_prefix("page-").and_then(|it| it.parse().ok()) {
                Some(number) => number,
                None => return empty_response(StatusCode::BAD_REQUEST),
            },
        };
        let search = value("search").unwrap_or_default().to_lowercase();
        let only_latest = self.mode != MirrorMode::Older && value("version") == Some("latest");
        let matches = |row: &&Value| {
            let name = server_of(row)["name"].as_str().unwrap_or_default().to_lowercase();
            name.contains(&search) && (!only_latest || is_latest(row))
        };
        let Some(page) = self.pages.get(number) else {
            return empty_response(StatusCode::BAD_REQUEST);
        };
        let rows: Vec<&Value> = page.iter().filter(matches).collect();
        let next = match (number + 1 < self.pages.len(), self.mode) {
            (true, _) => json!(format!("page-{}", number + 1)),
            (false, MirrorMode::Older) => json!(""),
            (false, MirrorMode::Current | MirrorMode::Hostile(_)) => Value::Null,
        };
        page_response(&rows, &next)
    }

    fn rows(&self, name: &str) -> Vec<&Value> {
        self.pages.iter().flatten().filter(|row| server_of(row)["name"] == name).collect()
    }

    fn versions(&self, name: &str) -> Response {
        match &self.rows(name)[..] {
            [] => missing(),
            rows => page_response(rows, &Value::Null),
        }
    }

    fn version(&self, name: &str, version: &str) -> Response {
        let rows = self.rows(name);
        let found = rows.iter().find(|row| match version {
            "latest" => is_latest(row),
            version => server_of(row)["version"] == version,
        });
        match found {
            Some(row) => json_response(StatusCode::OK, Body::from(row.to_string())),
            None => missing(),
        }
    }
}
