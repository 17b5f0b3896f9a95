//! One client at the other end of a link: usually the program that started us, over standard input and output.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use serde_json::json;
use switchboard_wire::asked::{Members, Meta};
use switchboard_wire::era::Era;
use switchboard_wire::link::Link;
use switchboard_wire::message::{Id, Message, Payload, RemoteError};
use switchboard_wire::peer::{Aside, CallError, Connection, Event, IncomingRequest, Peer};
use switchboard_wire::reception::{self, Reception, input_required};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::attendant::{Asking, Attendant, Outlet, Said};
use crate::gateway::Gateway;
use crate::guest::Guest;
use crate::hearing::{Followed, ListWatch, Listening, bare, updated};
use crate::meanwhile::told_before;
use crate::relay::{Asked, Origin, object};
use crate::turn::{Outcome, Step};
use crate::visiting::{self, Visit};

/// How many of a client's questions are answered at once.
const AT_ONCE: usize = 1024;
/// How many notifications of one question may wait.
const NOTES: usize = 256;

impl Gateway {
    /// Serves the only client there is, until its link ends or somebody wants it to end. What servers ask outside of
    /// any call is this client's to answer.
    pub async fn serve_only(
        &self,
        link: impl Link,
        principal: &str,
        stop: impl Future<Output = ()>,
    ) {
        self.serve_as(link, (principal, Alone::Yes), stop).await;
        self.relay.host.set_owner(None).await;
    }

    /// Serves one of several clients until its link ends or somebody wants it to end.
    pub async fn serve_link(
        &self,
        link: impl Link,
        principal: &str,
        stop: impl Future<Output = ()>,
    ) {
        self.serve_as(link, (principal, Alone::No), stop).await;
    }

    async fn serve_as(
        &self,
        link: impl Link,
        (principal, alone): (&str, Alone),
        stop: impl Future<Output = ()>,
    ) {
        let mut stop = pin!(stop);
        let Connection { peer, mut events, task } = Peer::start(link);
        let mut front = Front {
            gateway: self.clone(),
            peer,
            principal: principal.into(),
            opened: None,
            is_alone: alone == Alone::Yes,
            owner: None,
            questions: JoinSet::new(),
            by_id: HashMap::new(),
            lists: ListWatch::new(&self.relay),
            followed: Followed::default(),
            asides: mpsc::channel(1).1,
        };
        loop {
            tokio::select! {
                () = &mut stop => break,
                event = events.recv() => match event {
                    Some(Event::Request(request)) => front.be_asked(request).await,
                    Some(Event::Notification { method, params }) => front.hear(&method, params.as_ref()).await,
                    None => break,
                },
                Some(changed) = front.lists.next() => front.announce(&changed).await,
                uri = front.followed.next() => front.tell(updated(&uri)).await,
                Some(message) = front.asides.recv() => front.tell(message).await,
                Some(over) = front.questions.join_next() => {
                    if let Ok(id) = over {
                        front.by_id.remove(&id);
                    }
                }
            }
        }
        front.questions.shutdown().await;
        if let Some(guest) = &front.opened {
            front.gateway.relay.left(guest).await;
        }
        front.peer.hang_up();
        drop(front);
        let _statistics = task.await;
    }
}

/// Is it the only client there is?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alone {
    Yes,
    No,
}

struct Front {
    gateway: Gateway,
    peer: Peer,
    principal: Arc<str>,
    /// The client, once it has come in the legacy way.
    opened: Option<Arc<Guest>>,
    is_alone: bool,
    /// Answers for it outside of its requests.
    owner: Option<Arc<Attendant>>,
    questions: JoinSet<Id>,
    /// For calling them off.
    by_id: HashMap<Id, oneshot::Sender<()>>,
    lists: ListWatch,
    followed: Followed,
    /// What is said outside of requests.
    asides: mpsc::Receiver<Message>,
}

impl Front {
    async fn be_asked(&mut self, request: IncomingRequest) {
        let Some(mut params) = Members::read(request.params.as_ref()) else {
            return request.refuse(reception::invalid("the parameters are no object")).await;
        };
        let Some(meta) = Meta::take(&mut params) else {
            return request.refuse(reception::invalid("`_meta` is no object")).await;
        };
        let is_modern = meta.version.is_some() || request.method == "server/discover";
        let answered = match is_modern {
            true => self.modern(request, params, meta).await,
            false => self.legacy(request, params, meta).await,
        };
        if let Some((request, outcome)) = answered {
            match outcome {
                Ok(result) => request.answer(result).await,
                Err(error) => request.refuse(error).await,
            }
        }
    }

    /// What can be said at once is said at once; the rest goes on beside.
    async fn legacy(
        &mut self,
        request: IncomingRequest,
        params: Members,
        meta: Meta,
    ) -> Option<(IncomingRequest, Outcome)> {
        if request.method == "initialize" {
            let guest = Guest::new(self.principal.clone(), Era::Legacy, params.get("capabilities"));
            self.open(Arc::new(guest)).await;
            let mut reception =
                Reception::new(self.gateway.relay.identity(Era::Legacy, &self.principal));
            let params = params.written().decode().unwrap_or_default();
            return Some((request, Ok(object(&reception.initialize(&params)))));
        }
        let Some(guest) = self.opened.clone() else {
            let error = RemoteError {
                code: -32600,
                message: "`initialize` comes first".to_owned(),
                data: None,
            };
            return Some((request, Err(error)));
        };
        let uri = || params.text("uri").ok_or_else(|| reception::invalid("`uri` is missing"));
        match &*request.method {
            "resources/subscribe" => {
                let outcome = match uri() {
                    Ok(uri) => self.followed.follow(&self.gateway.relay, &guest, &uri).await,
                    Err(error) => Err(error),
                };
                Some((request, outcome.map(|()| object(&json!({})))))
            }
            "resources/unsubscribe" => {
                let outcome = uri().map(|uri| self.followed.forget(&uri));
                Some((request, outcome.map(|()| object(&json!({})))))
            }
            _ => {
                let origin = Origin::of(request.id.clone());
                let asked = |method: Cow<'static, str>, outlet: Arc<dyn Outlet>| Asked {
                    guest,
                    method,
                    params,
                    meta,
                    outlet,
                    origin,
                };
                self.begin_legacy(request, asked)
            }
        }
    }

    /// The client has come in. Where it is the only one, it answers for everything that servers ask.
    async fn open(&mut self, guest: Arc<Guest>) {
        let (say, asides) = mpsc::channel(NOTES);
        self.asides = asides;
        let outlet = Arc::new(LinkOutlet { say, peer: self.peer.clone() });
        let attendant = Arc::new(Attendant::new(guest.clone(), outlet));
        guest.set_owner(&attendant);
        if self.is_alone {
            self.gateway.relay.host.set_owner(Some(attendant.clone())).await;
        }
        self.opened = Some(guest);
        self.owner = Some(attendant);
    }

    fn begin_legacy(
        &mut self,
        request: IncomingRequest,
        asked: impl FnOnce(Cow<'static, str>, Arc<dyn Outlet>) -> Asked,
    ) -> Option<(IncomingRequest, Outcome)> {
        if let Some(refused) = self.too_many(&request) {
            return Some((request, Err(refused)));
        }
        let (noting, notes) = mpsc::channel(NOTES);
        let outlet = Arc::new(LinkOutlet { say: noting, peer: self.peer.clone() });
        let asked = asked(request.method.clone(), outlet);
        let relay = self.gateway.relay.clone();
        let aside = request.aside();
        self.begin(request, async move {
            told_before(relay.answer(asked), notes, |note| say(&aside, note)).await
        });
        None
    }

    async fn modern(
        &mut self,
        request: IncomingRequest,
        params: Members,
        meta: Meta,
    ) -> Option<(IncomingRequest, Outcome)> {
        if let Err(error) = meta.admit_modern() {
            return Some((request, Err(error)));
        }
        if let Some(refused) = self.too_many(&request) {
            return Some((request, Err(refused)));
        }
        let guest = visiting::guest(self.principal.clone(), &meta);
        let gateway = self.gateway.clone();
        let (id, aside) = (request.id.clone(), request.aside());
        let method = request.method.clone();
        let visit = Visit { guest, method, params, meta, id: id.clone() };
        self.begin(request, async move { listen_or_answer(&gateway, visit, &id, &aside).await });
        None
    }

    /// Works beside until there is an answer. What is called off has none.
    fn begin(
        &mut self,
        request: IncomingRequest,
        working: impl Future<Output = Outcome> + Send + 'static,
    ) {
        let (call_off, called_off) = oneshot::channel();
        self.by_id.insert(request.id.clone(), call_off);
        self.questions.spawn(async move {
            let id = request.id.clone();
            let outcome = tokio::select! {
                outcome = working => Some(outcome),
                Ok(()) = called_off => None,
            };
            match outcome {
                Some(Ok(result)) => request.answer(result).await,
                Some(Err(error)) => request.refuse(error).await,
                None => request.forget(),
            }
            id
        });
    }

    fn too_many(&self, request: &IncomingRequest) -> Option<RemoteError> {
        let is_too_many = self.by_id.len() >= AT_ONCE || self.by_id.contains_key(&request.id);
        is_too_many.then(|| reception::failed("too many questions at once, or one id twice"))
    }

    async fn hear(&mut self, method: &str, params: Option<&Payload>) {
        if method == "notifications/roots/list_changed"
            && let Some(guest) = &self.opened
        {
            let lane = self.gateway.relay.served().own_lane(guest);
            if lane.is_some() || self.is_alone {
                self.gateway.relay.host.roots_changed(lane.as_deref()).await;
            }
        }
        if method != "notifications/cancelled" {
            return;
        }
        let params = Members::read(params).unwrap_or_default();
        let id = params.get("requestId").and_then(|it| it.decode().ok());
        let id = id.map(|it| Id::from_json(&it));
        if let Some(call_off) = id.and_then(|id| self.by_id.remove(&id)) {
            let _answered_meanwhile = call_off.send(());
        }
    }

    /// Lists changed. Modern clients hear of it where they listen.
    async fn announce(&self, changed: &[&'static str]) {
        if self.opened.is_some() {
            for method in changed {
                self.tell(bare(method)).await;
            }
        }
    }

    async fn tell(&self, message: Message) {
        if let Message::Notification { method, params } = message {
            let _over = self.peer.notify(method, params).await;
        }
    }
}

async fn say(aside: &Aside, note: Message) {
    if let Message::Notification { method, params } = note {
        aside.say(method, params).await;
    }
}

async fn listen_or_answer(gateway: &Gateway, visit: Visit, id: &Id, aside: &Aside) -> Outcome {
    if visit.method == "subscriptions/listen" {
        let (mut listening, first) =
            Listening::begin(&gateway.relay, &visit.guest, id, &visit.params).await?;
        say(aside, first).await;
        while let Some(told) = listening.next().await {
            for message in told {
                say(aside, message).await;
            }
        }
        return listening.over();
    }
    let mut turn = gateway.visit(visit).await?;
    let principal = turn.principal.clone();
    loop {
        match turn.next().await {
            Step::Told(note) => say(aside, note).await,
            Step::Asked(requests) => {
                let state = gateway.park(turn, principal).await?;
                return Ok(object(&input_required(&requests, &state)));
            }
            Step::Done(outcome) => return outcome,
        }
    }
}

/// The way to a client that can be asked at any time.
#[derive(Debug)]
struct LinkOutlet {
    say: mpsc::Sender<Message>,
    peer: Peer,
}

impl Outlet for LinkOutlet {
    fn say(&self, method: Cow<'static, str>, params: Option<Payload>) -> Said {
        Said::of(self.say.try_send(Message::Notification { method, params }))
    }

    fn ask<'a>(&'a self, method: &'a str, params: Option<Payload>) -> Asking<'a> {
        Box::pin(async move {
            let mut call = self.peer.call(method.to_owned());
            if let Some(params) = params {
                call = call.params(params);
            }
            match call.await {
                Ok(answer) => Ok(answer),
                Err(CallError::Remote(error)) => Err(error),
                Err(CallError::Timeout(_) | CallError::Lost(_) | CallError::Ended { .. }) => {
                    Err(reception::failed("the client is gone"))
                }
            }
        })
    }
}
