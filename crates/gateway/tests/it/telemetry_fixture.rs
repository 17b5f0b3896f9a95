//! A gateway on a loopback port in front of a scripted server, and a minimal HTTP client.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::audit::log;
use switchboard::audit::log::AuditRecord;
use switchboard::config::file::layer::{FileShape, Layer, Naming};
use switchboard::config::merge::{MergeInputs, resolve};
use switchboard::config::scope::Scope;
use switchboard::config::source::Source;
use switchboard::sources::Paths;
use switchboard::{CallContext, Host, HostEnv, HostOptions};
use switchboard_auth::resource_server::{Authenticator, TokenFile};
use switchboard_gateway::http::host_origin_check::HostOriginCheck;
use switchboard_gateway::{
    DrainOptions, ExposeOptions, Gateway, HttpOptions, Limits, MetricsAccess, ServedRoutes,
    SessionPolicy, Tracer,
};
use tempfile::TempDir;
use testkit::{Script, ScriptedProgram};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);
/// A valid token.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Which clients are admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Everybody,
    Listed,
}

/// A running gateway.
pub struct TelemetryFixture {
    pub address: String,
    pub folder: TempDir,
    host: Host,
    tasks: Vec<JoinHandle<()>>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
    call_context: CallContext,
}

/// A response as text.
pub struct TextResponse {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl TextResponse {
    /// The message in a body or in the last event of a stream.
    pub fn message(&self) -> Json {
        let mut lines = self.body.lines().rev().filter_map(|it| {
            serde_json::from_str::<Json>(it.strip_prefix("data: ").unwrap_or(it)).ok()
        });
        lines.find(Json::is_object).unwrap_or_else(|| panic!("no message: {}", self.body))
    }
}

impl TelemetryFixture {
    pub async fn start(
        script: impl FnOnce(&Path) -> Script,
        tracer: Tracer,
        (admission, metrics): (Admission, MetricsAccess),
    ) -> TelemetryFixture {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().canonicalize().expect("it is there");
        let variables =
            BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())]);
        let host_env = HostEnv { home: path.clone(), working_folder: path.clone(), variables };
        let places = Paths::in_dir(&path);
        let (host, task) =
            Host::start(HostOptions::new(places.clone(), host_env)).expect("a host can be started");
        let text = format!(
            "{{\"mcpServers\": {{\"s\": {}}}}}",
            ScriptedProgram::config_entry(&script(&path))
        );
        let source = Source::file(Scope::User, "settings.json");
        let layer = Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped);
        host.apply(&resolve(MergeInputs { layers: vec![layer], ..MergeInputs::default() })).await;
        let call_context = CallContext::new(host.watch_pool(), &places)
            .expect("a call context")
            .with_trusted_server("s");
        let (gateway, gateway_task) = Gateway::open_with_tracer(
            &host,
            call_context.clone(),
            ExposeOptions::default(),
            tracer,
        );
        gateway.wait_until_ready(TEST_TIMEOUT).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let bound = listener.local_addr().expect("an address");
        let authenticator = match admission {
            Admission::Everybody => Authenticator::disabled(),
            Admission::Listed => {
                let file = path.join("tokens");
                std::fs::write(&file, format!("ada: {TOKEN}\n")).expect("written");
                make_private(&file);
                let list = TokenFile::open(&file).expect("tokens");
                Authenticator::TokenFile(std::sync::Arc::new(list))
            }
        };
        let options = HttpOptions {
            host_origin_check: HostOriginCheck::new(bound, &[], &[]).expect("a guard"),
            authenticator: authenticator.into(),
            max_request_bytes: HttpOptions::DEFAULT_MAX_REQUEST_BYTES,
            session_idle_timeout: HttpOptions::DEFAULT_SESSION_IDLE_TIMEOUT,
            write_timeout: HttpOptions::DEFAULT_WRITE_TIMEOUT,
            limits: Limits::default(),
            routes: ServedRoutes::All,
            dashboard: None,
            metrics_access: metrics,
            sessions: SessionPolicy::default(),
            replica_listener: None,
            tls: None,
            drain: DrainOptions::default(),
            worker_threads: 0,
        };
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let stopped = async {
                let _dropped = stopped.await;
            };
            gateway.serve_http(listener, options, stopped).await.expect("it serves");
        });
        let (address, tasks) = (bound.to_string(), vec![task, gateway_task]);
        TelemetryFixture { address, folder, host, tasks, stop, serving, call_context }
    }

    /// Sends a request with these headers, and reads the whole response.
    pub async fn send(&self, line: &str, headers: &[(&str, &str)], body: &str) -> TextResponse {
        let mut text = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|it| it.0 == "Host") {
            text.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        let exchange = async {
            let mut stream = TcpStream::connect(&self.address).await.expect("it listens");
            stream.write_all(text.as_bytes()).await.expect("it reads");
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.expect("it answers");
            String::from_utf8(bytes).expect("text")
        };
        let response = timeout(TEST_TIMEOUT, exchange).await.expect("it answers in time");
        let (head, body) = response.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        TextResponse { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub async fn get(&self, path: &str, headers: &[(&str, &str)]) -> TextResponse {
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
        let rpc = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        let usual = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", tool),
        ];
        let headers = [&usual[..], headers].concat();
        self.send("POST /mcp", &headers, &rpc.to_string()).await.message()
    }

    /// The audit records, once all are on disk.
    pub async fn records(&self) -> Vec<AuditRecord> {
        self.call_context.audit.flush().await;
        let path = self.folder.path().canonicalize().expect("it is there");
        log::read(&Paths::in_dir(&path).audit()).expect("records")
    }

    pub async fn stop(self) {
        drop(self.stop);
        self.serving.await.expect("it ends");
        self.host.shutdown().await;
        drop((self.host, self.call_context));
        for task in self.tasks {
            timeout(TEST_TIMEOUT, task).await.expect("it ends").expect("no panic");
        }
    }
}

fn make_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
}
