//! Which server a question is for: by name, by address, by task, by extension, or all of them in turn.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use switchboard::catalogue::fetch::ListKind;
use switchboard::request::send::ServerRequest;
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::request_meta::RawObject;
use switchboard_wire::server;

use super::{InboundRequest, REQUEST_TIMEOUT, Relay, empty_object, payload};
use crate::downstream::client::more_verbose;
use crate::downstream::request_context::RequestContext;
use crate::exposed::catalogue::ExposedServer;

/// The extension that tasks of the modern era are, and the capability of the legacy one.
const TASK_CAPABILITIES: [&str; 2] = ["io.modelcontextprotocol/tasks", "tasks"];
/// The extension that skills are.
const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";
/// What servers answer for a resource that they do not have.
const NOT_FOUND_CODES: [i64; 2] = [-32002, -32602];

impl Relay {
    pub(super) async fn route(&self, request: InboundRequest) -> Result<Payload, RpcError> {
        let has_tools =
            || self.catalogues.borrow().capabilities(request.client.era).contains_key("tools");
        match request.method == "tools/call" && has_tools() {
            true => self.call_tool(request).await,
            // In a box, so that a call does not carry room for everything else about.
            false => Box::pin(self.route_other(request)).await,
        }
    }

    async fn route_other(&self, request: InboundRequest) -> Result<Payload, RpcError> {
        let catalogue = self.catalogue();
        let any = |name: &str| catalogue.capabilities(request.client.era).contains_key(name);
        match &*request.method {
            "tools/list" if any("tools") => self.list(ListKind::Tools, &request),
            "resources/list" if any("resources") => self.list(ListKind::Resources, &request),
            "resources/templates/list" if any("resources") => {
                self.list(ListKind::ResourceTemplates, &request)
            }
            "resources/read" if any("resources") => self.read_resource(request).await,
            "prompts/list" if any("prompts") => self.list(ListKind::Prompts, &request),
            "prompts/get" if any("prompts") => self.get_prompt(request).await,
            "completion/complete" if any("completions") => self.complete(request).await,
            "logging/setLevel" if request.client.era == Era::Legacy && any("logging") => {
                self.set_log_level(&request).await
            }
            "skills/list" => self.list_across_servers(request, SKILLS_EXTENSION).await,
            "skills/get" | "resources/directory/read" => {
                match catalogue.servers_with(SKILLS_EXTENSION).next() {
                    Some(_) => self.read_resource(request).await,
                    None => Err(server::method_not_found(&request.method)),
                }
            }
            "tasks/get" | "tasks/update" | "tasks/cancel" => self.forward_task(request).await,
            "tasks/result" if request.client.era == Era::Legacy => self.forward_task(request).await,
            "tasks/list" if request.client.era == Era::Legacy && any("tasks") => {
                self.list_across_servers(request, TASK_CAPABILITIES[1]).await
            }
            "tasks/result" | "tasks/list" => Err(server::method_not_found(&request.method)),
            method => match catalogue.server_for_method(method).map(|it| it.server.clone()) {
                Some(server) if self.shows_server(&request.client.principal, &server) => {
                    self.forward_extension(&server, request).await
                }
                Some(_) | None => Err(server::method_not_found(method)),
            },
        }
    }

    /// Methods of extensions that nobody here knows go to the server that declares the extension.
    async fn forward_extension(
        &self,
        server: &str,
        mut request: InboundRequest,
    ) -> Result<Payload, RpcError> {
        let params = std::mem::take(&mut request.params);
        self.forward(server, &request, params).await
    }

    /// Asks whoever has a resource. Where nobody lists it, everybody is asked until one has it.
    async fn read_resource(&self, mut request: InboundRequest) -> Result<Payload, RpcError> {
        let uri = request.params.get_string("uri");
        let uri = uri.ok_or_else(|| server::invalid_params("`uri` is missing, or is no text"))?;
        let params = std::mem::take(&mut request.params);
        let mut first_error = None;
        for server in self.catalogue().candidate_servers(&uri) {
            match self.forward(&server, &request, params.clone()).await {
                Err(error) if NOT_FOUND_CODES.contains(&error.code) => {
                    first_error = first_error.or(Some(error))
                }
                outcome => return outcome,
            }
        }
        Err(first_error.unwrap_or_else(|| server::resource_not_found(request.client.era, &uri)))
    }

    async fn get_prompt(&self, mut request: InboundRequest) -> Result<Payload, RpcError> {
        let name = request.params.get_string("name");
        let name =
            name.ok_or_else(|| server::invalid_params("`name` is missing, or is no text"))?;
        let owner = self.catalogue().prompts.get(&name).cloned();
        let principal = &request.client.principal;
        let owner = owner.filter(|it| self.shows_server(principal, &it.server));
        let owner = owner.ok_or_else(|| not_found("prompt", &name))?;
        let mut params = std::mem::take(&mut request.params);
        params.insert("name", payload(&owner.name.into()));
        self.forward(&owner.server, &request, params).await
    }

    async fn complete(&self, mut request: InboundRequest) -> Result<Payload, RpcError> {
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
            || server::invalid_params("`ref` names neither a prompt nor a resource");
        let raw = request.params.get("ref").cloned().ok_or_else(invalid_params)?;
        let reference: Reference = raw.decode().map_err(|_| invalid_params())?;
        let catalogue = self.catalogue();
        let mut params = std::mem::take(&mut request.params);
        let server = match reference.kind.as_str() {
            "ref/prompt" => {
                let owner = catalogue.prompts.get(&reference.name);
                let owner = owner.ok_or_else(|| not_found("prompt", &reference.name))?;
                let mut written: Map<String, Json> = raw.decode().map_err(|_| invalid_params())?;
                written.insert("name".to_owned(), owner.name.clone().into());
                params.insert("ref", payload(&Json::Object(written)));
                owner.server.clone()
            }
            "ref/resource" => {
                let of_template = catalogue.templates.iter().find(|it| it.name == reference.uri);
                let server = of_template.map(|it| &it.server);
                let server = server.or_else(|| catalogue.server_for_uri(&reference.uri));
                server.cloned().ok_or_else(|| not_found("resource", &reference.uri))?
            }
            _ => return Err(invalid_params()),
        };
        self.forward(&server, &request, params).await
    }

    /// A task belongs to whoever began it, and to no other principal.
    async fn forward_task(&self, mut request: InboundRequest) -> Result<Payload, RpcError> {
        if !TASK_CAPABILITIES.iter().any(|it| self.catalogue().servers_with(it).next().is_some()) {
            return Err(server::method_not_found(&request.method));
        }
        if request.client.era == Era::Modern
            && !request.client.supports_extension(TASK_CAPABILITIES[0])
        {
            return Err(server::missing_capability(
                &json!({"extensions": {TASK_CAPABILITIES[0]: {}}}),
            ));
        }
        let task = request.params.get_string("taskId");
        let task =
            task.ok_or_else(|| server::invalid_params("`taskId` is missing, or is no text"))?;
        let server = self.task_owners.server_of(&task, &request.client.principal);
        let server = server.ok_or_else(|| not_found("task", &task))?;
        let params = std::mem::take(&mut request.params);
        self.forward(&server, &request, params).await
    }

    /// Asks all that can answer, one a page, each for as many pages as it has.
    async fn list_across_servers(
        &self,
        mut request: InboundRequest,
        capable: &str,
    ) -> Result<Payload, RpcError> {
        let catalogue = self.catalogue();
        let is_shown = |it: &Arc<str>| self.shows_server(&request.client.principal, it);
        let servers = catalogue.servers_with(capable).map(|it| it.server.clone());
        let servers: Vec<Arc<str>> = servers.filter(is_shown).collect();
        let mut params = std::mem::take(&mut request.params);
        let cursor = params.remove("cursor").and_then(|it| it.decode::<String>().ok());
        let invalid_params = || server::invalid_params("the cursor is not one that was given here");
        let (at, inner) = match &cursor {
            None => (0, None),
            Some(cursor) => {
                let (at, inner) = cursor.split_once(':').ok_or_else(invalid_params)?;
                (at.parse().map_err(|_| invalid_params())?, Some(inner).filter(|it| !it.is_empty()))
            }
        };
        let server = servers.get(at).ok_or_else(|| match cursor {
            None => server::method_not_found(&request.method),
            Some(_) => invalid_params(),
        })?;
        if let Some(inner) = inner {
            params.insert("cursor", payload(&inner.into()));
        }
        let page = self.forward(server, &request, params).await?;
        self.with_next_cursor(page, at, servers.len(), &request)
    }

    /// A page with the cursor that leads on, to the same server or the next.
    fn with_next_cursor(
        &self,
        page: Payload,
        at: usize,
        servers: usize,
        request: &InboundRequest,
    ) -> Result<Payload, RpcError> {
        let has_tasks = request.method == "tasks/list";
        let mut members = RawObject::parse(Some(&page))
            .ok_or_else(|| server::internal_error("a server's list is no object"))?;
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
                self.task_owners.server_of(id, &request.client.principal).is_some()
            });
            members.insert("tasks", payload(&Json::Array(tasks)));
        }
        Ok(members.to_payload())
    }

    /// Servers are told the most talkative level that any client wants; each client hears its own.
    async fn set_log_level(&self, request: &InboundRequest) -> Result<Payload, RpcError> {
        let level = request.params.get_string("level").unwrap_or_default();
        if !request.client.set_log_level(&level) {
            return Err(server::invalid_params("`level` is not one of the levels"));
        }
        if let Some(level) = request.client.log_level() {
            self.log_levels.send_modify(|levels| {
                levels.insert(request.client.id, level);
            });
        }
        // On connections that not everybody shares nobody else says it.
        let catalogue = self.catalogue();
        let capable = catalogue
            .servers
            .iter()
            .filter(|it| it.era == Era::Legacy && it.has_capability("logging"));
        for exposed in capable
            .filter(|it| catalogue.dedicated_connection(&request.client, &it.server).is_some())
        {
            let _best_effort = self.forward(&exposed.server, request, request.params.clone()).await;
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
    pub(super) async fn send_log_level_for(&self, request: &InboundRequest, server: &str) {
        let Some(level) = request.client.log_level().filter(|_| request.client.era == Era::Modern)
        else {
            return;
        };
        let catalogue = self.catalogue();
        let capable = |it: &&ExposedServer| it.era == Era::Legacy && it.has_capability("logging");
        if catalogue.servers.iter().filter(capable).all(|it| *it.server != *server) {
            return;
        }
        let context =
            Arc::new(RequestContext::new(request.client.clone(), request.channel.clone()));
        if let Some(question) = self.log_level_request(Some(level)) {
            let span = self.tracer.start_upstream(request, server);
            let question =
                question.on_behalf_of(self.on_behalf_of(request, context, (server, &span)));
            let _best_effort = self.host.request(server, question).await;
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
    server::invalid_params(&format!("there is no {what} `{name}`"))
}
