//! One client's conversation with a server: takes its questions, tells it of changes, and ends with its link.
//! One task owns it; each question that takes time has a task of its own, which ends when the client cancels.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use serde_json::{Value as Json, json};
use switchboard_wire::era::Era;
use switchboard_wire::link::Link;
use switchboard_wire::message::{Id, Payload, RemoteError};
use switchboard_wire::peer::{Connection, Event, IncomingRequest, Peer};
use switchboard_wire::reception::{self, Asker, Reception, tagged};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::answering;
use crate::context::{Context, Level, Parts};
use crate::news::News;
use crate::rounds::Call;
use crate::server::Server;

/// The most that a question may hold, in bytes.
const LARGEST: usize = 4 * 1024 * 1024;
/// How many questions are answered at once.
const AT_ONCE: usize = 64;
/// How many resources a client may follow, and how many subscriptions it may have.
const MOST_FOLLOWED: usize = 256;
const MOST_LISTENERS: usize = 16;

/// Talks to one client until its link ends, or until somebody wants it to end. Calls that are under way then are
/// dropped, and their client is told.
pub(crate) async fn serve<L: Link>(server: Arc<Server>, link: L, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    let mut news = server.herald().listen();
    let Connection { peer, mut events, task } = Peer::start(link);
    let mut conversation = Conversation {
        reception: Reception::new(server.identity()),
        server,
        peer,
        level: Arc::new(AtomicU8::new(Level::Info.rank())),
        roots_changed: Arc::default(),
        calls: JoinSet::new(),
        cancels: HashMap::new(),
        followed: BTreeSet::new(),
        listeners: Vec::new(),
    };
    loop {
        tokio::select! {
            () = &mut stop => break,
            event = events.recv() => match event {
                Some(Event::Request(request)) => conversation.be_asked(request).await,
                Some(Event::Notification { method, params }) => {
                    conversation.hear(&method, params.as_ref());
                }
                None => break,
            },
            news = news.recv() => match news {
                Ok(news) => conversation.announce(&news).await,
                Err(RecvError::Lagged(_)) => conversation.announce_everything().await,
                // The server holds one end itself.
                Err(RecvError::Closed) => break,
            },
            Some(done) = conversation.calls.join_next() => {
                if let Ok(id) = done {
                    conversation.cancels.remove(&id);
                } else {
                    conversation.cancels.retain(|_, cancel| !cancel.is_closed());
                }
            }
        }
    }
    conversation.calls.shutdown().await;
    // Handlers may have left something to threads that holds the connection too.
    conversation.peer.hang_up();
    drop(conversation);
    let _statistics = task.await;
}

struct Conversation {
    server: Arc<Server>,
    reception: Reception,
    peer: Peer,
    /// How much a legacy client wants to hear, by rank.
    level: Arc<AtomicU8>,
    /// How often the client said that its folders changed.
    roots_changed: Arc<AtomicU64>,
    calls: JoinSet<Id>,
    cancels: HashMap<Id, oneshot::Sender<()>>,
    /// Resources that a legacy client follows.
    followed: BTreeSet<String>,
    /// Subscriptions of a modern client.
    listeners: Vec<Listener>,
}

/// A subscription: a question that is answered at its end.
struct Listener {
    request: IncomingRequest,
    wants: Json,
}

impl Conversation {
    async fn be_asked(&mut self, request: IncomingRequest) {
        let params = match read_params(request.params.as_ref()) {
            Ok(params) => params,
            Err(error) => return request.refuse(error).await,
        };
        let asker = match self.reception.admit(&request.method, &params) {
            Ok(asker) => asker,
            Err(error) => return request.refuse(error).await,
        };
        let answered = match request.method.as_ref() {
            "initialize" => Ok(self.reception.initialize(&params)),
            "server/discover" => Ok(self.reception.discover()),
            "logging/setLevel" => self.set_level(&params),
            "resources/subscribe" => self.follow(&params),
            "resources/unsubscribe" => {
                self.followed.remove(params["uri"].as_str().unwrap_or_default());
                Ok(json!({}))
            }
            "subscriptions/listen" => return self.listen(request, params).await,
            _ => return self.begin(request, asker, params).await,
        };
        match answered {
            Ok(result) => {
                let result = self.reception.finished(asker.era, &request.method, result);
                request.answer(result).await;
            }
            Err(error) => request.refuse(error).await,
        }
    }

    fn set_level(&self, params: &Json) -> Result<Json, RemoteError> {
        let level = params["level"].as_str().and_then(Level::parse);
        let level = level.ok_or_else(|| reception::invalid("there is no such level"))?;
        self.level.store(level.rank(), Ordering::Relaxed);
        Ok(json!({}))
    }

    fn follow(&mut self, params: &Json) -> Result<Json, RemoteError> {
        let uri = params["uri"].as_str();
        let uri = uri.ok_or_else(|| reception::invalid("`uri` says what to follow"))?;
        if self.followed.len() >= MOST_FOLLOWED {
            return Err(reception::failed("too many resources are followed"));
        }
        self.followed.insert(uri.to_owned());
        Ok(json!({}))
    }

    /// Tells the client that it is heard; from now on it is told of what it wants.
    async fn listen(&mut self, request: IncomingRequest, params: Json) {
        let wants = params["notifications"].clone();
        let uris = wants["resourceSubscriptions"].as_array().map_or(0, Vec::len);
        if !wants.is_object() {
            let error = reception::invalid("`notifications` says what to listen to");
            return request.refuse(error).await;
        }
        if self.listeners.len() >= MOST_LISTENERS || uris > MOST_FOLLOWED {
            return request.refuse(reception::failed("too much is listened to")).await;
        }
        let acknowledged = tagged(json!({"notifications": wants}), &request.id);
        let method = "notifications/subscriptions/acknowledged";
        request.aside().say(method, Some(payload(&acknowledged))).await;
        self.listeners.push(Listener { request, wants });
    }

    /// Answers in the background. Who cancels gets no answer.
    async fn begin(&mut self, request: IncomingRequest, asker: Asker, params: Json) {
        let method = request.method.clone();
        let call = Call { method: &method, params: &params };
        let answers = match asker.era {
            Era::Legacy => Ok(serde_json::Map::new()),
            Era::Modern => self.server.rounds.answers(&call),
        };
        let answers = match answers {
            Ok(answers) => answers,
            Err(stop) => return request.refuse(stop.error(asker.era)).await,
        };
        if self.calls.len() >= AT_ONCE || self.cancels.contains_key(&request.id) {
            return request.refuse(reception::failed("too many questions at once")).await;
        }
        let (cancel, cancelled) = oneshot::channel();
        self.cancels.insert(request.id.clone(), cancel);
        let context = Context::new(Parts {
            asker,
            aside: request.aside(),
            peer: self.peer.clone(),
            answers,
            level: self.level.clone(),
            roots_changed: self.roots_changed.clone(),
        });
        let (server, reception) = (self.server.clone(), self.reception.clone());
        self.calls.spawn(async move {
            let id = request.id.clone();
            let over = Over(context.clone());
            let call = Call { method: &method, params: &params };
            tokio::select! {
                biased;
                Ok(()) = cancelled => request.forget(),
                answer = answering::answer(&server, &context, call) => match answer {
                    Ok(result) => {
                        let era = context.asker().era;
                        request.answer(reception.finished(era, &method, result)).await;
                    }
                    Err(error) => request.refuse(error).await,
                },
            }
            drop(over);
            id
        });
    }

    fn hear(&mut self, method: &str, params: Option<&Payload>) {
        match method {
            "notifications/cancelled" => {}
            "notifications/roots/list_changed" => {
                self.roots_changed.fetch_add(1, Ordering::Relaxed);
                return;
            }
            _ => return,
        }
        let params: Json = params.and_then(|it| it.decode().ok()).unwrap_or_default();
        let id = Id::from_json(&params["requestId"]);
        if let Some(cancel) = self.cancels.remove(&id) {
            let _done_already = cancel.send(());
        }
        if let Some(at) = self.listeners.iter().position(|it| it.request.id == id) {
            self.listeners.swap_remove(at).request.forget();
        }
    }

    /// A client that fell behind is told that anything may have changed.
    async fn announce_everything(&mut self) {
        self.announce(&News::Tools).await;
        self.announce(&News::Resources).await;
        let listed = self
            .listeners
            .iter()
            .flat_map(|it| it.wants["resourceSubscriptions"].as_array().into_iter().flatten());
        let mut uris: BTreeSet<String> =
            listed.filter_map(Json::as_str).map(str::to_owned).collect();
        uris.extend(self.followed.iter().cloned());
        for uri in uris {
            self.announce(&News::Updated { uri }).await;
        }
    }

    /// Who came with `initialize` hears of every list, who did not hears of what it listens to.
    async fn announce(&mut self, news: &News) {
        let (method, params) = match news {
            News::Tools => ("notifications/tools/list_changed", json!({})),
            News::Resources => ("notifications/resources/list_changed", json!({})),
            News::Updated { uri } => ("notifications/resources/updated", json!({"uri": uri})),
        };
        let wants = |wants: &Json| match news {
            News::Tools => wants["toolsListChanged"] == true,
            News::Resources => wants["resourcesListChanged"] == true,
            News::Updated { uri } => wants["resourceSubscriptions"]
                .as_array()
                .is_some_and(|it| it.iter().any(|it| it == uri.as_str())),
        };
        for listener in self.listeners.iter().filter(|it| wants(&it.wants)) {
            let tagged = tagged(params.clone(), &listener.request.id);
            listener.request.aside().say(method, Some(payload(&tagged))).await;
        }
        let is_followed = match news {
            News::Tools | News::Resources => true,
            News::Updated { uri } => self.followed.contains(uri),
        };
        if self.reception.is_open() && is_followed {
            let _connection_over = self.peer.notify(method, Some(payload(&params))).await;
        }
    }
}

/// Marks the call as over when its task ends, however it ends.
struct Over(Context);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn payload(json: &Json) -> Payload {
    Payload::from_json(json.to_string().into())
}

fn read_params(params: Option<&Payload>) -> Result<Json, RemoteError> {
    let Some(params) = params else { return Ok(json!({})) };
    if params.as_bytes().len() > LARGEST {
        return Err(reception::invalid("the parameters are too large"));
    }
    match params.decode::<Json>() {
        Ok(params @ Json::Object(_)) => Ok(params),
        Ok(_) | Err(_) => Err(reception::invalid("the parameters are no object")),
    }
}
