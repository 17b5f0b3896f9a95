//! A host in a folder of its own, and servers for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::address::Around;
use switchboard::ask::{AskError, Repeat};
use switchboard::audit::Audit;
use switchboard::calling::{
    CallFailure, Consent, Consented, Consenting, Desk, PermissionQuestion, ToolCall,
};
use switchboard::catalogue::{Item, List};
use switchboard::cause::Cause;
use switchboard::config::cascade::{Effective, Inputs, resolve};
use switchboard::config::entry::ToolFilter;
use switchboard::config::layer::{Layer, Naming, Shape};
use switchboard::config::permission::{Mode, Rules};
use switchboard::config::scope::Scope;
use switchboard::config::source::Source;
use switchboard::connection::state::Persistence;
use switchboard::connection::{Status, View};
use switchboard::engine::{Host, Options, Snapshot};
use switchboard::pin::Pins;
use switchboard::places::Places;
use switchboard::pool::naming::Origin;
use switchboard::pool::tool::ToolKind;
use switchboard::pool::{self, Pool};
use switchboard::rulebook::Rulebook;
use switchboard::wire::message::Payload;
use switchboard::wire::peer::Progress;
use switchboard::yielded::keep::Keep;
use switchboard::yielded::{Limits, Yield};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How long a call may take.
pub const SOON: Duration = Duration::from_secs(10);

/// A host and the folder it lives in.
pub struct Bench {
    pub host: Host,
    pub folder: Arc<TempDir>,
    audit: Audit,
    task: JoinHandle<()>,
}

/// A call of a tool that a server is said to have.
pub struct Called {
    pub tool: &'static str,
    pub arguments: Json,
    pub repeat: Repeat,
    pub patience: Duration,
    pub progress: Option<mpsc::Sender<Progress>>,
}

impl Called {
    /// A call that may do something each time.
    pub fn new(tool: &'static str, arguments: Json) -> Called {
        Called { tool, arguments, repeat: Repeat::Harmful, patience: SOON, progress: None }
    }
}

impl Bench {
    /// A patient host.
    pub fn new() -> Bench {
        Bench::with(|_| {})
    }

    /// A host with other options.
    pub fn with(change: impl FnOnce(&mut Options)) -> Bench {
        Bench::within(Arc::new(tempfile::tempdir().expect("a temp folder")), change)
    }

    /// A host that tries everything once.
    pub fn once() -> Bench {
        Bench::with(|options| options.persistence = Persistence::Once)
    }

    /// A host in a folder where another one may have been.
    pub fn within(folder: Arc<TempDir>, change: impl FnOnce(&mut Options)) -> Bench {
        let mut options = options(folder.path());
        change(&mut options);
        let audit = Audit::open(&options.places.audit()).expect("a thread can be started");
        let (host, task) = Host::start(options).expect("a host can be started");
        Bench { host, folder, audit, task }
    }

    /// Makes these the servers, each a name and its entry's JSON.
    pub async fn apply(&self, servers: &[(&str, String)]) {
        self.host.apply(&effective(servers)).await;
    }

    /// The same in another scope.
    pub async fn apply_in(&self, scope: Scope, servers: &[(&str, String)]) {
        self.host.apply(&effective_in(scope, servers)).await;
    }

    /// Waits until something is true of all servers.
    pub async fn until(&self, is_so: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let mut watch = self.host.watch();
        let waited = tokio::time::timeout(PATIENCE, watch.wait_for(|it| is_so(it))).await;
        match waited {
            Ok(Ok(snapshot)) => snapshot.clone(),
            Ok(Err(_)) => panic!("the host is gone"),
            Err(_) => panic!("it never came to that: {:#?}", self.host.snapshot().servers),
        }
    }

    /// Waits until nothing changes by itself any more.
    pub async fn settled(&self) -> Arc<Snapshot> {
        self.until(Snapshot::is_settled).await
    }

    /// One server's view, once it is settled.
    pub async fn view(&self, name: &str) -> Arc<View> {
        let snapshot = self
            .until(|it| it.servers.get(name).is_some_and(|view| view.status.is_settled()))
            .await;
        snapshot.servers[name].clone()
    }

    /// One server's view, once that is so.
    pub async fn view_when(&self, name: &str, is_so: impl Fn(&View) -> bool) -> Arc<View> {
        let snapshot = self.until(|it| it.servers.get(name).is_some_and(|it| is_so(it))).await;
        snapshot.servers[name].clone()
    }

    /// Calls a tool that may do something each time.
    pub async fn call(
        &self,
        name: &str,
        tool: &'static str,
        arguments: Json,
    ) -> Result<Json, AskError> {
        self.make(name, Called::new(tool, arguments)).await
    }

    /// Calls a tool that may be called twice.
    pub async fn look(
        &self,
        name: &str,
        tool: &'static str,
        arguments: Json,
    ) -> Result<Json, AskError> {
        let call = Called { repeat: Repeat::Harmless, ..Called::new(tool, arguments) };
        self.make(name, call).await
    }

    /// Makes a call that everybody permits, whether the server has listed the tool or not.
    pub async fn make(&self, name: &str, called: Called) -> Result<Json, AskError> {
        let Called { tool, arguments, repeat, patience, progress } = called;
        let pool = Arc::new(pool_of(name, tool, repeat));
        let exposed = pool.tools()[0].exposed.clone();
        let desk = self.desk(watch::channel(pool).1);
        let caller = "test".to_owned();
        let call = ToolCall { caller, exposed, arguments, patience, progress };
        match self.host.call(&desk, call).await {
            Ok(yielded) => {
                Ok(yielded.structured.map_or(Json::Null, |it| it.decode().expect("JSON")))
            }
            Err(CallFailure::Ask(error)) => Err(error),
            Err(
                error @ (CallFailure::NoTool { .. }
                | CallFailure::Arguments { .. }
                | CallFailure::Denied { .. }),
            ) => panic!("everybody permits it: {error}"),
        }
    }

    /// What calls depend on where everything is permitted.
    pub fn desk(&self, pool: watch::Receiver<Arc<Pool>>) -> Desk {
        Desk {
            pool,
            rules: Rulebook::new(Rules::default()),
            pins: Pins::open(&self.folder.path().join("pins.json")),
            mode: Mode::Bypass,
            trusted: BTreeSet::new(),
            consent: Arc::new(Nobody),
            audit: self.audit.clone(),
            limits: Limits::default(),
            keep: Keep::below(self.folder.path()),
        }
    }

    /// Calls one of the tools of the host's own pool.
    pub async fn call_exposed(
        &self,
        desk: &Desk,
        exposed: &str,
        arguments: Json,
    ) -> Result<Yield, CallFailure> {
        let (caller, exposed) = ("test".to_owned(), exposed.to_owned());
        let call = ToolCall { caller, exposed, arguments, patience: SOON, progress: None };
        self.host.call(desk, call).await
    }

    /// Drops the host without a word, and waits until it is gone.
    pub async fn drop_host(self) {
        let Bench { host, folder, audit: _, task } = self;
        drop(host);
        tokio::time::timeout(PATIENCE, task).await.expect("it ends").expect("without a panic");
        drop(folder);
    }

    /// Ends everything.
    pub async fn stop(self) {
        self.host.stop().await;
        tokio::time::timeout(PATIENCE, self.task).await.expect("it ends").expect("without a panic");
    }
}

/// What a host in a folder is made of.
pub fn options(folder: &Path) -> Options {
    let folder = folder.canonicalize().expect("it is there");
    let path = std::env::var("PATH").unwrap_or_default();
    let variables = BTreeMap::from([("PATH".to_owned(), path)]);
    let around = Around { home: folder.clone(), working_folder: folder.clone(), variables };
    let mut options = Options::new(Places::below(&folder), around);
    options.connect_within = Duration::from_secs(10);
    options.network.connect_timeout = Duration::from_secs(5);
    options
}

/// A configuration with these servers in the person's own settings.
pub fn effective(servers: &[(&str, String)]) -> Effective {
    effective_in(Scope::User, servers)
}

/// The same in another scope.
pub fn effective_in(scope: Scope, servers: &[(&str, String)]) -> Effective {
    let members: Vec<String> =
        servers.iter().map(|(name, entry)| format!("\"{name}\": {entry}")).collect();
    let text = format!("{{\"mcpServers\": {{{}}}}}", members.join(", "));
    let source = Source::file(scope, "settings.json");
    let layer = Layer::read(&source, &text, Naming::Plain, Shape::Wrapped);
    resolve(Inputs { layers: vec![layer], ..Inputs::default() })
}

/// A pool with one tool.
fn pool_of(server: &str, tool: &str, repeat: Repeat) -> Pool {
    let hints = json!({"readOnlyHint": repeat == Repeat::Harmless});
    let raw = Payload::of(&json!({"name": tool, "annotations": hints})).expect("JSON");
    let tools = [Item { name: tool.to_owned(), raw }];
    let filter = ToolFilter::default();
    let source = pool::Source {
        server,
        origin: Origin::Configured,
        tools: &tools,
        kind: ToolKind::Served,
        filter: &filter,
    };
    Pool::default().next([source], &pool::Rules { hidden: &|_, _| false, built_in: &[] })
}

/// Nobody to ask.
struct Nobody;

impl Consent for Nobody {
    fn consent<'a>(&'a self, _ask: &'a PermissionQuestion<'a>) -> Consenting<'a> {
        Box::pin(std::future::ready(Consented::No("nobody is here".to_owned())))
    }
}

/// The names of a server's tools.
pub fn tools(view: &View) -> Vec<&str> {
    view.catalogue.items(List::Tools).iter().map(|it| it.name.as_str()).collect()
}

/// Does it stand?
pub fn is_connected(view: &View) -> bool {
    view.status == Status::Connected
}

/// Why a server is not connected.
#[track_caller]
pub fn cause(view: &View) -> &Cause {
    view.status.cause().unwrap_or_else(|| panic!("there is a cause: {view:#?}"))
}

/// An entry with one more member.
pub fn with_member(entry: &str, name: &str, value: Json) -> String {
    let mut entry: Json = serde_json::from_str(entry).expect("an entry is JSON");
    entry[name] = value;
    entry.to_string()
}

/// The entry of a server at a URL.
pub fn remote(kind: &str, url: &str) -> String {
    format!(r#"{{"type": "{kind}", "url": "{url}"}}"#)
}
