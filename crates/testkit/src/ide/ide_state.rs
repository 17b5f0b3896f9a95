//! The state of an IDE: its clients, the messages it got, and the diffs that wait.

use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The transport of an IDE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdeTransport {
    /// WebSocket.
    WebSocket,
    /// HTTP with SSE.
    Sse,
}

/// A diff that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenDiff {
    /// The name of its tab.
    pub tab_name: String,
    /// The file.
    pub path: String,
    /// The proposed contents.
    pub new_contents: String,
    /// The id of the request that opened it.
    pub(super) request_id: Value,
}

/// The state of an IDE.
#[derive(Debug)]
pub(super) struct IdeState {
    pub(super) transport: IdeTransport,
    pub(super) token: Option<String>,
    pub(super) is_silent: bool,
    pub(super) clients: Vec<mpsc::UnboundedSender<Value>>,
    pub(super) messages: Vec<Value>,
    pub(super) refusals: Vec<String>,
    pub(super) diffs: Vec<OpenDiff>,
    pub(super) diagnostics: Value,
    pub(super) later_diagnostics: Option<(usize, Value)>,
    pub(super) diagnostics_calls: usize,
}

impl IdeState {
    pub(super) fn new(transport: IdeTransport, token: Option<&str>) -> IdeState {
        IdeState {
            transport,
            token: token.map(str::to_owned),
            is_silent: false,
            clients: Vec::new(),
            messages: Vec::new(),
            refusals: Vec::new(),
            diffs: Vec::new(),
            diagnostics: json!([]),
            later_diagnostics: None,
            diagnostics_calls: 0,
        }
    }

    pub(super) fn add_client(&mut self) -> mpsc::UnboundedReceiver<Value> {
        let (sender, frames) = mpsc::unbounded_channel();
        self.clients.push(sender);
        frames
    }

    pub(super) fn notify_all(&mut self, method: &str, params: &Value) {
        self.send_all(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(super) fn send_all(&mut self, message: &Value) {
        self.clients.retain(|it| it.send(message.clone()).is_ok());
    }

    /// Answers the request that opened a diff.
    pub(super) fn finish_diff(&mut self, tab_name: &str, texts: &[&str]) {
        let Some(at) = self.diffs.iter().position(|it| it.tab_name == tab_name) else { return };
        let diff = self.diffs.remove(at);
        let result = text_result(texts);
        self.send_all(&json!({"jsonrpc": "2.0", "id": diff.request_id, "result": result}));
    }

    /// What an editor sends when nothing is open.
    pub(super) fn notify_idle_selection(&mut self) {
        let place = json!({"line": 0, "character": 0});
        let selection = json!({"start": place, "end": place, "isEmpty": true});
        let params =
            json!({"text": "", "filePath": "", "fileUrl": "file://", "selection": selection});
        self.notify_all("selection_changed", &params);
    }
}

/// A result with texts.
pub(super) fn text_result(texts: &[&str]) -> Value {
    let block = |text: &&str| json!({"type": "text", "text": text});
    json!({"content": texts.iter().map(block).collect::<Vec<_>>()})
}
