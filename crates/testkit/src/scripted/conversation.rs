//! One client's conversation: what it asked and has not been answered, what it was asked, and what it listens to.
//! Which bytes carry it is up to the transports; what tools do is in `acts`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::actor::{Actor, Alive, cut};
use super::eras::{self, Dialect, Opened, SUBSCRIPTION, Trouble};
use super::outlet::Outlet;
use super::{acts, mischief, repertoire};
use crate::quirk::Quirk;

/// One request on its way to an answer.
#[derive(Debug, Clone)]
pub struct Asked {
    pub id: Value,
    pub method: String,
    pub params: Value,
    pub dialect: Dialect,
    /// Where the answer goes.
    pub outlet: Outlet,
    /// Where progress and questions about it go.
    pub aside: Outlet,
    /// The headers it came with.
    pub headers: Value,
}

/// One client's conversation.
#[derive(Debug)]
pub struct Conversation {
    pub actor: Arc<Actor>,
    /// Where news go that nobody asked for.
    standing: Outlet,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    opened: Opened,
    /// What `initialize` came with.
    client: Value,
    calls: HashMap<String, Call>,
    questions: HashMap<String, oneshot::Sender<Value>>,
    listeners: Vec<Listener>,
    resources: Vec<String>,
}

/// A request that is being answered.
#[derive(Debug)]
struct Call {
    serial: usize,
    /// What is written down when it is cancelled.
    what: String,
    stop: oneshot::Sender<Stopped>,
}

#[derive(Debug)]
struct Listener {
    /// That of its call. Ids are no use for that: clients without sessions share a conversation.
    serial: usize,
    id: Value,
    wants: Value,
    outlet: Outlet,
    end: Option<oneshot::Sender<()>>,
}

/// Why a request gets no answer.
#[derive(Debug, Clone, Copy)]
struct Stopped;

impl Conversation {
    pub fn new(actor: &Arc<Actor>, standing: Outlet, opened: Opened) -> Arc<Conversation> {
        let state = State {
            opened,
            client: Value::Null,
            calls: HashMap::new(),
            questions: HashMap::new(),
            listeners: Vec::new(),
            resources: Vec::new(),
        };
        let conversation = Conversation { actor: Arc::clone(actor), standing, state: state.into() };
        let conversation = Arc::new(conversation);
        actor.knows(&conversation);
        conversation
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    pub fn opened(&self) -> Opened {
        self.state().opened
    }

    /// What `initialize` came with.
    pub fn client(&self) -> Value {
        self.state().client.clone()
    }

    pub fn standing(&self) -> &Outlet {
        &self.standing
    }

    /// Takes a line of text from a transport where everything goes over one stream.
    pub fn take_text(self: &Arc<Self>, text: &[u8], headers: &Value) {
        match serde_json::from_slice(text) {
            Ok(Value::Array(messages)) => {
                messages.into_iter().for_each(|it| self.take(it, headers));
            }
            Ok(message) => self.take(message, headers),
            Err(error) => {
                let trouble = Trouble::new(-32700, format!("this is no JSON: {error}"));
                self.standing.say(&trouble.answer(&Value::Null));
            }
        }
    }

    /// Takes a message from such a transport.
    pub fn take(self: &Arc<Self>, message: Value, headers: &Value) {
        if self.actor.hear(&message) == Alive::No {
            return cut(&self.standing);
        }
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
            return self.note(&message);
        };
        let params = &message["params"];
        match eras::admit(&self.actor.script, self.opened(), method, params) {
            Err(trouble) => self.refuse(method.to_owned(), trouble.answer(id)),
            Ok(dialect) => {
                let asked = Asked {
                    id: id.clone(),
                    method: method.to_owned(),
                    params: params.clone(),
                    dialect,
                    outlet: self.standing.clone(),
                    aside: self.standing.clone(),
                    headers: headers.clone(),
                };
                self.start(asked);
            }
        }
    }

    fn refuse(self: &Arc<Self>, method: String, answer: Value) {
        let conversation = Arc::clone(self);
        let at_work = self.actor.at_work();
        tokio::spawn(async move {
            let actor = &conversation.actor;
            mischief::hesitate(&actor.script, &method).await;
            mischief::deliver(actor, &method, answer, &conversation.standing);
            drop(at_work);
        });
    }

    /// Takes a notification, or the answer to a question.
    pub fn note(self: &Arc<Self>, message: &Value) {
        match message["method"].as_str() {
            None => {
                let question = self.state().questions.remove(&message["id"].to_string());
                if let Some(question) = question {
                    let _tool_gone = question.send(message.clone());
                }
            }
            Some("notifications/cancelled") => {
                let id = &message["params"]["requestId"];
                let call = self.state().calls.remove(&id.to_string());
                if let Some(Call { serial, what, stop }) = call {
                    self.state().listeners.retain(|it| it.serial != serial);
                    self.actor.note_cancelled(&what);
                    let _has_ended = stop.send(Stopped);
                }
            }
            Some("notifications/initialized") => {
                if self.actor.script.does(&Quirk::AsksAtOnce) {
                    self.ask_at_once();
                }
                for _ in 0..mischief::storm(&self.actor.script) {
                    self.announce("notifications/tools/list_changed", &json!({}));
                }
            }
            Some(_) => {}
        }
    }

    /// Answers a request that was let in, in the background.
    pub fn start(self: &Arc<Self>, asked: Asked) {
        let (stop, stopped) = oneshot::channel();
        let serial = self.actor.number();
        let call = Call { serial, what: what(&asked), stop };
        self.state().calls.insert(asked.id.to_string(), call);
        let conversation = Arc::clone(self);
        let at_work = self.actor.at_work();
        tokio::spawn(async move {
            conversation.answer(&asked, serial, stopped).await;
            conversation.state().calls.retain(|_, call| call.serial != serial);
            conversation.state().listeners.retain(|it| it.serial != serial);
            asked.outlet.finish();
            drop(at_work);
        });
    }

    async fn answer(
        self: &Arc<Self>,
        asked: &Asked,
        serial: usize,
        stopped: oneshot::Receiver<Stopped>,
    ) {
        let actor = &self.actor;
        let answer = async {
            let outcome = self.outcome(asked, serial).await;
            mischief::hesitate(&actor.script, &asked.method).await;
            outcome
        };
        // In the legacy era a client that hangs up has not cancelled anything.
        let hung_up = async {
            match asked.dialect {
                Dialect::Legacy => std::future::pending().await,
                Dialect::Modern => asked.outlet.closed().await,
            }
        };
        let outcome = tokio::select! {
            biased;
            Ok(Stopped) = stopped => return,
            () = hung_up => return actor.note_cancelled(&what(asked)),
            outcome = answer => outcome,
        };
        let answer = match outcome {
            Ok(mut result) => {
                eras::stamp(&actor.script, asked.dialect, &asked.method, &mut result);
                json!({"jsonrpc": "2.0", "id": asked.id, "result": result})
            }
            Err(Ending::Trouble(trouble)) => trouble.answer(&asked.id),
            Err(Ending::Crash) => {
                let _only_a_guest_comes_back = actor.die();
                return cut(&asked.outlet);
            }
        };
        mischief::deliver(actor, &asked.method, answer, &asked.outlet);
    }

    async fn outcome(self: &Arc<Self>, asked: &Asked, serial: usize) -> Result<Value, Ending> {
        let script = &self.actor.script;
        if asked.method.ends_with("/list") && script.list_delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(script.list_delay_ms)).await;
        }
        let params = &asked.params;
        match asked.method.as_str() {
            "initialize" => {
                mischief::wake_up(&self.actor).await;
                let mut state = self.state();
                state.opened = Opened::Yes;
                state.client = params.clone();
                Ok(eras::initialized(script, params))
            }
            "server/discover" => {
                mischief::wake_up(&self.actor).await;
                Ok(eras::discovered(script))
            }
            "tools/call" => acts::perform(self, asked).await,
            "resources/read" => Ok(repertoire::read(&self.actor, asked.dialect, params)?),
            "prompts/get" => Ok(repertoire::prompt(&self.actor, params)?),
            "completion/complete" => Ok(repertoire::complete(params)),
            "subscriptions/listen" => self.listen(asked, serial).await,
            "resources/subscribe" => {
                self.state().resources.push(params["uri"].as_str().unwrap_or_default().to_owned());
                if script.taint.is_some() {
                    self.touch_soon(params["uri"].clone());
                }
                Ok(json!({}))
            }
            "resources/unsubscribe" => {
                self.state().resources.retain(|it| params["uri"] != it.as_str());
                Ok(json!({}))
            }
            "ping" | "logging/setLevel" => Ok(json!({})),
            list => Ok(repertoire::list(&self.actor, list, params)?),
        }
    }

    fn ask_at_once(self: &Arc<Self>) {
        let conversation = Arc::clone(self);
        tokio::spawn(async move {
            let message = format!("{} wants a name.", conversation.actor.script.name);
            let name = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
            let question = json!({"message": message, "requestedSchema": name});
            conversation.ask(conversation.standing(), "elicitation/create", &question).await
        });
    }

    /// Who says hostile things says them unasked.
    fn touch_soon(self: &Arc<Self>, uri: Value) {
        let conversation = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            conversation.announce("notifications/resources/updated", &json!({"uri": uri}));
        });
    }

    async fn listen(&self, asked: &Asked, serial: usize) -> Result<Value, Ending> {
        let wants = asked.params["notifications"].clone();
        if !wants.is_object() {
            return Err(Trouble::invalid("`notifications` says what to listen to").into());
        }
        let (end, ended) = oneshot::channel();
        let acknowledged = json!({
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": wants, "_meta": {SUBSCRIPTION: asked.id}},
        });
        asked.outlet.say(&acknowledged);
        let outlet = asked.outlet.clone();
        self.state().listeners.push(Listener {
            serial,
            id: asked.id.clone(),
            wants,
            outlet,
            end: Some(end),
        });
        for _ in 0..mischief::storm(&self.actor.script) {
            self.announce("notifications/tools/list_changed", &json!({}));
        }
        if ended.await.is_err() {
            // It was cancelled, so nothing is to come any more.
            std::future::pending::<()>().await;
        }
        Ok(json!({"_meta": {SUBSCRIPTION: asked.id}}))
    }

    /// Sends news by the era's way to whoever wants them.
    pub fn announce(&self, method: &str, params: &Value) {
        let state = self.state();
        for listener in state.listeners.iter().filter(|it| wants(&it.wants, method, params)) {
            let mut params = params.clone();
            params["_meta"][SUBSCRIPTION] = listener.id.clone();
            listener.outlet.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
        let is_wanted = match params["uri"].as_str() {
            Some(uri) => state.resources.iter().any(|it| it == uri),
            None => true,
        };
        // Who came with `initialize` hears everything, who did not hears what it listens to.
        if !state.client.is_null() && is_wanted {
            self.standing.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
    }

    pub fn end_listening(&self) {
        for listener in &mut self.state().listeners {
            if let Some(end) = listener.end.take() {
                let _client_left = end.send(());
            }
        }
    }

    /// Asks the client something, in the legacy way.
    pub async fn ask(&self, aside: &Outlet, method: &str, params: &Value) -> Option<Value> {
        const PATIENCE: Duration = Duration::from_secs(30);
        let (_, answered) = self.begin_asking(aside, method, params);
        tokio::time::timeout(PATIENCE, answered).await.ok()?.ok()
    }

    /// The same without waiting: the question's id, and the answer that may come.
    pub fn begin_asking(
        &self,
        aside: &Outlet,
        method: &str,
        params: &Value,
    ) -> (Value, oneshot::Receiver<Value>) {
        let id = json!(format!("question-{}", self.actor.number()));
        let (answer, answered) = oneshot::channel();
        self.state().questions.insert(id.to_string(), answer);
        let mut question = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            question["params"] = params.clone();
        }
        aside.say(&question);
        (id, answered)
    }
}

/// How a request may end badly.
#[derive(Debug)]
pub enum Ending {
    Trouble(Trouble),
    Crash,
}

impl From<Trouble> for Ending {
    fn from(trouble: Trouble) -> Ending {
        Ending::Trouble(trouble)
    }
}

/// What is written down of a request that was cancelled.
fn what(asked: &Asked) -> String {
    match asked.params["name"].as_str() {
        Some(name) => name.to_owned(),
        None => asked.method.clone(),
    }
}

fn wants(wants: &Value, method: &str, params: &Value) -> bool {
    let key = match method {
        "notifications/tools/list_changed" => "toolsListChanged",
        "notifications/prompts/list_changed" => "promptsListChanged",
        "notifications/resources/list_changed" => "resourcesListChanged",
        _ => {
            let uris = wants["resourceSubscriptions"].as_array();
            return uris.is_some_and(|it| it.contains(&params["uri"]));
        }
    };
    wants[key] == true
}

/// Adds what nobody knows to a tool's result.
pub fn with_unknown_content(actor: &Actor, result: &mut Value) {
    if actor.script.does(&Quirk::UnknownContent) {
        if let Some(content) = result["content"].as_array_mut() {
            content.push(json!({"type": "hologram", "frames": [1, 2], "annotations": {"x": 1}}));
        }
        result["x-unknown"] = json!({"nobody": "knows"});
    }
}
