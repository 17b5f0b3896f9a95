//! How one run of the program speaks to another of the same person: a socket a process, one line each way.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::engine::Host;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream as Stream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

/// How long the other side may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest line that is read.
const LONGEST: u64 = 64 * 1024;
/// How many may speak to us at once.
const SPEAKERS: usize = 16;

/// A socket that listens. End it, or it lies about until somebody finds nobody behind it.
#[derive(Debug)]
pub struct Control {
    end: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

/// What a running program says to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It does so.
    Reconnecting,
    /// It does not know such a server.
    Unknown,
}

/// Listens for other runs. Where that is not possible nobody can speak to us, and nothing else is lost.
pub fn serve(host: Host, folder: &Path) -> Control {
    let Ok((listener, path)) = listen(folder) else { return Control { end: None, task: None } };
    let (end, mut ended) = oneshot::channel();
    let task = tokio::spawn(async move {
        let mut speakers = JoinSet::new();
        loop {
            tokio::select! {
                _ = &mut ended => break,
                accepted = listener.accept(), if speakers.len() < SPEAKERS => {
                    if let Ok((stream, _)) = accepted {
                        let host = host.clone();
                        speakers.spawn(async move {
                            let _took_too_long = timeout(PATIENCE, converse(stream, host)).await;
                        });
                    }
                }
                Some(_) = speakers.join_next() => {}
            }
        }
        speakers.shutdown().await;
        let _already_gone = fs::remove_file(path);
    });
    Control { end: Some(end), task: Some(task) }
}

impl Control {
    /// Stops listening.
    pub async fn end(self) {
        if let (Some(end), Some(task)) = (self.end, self.task) {
            let _already_over = end.send(());
            let _panicked = task.await;
        }
    }
}

fn listen(folder: &Path) -> io::Result<(UnixListener, PathBuf)> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let name = format!("{}.sock", std::process::id());
    let path = folder.join(&name);
    // Whoever had our number before is gone.
    let _usually_absent = fs::remove_file(&path);
    let short = Short::of(folder)?;
    let listener = UnixListener::bind(short.folder().join(name))?;
    Ok((listener, path))
}

/// One request, one answer. Only our own person is listened to.
async fn converse(mut stream: Stream, host: Host) -> io::Result<()> {
    let ours = rustix::process::geteuid().as_raw();
    if stream.peer_cred()?.uid() != ours {
        return Ok(());
    }
    let (reader, mut writer) = stream.split();
    let mut line = String::new();
    tokio::io::BufReader::new(reader.take(LONGEST)).read_line(&mut line).await?;
    let request: Json = serde_json::from_str(&line).unwrap_or_default();
    let answer = match request["reconnect"].as_str() {
        Some(name) => match host.reconnect(name).await {
            Some(()) => json!({"reconnecting": name}),
            None => json!({"unknown": name}),
        },
        None => json!({"error": "this request is not known"}),
    };
    writer.write_all(format!("{answer}\n").as_bytes()).await
}

/// Asks every running program to connect to a server anew.
pub fn reconnect(folder: &Path, name: &str) -> io::Result<Vec<Answer>> {
    let mut answers = Vec::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(answers),
        Err(error) => return Err(error),
    };
    let short = Short::of(folder)?;
    for entry in entries.flatten() {
        let path = short.folder().join(entry.file_name());
        match UnixStream::connect(path) {
            Ok(stream) => answers.extend(ask(stream, name)),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // Its owner was killed.
                let _already_gone = fs::remove_file(entry.path());
            }
            Err(_) => {}
        }
    }
    Ok(answers)
}

fn ask(mut stream: UnixStream, name: &str) -> Option<Answer> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(format!("{}\n", json!({"reconnect": name})).as_bytes()).ok()?;
    let mut line = String::new();
    BufReader::new(io::Read::take(stream, LONGEST)).read_line(&mut line).ok()?;
    let answer: Json = serde_json::from_str(&line).ok()?;
    match answer["reconnecting"].is_string() {
        true => Some(Answer::Reconnecting),
        false => Some(Answer::Unknown),
    }
}

/// A short way to a folder: addresses of sockets may have about a hundred bytes, paths have more.
struct Short(tempfile::TempDir);

impl Short {
    fn of(folder: &Path) -> io::Result<Short> {
        let short = tempfile::Builder::new().prefix("swb").tempdir()?;
        std::os::unix::fs::symlink(fs::canonicalize(folder)?, short.path().join("r"))?;
        Ok(Short(short))
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("r")
    }
}
