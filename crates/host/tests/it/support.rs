//! A host in a temporary folder, and servers for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::audit::log::AuditLog;
use switchboard::catalogue::{ListItem, ListKind};
use switchboard::config::entry::server::ToolFilter;
use switchboard::config::file::layer::{FileShape, Layer, Naming};
use switchboard::config::merge::{EffectiveConfig, MergeInputs, resolve};
use switchboard::config::permission::{PermissionMode, PermissionRules};
use switchboard::config::scope::Scope;
use switchboard::config::source::Source;
use switchboard::connection::{RetryPolicy, ServerView, Status};
use switchboard::permission::{ActiveRules, ToolPins};
use switchboard::permission::{
    DecisionFuture, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use switchboard::pool::naming::NameOrigin;
use switchboard::pool::{self, Pool, ToolKind};
use switchboard::request::{Idempotency, RequestError, RequestOptions};
use switchboard::sources::Paths;
use switchboard::tool_result::{OutputLimits, SpillStore, ToolOutput};
use switchboard::wire::jsonrpc::message::Payload;
use switchboard::wire::peer::Progress;
use switchboard::{
    CallContext, ConnectionFailure, Host, HostEnv, HostOptions, Snapshot, ToolCall, ToolCallError,
};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// The timeout of every wait in the tests.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// The timeout of a call.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A host and its folder.
pub struct TestHost {
    pub host: Host,
    pub folder: Arc<TempDir>,
    audit: AuditLog,
    task: JoinHandle<()>,
}

/// A call of a tool, listed or not.
pub struct TestCall {
    pub tool: &'static str,
    pub arguments: Json,
    pub idempotency: Idempotency,
    pub timeout: Duration,
    pub progress: Option<mpsc::Sender<Progress>>,
}

impl TestCall {
    /// A call with side effects.
    pub fn new(tool: &'static str, arguments: Json) -> TestCall {
        TestCall {
            tool,
            arguments,
            idempotency: Idempotency::NotIdempotent,
            timeout: CALL_TIMEOUT,
            progress: None,
        }
    }
}

impl TestHost {
    /// A host that retries with backoff.
    pub fn new() -> TestHost {
        TestHost::with(|_| {})
    }

    /// A host with other options.
    pub fn with(change: impl FnOnce(&mut HostOptions)) -> TestHost {
        TestHost::in_folder(Arc::new(tempfile::tempdir().expect("a temp folder")), change)
    }

    /// A host without retries.
    pub fn without_retries() -> TestHost {
        TestHost::with(|options| options.retry_policy = RetryPolicy::NoRetry)
    }

    /// A host in a folder that another host may have used.
    pub fn in_folder(folder: Arc<TempDir>, change: impl FnOnce(&mut HostOptions)) -> TestHost {
        let mut options = options(folder.path());
        change(&mut options);
        let audit = AuditLog::open(&options.paths.audit()).expect("a thread can be started");
        let (host, task) = Host::start(options).expect("a host can be started");
        TestHost { host, folder, audit, task }
    }

    /// Configures these servers, each a name and its entry's JSON.
    pub async fn apply(&self, servers: &[(&str, String)]) {
        self.host.apply(&effective(servers)).await;
    }

    /// Configures servers in another scope.
    pub async fn apply_in(&self, scope: Scope, servers: &[(&str, String)]) {
        self.host.apply(&effective_in(scope, servers)).await;
    }

    /// Waits until a condition holds for the snapshot.
    pub async fn until(&self, condition: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let mut watch = self.host.watch();
        let waited = tokio::time::timeout(TIMEOUT, watch.wait_for(|it| condition(it))).await;
        match waited {
            Ok(Ok(snapshot)) => snapshot.clone(),
            Ok(Err(_)) => panic!("the host is gone"),
            Err(_) => panic!("it never came to that: {:#?}", self.host.snapshot().servers),
        }
    }

    /// Waits until the snapshot has settled.
    pub async fn settled(&self) -> Arc<Snapshot> {
        self.until(Snapshot::is_settled).await
    }

    /// A server's view, once it has settled.
    pub async fn view(&self, name: &str) -> Arc<ServerView> {
        let snapshot = self
            .until(|it| it.servers.get(name).is_some_and(|view| view.status.is_settled()))
            .await;
        snapshot.servers[name].clone()
    }

    /// A server's view, once a condition holds.
    pub async fn view_when(
        &self,
        name: &str,
        condition: impl Fn(&ServerView) -> bool,
    ) -> Arc<ServerView> {
        let snapshot = self.until(|it| it.servers.get(name).is_some_and(|it| condition(it))).await;
        snapshot.servers[name].clone()
    }

    /// Calls a tool with side effects.
    pub async fn call(
        &self,
        name: &str,
        tool: &'static str,
        arguments: Json,
    ) -> Result<Json, RequestError> {
        self.run_call(name, TestCall::new(tool, arguments)).await
    }

    /// Calls an idempotent tool.
    pub async fn call_idempotent(
        &self,
        name: &str,
        tool: &'static str,
        arguments: Json,
    ) -> Result<Json, RequestError> {
        let call =
            TestCall { idempotency: Idempotency::Idempotent, ..TestCall::new(tool, arguments) };
        self.run_call(name, call).await
    }

    /// Makes a permitted call, whether the server has listed the tool or not.
    pub async fn run_call(&self, name: &str, call: TestCall) -> Result<Json, RequestError> {
        let TestCall { tool, arguments, idempotency, timeout, progress } = call;
        let pool = Arc::new(pool_of(name, tool, idempotency));
        let exposed = pool.tools()[0].exposed_name.clone();
        let context = self.permissive_context(watch::channel(pool).1);
        let options = RequestOptions { progress, ..RequestOptions::new(timeout) };
        let caller = "test".to_owned();
        let call = ToolCall { caller, call_id: None, exposed_name: exposed, arguments, options };
        match self.host.call_with(&context, call).await {
            Ok(output) => Ok(output.structured.map_or(Json::Null, |it| it.decode().expect("JSON"))),
            Err(ToolCallError::Request(error)) => Err(error),
            Err(
                error @ (ToolCallError::UnknownTool { .. }
                | ToolCallError::InvalidArguments { .. }
                | ToolCallError::Denied { .. }
                | ToolCallError::Unrecorded { .. }),
            ) => panic!("every call is permitted: {error}"),
        }
    }

    /// A context that permits everything.
    pub fn permissive_context(&self, pool: watch::Receiver<Arc<Pool>>) -> CallContext {
        CallContext {
            pool,
            rules: ActiveRules::new(PermissionRules::default()),
            tool_pins: ToolPins::open(&self.folder.path().join("pins.json")),
            mode: PermissionMode::Bypass,
            trusted_servers: BTreeSet::new(),
            prompt: Arc::new(NoPrompt),
            audit: self.audit.clone(),
            limits: OutputLimits::default(),
            spill: SpillStore::in_data_folder(self.folder.path()),
            reason_detail: switchboard::permission::ReasonDetail::default(),
            tool_timeout: ToolCall::DEFAULT_TIMEOUT,
        }
    }

    /// Calls a tool of the host's own pool.
    pub async fn call_exposed(
        &self,
        context: &CallContext,
        exposed: &str,
        arguments: Json,
    ) -> Result<ToolOutput, ToolCallError> {
        let (caller, exposed) = ("test".to_owned(), exposed.to_owned());
        let options = RequestOptions::new(CALL_TIMEOUT);
        let call = ToolCall { caller, call_id: None, exposed_name: exposed, arguments, options };
        self.host.call_with(context, call).await
    }

    /// Drops the host without a stop, and waits until it is gone.
    pub async fn drop_host(self) {
        let TestHost { host, folder, audit: _, task } = self;
        drop(host);
        tokio::time::timeout(TIMEOUT, task).await.expect("it ends").expect("without a panic");
        drop(folder);
    }

    /// Stops the host.
    pub async fn stop(self) {
        self.host.shutdown().await;
        tokio::time::timeout(TIMEOUT, self.task).await.expect("it ends").expect("without a panic");
    }
}

/// The options of a host in a folder.
pub fn options(folder: &Path) -> HostOptions {
    let folder = folder.canonicalize().expect("it is there");
    let path = std::env::var("PATH").unwrap_or_default();
    let variables = BTreeMap::from([("PATH".to_owned(), path)]);
    let env = HostEnv { home: folder.clone(), working_folder: folder.clone(), variables };
    let mut options = HostOptions::new(Paths::in_dir(&folder), env);
    options.connect_timeout = Duration::from_secs(10);
    options.network.connect_timeout = Duration::from_secs(5);
    options
}

/// A configuration with these servers in the user scope.
pub fn effective(servers: &[(&str, String)]) -> EffectiveConfig {
    effective_in(Scope::User, servers)
}

/// A configuration with these servers in another scope.
pub fn effective_in(scope: Scope, servers: &[(&str, String)]) -> EffectiveConfig {
    let members: Vec<String> =
        servers.iter().map(|(name, entry)| format!("\"{name}\": {entry}")).collect();
    let text = format!("{{\"mcpServers\": {{{}}}}}", members.join(", "));
    let source = Source::file(scope, "settings.json");
    let layer = Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped);
    resolve(MergeInputs { layers: vec![layer], ..MergeInputs::default() })
}

/// A pool with one tool.
fn pool_of(server: &str, tool: &str, idempotency: Idempotency) -> Pool {
    let hints = json!({"readOnlyHint": idempotency == Idempotency::Idempotent});
    let raw = Payload::encode(&json!({"name": tool, "annotations": hints})).expect("JSON");
    let tools = [ListItem { name: tool.to_owned(), raw }];
    let filter = ToolFilter::default();
    let source = pool::ServerTools {
        server,
        origin: NameOrigin::Configured,
        tools: &tools,
        kind: ToolKind::Server,
        filter: &filter,
    };
    Pool::default()
        .next_revision([source], &pool::PoolRules { hidden: &|_, _| false, built_in: &[] })
}

/// Denies every request.
struct NoPrompt;

impl PermissionPrompt for NoPrompt {
    fn decide<'a>(&'a self, _request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(std::future::ready(PermissionDecision::Deny("no user is present".to_owned())))
    }
}

/// The names of a server's tools.
pub fn tools(view: &ServerView) -> Vec<&str> {
    view.catalogue.items(ListKind::Tools).iter().map(|it| it.name.as_str()).collect()
}

/// Whether the server is connected.
pub fn is_connected(view: &ServerView) -> bool {
    view.status == Status::Connected
}

/// The failure of a server that is not connected.
#[track_caller]
pub fn cause(view: &ServerView) -> &ConnectionFailure {
    view.status.cause().unwrap_or_else(|| panic!("there is a cause: {view:#?}"))
}

/// An entry with one more member.
pub fn with_member(entry: &str, name: &str, value: Json) -> String {
    let mut entry: Json = serde_json::from_str(entry).expect("an entry is JSON");
    entry[name] = value;
    entry.to_string()
}

/// The entry of a remote server.
pub fn remote(kind: &str, url: &str) -> String {
    format!(r#"{{"type": "{kind}", "url": "{url}"}}"#)
}
