//! Which server a question is for: by name, by address, by task, by extension, or all of them in turn.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use switchboard::ask::ServerRequest;
use switchboard::catalogue::ListKind;
use switchboard_wire::asked::RawObject;
use switchboard_wire::era::Era;
use switchboard_wire::message::{Payload, RpcError};
use switchboard_wire::reception;

use super::{InboundRequest, REQUEST_TIMEOUT, Relay, empty_object, payload};
use crate::attendant::RequestContext;
use crate::directory::ExposedServer;
use crate::guest::more_verbose;

/// The extension that tasks of the modern era are, and the capability of the legacy one.
const TASK_CAPABILITIES: [&str; 2] = ["io.modelcontextprotocol/tasks", "tasks"];
/// The extension that skills are.
const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";
/// What servers answer for a resource that they do not have.
const NOT_FOUND_CODES: [i64; 2] = [-32002, -32602];

impl Relay {
    pub(super) async fn route(&self, asked: InboundRequest) -> Result<Payload, RpcError> {
        let has_tools =
            || self.catalogues.borrow().capabilities(asked.client.era).contains_key("tools");
        match asked.method == "tools/call" && has_tools() {
            true => self.call_tool(asked).await,
            // In a box, so that a call does not carry room for everything else about.
            false => Box::pin(self.route_other(asked)).await,
        }
    }

    async fn route_other(&self, asked: InboundRequest) -> Result<Payload, RpcError> {
        let directory = self.catalogue();
        let any = |name: &str| directory.capabilities(asked.client.era).contains_key(name);
        match &*asked.method {
            "tools/list" if any("tools") => self.list(ListKind::Tools, &asked),
            "resources/list" if any("resources") => self.list(ListKind::Resources, &asked),
            "resources/templates/list" if any("resources") => {
                self.list(ListKind::ResourceTemplates, &asked)
            }
            "resources/read" if any("resources") => self.read_resource(asked).await,
            "prompts/list" if any("prompts") => self.list(ListKind::Prompts, &asked),
            "prompts/get" if any("prompts") => self.get_prompt(asked).await,
            "completion/complete" if any("completions") => self.complete(asked).await,
            "logging/setLevel" if asked.client.era == Era::Legacy && any("logging") => {
                self.set_log_level(&asked).await
            }
            "skills/list" => self.list_across_servers(asked, SKILLS_EXTENSION).await,
            "skills/get" | "resources/directory/read" => {
                match directory.servers_with(SKILLS_EXTENSION).next() {
                    Some(_) => self.read_resource(asked).await,
                    None => Err(reception::method_not_found(&asked.method)),
                }
            }
            "tasks/get" | "tasks/update" | "tasks/cancel" => self.forward_task(asked).await,
            "tasks/result" if asked.client.era == Era::Legacy => self.forward_task(asked).await,
            "tasks/list" if asked.client.era == Era::Legacy && any("tasks") => {
                self.list_across_servers(asked, TASK_CAPABILITIES[1]).await
            }
            "tasks/result" | "tasks/list" => Err(reception::method_not_found(&asked.method)),
            method => match directory.server_for_method(method).map(|it| it.server.clone()) {
                Some(server) if self.shows_server(&asked.client.principal, &server) => {
                    self.forward_extension(&server, asked).await
                }
                Some(_) | None => Err(reception::method_not_found(method)),
            },
        }
    }

    /// Methods of extensions that nobody here knows go to the server that declares the extension.
    async fn forward_extension(
        &self,
        server: &str,
        mut asked: InboundRequest,
    ) -> Result<Payload, RpcError> {
        let params = std::mem::take(&mut asked.params);
        self.forward(server, &asked, params).await
    }

    /// Asks whoever has a resource. Where nobody lists it, everybody is asked until one has it.
    async fn read_resource(&self, mut asked: InboundRequest) -> Result<Payload, RpcError> {
        let uri = asked.params.get_string("uri");
        let uri =
            uri.ok_or_else(|| reception::invalid_params("`uri` is missing, or is no text"))?;
        let params = std::mem::take(&mut asked.params);
        let mut first_error = None;
        for server in self.catalogue().candidate_servers(&uri) {
            match self.forward(&server, &asked, params.clone()).await {
                Err(error) if NOT_FOUND_CODES.contains(&error.code) => {
                    first_error = first_error.or(Some(error))
                }
                outcome => return outcome,
            }
        }
        Err(first_error.unwrap_or_else(|| reception::resource_not_found(asked.client.era, &uri)))
    }

    async fn get_prompt(&self, mut asked: InboundRequest) -> Result<Payload, RpcError> {
        let name = asked.params.get_string("name");
        let name =
            name.ok_or_else(|| reception::invalid_params("`name` is missing, or is no text"))?;
        let owner = self.catalogue().prompts.get(&name).cloned();
        let principal = &asked.client.principal;
        let owner = owner.filter(|it| self.shows_server(principal, &it.server));
        let owner = owner.ok_or_else(|| not_found("prompt", &name))?;
        let mut params = std::mem::take(&mut asked.params);
        params.insert("name", payload(&owner.name.into()));
        self.forward(&owner.server, &asked, params).await
    }

    async fn complete(&self, mut asked: InboundRequest) -> Result<Payload, RpcError> {
        #[derive(Deserialize)]
        struct Reference {
            #[serde(rename = "type", default)]
            kind: String,
            #[serde(default)]
            name: String,
            #[serde(default)]
            uri: String,
        }
        let invalid_params =
            || reception::invalid_params("`ref` names neither a prompt nor a resource");
        let raw = asked.params.get("ref").cloned().ok_or_else(invalid_params)?;
        let reference: Reference = raw.decode().map_err(|_| invalid_params())?;
        let directory = self.catalogue();
        let mut params = std::mem::take(&mut asked.params);
        let server = match reference.kind.as_str() {
            "ref/prompt" => {
                let owner = directory.prompts.get(&reference.name);
                let owner = owner.ok_or_else(|| not_found("prompt", &reference.name))?;
                let mut written: Map<String, Json> = raw.decode().map_err(|_| invalid_params())?;
                written.insert("name".to_owned(), owner.name.clone().into());
                params.insert("ref", payload(&Json::Object(written)));
                owner.server.clone()
            }
            "ref/resource" => {
                let of_template = directory.templates.iter().find(|it| it.name == reference.uri);
                let server = of_template.map(|it| &it.server);
                let server = server.or_else(|| directory.server_for_uri(&reference.uri));
                server.cloned().ok_or_else(|| not_found("resource", &reference.uri))?
            }
            _ => return Err(invalid_params()),
        };
        self.forward(&server, &asked, params).await
    }

    /// A task belongs to whoever began it, and to no other principal.
    async fn forward_task(&self, mut asked: InboundRequest) -> Result<Payload, RpcError> {
        if !TASK_CAPABILITIES.iter().any(|it| self.catalogue().servers_with(it).next().is_some()) {
            return Err(reception::method_not_found(&asked.method));
        }
        if asked.client.era == Era::Modern && !asked.client.supports_extension(TASK_CAPABILITIES[0])
        {
            return Err(reception::missing_capability(
                &json!({"extensions": {TASK_CAPABILITIES[0]: {}}}),
            ));
        }
        let task = asked.params.get_string("taskId");
        let task =
            task.ok_or_else(|| reception::invalid_params("`taskId` is missing, or is no text"))?;
        let server = self.task_owners.server_of(&task, &asked.client.principal);
        let server = server.ok_or_else(|| not_found("task", &task))?;
        let params = std::mem::take(&mut asked.params);
        self.forward(&server, &asked, params).await
    }

    /// Asks all that can answer, one a page, each for as many pages as it has.
    async fn list_across_servers(
        &self,
        mut asked: InboundRequest,
        capable: &str,
    ) -> Result<Payload, RpcError> {
        let directory = self.catalogue();
        let is_shown = |it: &Arc<str>| self.shows_server(&asked.client.principal, it);
        let servers = directory.servers_with(capable).map(|it| it.server.clone());
        let servers: Vec<Arc<str>> = servers.filter(is_shown).collect();
        let mut params = std::mem::take(&mut asked.params);
        let cursor = params.remove("cursor").and_then(|it| it.decode::<String>().ok());
        let invalid_params =
            || reception::invalid_params("the cursor is not one that was given here");
        let (at, inner) = match &cursor {
            None => (0, None),
            Some(cursor) => {
                let (at, inner) = cursor.split_once(':').ok_or_else(invalid_params)?;
                (at.parse().map_err(|_| invalid_params())?, Some(inner).filter(|it| !it.is_empty()))
            }
        };
        let server = servers.get(at).ok_or_else(|| match cursor {
            None => reception::method_not_found(&asked.method),
            Some(_) => invalid_params(),
        })?;
        if let Some(inner) = inner {
            params.insert("cursor", payload(&inner.into()));
        }
        let page = self.forward(server, &asked, params).await?;
        self.with_next_cursor(page, at, servers.len(), &asked)
    }

    /// A page with the cursor that leads on, to the same server or the next.
    fn with_next_cursor(
        &self,
        page: Payload,
        at: usize,
        servers: usize,
        asked: &InboundRequest,
    ) -> Result<Payload, RpcError> {
        let has_tasks = asked.method == "tasks/list";
        let mut members = RawObject::parse(Some(&page))
            .ok_or_else(|| reception::internal_error("a server's list is no object"))?;
        let next = members.remove("nextCursor").and_then(|it| it.decode::<String>().ok());
        let next = match next {
            Some(inner) => Some(format!("{at}:{inner}")),
            None => (at + 1 < servers).then(|| format!("{}:", at + 1)),
        };
        if next.is_none() && !has_tasks && servers == 1 {
            return Ok(page);
        }
        if let Some(next) = next {
            members.insert("nextCursor", payload(&next.into()));
        }
        if has_tasks && let Some(tasks) = members.get("tasks") {
            let mut tasks: Vec<Json> = tasks.decode().unwrap_or_default();
            tasks.retain(|it| {
                let id = it["taskId"].as_str().unwrap_or_default();
                self.task_owners.server_of(id, &asked.client.principal).is_some()
            });
            members.insert("tasks", payload(&Json::Array(tasks)));
        }
        Ok(members.to_payload())
    }

    /// Servers are told the most talkative level that any client wants; each client hears its own.
    async fn set_log_level(&self, asked: &InboundRequest) -> Result<Payload, RpcError> {
        let level = asked.params.get_string("level").unwrap_or_default();
        if !asked.client.set_log_level(&level) {
            return Err(reception::invalid_params("`level` is not one of the levels"));
        }
        if let Some(level) = asked.client.log_level() {
            self.log_levels.send_modify(|levels| {
                levels.insert(asked.client.id, level);
            });
        }
        // On connections that not everybody shares nobody else says it.
        let directory = self.catalogue();
        let capable = directory
            .servers
            .iter()
            .filter(|it| it.era == Era::Legacy && it.has_capability("logging"));
        for exposed in
            capable.filter(|it| directory.dedicated_connection(&asked.client, &it.server).is_some())
        {
            let _best_effort = self.forward(&exposed.server, asked, asked.params.clone()).await;
        }
        Ok(empty_object())
    }

    /// Tells one server how much is wanted, where it can be told.
    pub(crate) async fn send_log_level(&self, server: &str) {
        if let Some(question) = self.log_level_request(None) {
            let _best_effort = self.host.request(server, question).await;
        }
    }

    /// A modern client says with every question how much it wants to hear; a legacy server is told beforehand.
    pub(super) async fn send_log_level_for(&self, asked: &InboundRequest, server: &str) {
        let Some(level) = asked.client.log_level().filter(|_| asked.client.era == Era::Modern)
        else {
            return;
        };
        let directory = self.catalogue();
        let capable = |it: &&ExposedServer| it.era == Era::Legacy && it.has_capability("logging");
        if directory.servers.iter().filter(capable).all(|it| *it.server != *server) {
            return;
        }
        let attendant = Arc::new(RequestContext::new(asked.client.clone(), asked.channel.clone()));
        if let Some(question) = self.log_level_request(Some(level)) {
            let span = self.tracer.start_upstream(asked, server);
            let question =
                question.on_behalf_of(self.on_behalf_of(asked, attendant, (server, &span)));
            let _best_effort = self.host.request_on_behalf(server, question).await;
        }
    }

    /// The most talkative level that anybody wants.
    fn log_level_request(&self, extra: Option<&'static str>) -> Option<ServerRequest> {
        let lowest =
            self.log_levels.borrow().values().fold(extra, |all, it| more_verbose(all, Some(it)));
        let params = payload(&json!({"level": lowest?}));
        Some(ServerRequest {
            params: Some(params),
            ..ServerRequest::idempotent("logging/setLevel", REQUEST_TIMEOUT)
        })
    }
}

pub(super) fn not_found(what: &str, name: &str) -> RpcError {
    let name: String = name.chars().take(200).collect();
    reception::invalid_params(&format!("there is no {what} `{name}`"))
}
