//! A gateway on a loopback port in front of a scripted server, and clients that speak HTTP by hand.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::address::Around;
use switchboard::audit::{self, Record};
use switchboard::calling::Desk;
use switchboard::config::cascade::{Inputs, resolve};
use switchboard::config::layer::{Layer, Naming, Shape};
use switchboard::config::scope::Scope;
use switchboard::config::source::Source;
use switchboard::engine::{Host, Options};
use switchboard::places::Places;
use switchboard_auth::verify::{BearerList, Doorkeeper};
use switchboard_gateway::head_guard::HeadGuard;
use switchboard_gateway::{Door, Gateway, MetricsReaders, Serving, Tracer};
use tempfile::TempDir;
use testkit::{Script, Scripted};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);
/// A token that is let in.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Who is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Everybody,
    Listed,
}

/// A gateway that is being served.
pub struct WatchedBench {
    pub address: String,
    pub folder: TempDir,
    host: Host,
    tasks: Vec<JoinHandle<()>>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
    desk: Desk,
}

/// What came back.
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    /// The message in a body or in the last event of a stream.
    pub fn message(&self) -> Json {
        let mut lines = self.body.lines().rev().filter_map(|it| {
            serde_json::from_str::<Json>(it.strip_prefix("data: ").unwrap_or(it)).ok()
        });
        lines.find(Json::is_object).unwrap_or_else(|| panic!("no message: {}", self.body))
    }
}

impl WatchedBench {
    pub async fn start(
        script: impl FnOnce(&Path) -> Script,
        tracer: Tracer,
        (admission, metrics): (Admission, MetricsReaders),
    ) -> WatchedBench {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().canonicalize().expect("it is there");
        let variables =
            BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())]);
        let around = Around { home: path.clone(), working_folder: path.clone(), variables };
        let places = Places::below(&path);
        let (host, task) =
            Host::start(Options::new(places.clone(), around)).expect("a host can be started");
        let text = format!("{{\"mcpServers\": {{\"s\": {}}}}}", Scripted::entry(&script(&path)));
        let source = Source::file(Scope::User, "settings.json");
        let layer = Layer::read(&source, &text, Naming::Plain, Shape::Wrapped);
        host.apply(&resolve(Inputs { layers: vec![layer], ..Inputs::default() })).await;
        let desk = Desk::new(&host, &places).expect("a desk").trusting("s");
        let (gateway, keeping) =
            Gateway::open_traced(&host, desk.clone(), Serving::default(), tracer);
        gateway.settle(PATIENCE).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let bound = listener.local_addr().expect("an address");
        let doorkeeper = match admission {
            Admission::Everybody => Doorkeeper::nobody(),
            Admission::Listed => {
                let file = path.join("tokens");
                std::fs::write(&file, format!("ada: {TOKEN}\n")).expect("written");
                private(&file);
                let list = BearerList::open(&file).expect("tokens");
                Doorkeeper::List(std::sync::Arc::new(list))
            }
        };
        let door = Door {
            guard: HeadGuard::new(bound, &[], &[]).expect("a guard"),
            doorkeeper,
            largest_request: Door::LARGEST_REQUEST,
            idle: Door::IDLE,
            metrics,
            threads: 0,
        };
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let stopped = async {
                let _dropped = stopped.await;
            };
            gateway.serve_http(listener, door, stopped).await.expect("it serves");
        });
        let (address, tasks) = (bound.to_string(), vec![task, keeping]);
        WatchedBench { address, folder, host, tasks, stop, serving, desk }
    }

    /// Sends a request with these headers, and reads the whole response.
    pub async fn send(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut text = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|it| it.0 == "Host") {
            text.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        let talk = async {
            let mut stream = TcpStream::connect(&self.address).await.expect("it listens");
            stream.write_all(text.as_bytes()).await.expect("it reads");
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.expect("it answers");
            String::from_utf8(bytes).expect("text")
        };
        let response = timeout(PATIENCE, talk).await.expect("it answers in time");
        let (head, body) = response.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        Reply { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.send(&format!("GET {path}"), headers, "").await
    }

    /// A call of a modern client, with more members of `_meta` and more headers.
    pub async fn call(&self, tool: &str, meta: Json, headers: &[(&str, &str)]) -> Json {
        let mut all = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        for (name, value) in meta.as_object().expect("an object") {
            all[name] = value.clone();
        }
        let params = json!({"name": tool, "arguments": {"text": "hello"}, "_meta": all});
        let question = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        let usual = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", tool),
        ];
        let headers = [&usual[..], headers].concat();
        self.send("POST /mcp", &headers, &question.to_string()).await.message()
    }

    /// What was recorded, once everything is on disk.
    pub async fn records(&self) -> Vec<Record> {
        self.desk.audit.settle().await;
        let path = self.folder.path().canonicalize().expect("it is there");
        audit::read(&Places::below(&path).audit()).expect("records")
    }

    pub async fn end(self) {
        drop(self.stop);
        self.serving.await.expect("it ends");
        self.host.stop().await;
        drop((self.host, self.desk));
        for task in self.tasks {
            timeout(PATIENCE, task).await.expect("it ends").expect("no panic");
        }
    }
}

fn private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
}
