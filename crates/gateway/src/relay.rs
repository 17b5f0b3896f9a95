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

use serde_json::json;
use switchboard::ask::{AskError, AskedBack, Behest, Question};
use switchboard::calling::{Desk, ToolCall};
use switchboard::catalogue::List;
use switchboard::engine::Host;
use switchboard::pool::tool::Tool;
use switchboard_config::permission::{self, Effect, Listed, Rules};
use switchboard_config::principals::Principals;
use switchboard_wire::asked::{Members, Meta};
use switchboard_wire::client::Guise;
use switchboard_wire::era::Era;
use switchboard_wire::message::{Payload, RemoteError};
use switchboard_wire::reception::{self, Identity};
use tokio::sync::watch;

use crate::attendant::{Attendant, Outlet};
use crate::directory::Directory;
use crate::guest::Guest;
use crate::metering::Meters;
use crate::task_ledger::Ledger;
use crate::token_seal::TokenSeal;
use crate::visiting::about;

pub(crate) use states::{LASTS, State, foreign};
use states::{Leave, Whose};

/// How many principals are known at once.
const MOST_DESKS: usize = 10_000;
/// How long a server may take to answer.
const PATIENCE: Duration = ToolCall::USUAL_PATIENCE;

/// What every client of a gateway shares.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) host: Host,
    pub(crate) directory: watch::Receiver<Arc<Directory>>,
    pub(crate) seal: TokenSeal,
    pub(crate) ledger: Ledger,
    pub(crate) meters: Meters,
    pub(crate) name: String,
    pub(crate) version: String,
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
}

impl Relay {
    pub(crate) fn new(
        host: Host,
        desk: Desk,
        directory: watch::Receiver<Arc<Directory>>,
        (name, version): (String, String),
    ) -> Relay {
        Relay {
            host,
            directory,
            seal: TokenSeal::new(),
            ledger: Ledger::default(),
            meters: Meters::default(),
            name,
            version,
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

    /// What we say of ourselves.
    pub(crate) fn identity(&self, era: Era) -> Identity {
        let directory = self.served();
        Identity {
            name: self.name.clone(),
            title: Some("Switchboard".to_owned()),
            version: self.version.clone(),
            instructions: directory.instructions(),
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

    /// Are there tools that others see and this principal does not?
    pub(crate) fn hides_some(&self, principal: &Arc<str>) -> bool {
        let denies = |it: &Listed| it.effect == Effect::Deny;
        let rules = self.desk(principal).rules.now();
        rules.listed().iter().any(denies)
    }

    /// May this principal see the tool?
    pub(crate) fn shows(&self, principal: &Arc<str>, tool: &Tool) -> bool {
        if !self.hides_some(principal) {
            return true;
        }
        let rules = self.desk(principal).rules.now();
        permission::hides(&rules, &tool.prefix, &tool.name).is_none()
    }

    /// Answers a question that is neither the beginning of a conversation nor about changes.
    pub(crate) async fn answer(&self, asked: Asked) -> Result<Payload, RemoteError> {
        let (era, method) = (asked.guest.era, asked.method.clone());
        let result = self.routed(asked).await;
        match era {
            Era::Legacy => result,
            Era::Modern => {
                result.map(|it| finishing::modern(&method, it)).map_err(finishing::error)
            }
        }
    }

    fn listed(&self, list: List, asked: &Asked) -> Result<Payload, RemoteError> {
        let directory = self.directory.borrow().clone();
        let cursor = asked.params.text("cursor");
        match directory.lists.get(&list) {
            Some(pages) => pages.page(asked.guest.era, cursor.as_deref()),
            None => Err(reception::invalid("nothing is listed yet")),
        }
    }

    /// Passes a question on to one server, as it is.
    async fn passed(
        &self,
        server: &str,
        asked: &Asked,
        mut params: Members,
    ) -> Result<Payload, RemoteError> {
        let asked_for = params.clone();
        let about = || about(&asked.method, &asked_for);
        let whose = Whose { server, principal: &asked.guest.principal, about: &about };
        if asked.guest.era == Era::Modern {
            self.unwrapped(&whose, &mut params)?;
        }
        self.tell_level_for(asked, server).await;
        let attendant = Arc::new(Attendant::new(asked.guest.clone(), asked.outlet.clone()));
        let answer = signs::told(asked, |progress| async {
            let question = Question {
                params: Some(params.written()),
                progress,
                ..Question::harmless(asked.method.clone(), PATIENCE)
            };
            let question = question.for_whom(self.behest(asked, attendant, server));
            let answer = self.host.ask_on_behalf(server, question).await;
            answer.map_err(|it| unanswered(&it))
        });
        let answer = answer.await?;
        Ok(self.wrapped(&whose, answer, Leave::NotAsked))
    }

    fn behest(&self, asked: &Asked, attendant: Arc<Attendant>, server: &str) -> Behest {
        let guest = &asked.guest;
        let members = asked.meta.passed_on(guest.level());
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

/// Why a server did not answer, as the client is told. What the server itself said is said again.
pub(crate) fn unanswered(error: &AskError) -> RemoteError {
    match error {
        AskError::Refused(remote) => remote.clone(),
        AskError::WantsPermit
        | AskError::NoServer(_)
        | AskError::NotConnected(_)
        | AskError::Timeout { .. }
        | AskError::TooLarge { .. }
        | AskError::NotVisited { .. }
        | AskError::Interrupted { .. }
        | AskError::Broken { .. } => reception::failed(&error.to_string()),
    }
}

fn no_method(method: &str) -> RemoteError {
    let method: String = method.chars().take(100).collect();
    RemoteError { code: -32601, message: format!("there is no method `{method}`"), data: None }
}

fn object(json: &serde_json::Value) -> Payload {
    Payload::from_json(json.to_string().into())
}

fn empty() -> Payload {
    object(&json!({}))
}
