//! The control socket: one for each running process, for other processes of the same user. One JSON line each way.

pub(crate) mod approvals;
pub mod handover;
pub mod principals;

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::Host;
use switchboard::sharing::share::socket::SocketAddress;
use switchboard_gateway::{ApprovalQueue, Dashboard, Gateway};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream as Stream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use handover::HandoverSlot;

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest request.
const MAX_REQUEST: u64 = 64 * 1024;
const MAX_RESPONSE: u64 = 64 * 1024 * 1024;
/// How many connections are served at once.
const MAX_CONNECTIONS: usize = 16;

/// A listening control socket. Call `close`, or the socket file stays until another process removes it.
#[derive(Debug)]
pub struct ControlSocket {
    end: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

/// What a control socket gives access to.
#[derive(Debug, Clone)]
pub struct ControlTargets {
    /// The host, for reconnects.
    pub host: Host,
    /// The approval queue, if there is one.
    pub approvals: Option<ApprovalQueue>,
    /// The socket that can be handed over, if there is one.
    pub handover: Option<HandoverSlot>,
    /// The gateway, if there is one.
    pub gateway: Option<Gateway>,
    /// The dashboard, if there is one.
    pub dashboard: Option<Dashboard>,
}

/// The response of one running process.
#[derive(Debug)]
pub struct ControlResponse {
    /// The process id.
    pub process: u32,
    /// The response.
    pub body: Json,
}

/// A server that one process runs for itself.
#[derive(Debug)]
pub struct OwnServer {
    /// The process of the session.
    pub process: u32,
    /// The working folder of the session.
    pub folder: PathBuf,
    /// The server's name.
    pub server: String,
    /// The server's process.
    pub pid: u32,
}

/// The response to a reconnect request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconnectOutcome {
    /// The process reconnects.
    Reconnecting,
    /// The process does not have such a server.
    Unknown,
}

/// Listens for requests. If the socket cannot be bound, the process runs without one.
pub fn serve(targets: ControlTargets, folder: &Path) -> ControlSocket {
    let Ok((listener, path)) = bind(folder) else { return ControlSocket { end: None, task: None } };
    let (end, mut ended) = oneshot::channel();
    let task = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                _ = &mut ended => break,
                accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    if let Ok((stream, _)) = accepted {
                        let targets = targets.clone();
                        connections.spawn(async move {
                            let serving = serve_connection(stream, targets);
                            let _took_too_long = timeout(TIMEOUT, serving).await;
                        });
                    }
                }
                Some(_) = connections.join_next() => {}
            }
        }
        connections.shutdown().await;
        let _already_gone = fs::remove_file(path);
    });
    ControlSocket { end: Some(end), task: Some(task) }
}

impl ControlSocket {
    /// Stops listening.
    pub async fn close(self) {
        if let (Some(end), Some(task)) = (self.end, self.task) {
            let _already_over = end.send(());
            let _panicked = task.await;
        }
    }
}

fn bind(folder: &Path) -> io::Result<(UnixListener, PathBuf)> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let name = format!("{}.sock", std::process::id());
    let path = folder.join(&name);
    // A socket of an earlier process with the same id.
    let _usually_absent = fs::remove_file(&path);
    let short = SocketAddress::of(folder)?;
    let listener = UnixListener::bind(short.path(&name))?;
    Ok((listener, path))
}

/// Handles one request. Connections of other users are dropped.
async fn serve_connection(mut stream: Stream, targets: ControlTargets) -> io::Result<()> {
    let ours = rustix::process::geteuid().as_raw();
    if stream.peer_cred()?.uid() != ours {
        return Ok(());
    }
    let (reader, _) = stream.split();
    let mut line = String::new();
    tokio::io::BufReader::new(reader.take(MAX_REQUEST)).read_line(&mut line).await?;
    let request: Json = serde_json::from_str(&line).unwrap_or_default();
    if let (Some(action), Some(handover)) = (request["handover"].as_str(), &targets.handover) {
        if let Some(response) = handover.respond(action, &stream).await? {
            stream.write_all(format!("{response}\n").as_bytes()).await?;
        }
        return Ok(());
    }
    let response = match (request["reconnect"].as_str(), request["approvals"].as_str()) {
        (Some(name), _) => match targets.host.reconnect(name).await {
            Some(()) => json!({"reconnecting": name}),
            None => json!({"unknown": name}),
        },
        (None, Some(action)) => {
            approvals::respond(targets.approvals.as_ref(), action, &request).await
        }
        (None, None) if request == dashboard_link_request() => match &targets.dashboard {
            Some(dashboard) => json!({"dashboard": dashboard.create_login_link().await}),
            None => json!({"dashboard": null}),
        },
        (None, None) if request["servers"] == true => own_servers(&targets.host),
        (None, None) if !request["principals"].is_null() => match &targets.gateway {
            Some(gateway) => principals::respond(gateway, &request).await,
            None => json!({}),
        },
        (None, None) => json!({"error": "unknown request"}),
    };
    stream.write_all(format!("{response}\n").as_bytes()).await
}

/// The server processes of a host that no other session uses.
fn own_servers(host: &Host) -> Json {
    let snapshot = host.snapshot();
    let own = snapshot.servers.values().filter(|it| !it.is_shared);
    let servers: Vec<Json> =
        own.filter_map(|it| Some(json!({"name": it.name, "pid": it.pid?}))).collect();
    json!({"servers": servers, "folder": std::env::current_dir().ok()})
}

/// The request for a new login link of the dashboard.
pub fn dashboard_link_request() -> Json {
    json!({"dashboard": "link"})
}

/// The servers that running processes run for themselves.
pub fn running_servers(folder: &Path) -> io::Result<Vec<OwnServer>> {
    let mut servers = Vec::new();
    for response in request_all(folder, &json!({"servers": true}))? {
        let ControlResponse { process, body } = response;
        let folder = PathBuf::from(body["folder"].as_str().unwrap_or_default());
        for server in body["servers"].as_array().into_iter().flatten() {
            let pid = server["pid"].as_u64().and_then(|it| u32::try_from(it).ok());
            if let (Some(name), Some(pid)) = (server["name"].as_str(), pid) {
                let (server, folder) = (name.to_owned(), folder.clone());
                servers.push(OwnServer { process, folder, server, pid });
            }
        }
    }
    Ok(servers)
}

/// Asks every running process to reconnect to a server.
pub fn reconnect(folder: &Path, name: &str) -> io::Result<Vec<ReconnectOutcome>> {
    let responses = request_all(folder, &json!({"reconnect": name}))?;
    let outcome = |response: &ControlResponse| match response.body["reconnecting"].is_string() {
        true => ReconnectOutcome::Reconnecting,
        false => ReconnectOutcome::Unknown,
    };
    Ok(responses.iter().map(outcome).collect())
}

/// Sends a request to every running process. Processes that do not respond are left out.
pub fn request_all(folder: &Path, request: &Json) -> io::Result<Vec<ControlResponse>> {
    let mut responses = Vec::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(responses),
        Err(error) => return Err(error),
    };
    let short = SocketAddress::of(folder)?;
    for entry in entries.flatten() {
        let path = short.path(&entry.file_name().to_string_lossy());
        let stem = path.file_stem().and_then(|it| it.to_str());
        let process = stem.and_then(|it| it.parse().ok()).unwrap_or_default();
        match UnixStream::connect(&path) {
            Ok(stream) => {
                let response = exchange(stream, request);
                responses.extend(response.map(|body| ControlResponse { process, body }));
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // The process was killed.
                let _already_gone = fs::remove_file(entry.path());
            }
            Err(_) => {}
        }
    }
    Ok(responses)
}

/// Sends a request to one running process; `None` if it does not respond.
pub fn request_one(folder: &Path, process: u32, request: &Json) -> io::Result<Option<Json>> {
    let short = SocketAddress::of(folder)?;
    let stream = UnixStream::connect(short.path(&format!("{process}.sock")));
    Ok(stream.ok().and_then(|stream| exchange(stream, request)))
}

fn exchange(mut stream: UnixStream, request: &Json) -> Option<Json> {
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(TIMEOUT)).ok()?;
    stream.write_all(format!("{request}\n").as_bytes()).ok()?;
    let mut line = String::new();
    BufReader::new(io::Read::take(stream, MAX_RESPONSE)).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}
