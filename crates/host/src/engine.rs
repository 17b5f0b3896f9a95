//! The host at work: keeps a connection to every server that a configuration wants, and hands out snapshots.
//! One task owns which servers there are; each connection has a task of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use switchboard_config::cascade::Effective;
use switchboard_config::entry::{Fingerprint, ToolFilter, TransportKind};
use switchboard_config::hooks::Hook;
use switchboard_config::permission;
use switchboard_wire::era::Era;
use switchboard_wire::introduction::{Ability, Offer};
use switchboard_wire::network::{self, Network};
use switchboard_wire::peer::Attend;
use switchboard_wire::process::{Flock, Guard, GuardProgram, Search};
use tokio::sync::{OnceCell, Semaphore, broadcast, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::interval;

use crate::address::{Around, Certificates};
use crate::calling::PICTURES_AT_ONCE;
use crate::cause::{Cause, CauseKind, Evidence};
use crate::connection::state::Persistence;
use crate::connection::{self, Handle, Leaving, View, Wanted};
use crate::connectors::Bearer;
use crate::counsel::{Counsel, Counsellor, Model};
use crate::doorman::{Admission, Doorman};
use crate::in_process::InProcess;
use crate::inquiry::{Ask, Nobody};
use crate::lane::{self, Lane, Lanes};
use crate::logbook::Logbook;
use crate::memo::{Memo, Scribe};
use crate::places::Places;
use crate::shelf::{self, ShelfHandle};
use crate::signing::{Signing, SigningOptions};
use crate::upkeep::{self, Pools};

/// How many programs are started at once, unless told otherwise.
pub const LOCAL_WIDTH: usize = 3;
/// How many remote servers are reached at once, unless told otherwise.
pub const REMOTE_WIDTH: usize = 20;
/// How long a connection may take to stand, unless told otherwise.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// How long a legacy server is believed to be one.
const ERA_LASTS: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long a server that wants a login is left alone.
const WALL_LASTS: Duration = Duration::from_secs(15 * 60);
/// How many requests and reports may wait for the engine.
const WAITING: usize = 256;
/// How often it is looked whether lanes are still used.
const LOOK_AT_LANES: Duration = Duration::from_secs(60);
/// How many threads read memories and fetch secrets at once.
const DESKS: usize = 24;

/// What a caller decides.
#[derive(Clone)]
pub struct Options {
    /// Where our things are.
    pub places: Places,
    /// Home, working folder, variables.
    pub around: Around,
    /// How many programs are started at once.
    pub local_width: usize,
    /// How many remote servers are reached at once.
    pub remote_width: usize,
    /// How long a connection may take to stand, where its entry does not say.
    pub connect_within: Duration,
    /// How much is tried.
    pub persistence: Persistence,
    /// How remote servers are reached.
    pub network: network::Settings,
    /// How to start the process that cleans up after us when we are killed.
    pub guard: Option<GuardProgram>,
    /// Servers in this process, by the name that a definition of type `sdk` gives.
    pub in_process: BTreeMap<String, InProcess>,
    /// Who answers servers' questions.
    pub asker: Arc<dyn Ask>,
    /// The model that servers may ask, where there is one.
    pub model: Option<Arc<dyn Model>>,
    /// What is offered to servers because clients of ours may be able to do it.
    pub lent: Vec<Ability>,
    /// How one signs in to servers.
    pub signing: SigningOptions,
}

impl Options {
    /// What is usual: patient, with a direct way out, no guard, no servers in this process, and nobody who answers
    /// questions.
    pub fn new(places: Places, around: Around) -> Options {
        Options {
            places,
            around,
            local_width: LOCAL_WIDTH,
            remote_width: REMOTE_WIDTH,
            connect_within: CONNECT_WITHIN,
            persistence: Persistence::Patient,
            network: network::Settings {
                user_agent: concat!("switchboard/", env!("CARGO_PKG_VERSION")).to_owned(),
                proxies: network::Proxies::default(),
                extra_ca: Vec::new(),
                identity: None,
                connect_timeout: CONNECT_WITHIN,
            },
            guard: None,
            in_process: BTreeMap::new(),
            asker: Arc::new(Nobody::default()),
            model: None,
            lent: Vec::new(),
            signing: SigningOptions::default(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("around", &self.around).finish_non_exhaustive()
    }
}

/// What every connection shares.
pub struct Settings {
    pub(crate) around: Around,
    pub(crate) in_process: BTreeMap<String, InProcess>,
    pub(crate) local_window: Semaphore,
    pub(crate) remote_window: Semaphore,
    pub(crate) connect_within: Duration,
    pub(crate) persistence: Persistence,
    pub(crate) offer: Offer,
    pub(crate) counsel: Arc<Counsel>,
    /// Which questions that sent people somewhere are done: server and id.
    pub(crate) visited: broadcast::Sender<(String, String)>,
    pub(crate) logbook: Logbook,
    pub(crate) eras: Memo,
    pub(crate) walls: Memo,
    pub(crate) scribe: Scribe,
    /// Where it is remembered what servers have.
    pub(crate) catalogues: PathBuf,
    pub(crate) flock: Flock,
    /// A place for work that blocks a thread.
    pub(crate) desks: Semaphore,
    /// A place for answers with pictures, which take much memory.
    pub(crate) pictures: Arc<Semaphore>,
    pub(crate) signing: SigningOptions,
    pub(crate) logins: PathBuf,
    pub(crate) places: Places,
    signing_in: OnceCell<Arc<Signing>>,
    bearer: OnceCell<Option<Arc<Bearer>>>,
    network: (network::Settings, OnceLock<Result<Network, String>>),
    guard: (Option<GuardProgram>, OnceLock<Option<Guard>>),
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("around", &self.around).finish_non_exhaustive()
    }
}

impl Settings {
    fn new(options: Options) -> io::Result<Settings> {
        let logbook = Logbook::open(&options.places.logs())?;
        let mut abilities = vec![Ability::Roots, Ability::Elicitation];
        let of_model = options.model.as_ref().map(|_| Ability::Sampling);
        for ability in of_model.into_iter().chain(options.lent) {
            if !abilities.contains(&ability) {
                abilities.push(ability);
            }
        }
        let folder = options.around.working_folder.clone();
        let counsel = Counsel::new(folder, options.asker, options.model, logbook.clone());
        Ok(Settings {
            local_window: Semaphore::new(options.local_width.max(1)),
            remote_window: Semaphore::new(options.remote_width.max(1)),
            connect_within: options.connect_within,
            persistence: options.persistence,
            offer: Offer {
                name: "switchboard".to_owned(),
                title: "Switchboard".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                abilities,
            },
            counsel: Arc::new(counsel),
            visited: broadcast::Sender::new(WAITING),
            logbook,
            eras: Memo::new(&options.places.eras(), ERA_LASTS),
            walls: Memo::new(&options.places.walls(), WALL_LASTS),
            scribe: Scribe::start()?,
            catalogues: options.places.catalogues(),
            flock: Flock::new(),
            desks: Semaphore::new(DESKS),
            pictures: Arc::new(Semaphore::new(PICTURES_AT_ONCE)),
            around: options.around,
            in_process: options.in_process,
            signing: options.signing,
            logins: options.places.logins(),
            places: options.places,
            signing_in: OnceCell::new(),
            bearer: OnceCell::new(),
            network: (options.network, OnceLock::new()),
            guard: (options.guard, OnceLock::new()),
        })
    }

    /// The way out, made when the first remote server is reached: certificates take time and room. A server with
    /// certificates of its own has a way of its own.
    pub(crate) fn network(&self, own: Option<Certificates>) -> Result<Network, Cause> {
        let (settings, made) = &self.network;
        let Some(own) = own else {
            return made.get_or_init(|| new_network(settings)).clone().map_err(unusable);
        };
        let mut settings = settings.clone();
        settings.extra_ca.extend(own.authorities);
        settings.identity = own.identity.or(settings.identity);
        new_network(&settings).map_err(unusable)
    }

    /// What every login shares, opened when the first one is needed.
    pub(crate) async fn signing_in(&self) -> Result<Arc<Signing>, Cause> {
        let opened =
            self.signing_in.get_or_try_init(|| async { Signing::open(self).await.map(Arc::new) });
        opened.await.cloned()
    }

    /// The token of the connector account, where there is one.
    pub(crate) async fn bearer(&self) -> Result<Option<Arc<Bearer>>, Cause> {
        self.bearer.get_or_try_init(|| Bearer::of(self)).await.cloned()
    }

    /// The guard, started with the first program. Without one, programs are still stopped whenever we can.
    pub(crate) fn guard(&self) -> Option<Guard> {
        let (program, started) = &self.guard;
        started.get_or_init(|| program.as_ref().and_then(|it| Guard::start(it).ok())).clone()
    }
}

fn new_network(settings: &network::Settings) -> Result<Network, String> {
    Network::new(settings).map_err(|error| {
        let source = std::error::Error::source(&error);
        source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
    })
}

fn unusable(detail: String) -> Cause {
    Cause::of(CauseKind::Unusable).with(Evidence::Detail(detail))
}

/// All servers at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// One more with every change.
    pub revision: u64,
    /// Every server that is wanted, by name.
    pub servers: BTreeMap<String, Arc<View>>,
    pub(crate) handles: Arc<BTreeMap<String, Handle>>,
    pub(crate) lanes: Arc<lane::ByKey>,
    /// Which tools of each server are wanted.
    pub(crate) filters: Arc<BTreeMap<String, ToolFilter>>,
    /// Which tools are hidden.
    pub(crate) rules: Arc<permission::Rules>,
}

impl Snapshot {
    /// Is there nothing left to wait for?
    pub fn is_settled(&self) -> bool {
        self.servers.values().all(|view| view.status.is_settled())
    }
}

/// A running host. Clones share it. Call [`Host::stop`] at the end: dropping it ends servers by force.
#[derive(Debug, Clone)]
pub struct Host {
    commands: mpsc::Sender<Command>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    settings: Arc<Settings>,
    pools: Pools,
    shelf: ShelfHandle,
}

#[derive(Debug)]
enum Command {
    Apply { wanted: Vec<Wanted>, done: oneshot::Sender<()> },
    Rules { rules: Arc<permission::Rules>, done: oneshot::Sender<()> },
    Lane { server: String, lane: Lane, reply: oneshot::Sender<Option<Handle>> },
    LeaveLane { key: String },
    SignIn { server: String, pasted: Option<String>, reply: oneshot::Sender<Admission> },
    Stop { done: oneshot::Sender<()> },
}

impl Host {
    /// Starts a host that knows no server yet. Must be called inside a runtime.
    pub fn start(options: Options) -> io::Result<(Host, JoinHandle<()>)> {
        let settings = Arc::new(Settings::new(options)?);
        let (commands, from_callers) = mpsc::channel(WAITING);
        let (reports, from_connections) = mpsc::channel(WAITING);
        let (published, snapshots) = watch::channel(Arc::new(Snapshot::default()));
        let (pools, keeping_pools) = upkeep::new(snapshots.clone(), settings.persistence);
        let (shelf, keeping_shelf) = shelf::new(snapshots.clone());
        let mut keepers = JoinSet::new();
        keepers.spawn(keeping_pools);
        keepers.spawn(keeping_shelf);
        let engine = Engine {
            settings: settings.clone(),
            reports,
            published,
            kept: BTreeMap::new(),
            ending: JoinSet::new(),
            keepers,
            rules: Arc::default(),
            leaving: BTreeMap::new(),
            lanes: Lanes::default(),
            doorman: Doorman::default(),
        };
        let task = tokio::spawn(engine.run(from_callers, from_connections));
        Ok((Host { commands, snapshots, settings, pools, shelf }, task))
    }

    /// Makes the servers that run those that a configuration wants; what did not change is not touched.
    pub async fn apply(&self, effective: &Effective) {
        self.apply_wanted(wanted(effective)).await;
    }

    /// The same for a list of servers.
    pub async fn apply_wanted(&self, wanted: Vec<Wanted>) {
        let (done, applied) = oneshot::channel();
        if self.commands.send(Command::Apply { wanted, done }).await.is_ok() {
            let _over = applied.await;
        }
    }

    /// Makes these the rules by which tools are hidden. Set before [`Host::apply`], no tool is seen that they hide.
    pub async fn set_rules(&self, rules: permission::Rules) {
        let (done, set) = oneshot::channel();
        let command = Command::Rules { rules: Arc::new(rules), done };
        if self.commands.send(command).await.is_ok() {
            let _over = set.await;
        }
    }

    /// The login at a server, begun where none is under way; nothing where there is no such server any more.
    pub(crate) async fn begin_login(&self, server: &str) -> Option<Admission> {
        self.admission(server, None).await
    }

    /// Hands what somebody pasted to the login at a server; nothing where none waits for it.
    pub(crate) async fn hand_to_login(&self, server: &str, pasted: String) -> Option<Admission> {
        self.admission(server, Some(pasted)).await
    }

    async fn admission(&self, server: &str, pasted: Option<String>) -> Option<Admission> {
        let (reply, admission) = oneshot::channel();
        let command = Command::SignIn { server: server.to_owned(), pasted, reply };
        self.commands.send(command).await.ok()?;
        admission.await.ok()
    }

    /// All servers now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshots.borrow().clone()
    }

    /// All servers now and later.
    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }

    /// All servers and their tools, once nothing changes by itself any more.
    pub async fn settled(&self) -> Arc<Snapshot> {
        let mut watch = self.watch();
        let snapshot = match watch.wait_for(|it| it.is_settled()).await {
            Ok(snapshot) => snapshot.clone(),
            // The host is gone, and with it whatever could change.
            Err(_) => self.snapshot(),
        };
        self.settled_pool().await;
        snapshot
    }

    /// Has one server's connection made anew; `None` where there is no such server.
    pub async fn reconnect(&self, name: &str) -> Option<()> {
        let handle = self.handle(name)?;
        handle.reconnect().await;
        Some(())
    }

    /// Where what servers say on standard error is kept.
    pub fn logbook(&self) -> &Logbook {
        &self.settings.logbook
    }

    /// The commands that answer servers' questions before anybody else, from now on.
    pub fn set_hooks(&self, hooks: &[Hook]) {
        self.settings.counsel.set_hooks(hooks);
    }

    /// Who answers what servers ask outside of any call, from now on: a client that has the host to itself. Servers
    /// that asked before are told to ask again which folders they may use.
    pub async fn set_owner(&self, owner: Option<Arc<dyn Attend>>) {
        self.settings.counsel.set_owner(owner);
        self.roots_changed(None).await;
    }

    /// Says that the folders changed: to the servers of one lane, or on the connections for everybody.
    pub async fn roots_changed(&self, lane: Option<&str>) {
        let snapshot = self.snapshot();
        let of_lane = snapshot.lanes.iter().filter(|it| Some(&*it.0.1) == lane).map(|it| it.1);
        let of_all = snapshot.handles.values().filter(|_| lane.is_none());
        for handle in of_lane.chain(of_all) {
            let view = handle.view();
            if view.introduction.as_ref().is_some_and(|it| it.era == Era::Legacy) {
                handle.tell("notifications/roots/list_changed").await;
            }
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn shared_settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    pub(crate) fn counsellor(&self, server: &str) -> Arc<Counsellor> {
        let counsel = self.settings.counsel.clone();
        Arc::new(Counsellor { server: server.to_owned(), counsel })
    }

    pub(crate) fn pictures(&self) -> &Arc<Semaphore> {
        &self.settings.pictures
    }

    pub(crate) fn pools(&self) -> &Pools {
        &self.pools
    }

    pub(crate) fn shelf(&self) -> &ShelfHandle {
        &self.shelf
    }

    pub(crate) fn handles(&self) -> Arc<BTreeMap<String, Handle>> {
        self.snapshots.borrow().handles.clone()
    }

    /// Ends the connections of a lane: whoever used them is gone.
    pub async fn leave_lane(&self, key: &str) {
        let _over = self.commands.send(Command::LeaveLane { key: key.to_owned() }).await;
    }

    /// The connection that somebody uses: their lane, made now where there is none, or the one for everybody.
    pub(crate) async fn handle_on(&self, name: &str, lane: Option<&Lane>) -> Option<Handle> {
        let Some(lane) = lane else { return self.handle(name) };
        let place = (name.to_owned(), lane.key.clone());
        if let Some(handle) = self.snapshots.borrow().lanes.get(&place) {
            return Some(handle.clone());
        }
        let (reply, opened) = oneshot::channel();
        let command = Command::Lane { server: name.to_owned(), lane: lane.clone(), reply };
        self.commands.send(command).await.ok()?;
        opened.await.ok()?
    }

    pub(crate) fn handle(&self, name: &str) -> Option<Handle> {
        self.handles().get(name).cloned()
    }

    /// Ends every server in order, and whatever they started. Comes back when all is gone.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        if self.commands.send(Command::Stop { done }).await.is_ok() {
            let _over = stopped.await;
        }
    }
}

/// The servers of a configuration that may start.
pub fn wanted(effective: &Effective) -> Vec<Wanted> {
    let ready = effective.servers.iter().filter(|server| server.is_ready());
    ready
        .filter_map(|server| {
            Some(Wanted {
                spec: server.spec.clone()?,
                scope: server.scope(),
                fingerprint: server.fingerprint.clone()?,
            })
        })
        .collect()
}

struct Engine {
    settings: Arc<Settings>,
    reports: mpsc::Sender<Arc<View>>,
    published: watch::Sender<Arc<Snapshot>>,
    kept: BTreeMap<String, Kept>,
    ending: JoinSet<()>,
    /// Those that keep the pool and the shelf. They hold nothing that has to be ended in order.
    keepers: JoinSet<()>,
    rules: Arc<permission::Rules>,
    /// Those that are ending. A successor waits for them: two at once might fight over a file or a port.
    leaving: BTreeMap<String, Leaving>,
    /// The connections beside the main ones.
    lanes: Lanes,
    /// The logins that tools began.
    doorman: Doorman,
}

struct Kept {
    fingerprint: Fingerprint,
    handle: Handle,
    task: JoinHandle<()>,
    view: Arc<View>,
    filter: ToolFilter,
}

impl Engine {
    async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        mut reports: mpsc::Receiver<Arc<View>>,
    ) {
        let mut looks = interval(LOOK_AT_LANES);
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Apply { wanted, done }) => {
                        self.apply(wanted);
                        let _nobody_waits = done.send(());
                    }
                    Some(Command::Rules { rules, done }) => {
                        self.rules = rules;
                        self.publish(Handles::Same);
                        let _nobody_waits = done.send(());
                    }
                    Some(Command::Lane { server, lane, reply }) => {
                        let _nobody_waits = reply.send(self.open_lane(&server, lane));
                    }
                    Some(Command::LeaveLane { key }) => {
                        if self.lanes.end_at(&key, &mut self.ending) {
                            self.publish(Handles::Changed);
                        }
                    }
                    Some(Command::SignIn { server, pasted, reply }) => {
                        if let Some(admission) = self.sign_in(&server, pasted) {
                            let _nobody_waits = reply.send(admission);
                        }
                    }
                    Some(Command::Stop { done }) => {
                        self.stop(&mut reports).await;
                        let _nobody_waits = done.send(());
                        return;
                    }
                    None => return self.stop(&mut reports).await,
                },
                Some(view) = reports.recv() => {
                    self.note(view);
                    while let Ok(view) = reports.try_recv() {
                        self.note(view);
                    }
                    self.publish(Handles::Same);
                }
                Some(_) = self.ending.join_next() => self.leaving.retain(|_, it| !it.is_over()),
                Some(()) = self.doorman.ended() => {}
                _ = looks.tick() => if self.lanes.end_idle(&mut self.ending) {
                    self.publish(Handles::Changed);
                },
            }
        }
    }

    fn open_lane(&mut self, server: &str, lane: Lane) -> Option<Handle> {
        let main = &self.kept.get(server)?.handle;
        let handle = self.lanes.open(main, lane, &self.settings, &self.reports);
        self.publish(Handles::Changed);
        handle
    }

    fn sign_in(&mut self, server: &str, pasted: Option<String>) -> Option<Admission> {
        let handle = &self.kept.get(server)?.handle;
        match pasted {
            None => Some(self.doorman.begin(handle, &self.settings)),
            Some(text) => self.doorman.hand_over(server, text),
        }
    }

    /// Reports of a connection that was replaced meanwhile do not count.
    fn note(&mut self, view: Arc<View>) {
        if let Some(kept) = self.kept.get_mut(&view.name) {
            kept.view = kept.handle.view();
        }
    }

    fn apply(&mut self, wanted: Vec<Wanted>) {
        let mut wanted: BTreeMap<String, Wanted> =
            wanted.into_iter().map(|it| (it.name().to_owned(), it)).collect();
        let names: Vec<String> = self.kept.keys().cloned().collect();
        for name in names {
            let stays = match (wanted.get(&name), self.kept.get(&name)) {
                (Some(new), Some(old)) => new.fingerprint == old.fingerprint,
                (Some(_) | None, Some(_) | None) => false,
            };
            if stays {
                wanted.remove(&name);
            } else {
                self.end(&name);
            }
        }
        for new in wanted.into_values() {
            self.keep(new);
        }
        self.publish(Handles::Changed);
    }

    fn keep(&mut self, wanted: Wanted) {
        let name = wanted.name().to_owned();
        let (fingerprint, filter) = (wanted.fingerprint.clone(), wanted.spec.common.tools.clone());
        let predecessor = self.leaving.get(&name).cloned();
        let (settings, reports) = (self.settings.clone(), self.reports.clone());
        let particulars = connection::Particulars { predecessor, abilities: None, owner: None };
        let (handle, task) = connection::keep(wanted, settings, reports, particulars);
        let view = handle.view();
        self.kept.insert(name, Kept { fingerprint, handle, task, view, filter });
    }

    fn end(&mut self, name: &str) {
        let Some(kept) = self.kept.remove(name) else { return };
        self.doorman.forget(name);
        self.lanes.end_of(name, &mut self.ending);
        self.leaving.insert(name.to_owned(), kept.handle.leaving());
        self.ending.spawn(async move {
            kept.handle.stop(Search::Now).await;
            let _panicked = kept.task.await;
        });
    }

    fn publish(&mut self, handles: Handles) {
        let (kept, rules, lanes) = (&self.kept, &self.rules, &self.lanes);
        self.published.send_modify(|snapshot| {
            let (handles, filters, lanes) = match handles {
                Handles::Same => {
                    (snapshot.handles.clone(), snapshot.filters.clone(), snapshot.lanes.clone())
                }
                Handles::Changed => (
                    Arc::new(kept.iter().map(|(k, it)| (k.clone(), it.handle.clone())).collect()),
                    Arc::new(kept.iter().map(|(k, it)| (k.clone(), it.filter.clone())).collect()),
                    Arc::new(lanes.by_key()),
                ),
            };
            let servers = kept.iter().map(|(name, it)| (name.clone(), it.view.clone())).collect();
            let (revision, rules) = (snapshot.revision + 1, rules.clone());
            *snapshot = Arc::new(Snapshot { revision, servers, handles, lanes, filters, rules });
        });
    }

    /// Ends all at once; then looks once for whoever left their groups.
    async fn stop(&mut self, reports: &mut mpsc::Receiver<Arc<View>>) {
        self.doorman.close().await;
        self.lanes.end_all(&mut self.ending);
        let mut had_programs = false;
        for kept in std::mem::take(&mut self.kept).into_values() {
            had_programs |= kept.view.transport == TransportKind::Stdio;
            self.ending.spawn(async move {
                kept.handle.stop(Search::Later).await;
                let _panicked = kept.task.await;
            });
        }
        loop {
            tokio::select! {
                ended = self.ending.join_next() => if ended.is_none() { break },
                // Those who end still report.
                _ = reports.recv() => {}
            }
        }
        if had_programs {
            let flock = self.settings.flock;
            let _found = tokio::task::spawn_blocking(move || flock.search()).await;
        }
        self.publish(Handles::Changed);
        self.keepers.shutdown().await;
        self.settings.logbook.settle().await;
        self.settings.scribe.settle().await;
    }
}

/// Did connections come or go?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handles {
    Same,
    Changed,
}
