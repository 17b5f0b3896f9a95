//! Messages over HTTP as MCP's streamable transport has it: each message is a POST, answers come back as JSON
//! or as a stream of events. Both eras are spoken; which one is learned from the messages themselves.
//! One POST is `exchange`'s work, the stream that the server opens with us is `standing`'s.

mod exchange;
mod listen;
mod post;
mod shortcut;
mod standing;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep, timeout};

use crate::link::{Arrival, Link, LinkEnd, Outgoing, Shortcut};
use crate::message::{Id, Message, Payload};
use crate::network::{Network, Request, Target, Via};
use crate::together::{Key, Together};
use post::{Lifetime, Post, Purpose, cancelled_id};
use shortcut::{Direct, Handed};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// How many things that arrived may wait until the peer takes them; streams are read no further then.
const WAITING: usize = 64;
/// How long everything else waits for the server to hear that we are initialized.
const HOLD: Duration = Duration::from_secs(5);
/// How long the last notifications and answers may take to leave, and the goodbye after them.
const LAST_WORDS: Duration = Duration::from_millis(500);
const GOODBYE: Duration = Duration::from_secs(2);

/// A link to a server at a URL. Dropping it drops every exchange that is under way.
pub struct HttpLink {
    context: Arc<Context>,
    /// The way past us, and what was handed over on it.
    direct: Arc<Direct>,
    handed: mpsc::Receiver<Handed>,
    /// What every POST has among its headers.
    prepared: HeaderMap,
    era: Era,
    exchanges: Together<Done>,
    live: HashMap<Id, Live>,
    standing: Option<Key>,
    /// What waits until the server knows that we are initialized. The peer stops pushing when it is too much.
    held: VecDeque<Post>,
    hold: Option<Pin<Box<Sleep>>>,
    say: mpsc::Sender<Said>,
    said: mpsc::Receiver<Said>,
    /// What arrived in one go with something else.
    ready: VecDeque<Arrival>,
    load: usize,
    /// How many notifications and answers are under way.
    telling: usize,
}

/// What every exchange needs to know.
struct Context {
    network: Network,
    target: Target,
}

/// Which protocol a message or a server speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Era {
    /// Every question says all about itself.
    Modern,
    /// There is a session, which began with `initialize`.
    Legacy {
        /// The server's name for it, where it has one.
        session: Option<HeaderValue>,
    },
    /// Nobody knows yet.
    Unknown,
}

/// A question under way.
struct Live {
    key: Key,
    lifetime: Lifetime,
    load: usize,
}

/// What an exchange says before it is over.
enum Said {
    Arrival(Arrival),
    /// What the answer to `initialize` taught.
    Learned {
        session: Option<HeaderValue>,
        version: Option<HeaderValue>,
    },
}

/// What has ended.
enum Done {
    Exchange {
        purpose: Purpose,
        load: usize,
        arrival: Option<Arrival>,
    },
    /// The server does not want to speak by itself.
    Standing,
}

impl HttpLink {
    /// A link. It connects when the first message is pushed.
    pub fn new(network: Network, target: Target) -> HttpLink {
        let mut prepared = target.headers.clone();
        let json = HeaderValue::from_static("application/json");
        let both = HeaderValue::from_static("application/json, text/event-stream");
        prepared.insert(header::CONTENT_TYPE, json);
        prepared.insert(header::ACCEPT, both);
        let (say, said) = mpsc::channel(WAITING);
        let context = Arc::new(Context { network, target });
        let (direct, handed) = Direct::new(context.clone());
        HttpLink {
            context,
            direct,
            handed,
            prepared,
            era: Era::Unknown,
            exchanges: Together::new(),
            live: HashMap::new(),
            standing: None,
            held: VecDeque::new(),
            hold: None,
            say,
            said,
            ready: VecDeque::new(),
            load: 0,
            telling: 0,
        }
    }

    fn start(&mut self, post: Post) {
        let load = post.load();
        let question = match &post.purpose {
            Purpose::Initialize(id) => Some((id.clone(), Lifetime::OfItsSession)),
            Purpose::Ask(id, lifetime) => Some((id.clone(), *lifetime)),
            Purpose::Initialized => {
                self.hold = Some(Box::pin(sleep(HOLD)));
                self.direct.close();
                None
            }
            Purpose::Tell => None,
        };
        let run = exchange::run(self.context.clone(), post, self.say.clone());
        self.run(run, question, load);
    }

    fn run(
        &mut self,
        run: impl Future<Output = Done> + Send + 'static,
        question: Option<(Id, Lifetime)>,
        load: usize,
    ) {
        let key = self.exchanges.add(run);
        match question {
            Some((id, lifetime)) => self.keep(id, Live { key, lifetime, load }),
            None => self.telling += 1,
        }
    }

    /// Ids are the peer's to keep apart. Where it does not, the last question of a name is the one that counts.
    fn keep(&mut self, id: Id, live: Live) {
        if let Some(last) = self.live.insert(id, live) {
            self.exchanges.remove(last.key);
            self.load -= last.load;
        }
    }

    /// Goes on with what came back as more than an answer.
    fn take_over(&mut self, handed: Handed) {
        let Handed { id, lifetime, load, .. } = &handed;
        let (question, load) = ((id.clone(), *lifetime), *load);
        self.load += load;
        let run = exchange::go_on(self.context.clone(), handed, self.say.clone());
        self.run(run, Some(question), load);
    }

    /// Says under which headers questions may go past us, where they may.
    fn direct_others(&self) {
        match (&self.hold, &self.era) {
            (None, Era::Modern | Era::Legacy { .. }) => self.direct.open(&self.prepared),
            (Some(_), _) | (None, Era::Unknown) => self.direct.close(),
        }
    }

    /// Lets go what was held, up to the next thing that holds the rest.
    fn release(&mut self) {
        self.hold = None;
        self.direct_others();
        while self.hold.is_none()
            && let Some(post) = self.held.pop_front()
        {
            self.start(post);
        }
    }

    /// A new session knows nothing of the last one.
    fn forget(&mut self) {
        self.era = Era::Unknown;
        self.prepared.remove(SESSION);
        self.prepared.remove(VERSION);
        self.direct.close();
        if let Some(standing) = self.standing.take() {
            self.exchanges.remove(standing);
        }
    }

    fn hear(&mut self, said: Said) {
        match said {
            Said::Arrival(arrival) => self.ready.push_back(arrival),
            Said::Learned { session, version } => {
                if let Some(session) = &session {
                    self.prepared.insert(SESSION, session.clone());
                }
                if let Some(version) = version {
                    self.prepared.insert(VERSION, version);
                }
                // The way past this task stays closed: no call may overtake the word that we are initialized.
                self.era = Era::Legacy { session };
            }
        }
    }

    fn finish(&mut self, done: Done) {
        // What an exchange said on its way comes before its end.
        while let Ok(said) = self.said.try_recv() {
            self.hear(said);
        }
        let Done::Exchange { purpose, load, arrival } = done else {
            self.standing = None;
            return;
        };
        match &purpose {
            Purpose::Initialize(id) | Purpose::Ask(id, _) => {
                self.live.remove(id);
            }
            Purpose::Initialized => {
                self.telling -= 1;
                if arrival.is_none() {
                    self.stand();
                }
                self.release();
            }
            Purpose::Tell => self.telling -= 1,
        }
        self.load -= load;
        self.ready.extend(arrival);
    }

    /// Opens the stream on which the server speaks by itself.
    fn stand(&mut self) {
        if !matches!(self.era, Era::Legacy { .. }) || self.standing.is_some() {
            return;
        }
        let run = standing::run(self.context.clone(), self.prepared.clone(), self.say.clone());
        self.standing = Some(self.exchanges.add(run));
    }

    /// Calls a question off. Says whether the server is to be told, too.
    fn cancel(&mut self, params: Option<&Payload>) -> Cancelled {
        while let Ok(handed) = self.handed.try_recv() {
            self.take_over(handed);
        }
        let Some(id) = params.and_then(cancelled_id) else { return Cancelled::ToBeSaid };
        let is_it = |post: &Post| matches!(&post.purpose, Purpose::Initialize(it) | Purpose::Ask(it, _) if *it == id);
        if let Some(position) = self.held.iter().position(is_it) {
            let post = self.held.remove(position);
            self.load -= post.map_or(0, |post| post.load());
            return Cancelled::Silently;
        }
        let Some(live) = self.live.remove(&id) else {
            return match self.era {
                Era::Legacy { .. } => Cancelled::ToBeSaid,
                Era::Modern | Era::Unknown => Cancelled::Silently,
            };
        };
        self.exchanges.remove(live.key);
        self.load -= live.load;
        match live.lifetime {
            Lifetime::OfItsStream => Cancelled::Silently,
            Lifetime::OfItsSession => Cancelled::ToBeSaid,
        }
    }

    fn poll_arrival(&mut self, task: &mut Task<'_>) -> Poll<Arrival> {
        loop {
            if let Some(arrival) = self.ready.pop_front() {
                return Poll::Ready(arrival);
            }
            if let Poll::Ready(done) = self.exchanges.poll(task) {
                self.finish(done);
                continue;
            }
            if let Poll::Ready(Some(handed)) = self.handed.poll_recv(task) {
                self.take_over(handed);
                continue;
            }
            if let Poll::Ready(Some(said)) = self.said.poll_recv(task) {
                self.hear(said);
                continue;
            }
            if let Some(hold) = &mut self.hold
                && hold.as_mut().poll(task).is_ready()
            {
                self.release();
                continue;
            }
            return Poll::Pending;
        }
    }

    /// Tells the server that its session is over, where there is one. What it thinks of that is its own affair.
    async fn end_session(&mut self) {
        let Era::Legacy { session: Some(_) } = &self.era else { return };
        let Context { network, target } = &*self.context;
        let mut headers = self.prepared.clone();
        headers.remove(header::CONTENT_TYPE);
        let url = Cow::Borrowed(&target.url);
        let mut request = Request { method: Method::DELETE, url, headers, body: Bytes::new() };
        let _whatever_it_says = target.send(network, &mut request, Via::Http).await;
    }
}

impl Link for HttpLink {
    const CARRIES_HEADERS: bool = true;

    fn shortcut(&self) -> Option<Arc<dyn Shortcut>> {
        Some(self.direct.clone())
    }

    fn push(&mut self, outgoing: Outgoing) {
        if let Message::Notification { method, params } = &outgoing.message
            && method == "notifications/cancelled"
            && self.cancel(params.as_ref()) == Cancelled::Silently
        {
            return;
        }
        let purpose = Purpose::of(&outgoing);
        match &purpose {
            Purpose::Initialize(_) => self.forget(),
            Purpose::Ask(_, Lifetime::OfItsStream) if self.era != Era::Modern => {
                self.era = Era::Modern;
                self.direct_others();
            }
            Purpose::Ask(_, Lifetime::OfItsStream) => {}
            Purpose::Ask(_, Lifetime::OfItsSession) | Purpose::Initialized | Purpose::Tell => {}
        }
        let post = Post::new(purpose, &self.prepared, outgoing);
        self.load += post.load();
        match self.hold {
            Some(_) => self.held.push_back(post),
            None => self.start(post),
        }
    }

    fn queued(&self) -> usize {
        self.load
    }

    async fn farewell(&mut self) {
        while !self.held.is_empty() {
            self.release();
        }
        let told = poll_fn(|task| {
            // Arrivals are for nobody now.
            while self.telling > 0 && self.poll_arrival(task).is_ready() {}
            match self.telling {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        });
        let _server_slow = timeout(LAST_WORDS, told).await;
        let _server_slow = timeout(GOODBYE, self.end_session()).await;
    }

    async fn next(&mut self) -> Result<Arrival, LinkEnd> {
        // It never ends by itself: there is no connection to lose, only exchanges.
        Ok(poll_fn(|task| self.poll_arrival(task)).await)
    }
}

impl fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLink")
            .field("target", &self.context.target)
            .field("live", &self.live.len())
            .field("load", &self.load)
            .finish_non_exhaustive()
    }
}

/// Whether the server hears that a question is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cancelled {
    Silently,
    ToBeSaid,
}
