//! Which server a question is for: by name, by address, by task, by extension, or all of them in turn.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use switchboard::ask::Question;
use switchboard::catalogue::List;
use switchboard_wire::asked::Members;
use switchboard_wire::era::Era;
use switchboard_wire::message::{Payload, RemoteError};
use switchboard_wire::reception;

use super::{Asked, PATIENCE, Relay, empty, object};
use crate::attendant::Attendant;
use crate::directory::Facts;
use crate::guest::lower;

/// The extension that tasks of the modern era are, and the capability of the legacy one.
const TASKS: [&str; 2] = ["io.modelcontextprotocol/tasks", "tasks"];
/// The extension that skills are.
const SKILLS: &str = "io.modelcontextprotocol/skills";
/// What servers answer for a resource that they do not have.
const NOT_HERE: [i64; 2] = [-32002, -32602];

impl Relay {
    pub(super) async fn routed(&self, asked: Asked) -> Result<Payload, RemoteError> {
        let has_tools =
            || self.directory.borrow().capabilities(asked.guest.era).contains_key("tools");
        match asked.method == "tools/call" && has_tools() {
            true => self.called(asked).await,
            // In a box, so that a call does not carry room for everything else about.
            false => Box::pin(self.routed_elsewhere(asked)).await,
        }
    }

    async fn routed_elsewhere(&self, asked: Asked) -> Result<Payload, RemoteError> {
        let directory = self.served();
        let any = |name: &str| directory.capabilities(asked.guest.era).contains_key(name);
        match &*asked.method {
            "tools/list" if any("tools") => self.listed(List::Tools, &asked),
            "resources/list" if any("resources") => self.listed(List::Resources, &asked),
            "resources/templates/list" if any("resources") => self.listed(List::Templates, &asked),
            "resources/read" if any("resources") => self.by_address(asked).await,
            "prompts/list" if any("prompts") => self.listed(List::Prompts, &asked),
            "prompts/get" if any("prompts") => self.by_prompt(asked).await,
            "completion/complete" if any("completions") => self.completed(asked).await,
            "logging/setLevel" if asked.guest.era == Era::Legacy && any("logging") => {
                self.level_set(&asked).await
            }
            "skills/list" => self.in_turn(asked, SKILLS).await,
            "skills/get" | "resources/directory/read" => match directory.able(SKILLS).next() {
                Some(_) => self.by_address(asked).await,
                None => Err(reception::unknown(&asked.method)),
            },
            "tasks/get" | "tasks/update" | "tasks/cancel" => self.by_task(asked).await,
            "tasks/result" if asked.guest.era == Era::Legacy => self.by_task(asked).await,
            "tasks/list" if asked.guest.era == Era::Legacy && any("tasks") => {
                self.in_turn(asked, TASKS[1]).await
            }
            "tasks/result" | "tasks/list" => Err(reception::unknown(&asked.method)),
            method => match directory.owner_of(method).map(|it| it.server.clone()) {
                Some(server) if self.shows_server(&asked.guest.principal, &server) => {
                    self.extended(&server, asked).await
                }
                Some(_) | None => Err(reception::unknown(method)),
            },
        }
    }

    /// Methods of extensions that nobody here knows go to the server that declares the extension.
    async fn extended(&self, server: &str, mut asked: Asked) -> Result<Payload, RemoteError> {
        let params = std::mem::take(&mut asked.params);
        self.passed(server, &asked, params).await
    }

    /// Asks whoever has a resource. Where nobody lists it, everybody is asked until one has it.
    async fn by_address(&self, mut asked: Asked) -> Result<Payload, RemoteError> {
        let uri = asked.params.text("uri");
        let uri = uri.ok_or_else(|| reception::invalid("`uri` is missing, or is no text"))?;
        let params = std::mem::take(&mut asked.params);
        let mut refused = None;
        for server in self.served().servers_for(&uri) {
            match self.passed(&server, &asked, params.clone()).await {
                Err(error) if NOT_HERE.contains(&error.code) => refused = refused.or(Some(error)),
                outcome => return outcome,
            }
        }
        Err(refused.unwrap_or_else(|| reception::no_resource(asked.guest.era, &uri)))
    }

    async fn by_prompt(&self, mut asked: Asked) -> Result<Payload, RemoteError> {
        let name = asked.params.text("name");
        let name = name.ok_or_else(|| reception::invalid("`name` is missing, or is no text"))?;
        let whose = self.served().prompts.get(&name).cloned();
        let principal = &asked.guest.principal;
        let whose = whose.filter(|it| self.shows_server(principal, &it.server));
        let whose = whose.ok_or_else(|| no_such("prompt", &name))?;
        let mut params = std::mem::take(&mut asked.params);
        params.put("name", object(&whose.name.into()));
        self.passed(&whose.server, &asked, params).await
    }

    async fn completed(&self, mut asked: Asked) -> Result<Payload, RemoteError> {
        #[derive(Deserialize)]
        struct Reference {
            #[serde(rename = "type", default)]
            kind: String,
            #[serde(default)]
            name: String,
            #[serde(default)]
            uri: String,
        }
        let bad = || reception::invalid("`ref` names neither a prompt nor a resource");
        let raw = asked.params.get("ref").cloned().ok_or_else(bad)?;
        let reference: Reference = raw.decode().map_err(|_| bad())?;
        let directory = self.served();
        let mut params = std::mem::take(&mut asked.params);
        let server = match reference.kind.as_str() {
            "ref/prompt" => {
                let whose = directory.prompts.get(&reference.name);
                let whose = whose.ok_or_else(|| no_such("prompt", &reference.name))?;
                let mut written: Map<String, Json> = raw.decode().map_err(|_| bad())?;
                written.insert("name".to_owned(), whose.name.clone().into());
                params.put("ref", object(&Json::Object(written)));
                whose.server.clone()
            }
            "ref/resource" => {
                let of_template = directory.templates.iter().find(|it| it.name == reference.uri);
                let server = of_template.map(|it| &it.server);
                let server = server.or_else(|| directory.server_of(&reference.uri));
                server.cloned().ok_or_else(|| no_such("resource", &reference.uri))?
            }
            _ => return Err(bad()),
        };
        self.passed(&server, &asked, params).await
    }

    /// A task belongs to whoever began it, and to no other principal.
    async fn by_task(&self, mut asked: Asked) -> Result<Payload, RemoteError> {
        if !TASKS.iter().any(|it| self.served().able(it).next().is_some()) {
            return Err(reception::unknown(&asked.method));
        }
        if asked.guest.era == Era::Modern && !asked.guest.knows(TASKS[0]) {
            return Err(reception::lacking(&json!({"extensions": {TASKS[0]: {}}})));
        }
        let task = asked.params.text("taskId");
        let task = task.ok_or_else(|| reception::invalid("`taskId` is missing, or is no text"))?;
        let server = self.ledger.server_of(&task, &asked.guest.principal);
        let server = server.ok_or_else(|| no_such("task", &task))?;
        let params = std::mem::take(&mut asked.params);
        self.passed(&server, &asked, params).await
    }

    /// Asks all that can answer, one a page, each for as many pages as it has.
    async fn in_turn(&self, mut asked: Asked, able: &str) -> Result<Payload, RemoteError> {
        let directory = self.served();
        let is_shown = |it: &Arc<str>| self.shows_server(&asked.guest.principal, it);
        let servers = directory.able(able).map(|it| it.server.clone());
        let servers: Vec<Arc<str>> = servers.filter(is_shown).collect();
        let mut params = std::mem::take(&mut asked.params);
        let cursor = params.take("cursor").and_then(|it| it.decode::<String>().ok());
        let bad = || reception::invalid("the cursor is not one that was given here");
        let (at, inner) = match &cursor {
            None => (0, None),
            Some(cursor) => {
                let (at, inner) = cursor.split_once(':').ok_or_else(bad)?;
                (at.parse().map_err(|_| bad())?, Some(inner).filter(|it| !it.is_empty()))
            }
        };
        let server = servers.get(at).ok_or_else(|| match cursor {
            None => reception::unknown(&asked.method),
            Some(_) => bad(),
        })?;
        if let Some(inner) = inner {
            params.put("cursor", object(&inner.into()));
        }
        let page = self.passed(server, &asked, params).await?;
        self.paged(page, at, servers.len(), &asked)
    }

    /// A page with the cursor that leads on, to the same server or the next.
    fn paged(
        &self,
        page: Payload,
        at: usize,
        servers: usize,
        asked: &Asked,
    ) -> Result<Payload, RemoteError> {
        let has_tasks = asked.method == "tasks/list";
        let mut members = Members::read(Some(&page))
            .ok_or_else(|| reception::failed("a server's list is no object"))?;
        let next = members.take("nextCursor").and_then(|it| it.decode::<String>().ok());
        let next = match next {
            Some(inner) => Some(format!("{at}:{inner}")),
            None => (at + 1 < servers).then(|| format!("{}:", at + 1)),
        };
        if next.is_none() && !has_tasks && servers == 1 {
            return Ok(page);
        }
        if let Some(next) = next {
            members.put("nextCursor", object(&next.into()));
        }
        if has_tasks && let Some(tasks) = members.get("tasks") {
            let mut tasks: Vec<Json> = tasks.decode().unwrap_or_default();
            tasks.retain(|it| {
                let id = it["taskId"].as_str().unwrap_or_default();
                self.ledger.server_of(id, &asked.guest.principal).is_some()
            });
            members.put("tasks", object(&Json::Array(tasks)));
        }
        Ok(members.written())
    }

    /// Servers are told the most talkative level that any client wants; each client hears its own.
    async fn level_set(&self, asked: &Asked) -> Result<Payload, RemoteError> {
        let level = asked.params.text("level").unwrap_or_default();
        if !asked.guest.set_level(&level) {
            return Err(reception::invalid("`level` is not one of the levels"));
        }
        if let Some(level) = asked.guest.level() {
            self.levels.send_modify(|levels| {
                levels.insert(asked.guest.number, level);
            });
        }
        // On connections that not everybody shares nobody else says it.
        let directory = self.served();
        let able = directory.servers.iter().filter(|it| it.era == Era::Legacy && it.has("logging"));
        for facts in able.filter(|it| directory.lane(&asked.guest, &it.server).is_some()) {
            let _it_says_what_it_likes =
                self.passed(&facts.server, asked, asked.params.clone()).await;
        }
        Ok(empty())
    }

    /// Tells one server how much is wanted, where it can be told.
    pub(crate) async fn tell_level(&self, server: &str) {
        if let Some(question) = self.level_wanted(None) {
            let _it_says_what_it_likes = self.host.ask(server, question).await;
        }
    }

    /// A modern client says with every question how much it wants to hear; a legacy server is told beforehand.
    pub(super) async fn tell_level_for(&self, asked: &Asked, server: &str) {
        let Some(level) = asked.guest.level().filter(|_| asked.guest.era == Era::Modern) else {
            return;
        };
        let directory = self.served();
        let able = |it: &&Facts| it.era == Era::Legacy && it.has("logging");
        if directory.servers.iter().filter(able).all(|it| *it.server != *server) {
            return;
        }
        let attendant = Arc::new(Attendant::new(asked.guest.clone(), asked.outlet.clone()));
        if let Some(question) = self.level_wanted(Some(level)) {
            let span = self.tracer.upstream(asked, server);
            let question = question.for_whom(self.behest(asked, attendant, (server, &span)));
            let _it_says_what_it_likes = self.host.ask_on_behalf(server, question).await;
        }
    }

    /// The most talkative level that anybody wants.
    fn level_wanted(&self, besides: Option<&'static str>) -> Option<Question> {
        let wanted = self.levels.borrow().values().fold(besides, |all, it| lower(all, Some(it)));
        let params = object(&json!({"level": wanted?}));
        Some(Question { params: Some(params), ..Question::harmless("logging/setLevel", PATIENCE) })
    }
}

pub(super) fn no_such(what: &str, name: &str) -> RemoteError {
    let name: String = name.chars().take(200).collect();
    reception::invalid(&format!("there is no {what} `{name}`"))
}
