//! The task behind a connection: performs what the state decides, answers the server, keeps the catalogue fresh.

mod subscribing;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard_auth::scopes::StepUps;
use switchboard_config::entry::TransportKind;
use switchboard_wire::client::{Client, Respond};
use switchboard_wire::dial::{self, Address, DialError, Line, Terms};
use switchboard_wire::era::Era;
use switchboard_wire::handshake::Hint;
use switchboard_wire::introduction::Offer;
use switchboard_wire::link::LinkEnd;
use switchboard_wire::message::{Id, Payload, RemoteError};
use switchboard_wire::network::Network;
use switchboard_wire::peer::{Attend, Behalf, CallError, Event as Said, IncomingRequest};
use switchboard_wire::process::{Keeping, Search};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::credentials::Credentials;
use super::state::{Act, Event, MOST_ATTEMPTS, State};
use super::{Command, Leaving, Live, STRIKES, Status, View, Wanted};
use crate::address;
use crate::catalogue::{self, Catalogue, List, Listed};
use crate::cause::{self, Cause, CauseKind, Evidence, Outlook};
use crate::counsel::Counsellor;
use crate::engine::Settings;
use crate::headers_helper;
use crate::memo::Edit;
use crate::remembered::{self, Remembered};
use crate::shelf::News;
use crate::signing::{self, LoginWish, Signatory, Signer};
use crate::subscription::Pulse;
use crate::trouble;

/// Changes that come this close together are fetched together.
const TOGETHER: Duration = Duration::from_millis(50);
/// Lists are not fetched more often than this, however often the server says that they changed.
const AT_MOST_EVERY: Duration = Duration::from_millis(500);
/// A list whose time is shorter than this is not fetched anew all the time.
const SHORTEST_FRESHNESS: Duration = Duration::from_secs(30);
/// How long we wait before we listen again after the stream of changes ended; twice as long each time.
const LISTEN_AGAIN: Duration = Duration::from_secs(2);
/// The longest such wait. A stream that lasted this long was a good one, and the waits begin anew.
const LISTEN_AT_LEAST: Duration = Duration::from_secs(60);
/// Lists that no answer came for are asked for again after a pause, which doubles from the first to the second.
const LIST_AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// What a server says when it has begun to tell us of changes.
const LISTENED_TO: &str = "notifications/subscriptions/acknowledged";
/// What a server says when it does not want to know any more.
const CANCELLED: &str = "notifications/cancelled";
/// What a server says when it is done with what it sent somebody to a page for.
const VISITED: &str = "notifications/elicitation/complete";
/// How often we look whether the machine slept.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(5);
/// A clock that went on this much further than we did means that the machine slept.
const SLEPT: Duration = Duration::from_secs(10);
/// How long a server may take to say that it is there.
const PING: Duration = Duration::from_secs(10);
/// How long a server may hold its turn. One that takes longer goes on without it.
const TURN: Duration = Duration::from_secs(1);
/// How many questions of a server are answered at once.
const ANSWERS: usize = 32;
/// How many, where each belongs to a call of somebody: they wait for as many people as there are.
const ANSWERS_OF_CALLS: usize = 4096;

type Dialling = Pin<Box<dyn Future<Output = Result<Line, Cause>> + Send>>;
type Fetching = Pin<Box<dyn Future<Output = Vec<(List, Listed)>> + Send>>;
type Listening = Pin<Box<dyn Future<Output = Result<Payload, CallError>> + Send>>;
type Checking = Pin<Box<dyn Future<Output = Result<Duration, CallError>> + Send>>;

pub(super) struct Task {
    wanted: Wanted,
    settings: Arc<Settings>,
    reports: mpsc::Sender<Arc<View>>,
    predecessor: Option<Leaving>,
    /// What we say of ourselves there.
    offer: Offer,
    /// Who answers what belongs to no call.
    owner: Option<Arc<dyn Attend>>,
    published: watch::Sender<Arc<View>>,
    state: State,
    signatory: Signatory,
    /// Does the next attempt ignore what is remembered of a wall?
    is_asked_for: bool,
    dialling: Option<Dialling>,
    rest: Option<Instant>,
    held: Option<Held>,
    generation: u64,
    began: Instant,
    answering: JoinSet<()>,
    /// Which question each of them answers.
    asked: Vec<(Id, AbortHandle)>,
    /// The resources that somebody wants to hear of; they outlive the line.
    subscribed: BTreeMap<String, watch::Sender<Pulse>>,
    clock: (Instant, SystemTime),
}

/// A line and everything that goes with it.
struct Held {
    line: Line,
    opened: Instant,
    strikes: Arc<AtomicU32>,
    news: News,
    catalogue: Arc<Catalogue>,
    dirty: BTreeSet<List>,
    fetching: Option<Fetching>,
    last_fetch: Instant,
    listening: Option<Listening>,
    listen_at: Option<Instant>,
    /// The wait before we listen again, and since when we listen.
    listen_pause: (Duration, Instant),
    /// Has the server said that it tells us of changes?
    is_heard: bool,
    /// May a change have been missed because it had not?
    has_gap: bool,
    stale_at: Option<Instant>,
    /// The wait before lists that no answer came for are asked for again.
    list_pause: Duration,
    checking: Option<Checking>,
    ready_after: Option<Duration>,
    watching: subscribing::Watching,
}

/// What happened next.
enum Happening {
    Command(Option<Command>),
    Dialled(Result<Box<Line>, Cause>),
    Rested,
    Ended(LinkEnd),
    Said(Said),
    Fetched(Vec<(List, Listed)>),
    ListenEnded(Result<Payload, CallError>),
    ListenAgain,
    Stale,
    Checked(Result<Duration, CallError>),
    Subscribed(subscribing::Told),
    WatchEnded(Result<Payload, CallError>),
    WatchAgain,
    Tick,
}

impl Task {
    pub(super) fn new(
        wanted: Wanted,
        settings: Arc<Settings>,
        reports: mpsc::Sender<Arc<View>>,
        particulars: super::Particulars,
    ) -> Task {
        let mut offer = settings.offer.clone();
        offer.abilities = particulars.abilities.unwrap_or(offer.abilities);
        let first = View {
            name: wanted.name().to_owned(),
            scope: wanted.scope,
            fingerprint: wanted.fingerprint.clone(),
            transport: wanted.spec.transport.kind(),
            status: Status::Pending { attempt: 1, most: MOST_ATTEMPTS, cause: None },
            introduction: None,
            catalogue: Arc::default(),
            ready_after: None,
            process: None,
            detour: None,
            live: None,
        };
        Task {
            wanted,
            settings,
            reports,
            predecessor: particulars.predecessor,
            owner: particulars.owner,
            offer,
            published: watch::Sender::new(Arc::new(first)),
            state: State::Idle,
            signatory: Signatory::default(),
            is_asked_for: false,
            dialling: None,
            rest: None,
            held: None,
            generation: 0,
            began: Instant::now(),
            answering: JoinSet::new(),
            asked: Vec::new(),
            subscribed: BTreeMap::new(),
            clock: (Instant::now(), SystemTime::now()),
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Arc<View>> {
        self.published.subscribe()
    }

    pub(super) fn signatory(&self) -> Signatory {
        self.signatory.clone()
    }

    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut ticks = interval(LOOK_AT_CLOCK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.happen(Event::Start, Search::Now).await;
        self.publish().await;
        loop {
            match self.next(&mut commands, &mut ticks).await {
                Happening::Command(Some(Command::Stop { search, done })) => {
                    self.finish(search, Some(done)).await;
                    return;
                }
                Happening::Command(None) => {
                    self.finish(Search::Now, None).await;
                    return;
                }
                Happening::Command(Some(command)) => self.obey(command).await,
                Happening::Dialled(result) => self.dialled(result).await,
                Happening::Rested => self.happen(Event::Rested, Search::Now).await,
                Happening::Ended(how) => self.lost(Cause::from(&how)).await,
                Happening::Said(said) => self.hear(said),
                Happening::Fetched(fetched) => self.fetched(fetched).await,
                Happening::ListenEnded(how) => self.listen_ended(&how),
                Happening::ListenAgain => self.listen(),
                Happening::Stale => self.touch(&List::ALL),
                Happening::Checked(result) => self.checked(result).await,
                Happening::Subscribed(told) => self.subscribed_to(told),
                Happening::WatchEnded(how) => self.watch_ended(&how),
                Happening::WatchAgain => self.watch(),
                Happening::Tick => {
                    self.look_at_clock();
                    self.forget_unheard(None);
                }
            }
        }
    }

    async fn next(
        &mut self,
        commands: &mut mpsc::Receiver<Command>,
        ticks: &mut Interval,
    ) -> Happening {
        while self.answering.try_join_next().is_some() {}
        let dialling = &mut self.dialling;
        let rest = self.rest;
        let Some(held) = &mut self.held else {
            return tokio::select! {
                biased;
                command = commands.recv() => Happening::Command(command),
                result = ready(dialling) => {
                    *dialling = None;
                    Happening::Dialled(result.map(Box::new))
                }
                () = at(rest) => Happening::Rested,
            };
        };
        let client = held.line.client.clone();
        tokio::select! {
            biased;
            command = commands.recv() => Happening::Command(command),
            said = held.line.hear() => Happening::Said(said),
            // Before the lists, which a connection that ended makes look empty.
            how = client.ended() => Happening::Ended(how),
            // Asked before the lists are, so that no change falls between the two.
            how = ready(&mut held.listening) => {
                held.listening = None;
                Happening::ListenEnded(how)
            }
            fetched = ready(&mut held.fetching) => {
                held.fetching = None;
                Happening::Fetched(fetched)
            }
            result = ready(&mut held.checking) => {
                held.checking = None;
                Happening::Checked(result)
            }
            told = held.watching.told.join_next(), if !held.watching.told.is_empty() => {
                Happening::Subscribed(told.and_then(Result::ok).flatten())
            }
            how = ready(&mut held.watching.stream) => {
                held.watching.stream = None;
                Happening::WatchEnded(how)
            }
            () = at(held.watching.again_at) => {
                held.watching.again_at = None;
                Happening::WatchAgain
            }
            () = at(held.listen_at) => {
                held.listen_at = None;
                Happening::ListenAgain
            }
            () = at(held.stale_at) => {
                held.stale_at = None;
                Happening::Stale
            }
            _ = ticks.tick() => Happening::Tick,
        }
    }

    /// Lets the state decide, and does what it says.
    async fn happen(&mut self, event: Event, search: Search) {
        let persistence = self.settings.persistence;
        let before = std::mem::replace(&mut self.state, State::Idle);
        let (state, act) = before.on(event, persistence);
        self.state = state;
        match act {
            Act::Nothing => {}
            Act::Open => self.open(),
            Act::Rest(pause) => self.rest = Some(Instant::now() + pause),
            Act::HangUp => self.hang_up(search).await,
            Act::HangUpAndOpen => {
                self.hang_up(search).await;
                self.open();
            }
        }
    }

    fn open(&mut self) {
        self.rest = None;
        self.began = Instant::now();
        let is_asked_for = std::mem::take(&mut self.is_asked_for);
        let (wanted, settings) = (self.wanted.clone(), self.settings.clone());
        let predecessor = self.predecessor.clone();
        let (signatory, offer) = (self.signatory.clone(), self.offer.clone());
        self.dialling = Some(Box::pin(async move {
            gone(predecessor).await;
            let signer = signatory.signer(&wanted, &settings).await?;
            open_signed((wanted, offer), settings, signer, is_asked_for).await
        }));
    }

    async fn hang_up(&mut self, search: Search) {
        self.dialling = None;
        self.answering.abort_all();
        while self.answering.join_next().await.is_some() {}
        if let Some(held) = self.held.take() {
            let Held { line, fetching, listening, checking, watching, .. } = held;
            drop((fetching, listening, checking, watching));
            line.hang_up(search).await;
        }
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::Want => self.happen(Event::Wanted, Search::Now).await,
            Command::Reconnect => {
                self.is_asked_for = true;
                self.happen(Event::Reconnect, Search::Now).await;
            }
            Command::Trouble { generation, error } => self.trouble(generation, &error).await,
            Command::Subscribe { uri, reply } => {
                let _nobody_waits = reply.send(self.subscribe_to(uri));
            }
            Command::Unsubscribe { done } => self.forget_unheard(done),
            // Obeyed before it gets here.
            Command::Stop { .. } => {}
        }
        self.publish().await;
    }

    /// A call failed. A forgotten session is made anew at once; a network that fails again and again ends the
    /// connection, and the state decides when to try again.
    async fn trouble(&mut self, generation: u64, error: &CallError) {
        if generation != self.generation {
            return;
        }
        let Some(held) = &self.held else { return };
        if trouble::is_gone(error) {
            self.settings.logbook.note(self.wanted.name(), "the server forgot the session");
            self.happen(Event::Reconnect, Search::Now).await;
        } else if trouble::is_unauthorized(error) || matches!(error, CallError::Ended { .. }) {
            // Whoever asks next need not wait until we notice by ourselves.
            self.lost(Cause::from(error)).await;
        } else if trouble::is_terminal(error)
            && held.strikes.fetch_add(1, Ordering::Relaxed) + 1 >= STRIKES
        {
            self.lost(Cause::from(error)).await;
        }
    }

    async fn dialled(&mut self, result: Result<Box<Line>, Cause>) {
        let line = match result {
            Ok(line) => *line,
            Err(cause) => {
                self.note_failure(&cause);
                self.happen(Event::OpenFailed(Arc::new(cause)), Search::Now).await;
                self.publish().await;
                return;
            }
        };
        self.generation += 1;
        let now = Instant::now();
        self.clock = (now, SystemTime::now());
        let client = line.client.clone();
        let fetching = self.fetch(client, List::ALL.to_vec());
        self.held = Some(Held {
            line,
            opened: now,
            strikes: Arc::default(),
            news: News::default(),
            catalogue: Arc::default(),
            dirty: BTreeSet::new(),
            fetching: Some(fetching),
            last_fetch: now,
            listening: None,
            listen_at: None,
            listen_pause: (LISTEN_AGAIN, now),
            is_heard: false,
            has_gap: false,
            stale_at: None,
            list_pause: LIST_AGAIN[0],
            checking: None,
            ready_after: None,
            watching: subscribing::Watching::default(),
        });
        self.listen();
        self.subscribe_to_all();
    }

    async fn fetched(&mut self, fetched: Vec<(List, Listed)>) {
        if fetched.iter().any(|(_, it)| it.turned_away == Some(401)) {
            return self.lost(Cause::of(CauseKind::WantsLogin)).await;
        }
        let Some(held) = &mut self.held else { return };
        held.last_fetch = Instant::now();
        held.catalogue = Arc::new(held.catalogue.with(fetched));
        held.stale_at = None;
        let announces = {
            let it = &held.line.client.introduction().capabilities;
            let lists = [it.tools, it.resources, it.prompts];
            lists.iter().flatten().any(|listing| listing.announces_changes)
        };
        if let (Some(fresh), false) = (held.catalogue.fresh_for(), announces) {
            held.stale_at = Some(Instant::now() + fresh.max(SHORTEST_FRESHNESS));
        }
        if held.catalogue.is_unanswered() {
            held.stale_at = Some(Instant::now() + held.list_pause);
            held.list_pause = held.list_pause.saturating_mul(2).min(LIST_AGAIN[1]);
        } else {
            held.list_pause = LIST_AGAIN[0];
        }
        if held.ready_after.is_none() {
            held.ready_after = Some(self.began.elapsed());
            held.has_gap = held.listening.is_some() && !held.is_heard;
            let text = format!("connected after {} ms", self.began.elapsed().as_millis());
            self.settings.logbook.note(self.wanted.name(), &text);
            self.happen(Event::Opened, Search::Now).await;
        }
        self.remember();
        self.fetch_dirty();
        self.publish().await;
    }

    /// Notes the names of what the server has, for those who complete what somebody types.
    fn remember(&self) {
        let known = self.held.as_ref().and_then(|held| Remembered::of(&held.catalogue));
        if let Some(known) = known {
            let folder = &self.settings.catalogues;
            let path = remembered::file(folder, self.wanted.name(), &self.wanted.fingerprint);
            self.settings.scribe.keep(path, known.text());
        }
    }

    /// How long the server may take for one answer while we get to know it.
    fn patience(&self) -> Duration {
        self.wanted.spec.common.timeout.unwrap_or(self.settings.connect_within)
    }

    fn touch(&mut self, lists: &[List]) {
        if let Some(held) = &mut self.held {
            held.dirty.extend(lists);
        }
        self.fetch_dirty();
    }

    /// Fetches what changed, once a fetch under way is done, and not too often.
    fn fetch_dirty(&mut self) {
        let Some(held) = &mut self.held else { return };
        if held.fetching.is_some() || held.dirty.is_empty() {
            return;
        }
        let lists: Vec<List> = std::mem::take(&mut held.dirty).into_iter().collect();
        let client = held.line.client.clone();
        let since = held.last_fetch.elapsed();
        let pause = AT_MOST_EVERY.saturating_sub(since).max(TOGETHER);
        let fetching = self.fetch(client, lists);
        if let Some(held) = &mut self.held {
            held.fetching = Some(Box::pin(async move {
                sleep(pause).await;
                fetching.await
            }));
        }
    }

    /// Fetches lists; where we are turned away and somebody is there to sign in, once more after that.
    fn fetch(&self, client: Client, lists: Vec<List>) -> Fetching {
        let (patience, settings) = (self.patience(), self.settings.clone());
        let (signatory, wanted) = (self.signatory.clone(), self.wanted.clone());
        Box::pin(async move {
            let fetched = catalogue::fetch(client.clone(), lists.clone(), patience).await;
            let is_turned_away = fetched.iter().any(|(_, it)| it.turned_away.is_some());
            match is_turned_away && signatory.signs_in(&wanted, &settings).await {
                true => catalogue::fetch(client, lists, patience).await,
                false => fetched,
            }
        })
    }

    fn hear(&mut self, said: Said) {
        match said {
            Said::Request(request) => self.be_asked(request),
            Said::Notification { method, params } => self.be_told(&method, params.as_ref()),
        }
    }

    fn be_told(&mut self, method: &str, params: Option<&Payload>) {
        if let (Some(held), true) = (&self.held, tells_of_resources(method)) {
            held.news.note();
        }
        match method {
            subscribing::UPDATED => self.updated(params),
            LISTENED_TO if self.is_about_resources(params) => self.watched(params),
            LISTENED_TO => self.listened_to(),
            CANCELLED => self.withdraw(params),
            VISITED => self.visited(params),
            _ => self.touch(List::changed_by(method)),
        }
    }

    /// What changed before somebody heard us may have been missed.
    fn listened_to(&mut self) {
        let Some(held) = &mut self.held else { return };
        held.is_heard = true;
        if std::mem::take(&mut held.has_gap) {
            self.touch(&List::ALL);
        }
    }

    fn be_asked(&mut self, request: IncomingRequest) {
        let most = match &request.behalf {
            Behalf::One(_) => ANSWERS_OF_CALLS,
            Behalf::Nobody | Behalf::Several => ANSWERS,
        };
        if self.answering.len() >= most {
            self.answering.spawn(request.refuse(RemoteError {
                code: -32603,
                message: "too many questions at once".to_owned(),
                data: None,
            }));
            return;
        }
        let counsel = self.settings.counsel.clone();
        let responder: Arc<dyn Respond> = match &request.behalf {
            Behalf::Nobody => match self.owner.clone().or_else(|| counsel.owner()) {
                Some(owner) => owner,
                None => Arc::new(Counsellor { server: self.wanted.name().to_owned(), counsel }),
            },
            Behalf::One(attendant) => attendant.clone(),
            // To ask the wrong one would show one client what another does.
            Behalf::Several => {
                let text = "a question was not answered: it does not say which client's call it belongs to";
                self.settings.logbook.note(self.wanted.name(), text);
                self.answering.spawn(request.refuse(RemoteError {
                    code: -32603,
                    message: "several clients are being served, and the question does not say whose call it belongs to".to_owned(),
                    data: None,
                }));
                return;
            }
        };
        let id = request.id.clone();
        let answering = self.answering.spawn(async move {
            let method = request.method.clone();
            let params = request.params.clone();
            match responder.respond(&method, params).await {
                Ok(answer) => request.answer(answer).await,
                Err(error) => request.refuse(error).await,
            }
        });
        self.asked.retain(|(_, answering)| !answering.is_finished());
        self.asked.push((id, answering));
    }

    /// The server does not want to know any more: whoever is being asked is left in peace.
    fn withdraw(&mut self, params: Option<&Payload>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled {
            request_id: Json,
        }
        let Some(cancelled) = params.and_then(|it| it.decode::<Cancelled>().ok()) else { return };
        let cancelled = Id::from_json(&cancelled.request_id);
        self.asked.retain(|(id, answering)| {
            let is_meant = *id == cancelled;
            if is_meant {
                answering.abort();
            }
            !is_meant
        });
    }

    /// The server is done with what it sent somebody to a page for.
    fn visited(&self, params: Option<&Payload>) {
        let params: Option<Json> = params.and_then(|it| it.decode().ok());
        if let Some(id) = params.as_ref().and_then(|it| it["elicitationId"].as_str()) {
            let news = (self.wanted.name().to_owned(), id.to_owned());
            let _nobody_waits = self.settings.visited.send(news);
        }
    }

    /// Modern servers say what changed only to those who listen.
    fn listen(&mut self) {
        let Some(held) = &mut self.held else { return };
        let introduction = held.line.client.introduction();
        if introduction.era != Era::Modern {
            return;
        }
        let mut filter = serde_json::Map::new();
        let capabilities = &introduction.capabilities;
        for (listing, name) in [
            (capabilities.tools, "toolsListChanged"),
            (capabilities.resources, "resourcesListChanged"),
            (capabilities.prompts, "promptsListChanged"),
        ] {
            if listing.is_some_and(|it| it.announces_changes) {
                filter.insert(name.to_owned(), true.into());
            }
        }
        if filter.is_empty() {
            return;
        }
        let params = Payload::from_json(json!({"notifications": filter}).to_string().into());
        let request = held.line.client.request("subscriptions/listen").params(params);
        held.listening = Some(Box::pin(request.send()));
        held.listen_pause.1 = Instant::now();
    }

    /// A stream that ended is opened again, and what may have been missed is fetched, now and when somebody hears
    /// us again. A server that refuses has none.
    fn listen_ended(&mut self, how: &Result<Payload, CallError>) {
        match how {
            Err(CallError::Remote(_)) => {}
            Ok(_) | Err(CallError::Timeout(_) | CallError::Lost(_) | CallError::Ended { .. }) => {
                if let Some(held) = &mut self.held {
                    let (pause, since) = held.listen_pause;
                    let pause =
                        if since.elapsed() < LISTEN_AT_LEAST { pause } else { LISTEN_AGAIN };
                    held.listen_at = Some(Instant::now() + pause);
                    held.has_gap = true;
                    held.listen_pause.0 = pause.saturating_mul(2).min(LISTEN_AT_LEAST);
                }
                self.touch(&List::ALL);
            }
        }
    }

    /// After the machine slept, a connection may be dead without knowing.
    fn look_at_clock(&mut self) {
        let (then, then_by_clock) = self.clock;
        let now = (Instant::now(), SystemTime::now());
        let by_clock = now.1.duration_since(then_by_clock).unwrap_or_default();
        let by_us = now.0.saturating_duration_since(then);
        self.clock = now;
        if by_clock > by_us + SLEPT
            && let Some(held) = &mut self.held
            && held.checking.is_none()
        {
            let client = held.line.client.clone();
            held.checking = Some(Box::pin(async move { client.ping(PING).await }));
        }
    }

    async fn checked(&mut self, result: Result<Duration, CallError>) {
        if let Err(error) = result {
            self.lost(Cause::from(&error)).await;
        }
    }

    /// The line is gone, or as good as gone.
    async fn lost(&mut self, cause: Cause) {
        let Some(held) = &mut self.held else { return };
        let lived = held.opened.elapsed();
        let was_ready = held.ready_after.is_some();
        let exit = held.line.exit().await;
        let said = held.line.said().await;
        let cause = match (exit, &cause.kind) {
            (Some(status), CauseKind::Closed) => Cause::of(cause::exited(status)),
            (Some(_) | None, _) => cause,
        };
        let (signatory, settings) = (self.signatory.clone(), self.settings.clone());
        let cause = with_login_in_mind(cause, signatory, &self.wanted.clone(), settings).await;
        let cause = cause.with(cause::stderr(&said));
        self.note_failure(&cause);
        let cause = Arc::new(cause);
        self.hang_up(Search::Now).await;
        let event = match was_ready {
            true => Event::Lost { cause, lived },
            false => Event::OpenFailed(cause),
        };
        self.happen(event, Search::Now).await;
        self.publish().await;
    }

    fn note_failure(&self, cause: &Cause) {
        self.settings.logbook.note(self.wanted.name(), &cause.to_string());
    }

    async fn finish(mut self, search: Search, done: Option<oneshot::Sender<()>>) {
        self.happen(Event::Stop, search).await;
        self.signatory.close().await;
        gone(self.predecessor.take()).await;
        self.publish().await;
        if let Some(done) = done {
            let _nobody_waits = done.send(());
        }
    }

    fn status(&self) -> Status {
        let most = MOST_ATTEMPTS;
        match &self.state {
            State::Idle => Status::Pending { attempt: 1, most, cause: None },
            State::Opening { attempt } => Status::Pending { attempt: *attempt, most, cause: None },
            State::Resting { attempts, cause } => {
                let attempt = (*attempts + 1).min(most);
                Status::Pending { attempt, most, cause: Some(cause.clone()) }
            }
            State::Open { .. } => Status::Connected,
            State::Walled { cause } => Status::NeedsAuth(cause.clone()),
            State::Failed { cause } => Status::Failed(cause.clone()),
            State::Over => Status::Disabled,
        }
    }

    async fn publish(&mut self) {
        let status = self.status();
        let stands = status == Status::Connected;
        let held = self.held.as_ref().filter(|_| stands);
        let view = Arc::new(View {
            name: self.wanted.name().to_owned(),
            scope: self.wanted.scope,
            fingerprint: self.wanted.fingerprint.clone(),
            transport: self.wanted.spec.transport.kind(),
            status,
            introduction: held.map(|held| held.line.client.introduction().clone()),
            catalogue: held.map(|held| held.catalogue.clone()).unwrap_or_default(),
            ready_after: held.and_then(|held| held.ready_after),
            process: self.held.as_ref().and_then(|held| held.line.process_number()),
            detour: held.and_then(|held| held.line.detour),
            live: held.map(|held| Live {
                client: held.line.client.clone(),
                generation: self.generation,
                news: held.news.clone(),
                strikes: held.strikes.clone(),
            }),
        });
        self.published.send_replace(view.clone());
        let _engine_gone = self.reports.send(view).await;
    }
}

/// May what resources hold have changed?
fn tells_of_resources(notification: &str) -> bool {
    notification == "notifications/resources/updated"
        || List::changed_by(notification).contains(&List::Resources)
}

/// What a future in waiting comes to; waits for ever where there is none. The caller takes it away afterwards.
async fn ready<T>(waiting: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match waiting {
        Some(future) => future.as_mut().await,
        None => std::future::pending().await,
    }
}

async fn gone(predecessor: Option<Leaving>) {
    if let Some(predecessor) = predecessor {
        predecessor.over().await;
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// From a definition to a line, with somebody signing in on the way where the server wants that and somebody is
/// there. The person's time is nobody's turn.
async fn open_signed(
    (wanted, offer): (Wanted, Offer),
    settings: Arc<Settings>,
    signer: Option<Arc<Signer>>,
    is_asked_for: bool,
) -> Result<Line, Cause> {
    let Some(signer) = signer else {
        // What a helper prints may be another thing by now, whatever was said of the last.
        let is_asked_for = is_asked_for || headers_helper::command(&wanted.spec).is_some();
        return open((wanted, offer), settings, None, is_asked_for).await;
    };
    let mut step_ups = StepUps::default();
    let mut is_asked_for = is_asked_for || signer.has_login().await;
    loop {
        let called = (wanted.clone(), offer.clone());
        let opened = open(called, settings.clone(), Some(&signer), is_asked_for).await;
        let cause = match opened {
            Ok(line) => return Ok(line),
            Err(cause) => cause,
        };
        let is_about_login = matches!(cause.kind, CauseKind::WantsLogin | CauseKind::Forbidden);
        let guide = settings.signing.guide.as_deref();
        let (Some(guide), true) = (guide.filter(|_| is_about_login), step_ups.take()) else {
            return Err(with_trouble(cause, &signer));
        };
        if let Err(error) = signer.sign_in(guide, &LoginWish::default()).await {
            return Err(cause.with(Evidence::Detail(signing::with_causes(&error))));
        }
        is_asked_for = true;
    }
}

/// A server that turns us away while there is a login that only an outage kept from being renewed does not want another.
async fn with_login_in_mind(
    cause: Cause,
    signatory: Signatory,
    wanted: &Wanted,
    settings: Arc<Settings>,
) -> Cause {
    if cause.kind != CauseKind::WantsLogin {
        return cause;
    }
    match signatory.signer(wanted, &settings).await {
        Ok(Some(signer)) => with_trouble(cause, &signer),
        Ok(None) | Err(_) => cause,
    }
}

/// A failure with what stood in the way of signing in, where something did.
fn with_trouble(cause: Cause, signer: &Signer) -> Cause {
    match (&cause.kind, signer.trouble()) {
        (CauseKind::WantsLogin, Some(trouble)) => {
            let kind = match signer.may_be_renewed_later() {
                true => CauseKind::NotRenewed,
                false => CauseKind::WantsLogin,
            };
            Cause { kind, ..cause }.with(Evidence::Detail(trouble))
        }
        (_, _) => cause,
    }
}

/// From a definition to a line: waits for its turn, fetches secrets, dials, and remembers what it learnt.
async fn open(
    (wanted, offer): (Wanted, Offer),
    settings: Arc<Settings>,
    signer: Option<&Arc<Signer>>,
    is_asked_for: bool,
) -> Result<Line, Cause> {
    let window = match wanted.spec.transport.kind() {
        TransportKind::Stdio => &settings.local_window,
        TransportKind::Sse
        | TransportKind::Http
        | TransportKind::Ws
        | TransportKind::SseIde
        | TransportKind::WsIde
        | TransportKind::Sdk
        | TransportKind::ConnectorProxy => &settings.remote_window,
    };
    let turn = window.acquire().await;
    let key = format!("{}/{}", wanted.name(), wanted.fingerprint);
    let prepared = {
        let _desk = settings.desks.acquire().await;
        let (wanted, settings, key) = (wanted.clone(), settings.clone(), key.clone());
        tokio::task::spawn_blocking(move || prepare(&wanted, &settings, &key, is_asked_for)).await
    };
    let (address, hint, network) =
        prepared.unwrap_or_else(|_| Err(Cause::of(CauseKind::Unusable)))?;
    let credentials = Credentials::of(&wanted, &address, signer, &settings).await?;
    // A helper may have been slow, and is not to hold up those who wait for their turn.
    let turn = turn.ok().filter(|_| !credentials.took_long());
    let address = credentials.on(address);
    let (said, carrier) = settings.logbook.page(wanted.name());
    let terms = Terms {
        offer,
        hint,
        within: wanted.spec.common.timeout.unwrap_or(settings.connect_within),
        keeping: Keeping {
            guard: settings.guard(),
            flock: settings.flock,
            said: Some(said),
            ..Keeping::default()
        },
        network,
    };
    let dialled = {
        let dialling = dial::dial(&address, &terms);
        tokio::pin!(dialling);
        match timeout(TURN, &mut dialling).await {
            Ok(dialled) => {
                drop(turn);
                dialled
            }
            // Whoever is this slow no longer holds up those who wait for their turn.
            Err(_) => {
                drop(turn);
                dialling.await
            }
        }
    };
    // Ends with the program whose words it carries.
    drop((terms, carrier));
    let outcome = match &dialled {
        Ok(line) => Outcome::Era(line.client.introduction().era),
        Err(error) => match Cause::from(error).outlook() {
            Outlook::Login => Outcome::Wall,
            Outlook::Passing | Outlook::Lasting => Outcome::Nothing,
        },
    };
    outcome.remember(&settings, key);
    match dialled {
        Ok(line) => Ok(line),
        Err(error) => Err(credentials.explain(explain(&error, &address)).await),
    }
}

/// What there is to remember of an attempt.
enum Outcome {
    Era(Era),
    Wall,
    Nothing,
}

impl Outcome {
    fn remember(self, settings: &Settings, key: String) {
        let scribe = &settings.scribe;
        match self {
            Outcome::Era(era) => {
                // A legacy verdict is renewed only when it has run out: a server may learn.
                let value = era.id().to_owned();
                scribe.change(&settings.eras, Edit::Learn { key: key.clone(), value });
                scribe.change(&settings.walls, Edit::Forget { key });
            }
            Outcome::Wall => {
                scribe.change(&settings.walls, Edit::Put { key, value: "401".to_owned() });
            }
            Outcome::Nothing => {}
        }
    }
}

/// What blocks: what is remembered, and the secrets.
fn prepare(
    wanted: &Wanted,
    settings: &Settings,
    key: &str,
    is_asked_for: bool,
) -> Result<(Address, Hint, Option<Network>), Cause> {
    if !is_asked_for && settings.walls.get(key).is_some() {
        let detail = "it said so less than 15 minutes ago; `swb reconnect` asks again".to_owned();
        return Err(Cause::of(CauseKind::WantsLogin).with(Evidence::Detail(detail)));
    }
    let hint = match settings.eras.get(key).as_deref().and_then(Era::parse) {
        Some(Era::Legacy) => Hint::Legacy,
        Some(Era::Modern) | None => Hint::Unknown,
    };
    let address = address::of(&wanted.spec, &settings.around, &settings.in_process)?;
    let network = match &address {
        Address::Http(_) | Address::Sse(_) | Address::WebSocket(_) => {
            let own = address::certificates(&wanted.spec, &settings.around)?;
            Some(settings.network(own)?)
        }
        Address::Program(_) | Address::Linked(_) => None,
    };
    Ok((address, hint, network))
}

/// A failure, with what only we know of it.
fn explain(error: &DialError, address: &Address) -> Cause {
    let cause = Cause::from(error);
    match (&cause.kind, address) {
        (CauseKind::NoProgram { .. }, Address::Program(program)) => {
            let path = program.env.iter().find(|(name, _)| name == "PATH");
            let searched = path.map(|(_, value)| value.to_string_lossy().into_owned());
            cause.with(Evidence::Searched(searched.unwrap_or_default()))
        }
        (_, _) => cause,
    }
}
