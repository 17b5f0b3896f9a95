//! A gateway in a folder of its own: servers behind it, a door at a free port, and tokens for whoever may come in.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use switchboard::address::Around;
use switchboard::calling::Desk;
use switchboard::config::cascade::{Effective, Inputs, resolve};
use switchboard::config::layer::{Layer, Naming, Shape};
use switchboard::config::permission::{Mode, Rules};
use switchboard::config::scope::Scope;
use switchboard::config::source::Source;
use switchboard::engine::{Host, Options};
use switchboard::in_process::InProcess;
use switchboard::load;
use switchboard::places::Places;
use switchboard::rulebook::Rulebook;
use switchboard_auth::verify::{BearerList, Doorkeeper};
use switchboard_gateway::head_guard::HeadGuard;
use switchboard_gateway::{Door, Gateway, MetricsReaders, Serving};
use switchboard_wire::introduction::Ability;
use switchboard_wire::memory::{MemoryLink, pair};
use tempfile::TempDir;
use testkit::{Quirk, Script, Scripted, Served};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How a gateway is set up.
pub struct Plan {
    pub serving: Serving,
    pub rules: Rules,
    pub largest_request: usize,
    pub idle: Duration,
    /// How many clients have tokens; without any everybody comes in.
    pub clients: usize,
    /// Servers in this process.
    pub in_process: BTreeMap<String, InProcess>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            serving: Serving::default(),
            rules: Rules::default(),
            largest_request: Door::LARGEST_REQUEST,
            idle: Door::IDLE,
            clients: 3,
            in_process: BTreeMap::new(),
        }
    }
}

/// A gateway with everything around it.
pub struct House {
    pub host: Host,
    pub gateway: Gateway,
    pub address: SocketAddr,
    pub folder: Arc<TempDir>,
    links: JoinSet<()>,
    stop: watch::Sender<bool>,
    door: JoinHandle<()>,
    keeping: JoinHandle<()>,
    hosting: JoinHandle<()>,
}

/// The token of one client.
pub fn token(client: usize) -> String {
    format!("token-of-client-{client:04}-0123456789abcdef")
}

impl House {
    /// A gateway before these servers, each a name and its entry, once they are connected.
    pub async fn open(servers: &[(&str, String)], plan: Plan) -> House {
        let folder = Arc::new(tempfile::tempdir().expect("a temp folder"));
        House::open_in(folder, servers, plan).await
    }

    /// The same in a folder that is there.
    pub async fn open_in(folder: Arc<TempDir>, servers: &[(&str, String)], plan: Plan) -> House {
        let mut options = options(&folder);
        options.lent = vec![Ability::Sampling];
        let is_ours = !plan.in_process.is_empty();
        options.in_process = plan.in_process;
        let places = options.places.clone();
        let (host, hosting) = Host::start(options).expect("a host can be started");
        // Only the program itself may have servers inside of it.
        match is_ours {
            true => host.apply(&load::of_program("test", &written(servers))).await,
            false => host.apply(&effective(servers)).await,
        }
        let mut desk = Desk::new(&host, &places).expect("a thread can be started");
        desk.mode = Mode::Bypass;
        desk.rules = Rulebook::new(plan.rules);
        let (gateway, keeping) = Gateway::open(&host, desk, plan.serving);
        gateway.settle(PATIENCE).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let door = Door {
            guard: HeadGuard::new(address, &[], &[]).expect("nothing is allowed besides"),
            doorkeeper: doorkeeper(&folder, plan.clients),
            largest_request: plan.largest_request,
            idle: plan.idle,
            metrics: MetricsReaders::Admitted,
            threads: 0,
        };
        let (stop, mut stopped) = watch::channel(false);
        let serving = gateway.clone();
        let door = tokio::spawn(async move {
            let stopped = async move {
                let _dropped = stopped.wait_for(|it| *it).await;
            };
            serving.serve_http(listener, door, stopped).await.expect("it serves");
        });
        let links = JoinSet::new();
        House { host, gateway, address, folder, links, stop, door, keeping, hosting }
    }

    /// The end of a link at whose other end the gateway serves this principal.
    pub fn link(&mut self, principal: &str) -> MemoryLink {
        let (ours, theirs) = pair();
        let (gateway, principal) = (self.gateway.clone(), principal.to_owned());
        self.links.spawn(async move {
            gateway.serve_link(theirs, &principal, std::future::pending()).await;
        });
        ours
    }

    /// Ends everything; what does not end is a failure. Clients must have hung up.
    pub async fn stop(self) {
        let House { host, gateway, folder, mut links, stop, door, keeping, hosting, .. } = self;
        stop.send_replace(true);
        let ended = async {
            door.await.expect("no panic");
            while let Some(over) = links.join_next().await {
                over.expect("no panic");
            }
            drop(gateway);
            host.stop().await;
            drop(host);
            keeping.await.expect("no panic");
            hosting.await.expect("no panic");
        };
        timeout(PATIENCE, ended).await.expect("everything ends");
        drop(folder);
    }
}

fn doorkeeper(folder: &TempDir, clients: usize) -> Doorkeeper {
    if clients == 0 {
        return Doorkeeper::nobody();
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
    Doorkeeper::List(Arc::new(BearerList::open(&path).expect("it is a list")))
}

fn options(folder: &TempDir) -> Options {
    let folder = folder.path().canonicalize().expect("it is there");
    let path = std::env::var("PATH").unwrap_or_default();
    let variables = BTreeMap::from([("PATH".to_owned(), path)]);
    let around = Around { home: folder.clone(), working_folder: folder.clone(), variables };
    Options::new(Places::below(&folder), around)
}

fn written(servers: &[(&str, String)]) -> String {
    let members: Vec<String> =
        servers.iter().map(|(name, entry)| format!("\"{name}\": {entry}")).collect();
    format!("{{\"mcpServers\": {{{}}}}}", members.join(", "))
}

fn effective(servers: &[(&str, String)]) -> Effective {
    let text = written(servers);
    let source = Source::file(Scope::User, "settings.json");
    let layer = Layer::read(&source, &text, Naming::Plain, Shape::Wrapped);
    resolve(Inputs { layers: vec![layer], ..Inputs::default() })
}

/// The entry of a server at a URL.
pub fn remote(url: &str) -> String {
    format!(r#"{{"type": "http", "url": "{url}"}}"#)
}

/// The names of the servers of [`Quarter`].
pub const SERVERS: [&str; 4] = ["ls", "lh", "ms", "mh"];

/// Four servers: each era over each transport, and what each of them heard.
pub struct Quarter {
    pub folder: Arc<TempDir>,
    legacy: Served,
    modern: Served,
}

impl Quarter {
    pub fn start() -> Quarter {
        let script = |it: Script| it.resources(2).prompts(1).quirk(Quirk::Talks);
        let folder = Arc::new(tempfile::tempdir().expect("a temp folder"));
        let legacy = Served::http(script(Script::legacy()));
        let modern = Served::http(script(Script::modern()));
        Quarter { folder, legacy, modern }
    }

    /// The entry of one of them.
    pub fn entry(&self, server: &str) -> (String, String) {
        let script = |it: Script| {
            let journal = self.folder.path().join(server);
            Scripted::entry(&it.resources(2).prompts(1).quirk(Quirk::Talks).journal(journal))
        };
        let entry = match server {
            "ls" => script(Script::legacy()),
            "ms" => script(Script::modern()),
            "lh" => remote(self.legacy.url()),
            _ => remote(self.modern.url()),
        };
        (server.to_owned(), entry)
    }

    /// A gateway before these.
    pub async fn house(&self, servers: &[&str], plan: Plan) -> House {
        let entries: Vec<(String, String)> = servers.iter().map(|it| self.entry(it)).collect();
        let entries: Vec<(&str, String)> =
            entries.iter().map(|(name, entry)| (name.as_str(), entry.clone())).collect();
        House::open_in(self.folder.clone(), &entries, plan).await
    }

    /// Every message that a server heard, in order.
    pub fn heard(&self, server: &str) -> Vec<serde_json::Value> {
        let of = |served: &Served| served.requests().into_iter().filter_map(|it| it.body).collect();
        match server {
            "lh" => of(&self.legacy),
            "mh" => of(&self.modern),
            _ => testkit::scripted::journal(&self.folder.path().join(server)),
        }
    }

    /// Waits until a server was told that nobody waits for a call of this tool any more.
    pub async fn cancelled(&self, server: &str, tool: &str) {
        let is_so = || match server {
            // Over modern HTTP the connection ends.
            "mh" => self.modern.counts()["cancelled"]
                .as_array()
                .is_some_and(|it| it.iter().any(|it| it == tool)),
            _ => {
                let heard = self.heard(server);
                let called = heard.iter().find(|it| it["params"]["name"] == tool);
                let id = called.map(|it| it["id"].clone());
                heard.iter().any(|it| {
                    it["method"] == "notifications/cancelled"
                        && Some(&it["params"]["requestId"]) == id.as_ref()
                })
            }
        };
        until(&format!("{server} is told that {tool} was cancelled"), is_so).await;
    }

    /// Waits until a server was asked to run this tool.
    pub async fn called(&self, server: &str, tool: &str) {
        let is_so = || self.heard(server).iter().any(|it| it["params"]["name"] == tool);
        until(&format!("{server} is called"), is_so).await;
    }
}

/// Waits until something is so that nobody tells of.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let mut looks = interval(Duration::from_millis(5));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let waited = timeout(PATIENCE, async {
        while !is_so() {
            looks.tick().await;
        }
    });
    assert!(waited.await.is_ok(), "waited in vain until {what}");
}
