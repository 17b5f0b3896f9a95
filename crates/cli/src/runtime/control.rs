//! How one run of the program speaks to another of the same person: a socket a process, one line each way.

pub(crate) mod approvals;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::host::Host;
use switchboard_gateway::ApprovalQueue;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream as Stream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

/// How long the other side may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest request, and the longest answer that is read: some say much of many calls.
const MAX_REQUEST: u64 = 64 * 1024;
const MAX_RESPONSE: u64 = 64 * 1024 * 1024;
/// How many may speak to us at once.
const MAX_CONNECTIONS: usize = 16;

/// A socket that listens. End it, or it lies about until somebody finds nobody behind it.
#[derive(Debug)]
pub struct ControlSocket {
    end: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

/// What others may speak to us about.
#[derive(Debug, Clone)]
pub struct ControlTargets {
    /// Servers that may be connected to anew.
    pub host: Host,
    /// Calls that wait for an answer, where any could.
    pub approvals: Option<ApprovalQueue>,
}

/// What one of several running programs says.
#[derive(Debug)]
pub struct ControlResponse {
    /// The number of its process.
    pub process: u32,
    /// What it says.
    pub body: Json,
}

/// What a running program says to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconnectOutcome {
    /// It does so.
    Reconnecting,
    /// It does not know such a server.
    Unknown,
}

/// Listens for other runs. Where that is not possible nobody can speak to us, and nothing else is lost.
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
    // Whoever had our number before is gone.
    let _usually_absent = fs::remove_file(&path);
    let short = ShortSocketFolder::link_to(folder)?;
    let listener = UnixListener::bind(short.folder().join(name))?;
    Ok((listener, path))
}

/// One request, one answer. Only our own person is listened to.
async fn serve_connection(mut stream: Stream, targets: ControlTargets) -> io::Result<()> {
    let ours = rustix::process::geteuid().as_raw();
    if stream.peer_cred()?.uid() != ours {
        return Ok(());
    }
    let (reader, mut writer) = stream.split();
    let mut line = String::new();
    tokio::io::BufReader::new(reader.take(MAX_REQUEST)).read_line(&mut line).await?;
    let request: Json = serde_json::from_str(&line).unwrap_or_default();
    let answer = match (request["reconnect"].as_str(), request["approvals"].as_str()) {
        (Some(name), _) => match targets.host.reconnect(name).await {
            Some(()) => json!({"reconnecting": name}),
            None => json!({"unknown": name}),
        },
        (None, Some(wish)) => approvals::respond(targets.approvals.as_ref(), wish, &request).await,
        (None, None) => json!({"error": "this request is not known"}),
    };
    writer.write_all(format!("{answer}\n").as_bytes()).await
}

/// Asks every running program to connect to a server anew.
pub fn reconnect(folder: &Path, name: &str) -> io::Result<Vec<ReconnectOutcome>> {
    let said = request_all(folder, &json!({"reconnect": name}))?;
    let answer = |said: &ControlResponse| match said.body["reconnecting"].is_string() {
        true => ReconnectOutcome::Reconnecting,
        false => ReconnectOutcome::Unknown,
    };
    Ok(said.iter().map(answer).collect())
}

/// Asks every running program the same. Those that do not answer are left out.
pub fn request_all(folder: &Path, request: &Json) -> io::Result<Vec<ControlResponse>> {
    let mut answers = Vec::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(answers),
        Err(error) => return Err(error),
    };
    let short = ShortSocketFolder::link_to(folder)?;
    for entry in entries.flatten() {
        let path = short.folder().join(entry.file_name());
        let stem = path.file_stem().and_then(|it| it.to_str());
        let process = stem.and_then(|it| it.parse().ok()).unwrap_or_default();
        match UnixStream::connect(&path) {
            Ok(stream) => {
                let answer = exchange(stream, request);
                answers.extend(answer.map(|answer| ControlResponse { process, body: answer }));
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // Its owner was killed.
                let _already_gone = fs::remove_file(entry.path());
            }
            Err(_) => {}
        }
    }
    Ok(answers)
}

/// Asks one running program. None where it does not answer.
pub fn request_one(folder: &Path, process: u32, request: &Json) -> io::Result<Option<Json>> {
    let short = ShortSocketFolder::link_to(folder)?;
    let stream = UnixStream::connect(short.folder().join(format!("{process}.sock")));
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

/// A short way to a folder: addresses of sockets may have about a hundred bytes, paths have more.
struct ShortSocketFolder(tempfile::TempDir);

impl ShortSocketFolder {
    fn link_to(folder: &Path) -> io::Result<ShortSocketFolder> {
        let short = tempfile::Builder::new().prefix("swb").tempdir()?;
        std::os::unix::fs::symlink(fs::canonicalize(folder)?, short.path().join("r"))?;
        Ok(ShortSocketFolder(short))
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("r")
    }
}
