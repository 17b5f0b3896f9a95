//! A gateway in a temporary folder: servers behind it, an HTTP listener at a free port, and tokens for its clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use switchboard::config::file::layer::{FileShape, Layer, Naming};
use switchboard::config::merge::{EffectiveConfig, MergeInputs, resolve};
use switchboard::config::permission::{PermissionMode, PermissionRules};
use switchboard::config::scope::Scope;
use switchboard::config::source::Source;
use switchboard::connection::InProcessServer;
use switchboard::permission::ActiveRules;
use switchboard::sources::{Paths, loader};
use switchboard::{CallContext, Host, HostEnv, HostOptions};
use switchboard_auth::resource_server::{Authenticator, TokenFile};
use switchboard_gateway::http::host_origin_check::HostOriginCheck;
use switchboard_gateway::{
    ApprovalQueue, DrainOptions, ExposeOptions, Gateway, HttpOptions, InteractiveSessions, Limits,
    MetricsAccess, ReplicaListener, SealKeyFiles, ServedRoutes, SessionPolicy, SessionsWhileAway,
    SharedState, SocketSharing, StoreChoice, TlsServer, Tracer,
};
use switchboard_wire::protocol::capabilities::ClientCapability;
use switchboard_wire::transport::in_memory::{InMemoryTransport, pair};
use tempfile::TempDir;
use testkit::{Quirk, Script, ScriptedProgram, ScriptedServer};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The timeout of every wait.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The options of a gateway.
pub struct FixtureOptions {
    pub expose: ExposeOptions,
    pub rules: PermissionRules,
    pub mode: PermissionMode,
    pub max_request_bytes: usize,
    pub session_idle_timeout: Duration,
    pub write_timeout: Duration,
    pub limits: Limits,
    /// The number of clients with tokens; with 0, clients have certificates or do not authenticate.
    pub clients: usize,
    /// The certificate; plain HTTP if `None`.
    pub tls: Option<Arc<TlsServer>>,
    /// Servers in this process.
    pub in_process: BTreeMap<String, InProcessServer>,
    /// Which clients have sessions.
    pub sessions: SessionPolicy,
    /// What it shares with other replicas.
    pub replica: Option<ReplicaFixture>,
    /// Who decides calls that need a decision.
    pub approvals: Option<ApprovalQueue>,
}

/// What a replica shares with others.
pub struct ReplicaFixture {
    pub keys: PathBuf,
    pub store: StoreChoice,
    pub while_away: SessionsWhileAway,
}

impl Default for FixtureOptions {
    fn default() -> FixtureOptions {
        FixtureOptions {
            expose: ExposeOptions::default(),
            rules: PermissionRules::default(),
            mode: PermissionMode::Bypass,
            max_request_bytes: HttpOptions::DEFAULT_MAX_REQUEST_BYTES,
            session_idle_timeout: HttpOptions::DEFAULT_SESSION_IDLE_TIMEOUT,
            write_timeout: HttpOptions::DEFAULT_WRITE_TIMEOUT,
            limits: Limits::default(),
            clients: 3,
            tls: None,
            in_process: BTreeMap::new(),
            sessions: SessionPolicy::default(),
            replica: None,
            approvals: None,
        }
    }
}

impl FixtureOptions {
    /// All sessions share the process of a server.
    pub fn shared_processes() -> FixtureOptions {
        let interactive_sessions = InteractiveSessions::AsShared;
        let expose = ExposeOptions { interactive_sessions, ..ExposeOptions::default() };
        FixtureOptions { expose, ..FixtureOptions::default() }
    }
}

/// A running gateway.
pub struct GatewayFixture {
    pub host: Host,
    pub gateway: Gateway,
    pub address: SocketAddr,
    pub folder: Arc<TempDir>,
    /// Where other replicas send requests.
    pub replica_address: Option<String>,
    /// The tokens, where clients authenticate.
    pub token_file: Option<Arc<TokenFile>>,
    transports: JoinSet<()>,
    stop: watch::Sender<bool>,
    http_task: JoinHandle<()>,
    gateway_task: JoinHandle<()>,
    host_task: JoinHandle<()>,
    replica_task: Option<JoinHandle<()>>,
}

/// The token of one client.
pub fn token(client: usize) -> String {
    format!("token-of-client-{client:04}-0123456789abcdef")
}

impl GatewayFixture {
    /// A gateway with these servers (name and entry), once they are connected.
    pub async fn open(
        servers: &[(&str, String)],
        fixture_options: FixtureOptions,
    ) -> GatewayFixture {
        let folder = Arc::new(tempfile::tempdir().expect("a temp folder"));
        GatewayFixture::open_in(folder, servers, fixture_options).await
    }

    /// The same in an existing folder.
    pub async fn open_in(
        folder: Arc<TempDir>,
        servers: &[(&str, String)],
        fixture_options: FixtureOptions,
    ) -> GatewayFixture {
        let mut options = options(&folder);
        options.lent_capabilities = vec![ClientCapability::Sampling];
        // As `swb serve --pool` without `--root`.
        options.roots = Vec::new();
        let has_in_process = !fixture_options.in_process.is_empty();
        options.in_process = fixture_options.in_process;
        let places = options.paths.clone();
        let (host, host_task) = Host::start(options).expect("a host can be started");
        // Only the program itself may run in-process servers.
        match has_in_process {
            true => host.apply(&loader::from_program("test", &servers_json(servers))).await,
            false => host.apply(&effective(servers)).await,
        };
        let mut call_context =
            CallContext::new(host.watch_pool(), &places).expect("a thread can be started");
        call_context.mode = fixture_options.mode;
        call_context.rules = ActiveRules::new(fixture_options.rules);
        if let Some(approvals) = fixture_options.approvals {
            call_context.prompt = Arc::new(approvals);
        }
        let (shared, replica_listener, replica_task) = match fixture_options.replica {
            None => (SharedState::alone(), None, None),
            Some(ReplicaFixture { keys, store, while_away }) => {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                let address = listener.local_addr().expect("it is bound").to_string();
                let keys = SealKeyFiles::open(vec![keys]).expect("keys");
                let (shared, running) = SharedState::open(&keys, store, &address, while_away);
                (shared, Some(listener), Some(tokio::spawn(running)))
            }
        };
        let replica_address = replica_listener
            .as_ref()
            .map(|it: &TcpListener| it.local_addr().expect("it is bound").to_string());
        let (gateway, gateway_task) = Gateway::open_replica(
            &host,
            call_context,
            fixture_options.expose,
            Tracer::disabled(),
            shared,
        );
        gateway.wait_until_ready(TEST_TIMEOUT).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let (authenticator, token_file) = match &fixture_options.tls {
            Some(tls) if tls.has_client_authorities() && fixture_options.clients == 0 => {
                (Arc::new(Authenticator::ClientCertificate), None)
            }
            Some(_) | None => authenticator(&folder, fixture_options.clients),
        };
        let door = HttpOptions {
            host_origin_check: HostOriginCheck::new(address, &[], &[])
                .expect("nothing is allowed besides"),
            authenticator,
            max_request_bytes: fixture_options.max_request_bytes,
            session_idle_timeout: fixture_options.session_idle_timeout,
            write_timeout: fixture_options.write_timeout,
            limits: fixture_options.limits,
            routes: ServedRoutes::All,
            dashboard: None,
            metrics_access: MetricsAccess::Authenticated,
            sessions: fixture_options.sessions,
            replica_listener: replica_listener
                .map(|listener| ReplicaListener { listener, sharing: SocketSharing::Alone }),
            tls: fixture_options.tls,
            drain: DrainOptions::default(),
            worker_threads: 0,
        };
        let (stop, mut stopped) = watch::channel(false);
        let served_gateway = gateway.clone();
        let door = tokio::spawn(async move {
            let stopped = async move {
                let _dropped = stopped.wait_for(|it| *it).await;
            };
            served_gateway.serve_http(listener, door, stopped).await.expect("it serves");
        });
        let transports = JoinSet::new();
        GatewayFixture {
            host,
            gateway,
            address,
            folder,
            replica_address,
            token_file,
            transports,
            stop,
            http_task: door,
            gateway_task,
            host_task,
            replica_task,
        }
    }

    /// The client's end of a transport that the gateway serves for this principal.
    pub fn transport(&mut self, principal: &str) -> InMemoryTransport {
        let (client_end, server_end) = pair();
        let (gateway, principal) = (self.gateway.clone(), principal.to_owned());
        self.transports.spawn(async move {
            gateway.serve_transport(server_end, &principal, std::future::pending()).await;
        });
        client_end
    }

    /// Stops everything, and fails if something does not end. Clients must have disconnected.
    pub async fn stop(self) {
        let GatewayFixture {
            host,
            gateway,
            folder,
            mut transports,
            stop,
            http_task: door,
            gateway_task,
            host_task,
            replica_task,
            ..
        } = self;
        stop.send_replace(true);
        let ended = async {
            door.await.expect("no panic");
            while let Some(over) = transports.join_next().await {
                over.expect("no panic");
            }
            drop(gateway);
            host.shutdown().await;
            drop(host);
            gateway_task.await.expect("no panic");
            host_task.await.expect("no panic");
            if let Some(task) = replica_task {
                task.await.expect("no panic");
            }
        };
        timeout(TEST_TIMEOUT, ended).await.expect("everything ends");
        drop(folder);
    }
}

fn authenticator(folder: &TempDir, clients: usize) -> (Arc<Authenticator>, Option<Arc<TokenFile>>) {
    if clients == 0 {
        return (Arc::new(Authenticator::disabled()), None);
    }
    let path = folder.path().join("tokens");
    let lines: Vec<String> = (0..clients).map(|it| format!("c{it}: {}\n", token(it))).collect();
    std::fs::write(&path, lines.concat()).expect("it can be written");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, own).expect("it is ours");
    }
    let file = Arc::new(TokenFile::open(&path).expect("it is a list"));
    (Arc::new(Authenticator::TokenFile(file.clone())), Some(file))
}

fn options(folder: &TempDir) -> HostOptions {
    let folder = folder.path().canonicalize().expect("it is there");
    let path = std::env::var("PATH").unwrap_or_default();
    let variables = BTreeMap::from([("PATH".to_owned(), path)]);
    let host_env = HostEnv { home: folder.clone(), working_folder: folder.clone(), variables };
    HostOptions::new(Paths::in_dir(&folder), host_env)
}

fn servers_json(servers: &[(&str, String)]) -> String {
    let members: Vec<String> =
        servers.iter().map(|(name, entry)| format!("\"{name}\": {entry}")).collect();
    format!("{{\"mcpServers\": {{{}}}}}", members.join(", "))
}

fn effective(servers: &[(&str, String)]) -> EffectiveConfig {
    let text = servers_json(servers);
    let source = Source::file(Scope::User, "settings.json");
    let layer = Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped);
    resolve(MergeInputs { layers: vec![layer], ..MergeInputs::default() })
}

/// The entry of a server at a URL.
pub fn remote(url: &str) -> String {
    format!(r#"{{"type": "http", "url": "{url}"}}"#)
}

/// The names of the servers of [`ServerMatrix`].
pub const SERVERS: [&str; 4] = ["ls", "lh", "ms", "mh"];

/// Four servers, each era over each transport, with the messages that each received.
pub struct ServerMatrix {
    pub folder: Arc<TempDir>,
    legacy: ScriptedServer,
    modern: ScriptedServer,
}

impl ServerMatrix {
    pub fn start() -> ServerMatrix {
        let script = |it: Script| it.resources(2).prompts(1).quirk(Quirk::HasTalkTool);
        let folder = Arc::new(tempfile::tempdir().expect("a temp folder"));
        let legacy = ScriptedServer::http(script(Script::legacy()));
        let modern = ScriptedServer::http(script(Script::modern()));
        ServerMatrix { folder, legacy, modern }
    }

    /// The entry of one server.
    pub fn entry(&self, server: &str) -> (String, String) {
        let script = |it: Script| {
            let journal = self.folder.path().join(server);
            ScriptedProgram::config_entry(
                &it.resources(2).prompts(1).quirk(Quirk::HasTalkTool).journal(journal),
            )
        };
        let entry = match server {
            "ls" => script(Script::legacy()),
            "ms" => script(Script::modern()),
            "lh" => remote(self.legacy.url()),
            _ => remote(self.modern.url()),
        };
        (server.to_owned(), entry)
    }

    /// A gateway with these servers.
    pub async fn gateway(
        &self,
        servers: &[&str],
        fixture_options: FixtureOptions,
    ) -> GatewayFixture {
        let entries: Vec<(String, String)> = servers.iter().map(|it| self.entry(it)).collect();
        let entries: Vec<(&str, String)> =
            entries.iter().map(|(name, entry)| (name.as_str(), entry.clone())).collect();
        GatewayFixture::open_in(self.folder.clone(), &entries, fixture_options).await
    }

    /// All messages that a server received, in order.
    pub fn received(&self, server: &str) -> Vec<serde_json::Value> {
        let of = |served: &ScriptedServer| {
            served.requests().into_iter().filter_map(|it| it.body).collect()
        };
        match server {
            "lh" => of(&self.legacy),
            "mh" => of(&self.modern),
            _ => testkit::scripted::read_journal(&self.folder.path().join(server)),
        }
    }

    /// Waits until a server was notified that a call of this tool is cancelled.
    pub async fn wait_cancelled(&self, server: &str, tool: &str) {
        let condition = || match server {
            // Over modern HTTP the connection ends.
            "mh" => self.modern.counts()["cancelled"]
                .as_array()
                .is_some_and(|it| it.iter().any(|it| it == tool)),
            _ => {
                let received = self.received(server);
                let called = received.iter().find(|it| it["params"]["name"] == tool);
                let id = called.map(|it| it["id"].clone());
                received.iter().any(|it| {
                    it["method"] == "notifications/cancelled"
                        && Some(&it["params"]["requestId"]) == id.as_ref()
                })
            }
        };
        wait_until(&format!("{server} is told that {tool} was cancelled"), condition).await;
    }

    /// Waits until a server received a call of this tool.
    pub async fn wait_called(&self, server: &str, tool: &str) {
        let condition = || self.received(server).iter().any(|it| it["params"]["name"] == tool);
        wait_until(&format!("{server} is called"), condition).await;
    }
}

/// Polls until the condition holds.
pub async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let mut poll = interval(Duration::from_millis(5));
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let waited = timeout(TEST_TIMEOUT, async {
        while !condition() {
            poll.tick().await;
        }
    });
    assert!(waited.await.is_ok(), "timed out waiting until {what}");
}
