//! An IDE: a server over WebSocket or HTTP with SSE that behaves as the plugin of an editor does, with a lock file. It shows
//! diffs that a test accepts or rejects, and announces selections and mentions.

mod ide_state;
mod session;
mod tools;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::Request;
use axum::response::Response;
use serde_json::{Value, json};

use crate::http::loopback::{LoopbackListener, ServerThread};
use crate::processes::wait_until;
use ide_state::IdeState;
pub use ide_state::{IdeTransport, OpenDiff};

/// How long a test waits for something that the client does.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A running IDE. Dropping it ends the IDE and its connections; its lock file stays unless it is removed.
#[derive(Debug)]
pub struct TestIde {
    state: Arc<Mutex<IdeState>>,
    port: u16,
    _thread: ServerThread,
}

impl TestIde {
    /// An IDE over WebSocket that requires a token.
    pub fn ws(token: &str) -> TestIde {
        TestIde::start(IdeState::new(IdeTransport::WebSocket, Some(token)))
    }

    /// An IDE over HTTP with SSE, without a token.
    pub fn sse() -> TestIde {
        TestIde::start(IdeState::new(IdeTransport::Sse, None))
    }

    fn start(state: IdeState) -> TestIde {
        let state = Arc::new(Mutex::new(state));
        let listener = LoopbackListener::bind().expect("a free port");
        let port = listener.origin.rsplit(':').next().and_then(|it| it.parse().ok());
        let router = Router::new().fallback(serve).with_state(state.clone());
        let thread = ServerThread::spawn("ide", vec![(listener, router)]).expect("a thread");
        TestIde { state, port: port.expect("an origin has a port"), _thread: thread }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The content of its lock file.
    pub fn lock_json(&self, workspace_folders: &[&Path]) -> Value {
        let state = self.state();
        let mut lock = json!({
            "pid": std::process::id(),
            "workspaceFolders": workspace_folders,
            "ideName": "Test Editor",
        });
        if let Some(token) = &state.token {
            lock["authToken"] = json!(token);
        }
        if state.transport == IdeTransport::WebSocket {
            lock["transport"] = json!("ws");
        }
        lock
    }

    /// Writes its lock file into a folder.
    pub fn write_lock(&self, folder: &Path, workspace_folders: &[&Path]) -> PathBuf {
        self.write_lock_json(folder, &self.lock_json(workspace_folders))
    }

    /// Writes a lock file with other content.
    pub fn write_lock_json(&self, folder: &Path, lock: &Value) -> PathBuf {
        std::fs::create_dir_all(folder).expect("a folder");
        let path = folder.join(format!("{}.lock", self.port));
        std::fs::write(&path, lock.to_string()).expect("a lock file");
        path
    }

    /// Makes it require another token than the one in lock files written before.
    pub fn change_token(&self, token: &str) {
        self.state().token = Some(token.to_owned());
    }

    /// Makes it accept connections and send nothing at all.
    pub fn stop_answering(&self) {
        self.state().is_silent = true;
    }

    /// Ends every connection, as an IDE does that restarts its extension.
    pub fn drop_connections(&self) {
        self.state().clients.clear();
    }

    /// All messages of clients so far, in order.
    pub fn messages(&self) -> Vec<Value> {
        self.state().messages.clone()
    }

    /// The methods of all messages so far; for a tool call, the tool's name.
    pub fn methods(&self) -> Vec<String> {
        let name = |message: &Value| match message["method"].as_str() {
            Some("tools/call") => message["params"]["name"].as_str().map(str::to_owned),
            method => method.map(str::to_owned),
        };
        self.messages().iter().filter_map(name).collect()
    }

    /// The reasons for which clients were refused.
    pub fn refusals(&self) -> Vec<String> {
        self.state().refusals.clone()
    }

    /// The number of clients now.
    pub fn client_count(&self) -> usize {
        self.state().clients.iter().filter(|it| !it.is_closed()).count()
    }

    /// Waits until a message with this method, or a call of this tool, was received that often.
    #[track_caller]
    pub fn wait_for_method(&self, method: &str, count: usize) {
        wait_until(TIMEOUT, "the method was called", || {
            let seen = self.methods().iter().filter(|it| *it == method).count();
            (seen >= count).then_some(())
        });
    }

    /// Announces a selection, from the first line and character to the last ones, all from 0.
    pub fn select(&self, path: &str, text: &str, from: (u32, u32), to: (u32, u32)) {
        let place = |(line, character): (u32, u32)| json!({"line": line, "character": character});
        self.notify(
            "selection_changed",
            &json!({
                "text": text, "filePath": path, "fileUrl": format!("file://{path}"),
                "selection": {"start": place(from), "end": place(to), "isEmpty": text.is_empty()},
            }),
        );
    }

    /// Announces that a file or lines of it, from 0, are mentioned.
    pub fn mention(&self, path: &str, lines: Option<(u32, u32)>) {
        let mut params = json!({"filePath": path});
        if let Some((first, last)) = lines {
            params["lineStart"] = json!(first);
            params["lineEnd"] = json!(last);
        }
        self.notify("at_mentioned", &params);
    }

    /// Sends any notification to all clients.
    pub fn notify(&self, method: &str, params: &Value) {
        self.state().notify_all(method, params);
    }

    /// Sets what `getDiagnostics` returns: a list of files with their diagnostics.
    pub fn set_diagnostics(&self, diagnostics: Value) {
        self.state().diagnostics = diagnostics;
    }

    /// Sets what `getDiagnostics` returns from its call with this number on, from 1.
    pub fn set_diagnostics_from_call(&self, number: usize, diagnostics: Value) {
        self.state().later_diagnostics = Some((number, diagnostics));
    }

    /// The open diffs.
    pub fn diffs(&self) -> Vec<OpenDiff> {
        self.state().diffs.clone()
    }

    /// Waits until a diff is open.
    #[track_caller]
    pub fn wait_for_diff(&self) -> OpenDiff {
        wait_until(TIMEOUT, "a diff was opened", || self.diffs().first().cloned())
    }

    /// Waits until no diff is open.
    #[track_caller]
    pub fn wait_for_no_diff(&self) {
        wait_until(TIMEOUT, "the diff was closed", || self.diffs().is_empty().then_some(()));
    }

    /// Accepts the open diff as it is proposed.
    #[track_caller]
    pub fn accept_diff(&self) {
        let diff = self.wait_for_diff();
        self.accept_diff_as(&diff.new_contents);
    }

    /// Accepts the open diff after the person edited it. As an editor does, ends the last line.
    #[track_caller]
    pub fn accept_diff_as(&self, contents: &str) {
        let diff = self.wait_for_diff();
        let mut contents = contents.to_owned();
        if !contents.ends_with('\n') {
            contents.push('\n');
        }
        self.state().finish_diff(&diff.tab_name, &["FILE_SAVED", &contents]);
    }

    /// Rejects the open diff.
    #[track_caller]
    pub fn reject_diff(&self) {
        let diff = self.wait_for_diff();
        self.state().finish_diff(&diff.tab_name, &["DIFF_REJECTED", &diff.tab_name]);
    }

    fn state(&self) -> MutexGuard<'_, IdeState> {
        session::lock(&self.state)
    }
}

async fn serve(
    State(state): State<Arc<Mutex<IdeState>>>,
    request: Request<axum::body::Body>,
) -> Response {
    session::serve(state, request).await
}
