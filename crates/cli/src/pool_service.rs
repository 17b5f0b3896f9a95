//! Serves the whole pool to programs: a host, its gateway, and the door that clients come in by.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;
use switchboard::auth::fetch::Online;
use switchboard::auth::scopes::Scopes;
use switchboard::auth::verify::{BearerList, Doorkeeper, IssuerCheck, TokenTerms};
use switchboard::config::permission::Mode;
use switchboard::config::problem::Severity;
use switchboard::config::shown::printable;
use switchboard::connection::state::Persistence;
use switchboard::engine::Host;
use switchboard::in_process::InProcess;
use switchboard::inquiry::Nobody;
use switchboard::load::{self, Configuration};
use switchboard::reload::Follower;
use switchboard::wire::introduction::Ability;
use switchboard_builtin::workspace;
use switchboard_gateway::head_guard::HeadGuard;
use switchboard_gateway::{Door, Gateway, MetricsReaders, PATH, Queue, Serving, WaitingRoom};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::control;
use crate::desk;
use crate::exit::Exit;
use crate::live::{self, Interrupts};
use crate::outcome::{Done, Failure};
use crate::report;
use crate::session::Session;
use crate::standard_streams;
use crate::trace_setup;

/// How long clients wait for servers that are slow to connect; those that come later are announced.
const SETTLE: Duration = Duration::from_secs(10);
/// How often the file of tokens is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// More threads than this serve nobody faster.
const MOST_THREADS: usize = 16;

/// What is served, and to whom.
#[derive(Debug)]
pub struct Service {
    /// Whose tools.
    pub what: What,
    /// What of them is served, and how.
    pub serving: Serving,
    /// How much is asked.
    pub mode: Option<Mode>,
    /// How long calls wait for somebody to answer for them; nobody is asked where it is nothing.
    pub approval: Duration,
    /// Where; standard input and output where nowhere else.
    pub http: Option<HttpService>,
}

/// Whose tools are served.
#[derive(Debug)]
pub enum What {
    /// Those of every server that is configured.
    Configured,
    /// Our own, for files and commands.
    Workspace(Box<workspace::Settings>),
}

impl What {
    /// The servers that run, and the rules that hold.
    async fn apply(&self, host: &Host, configuration: &Configuration) {
        match self {
            What::Configured => live::apply(host, configuration, &[]).await,
            What::Workspace(_) => {
                let entry = json!({"type": "sdk", "name": workspace::NAME});
                let servers = json!({"mcpServers": {workspace::NAME: entry}});
                host.set_rules(configuration.rules.clone()).await;
                host.apply(&load::of_program("swb", &servers.to_string())).await;
            }
        }
    }
}

/// A door to the network.
#[derive(Debug)]
pub struct HttpService {
    /// The address to listen at.
    pub address: SocketAddr,
    /// Who may come in.
    pub admission: Admission,
    /// Names that we are reached by, besides our own.
    pub hosts: Vec<String>,
    /// Pages that may use us.
    pub origins: Vec<String>,
    /// Our address, as clients see it.
    pub url: Option<String>,
    /// Who may read the metrics.
    pub metrics: MetricsReaders,
}

/// Who may come in.
#[derive(Debug)]
pub enum Admission {
    /// Everybody who can reach us.
    Everybody,
    /// Those whose tokens are in a file.
    Listed(BearerList),
    /// Those whose tokens an issuer signed.
    Issued(String),
}

/// Serves until whoever started us has enough.
pub fn run(session: &Session, service: Service) -> Result<Done, Failure> {
    let configuration = session.load()?;
    let adapted = |mut options: switchboard::engine::Options| {
        // Questions that belong to no client's call.
        options.asker = Arc::new(Nobody("nobody is here to answer".to_owned()));
        options.lent = vec![Ability::Sampling];
        if let What::Workspace(settings) = &service.what {
            let settings = workspace::Settings::clone(settings);
            let server = InProcess::new(move |link| workspace::serve(settings.clone(), link));
            options.in_process.insert(workspace::NAME.to_owned(), server);
        }
        options
    };
    live::adapted(session, Persistence::Patient, adapted, async |host, interrupts| {
        service.what.apply(host, &configuration).await;
        let mut desk = desk::desk(session, &configuration, host, service.mode)?;
        if let What::Workspace(_) = &service.what {
            desk.trusted.insert(workspace::NAME.to_owned());
        }
        let (room, keeping) = WaitingRoom::new(service.approval);
        let keeping = tokio::spawn(keeping);
        desk.consent = Arc::new(room.clone());
        let audit = desk.audit.clone();
        let (tracer, exporting) = trace_setup::tracer(session)?;
        let (gateway, task) = Gateway::open_traced(host, desk, service.serving, tracer);
        gateway.set_rules(&configuration.rules, &configuration.principals);
        let subjects = control::Subjects { host: host.clone(), waiting: Some(room.clone()) };
        let control = control::serve(subjects, &session.machine.places.running());
        let served = {
            let following = follow(session, host, (&gateway, &service.what), &configuration);
            let serving = serve(session, &gateway, service.http, interrupts);
            let announcing = announce(room.watch());
            tokio::pin!(following, serving, announcing);
            tokio::select! {
                served = &mut serving => served,
                Err(failure) = &mut following => Err(failure),
                () = &mut announcing => Ok(()),
            }
        };
        control.end().await;
        drop((gateway, room));
        host.stop().await;
        let _panicked = task.await;
        let _panicked = keeping.await;
        exporting.end().await;
        audit.settle().await;
        served.map(|()| Done::default())
    })
}

/// Says when a call waits for the person, and how to answer. Does not end by itself.
async fn announce(mut queue: watch::Receiver<Queue>) {
    let mut last = 0;
    while queue.changed().await.is_ok() {
        let now = queue.borrow_and_update().clone();
        for waiting in now.iter().filter(|it| it.number > last) {
            report::aside(&format!(
                "note: {} wants `{}` to run `{}`; `swb approvals allow {number}` or `swb approvals deny {number}`\n",
                printable(&waiting.caller),
                printable(&waiting.server),
                printable(&waiting.tool),
                number = waiting.number,
            ));
        }
        last = now.last().map_or(last, |it| it.number.max(last));
    }
    std::future::pending().await
}

/// Picks up changes of the configuration while clients are there. Does not end by itself.
async fn follow(
    session: &Session,
    host: &Host,
    (gateway, what): (&Gateway, &What),
    configuration: &Configuration,
) -> Result<(), Failure> {
    let follower = Follower::start(session.surroundings(), configuration);
    let Ok(mut follower) = follower else { return std::future::pending().await };
    // What changed between the first look and the watch was seen by nobody.
    if let Ok(configuration) = session.load() {
        what.apply(host, &configuration).await;
        gateway.set_rules(&configuration.rules, &configuration.principals);
    }
    let mut told = String::new();
    while let Some(configuration) = follower.next().await {
        what.apply(host, &configuration).await;
        gateway.set_rules(&configuration.rules, &configuration.principals);
        let problems = configuration.effective.problems.iter();
        let errors = problems.filter(|it| it.severity() == Severity::Error);
        let text = report::problems(&session.machine, errors);
        if text != told {
            report::aside(&text);
            told = text;
        }
    }
    std::future::pending().await
}

async fn serve(
    session: &Session,
    gateway: &Gateway,
    http: Option<HttpService>,
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    let Some(http) = http else {
        let (link, written) = standard_streams::link().map_err(|error| {
            Failure::new(Exit::Failure, "threads cannot be started").because(error)
        })?;
        gateway.settle(SETTLE).await;
        gateway.serve_only(link, "stdio", interrupts.next()).await;
        written.wait().await;
        return Ok(());
    };
    let cannot_listen = |error| {
        let message = format!("--http: cannot listen at {}", http.address);
        Failure::new(Exit::Failure, &message).because(error)
    };
    let listener = TcpListener::bind(http.address).await.map_err(cannot_listen)?;
    let bound = listener.local_addr().map_err(cannot_listen)?;
    let guard = HeadGuard::new(bound, &http.hosts, &http.origins).map_err(|error| {
        Failure::new(Exit::Usage, &format!("`{}` cannot be allowed", printable(&error.text)))
            .because(error.kind)
    })?;
    let url = http.url.unwrap_or_else(|| format!("http://{bound}{PATH}"));
    let (doorkeeper, list) = doorkeeper(session, http.admission, &url)?;
    let door = Door {
        guard,
        doorkeeper,
        largest_request: Door::LARGEST_REQUEST,
        idle: Door::IDLE,
        metrics: http.metrics,
        threads: thread::available_parallelism().map_or(1, |it| it.get().min(MOST_THREADS)),
    };
    gateway.settle(SETTLE).await;
    report::say(&format!("listening on http://{bound}{PATH}\n"));
    let serving = gateway.serve_http(listener, door, interrupts.next());
    let served = tokio::select! {
        served = serving => served,
        () = looked_after(list) => Ok(()),
    };
    served.map_err(|error| Failure::new(Exit::Failure, "cannot serve any more").because(error))
}

fn doorkeeper(
    session: &Session,
    admission: Admission,
    url: &str,
) -> Result<(Doorkeeper, Option<Arc<BearerList>>), Failure> {
    match admission {
        Admission::Everybody => Ok((Doorkeeper::nobody(), None)),
        Admission::Listed(list) => {
            let list = Arc::new(list);
            Ok((Doorkeeper::List(list.clone()), Some(list)))
        }
        Admission::Issued(issuer) => {
            let terms = TokenTerms {
                issuer,
                resource: url.to_owned(),
                audiences: Vec::new(),
                scopes: Scopes::default(),
            };
            let check =
                IssuerCheck::new(terms, Arc::new(Online::new(live::way_out(session)?)), &[]);
            let check =
                check.map_err(|error| Failure::new(Exit::Usage, &format!("--oauth: {error}")))?;
            Ok((Doorkeeper::Issuer(Box::new(check)), None))
        }
    }
}

/// Reads the file of tokens again when it changed. A broken one is said, and the last good one holds.
async fn looked_after(list: Option<Arc<BearerList>>) {
    let Some(list) = list else { return std::future::pending().await };
    let mut said = String::new();
    loop {
        tokio::time::sleep(LOOK).await;
        let reading = list.clone();
        let refreshed = tokio::task::spawn_blocking(move || reading.refresh()).await;
        let now = match refreshed {
            Ok(Err(error)) => format!("{error}"),
            Ok(Ok(_)) | Err(_) => String::new(),
        };
        if now != said && !now.is_empty() {
            report::aside(&format!("{now}; the tokens that were read last still count\n"));
        }
        said = now;
    }
}

/// Reads a file of tokens.
pub fn token_file(path: &Path) -> Result<Admission, Failure> {
    BearerList::open(path).map(Admission::Listed).map_err(|error| {
        Failure::new(Exit::Usage, &format!("--token-file: {error}")).because(error.kind)
    })
}
