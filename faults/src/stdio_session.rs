//! A session of a client program: `swb serve --pool` over standard streams. It shares its servers with other sessions.

use std::collections::HashMap;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::environment::shared_home::SharedHome;
use crate::failure::Failure;
use crate::verdict::history::Shutdown;

/// How long it may take to exit after the end of its input.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
const PROTOCOL_VERSION: &str = "2025-06-18";

/// Requests that wait for a response, by id.
type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<Json>>>>;

/// A running session.
#[derive(Debug)]
pub struct StdioSession {
    process: tokio::sync::Mutex<Child>,
    input: tokio::sync::Mutex<Option<ChildStdin>>,
    pending: Pending,
    reader: JoinHandle<()>,
}

impl StdioSession {
    /// Starts `swb` and initializes the session. `on_stray_answer` gets responses that no request waits for.
    pub async fn start(
        home: &SharedHome<'_>,
        on_stray_answer: impl Fn(&str) + Send + 'static,
        stderr: std::fs::File,
    ) -> Result<StdioSession, Failure> {
        let mut command = home.swb();
        command.args(["serve", "--pool", "--mode", "bypass"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).kill_on_drop(true);
        let mut process = command
            .spawn()
            .map_err(|error| Failure::from_io("a session could not be started", error))?;
        let input = process.stdin.take();
        let output = process.stdout.take().expect("it is piped");
        let pending = Pending::default();
        let reader = tokio::spawn(read(output, pending.clone(), on_stray_answer));
        let session = StdioSession {
            process: tokio::sync::Mutex::new(process),
            input: tokio::sync::Mutex::new(input),
            pending,
            reader,
        };
        let hello = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "session", "version": "1"},
        });
        let answered = session.request(0, "initialize", hello).await;
        answered.map_err(|error| Failure::from_io("a session was not initialized", error))?;
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let sent = session.send(&ready).await;
        sent.map_err(|error| Failure::from_io("a session was not initialized", error))?;
        Ok(session)
    }

    async fn send(&self, message: &Json) -> io::Result<()> {
        let line = format!("{message}\n");
        let mut input = self.input.lock().await;
        input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(line.as_bytes()).await
    }

    /// Sends a request and waits for its response.
    pub async fn request(&self, id: u64, method: &str, params: Json) -> io::Result<Json> {
        let (sender, response) = oneshot::channel();
        lock(&self.pending).insert(id, sender);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await?;
        response.await.map_err(|_| io::Error::other("the session ended"))
    }

    /// Ends the session with the end of its input.
    pub async fn end(&self) -> Shutdown {
        drop(self.input.lock().await.take());
        let mut process = self.process.lock().await;
        let problem = match timeout(EXIT_TIMEOUT, process.wait()).await {
            Ok(Ok(status)) if status.success() => None,
            Ok(Ok(status)) => Some(format!("it ended with {status}")),
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("it did not end within {EXIT_TIMEOUT:?}")),
        };
        Shutdown { signal: "end of a session", problem, orphans: Vec::new() }
    }
}

impl Drop for StdioSession {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

fn lock(
    pending: &Mutex<HashMap<u64, oneshot::Sender<Json>>>,
) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Json>>> {
    pending.lock().expect("no thread panics while it holds the lock")
}

/// Passes each response to its request. A second response counts as one too many.
async fn read(output: ChildStdout, pending: Pending, on_stray_answer: impl Fn(&str)) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Json = serde_json::from_str(&line).unwrap_or_default();
        if message.get("result").is_none() && message.get("error").is_none() {
            continue;
        }
        let waiting = message["id"].as_u64().and_then(|id| lock(&pending).remove(&id));
        match waiting {
            Some(waiting) => {
                let _gave_up = waiting.send(message);
            }
            None => on_stray_answer(&line),
        }
    }
    lock(&pending).clear();
}
