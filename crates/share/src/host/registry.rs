//! The programs of a shared host, by key. It starts them, remembers how they ended, and decides who may use them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, SystemTime};

use switchboard_wire::process::{ProcessSet, Watchdog, WatchdogProgram};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::StderrSink;
use super::program::{
    self, JoinOutcome, ProgramCommand, ProgramEvent, ProgramHandle, ProgramOptions, unix_seconds,
};
use crate::protocol::{AttachRequest, ExitLine, HostStatus, ProgramStatus, Reuse};

/// How many ends of programs are remembered.
const MAX_EXITS: usize = 64;
/// How many servers that belong to one session are remembered.
const MAX_SESSION_BOUND: usize = 1024;
/// A program that started less than this ago is a fresh one.
const FRESH: Duration = Duration::from_secs(5);
/// How long the programs may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a program may take to tell its status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// Events for the registry.
#[derive(Debug)]
pub(super) enum HostEvent {
    /// A client wants to use a server.
    Attach { request: Box<AttachRequest>, reply: oneshot::Sender<AttachDecision> },
    /// How did a program end?
    Exit { program: u64, reply: oneshot::Sender<Option<ExitLine>> },
    /// What runs?
    Status { reply: oneshot::Sender<HostStatus> },
    /// Take no more clients.
    Retire,
    /// End.
    Stop,
}

/// Whether a client may use a program.
#[derive(Debug)]
pub(super) enum AttachDecision {
    /// It runs, and the client may join.
    Use(ProgramHandle),
    /// It was started for the client, which joins first.
    Started(ProgramHandle, oneshot::Receiver<JoinOutcome>),
    NotShareable(String),
    Outdated,
}

/// What the host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    /// It takes no more clients and ends with the last one.
    Retiring,
    Stopping,
}

#[derive(Debug)]
struct RunningProgram {
    key: String,
    handle: ProgramHandle,
    task: JoinHandle<()>,
    started: Instant,
}

pub(super) struct Registry {
    events: mpsc::Sender<ProgramEvent>,
    watchdog: Option<Watchdog>,
    stderr_sink: StderrSink,
    process_set: ProcessSet,
    since: SystemTime,
    phase: Phase,
    next_program: u64,
    programs: BTreeMap<u64, RunningProgram>,
    /// The program that new clients with a key use.
    current: HashMap<String, u64>,
    exits: VecDeque<(u64, ExitLine)>,
    /// Keys of servers that belong to one session, with the reason.
    session_bound: HashMap<String, &'static str>,
    unused_since: Option<Instant>,
    /// Status requests are answered outside of the registry, so that a slow program holds up no client.
    status_tasks: Vec<JoinHandle<()>>,
}

impl Registry {
    pub(super) fn new(
        events: mpsc::Sender<ProgramEvent>,
        watchdog: Option<WatchdogProgram>,
        stderr_sink: StderrSink,
    ) -> Registry {
        let watchdog = watchdog.and_then(|it| Watchdog::start(&it).ok());
        Registry {
            events,
            watchdog,
            stderr_sink,
            process_set: ProcessSet::new(),
            since: SystemTime::now(),
            phase: Phase::Serving,
            next_program: 1,
            programs: BTreeMap::new(),
            current: HashMap::new(),
            exits: VecDeque::new(),
            session_bound: HashMap::new(),
            unused_since: Some(Instant::now()),
            status_tasks: Vec::new(),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// Since when there has been no program; `None` while there is one.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        self.unused_since
    }

    pub(super) fn on(&mut self, event: HostEvent) {
        self.status_tasks.retain(|it| !it.is_finished());
        match event {
            HostEvent::Attach { request, reply } => {
                let decision = self.attach(*request);
                let _client_gone = reply.send(decision);
            }
            HostEvent::Exit { program, reply } => {
                let exit = self.exits.iter().find(|it| it.0 == program);
                let _client_gone = reply.send(exit.map(|it| it.1.clone()));
            }
            HostEvent::Status { reply } => self.report_status(reply),
            HostEvent::Retire => {
                if self.phase == Phase::Serving {
                    info!("the host retires: it takes no more clients");
                    self.phase = Phase::Retiring;
                }
                self.programs.values().for_each(|it| it.handle.retire());
            }
            HostEvent::Stop => self.phase = Phase::Stopping,
        }
    }

    pub(super) fn on_program(&mut self, event: ProgramEvent) {
        match event {
            ProgramEvent::Ended { program, exit, reply } => {
                self.remove(program);
                if self.exits.len() >= MAX_EXITS {
                    self.exits.pop_front();
                }
                self.exits.push_back((program, exit));
                let _program_gone = reply.send(());
            }
            ProgramEvent::SessionBound { program, reason } => {
                if let Some(running) = self.programs.get(&program)
                    && self.session_bound.len() < MAX_SESSION_BOUND
                {
                    self.session_bound.insert(running.key.clone(), reason);
                }
            }
        }
    }

    fn attach(&mut self, request: AttachRequest) -> AttachDecision {
        if self.phase != Phase::Serving {
            return AttachDecision::Outdated;
        }
        let running = self.current.get(&request.key).and_then(|it| self.programs.get(it));
        if let Some(running) = running.filter(|it| it.handle.accepts_clients()) {
            // Several sessions that reconnect at the same time get one new program.
            if request.reuse == Reuse::Running || running.started.elapsed() < FRESH {
                return AttachDecision::Use(running.handle.clone());
            }
            running.handle.retire();
        }
        if let Some(reason) = self.session_bound.get(&request.key) {
            return AttachDecision::NotShareable((*reason).to_owned());
        }
        self.start(request)
    }

    fn start(&mut self, request: AttachRequest) -> AttachDecision {
        let (starter, joined) = oneshot::channel();
        let number = self.next_program;
        self.next_program += 1;
        let key = request.key.clone();
        info!(server = request.server, program = number, "starting a server");
        let options = ProgramOptions {
            number,
            stderr: (self.stderr_sink)(&request.server),
            request,
            starter,
            watchdog: self.watchdog.clone(),
            process_set: self.process_set,
            events: self.events.clone(),
        };
        let (handle, task) = program::spawn(options);
        self.current.insert(key.clone(), number);
        self.programs.insert(
            number,
            RunningProgram { key, handle: handle.clone(), task, started: Instant::now() },
        );
        self.unused_since = None;
        AttachDecision::Started(handle, joined)
    }

    fn remove(&mut self, program: u64) {
        let Some(removed) = self.programs.remove(&program) else { return };
        if self.current.get(&removed.key) == Some(&program) {
            self.current.remove(&removed.key);
        }
        if self.programs.is_empty() {
            self.unused_since = Some(Instant::now());
        }
    }

    fn report_status(&mut self, reply: oneshot::Sender<HostStatus>) {
        let handles: Vec<ProgramHandle> =
            self.programs.values().map(|it| it.handle.clone()).collect();
        let status = HostStatus {
            pid: std::process::id(),
            since: unix_seconds(self.since),
            is_retiring: self.phase != Phase::Serving,
            programs: Vec::new(),
        };
        let task = tokio::spawn(async move {
            let mut programs: Vec<ProgramStatus> = Vec::new();
            for handle in handles {
                let asking = handle.status();
                programs.extend(timeout(STATUS_TIMEOUT, asking).await.ok().flatten());
            }
            let _client_gone = reply.send(HostStatus { programs, ..status });
        });
        self.status_tasks.push(task);
    }

    /// Stops all programs and waits for them, with a time limit.
    pub(super) async fn stop_all(mut self, receiver: &mut mpsc::Receiver<ProgramEvent>) {
        for running in self.programs.values() {
            running.handle.send(ProgramCommand::Stop);
        }
        let ending = async {
            while !self.programs.is_empty() {
                let Some(event) = receiver.recv().await else { return };
                if let ProgramEvent::Ended { program, reply, .. } = event {
                    let task = self.programs.remove(&program).map(|it| it.task);
                    let _program_gone = reply.send(());
                    if let Some(task) = task {
                        let _panicked = task.await;
                    }
                }
            }
        };
        if timeout(STOP_TIMEOUT, ending).await.is_err() {
            warn!("some servers did not stop in time");
        }
        for task in self.status_tasks {
            task.abort();
        }
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("programs", &self.programs.len()).finish_non_exhaustive()
    }
}
