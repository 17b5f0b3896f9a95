//! One question of a client, from its method to its answer: looks up whose it is, and passes it on. Nothing here knows
//! how the client is connected; what is asked back goes through the question's own outlet.

mod finishing;
mod routes;
mod signs;
mod states;
mod tool_relay;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use switchboard::ask::{AskError, AskedBack, Behest, Question};
use switchboard::audit::Provenance;
use switchboard::calling::{Desk, ToolCall};
use switchboard::catalogue::List;
use switchboard::engine::Host;
use switchboard::pool::naming;
use switchboard::pool::tool::Tool;
use switchboard_config::permission::{self, Effect, Listed, Rules};
use switchboard_config::principals::Principals;
use switchboard_wire::asked::{Members, Meta};
use switchboard_wire::client::Guise;
use switchboard_wire::era::Era;
use switchboard_wire::message::{Id, Payload, RemoteError};
use switchboard_wire::reception::{self, Identity};
use tokio::sync::watch;

use crate::attendant::{Attendant, Outlet};
use crate::directory::Directory;
use crate::guest::Guest;
use crate::metering::Meters;
use crate::spans::{Tracer, Underway};
use crate::task_ledger::Ledger;
use crate::token_seal::TokenSeal;
use crate::trace_context::{self, TRACEPARENT, TraceContext};
use crate::visiting::about;

pub(crate) use states::{LASTS, State, foreign};
use states::{Leave, Whose};

/// How many principals are known at once.
const MOST_DESKS: usize = 10_000;
/// How long a server may take to answer.
const PATIENCE: Duration = ToolCall::USUAL_PATIENCE;

/// What we say our version is.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What every client of a gateway shares.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) host: Host,
    pub(crate) directory: watch::Receiver<Arc<Directory>>,
    pub(crate) seal: TokenSeal,
    pub(crate) ledger: Ledger,
    pub(crate) meters: Meters,
    pub(crate) tracer: Tracer,
    /// How much of its log each client wants to hear, by number.
    pub(crate) levels: watch::Sender<HashMap<u64, &'static str>>,
    desk: Desk,
    principals: watch::Sender<Principals>,
    /// The desks of those who have rules of their own or answered for a session.
    desks: watch::Sender<HashMap<Arc<str>, Arc<Desk>>>,
}

/// A question.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) guest: Arc<Guest>,
    pub(crate) method: Cow<'static, str>,
    pub(crate) params: Members,
    pub(crate) meta: Meta,
    pub(crate) outlet: Arc<dyn Outlet>,
    pub(crate) origin: Origin,
}

/// Where a question came from, for those who watch.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    id: Id,
    /// The trace that the client says it belongs to.
    pub(crate) trace: Option<TraceContext>,
    /// The place in a trace that is ours.
    pub(crate) span: Option<TraceContext>,
}

/// The longest name of a request that is recorded, in characters.
const LONGEST_ID: usize = 100;

impl Origin {
    /// A question that its client calls so.
    pub(crate) fn of(id: Id) -> Origin {
        Origin { id, trace: None, span: None }
    }

    /// What the client calls it.
    pub(crate) fn request(&self) -> String {
        let json = self.id.as_json();
        let text = json.as_str().map_or_else(|| json.to_string(), str::to_owned);
        text.chars().take(LONGEST_ID).collect()
    }
}

impl Relay {
    pub(crate) fn new(
        host: Host,
        desk: Desk,
        directory: watch::Receiver<Arc<Directory>>,
        tracer: Tracer,
    ) -> Relay {
        Relay {
            host,
            directory,
            seal: TokenSeal::new(),
            ledger: Ledger::default(),
            meters: Meters::default(),
            tracer,
            levels: watch::Sender::default(),
            desk,
            principals: watch::Sender::default(),
            desks: watch::Sender::default(),
        }
    }

    /// What is served now.
    pub(crate) fn served(&self) -> Arc<Directory> {
        self.directory.borrow().clone()
    }

    /// What we say of ourselves to this principal.
    pub(crate) fn identity(&self, era: Era, principal: &Arc<str>) -> Identity {
        let directory = self.served();
        Identity {
            name: "switchboard".to_owned(),
            title: Some("Switchboard".to_owned()),
            version: VERSION.to_owned(),
            instructions: directory.instructions(|it| self.shows_server(principal, it)),
            capabilities: directory.capabilities(era).clone(),
        }
    }

    /// What calls of this principal depend on.
    pub(crate) fn desk(&self, principal: &Arc<str>) -> Arc<Desk> {
        if let Some(desk) = self.desks.borrow().get(principal) {
            return desk.clone();
        }
        let mut desk = self.desk.clone();
        desk.rules = desk.rules.for_another();
        if let Some(own) = self.principals.borrow().rules(principal) {
            desk.rules.replace(self.desk.rules.now().as_ref().clone().and(own));
        }
        let desk = Arc::new(desk);
        let mut kept = desk.clone();
        self.desks.send_modify(|desks| {
            // Who comes back has only to answer again what was answered for a session.
            if desks.len() >= MOST_DESKS {
                desks.clear();
            }
            kept = desks.entry(principal.clone()).or_insert(desk).clone();
        });
        kept
    }

    /// A client is gone, and with it what was only its own.
    pub(crate) async fn left(&self, guest: &Guest) {
        self.levels.send_if_modified(|it| it.remove(&guest.number).is_some());
        let lane = self.served().own_lane(guest);
        if let Some(lane) = lane {
            self.host.leave_lane(&lane).await;
        }
    }

    /// The rules changed.
    pub(crate) fn set_rules(&self, rules: &Rules, principals: &Principals) {
        self.desk.rules.replace(rules.clone());
        self.principals.send_replace(principals.clone());
        for (principal, desk) in self.desks.borrow().iter() {
            let own = principals.rules(principal).unwrap_or_default();
            desk.rules.replace(rules.clone().and(own));
        }
    }

    /// Are there things that others see and this principal does not?
    pub(crate) fn hides_some(&self, principal: &Arc<str>) -> bool {
        let denies = |it: &Listed| it.effect == Effect::Deny;
        let rules = self.desk(principal).rules.now();
        rules.listed().iter().any(denies)
    }

    /// May this principal see the tool?
    pub(crate) fn shows(&self, principal: &Arc<str>, tool: &Tool) -> bool {
        let rules = self.desk(principal).rules.now();
        let name = naming::as_in_rules(&tool.name);
        permission::hides(&rules, &tool.prefix, &name).is_none()
    }

    /// May this principal see anything of the server? Who may call none of its tools has no business with the rest.
    pub(crate) fn shows_server(&self, principal: &Arc<str>, server: &str) -> bool {
        let rules = self.desk(principal).rules.now();
        let directory = self.directory.borrow();
        let prefix = directory.servers.iter().find(|it| *it.server == *server).map(|it| &it.prefix);
        prefix.is_none_or(|it| permission::hides_server(&rules, it).is_none())
    }

    /// Answers a question that is neither the beginning of a conversation nor about changes.
    pub(crate) async fn answer(&self, mut asked: Asked) -> Result<Payload, RemoteError> {
        self.meters.asked(&asked.method);
        asked.origin.trace = TraceContext::of(&asked.meta);
        let span = self.tracer.request(&asked);
        asked.origin.span = span.context();
        let outcome = self.finished(asked).await;
        span.answered(&outcome);
        outcome
    }

    async fn finished(&self, asked: Asked) -> Result<Payload, RemoteError> {
        let (era, method) = (asked.guest.era, asked.method.clone());
        let result = self.routed(asked).await;
        match era {
            Era::Legacy => result,
            Era::Modern => {
                result.map(|it| finishing::modern(&method, it)).map_err(finishing::error)
            }
        }
    }

    /// A page of a list, without what is hidden from whoever asks.
    fn listed(&self, list: List, asked: &Asked) -> Result<Payload, RemoteError> {
        let directory = self.served();
        let cursor = asked.params.text("cursor");
        let pages = directory.lists.get(&list);
        let pages = pages.ok_or_else(|| reception::invalid("nothing is listed yet"))?;
        let page = pages.page(asked.guest.era, cursor.as_deref())?;
        let principal = &asked.guest.principal;
        if !self.hides_some(principal) {
            return Ok(page);
        }
        let mut page: Map<String, Json> =
            page.decode().map_err(|_| reception::failed("the list cannot be read"))?;
        if let Some(Json::Array(entries)) = page.get_mut(list.id()) {
            entries.retain(|entry| match (list, directory.owner_in(list, entry)) {
                (List::Tools, _) => {
                    let name = entry["name"].as_str();
                    let tool = name.and_then(|name| directory.tools.get(name));
                    tool.is_none_or(|tool| self.shows(principal, tool))
                }
                (_, owner) => owner.is_none_or(|server| self.shows_server(principal, server)),
            });
        }
        Ok(object(&Json::Object(page)))
    }

    /// Passes a question on to one server, as it is.
    async fn passed(
        &self,
        server: &str,
        asked: &Asked,
        mut params: Members,
    ) -> Result<Payload, RemoteError> {
        if !self.shows_server(&asked.guest.principal, server) {
            return Err(reception::invalid("there is no such thing here"));
        }
        let asked_for = params.clone();
        let about = || about(&asked.method, &asked_for);
        let whose = Whose { server, principal: &asked.guest.principal, about: &about };
        if asked.guest.era == Era::Modern {
            self.unwrapped(&whose, &mut params)?;
        }
        self.tell_level_for(asked, server).await;
        let attendant = Arc::new(Attendant::new(asked.guest.clone(), asked.outlet.clone()));
        let span = self.tracer.upstream(asked, server);
        let answer = signs::told(asked, |progress| async {
            let question = Question {
                params: Some(params.written()),
                progress,
                ..Question::harmless(asked.method.clone(), PATIENCE)
            };
            let question = question.for_whom(self.behest(asked, attendant, (server, &span)));
            let answer = self.host.ask_on_behalf(server, question).await;
            answer.map_err(|it| unanswered(&it))
        });
        let answer = answer.await;
        span.answered(&answer);
        Ok(self.wrapped(&whose, answer?, Leave::NotAsked))
    }

    /// The server is told that what it does belongs to the span, where there is one.
    fn behest(
        &self,
        asked: &Asked,
        attendant: Arc<Attendant>,
        (server, span): (&str, &Underway),
    ) -> Behest {
        let guest = &asked.guest;
        let members = match span.context() {
            None => asked.meta.passed_on(guest.level()),
            Some(context) => {
                let mut meta = asked.meta.clone();
                meta.rest.put(TRACEPARENT, trace_context::text(&context.written()));
                meta.passed_on(guest.level())
            }
        };
        Behest {
            attendant,
            guise: Guise { capabilities: Some(guest.capabilities.clone()), members },
            asked_back: match guest.era {
                Era::Legacy => AskedBack::Answered,
                Era::Modern => AskedBack::PassedOn,
            },
            lane: self.directory.borrow().lane(guest, server),
        }
    }
}

/// Where a call came from, for the records.
fn provenance(asked: &Asked) -> Provenance {
    let trace = asked.origin.span.or(asked.origin.trace);
    Provenance {
        session: asked.guest.session().map(str::to_owned).unwrap_or_default(),
        request: asked.origin.request(),
        trace: trace.map(|it| it.trace_id()).unwrap_or_default(),
    }
}

/// Why a server did not answer, as the client is told. What the server itself said is said again.
pub(crate) fn unanswered(error: &AskError) -> RemoteError {
    match error {
        AskError::Refused(remote) => remote.clone(),
        AskError::NotConnected(view) => {
            let why = view.status.cause().map(ToString::to_string);
            let why = why.unwrap_or_else(|| view.status.id().to_owned());
            reception::failed(&format!("{error}: {why}"))
        }
        AskError::WantsPermit
        | AskError::NoServer(_)
        | AskError::Timeout { .. }
        | AskError::TooLarge { .. }
        | AskError::NotVisited { .. }
        | AskError::Interrupted { .. }
        | AskError::Broken { .. } => reception::failed(&error.to_string()),
    }
}

/// A value as it is sent.
pub(crate) fn object(json: &Json) -> Payload {
    Payload::from_json(json.to_string().into())
}

fn empty() -> Payload {
    object(&json!({}))
}
