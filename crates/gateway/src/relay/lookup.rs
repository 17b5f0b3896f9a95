//! Requests for one server, found by a prompt's name, a resource's URI, a task's id or an extension's method.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use switchboard::pool::Tool;
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::server;

use super::Relay;
use super::errors::not_found;
use super::progress::with_progress;
use crate::downstream::request::{InboundRequest, Outcome};
use crate::exposed::catalogue::ExposedCatalogue;
use crate::json::payload;

/// The tasks extension of the modern era.
const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The tasks capability of the legacy era.
pub(super) const LEGACY_TASKS: &str = "tasks";
/// The skills extension.
pub(super) const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";
/// The error codes of servers for a resource that they do not have.
const NOT_FOUND_CODES: [i64; 2] = [-32002, -32602];

impl Relay {
    /// The catalogue, after something is known of every server: a request for one server must not fail because the
    /// gateway has just started.
    pub(crate) async fn first_catalogue(&self) -> Arc<ExposedCatalogue> {
        if !self.first_lists.is_over() {
            Box::pin(self.first_lists.wait()).await;
        }
        self.catalogue()
    }

    /// Forwards a method of an extension to the server that declares the extension. To rules and the audit log it is a
    /// call of `mcp__server__method:NAME`.
    pub(super) async fn forward_extension(&self, request: &InboundRequest) -> Outcome {
        let method = request.method.as_str();
        let catalogue = self.first_catalogue().await;
        let found = catalogue.server_for_method(method);
        let tool = found
            .map(|it| Arc::new(Tool::extension_method(&it.server, &it.prefix, method)))
            .filter(|tool| self.shows_tool(request.principal(), tool))
            .ok_or_else(|| server::method_not_found(method))?;
        with_progress(request, |progress| self.relay_method(request, &tool, progress)).await
    }

    /// Forwards to the server that owns the resource. If no server lists it, tries each until one has it.
    pub(super) async fn read_resource(&self, request: &InboundRequest) -> Outcome {
        let uri = required_string(request, "uri")?;
        let mut first_error = None;
        for server in self.first_catalogue().await.candidate_servers(&uri) {
            match self.forward(&server, request, &request.params).await {
                Err(error) if NOT_FOUND_CODES.contains(&error.code) => {
                    first_error = first_error.or(Some(error))
                }
                outcome => return outcome,
            }
        }
        Err(first_error.unwrap_or_else(|| server::resource_not_found(request.client().era, &uri)))
    }

    pub(super) async fn get_prompt(&self, request: &InboundRequest) -> Outcome {
        let name = required_string(request, "name")?;
        let owner = self.first_catalogue().await.prompts.get(&name).cloned();
        let owner = owner.filter(|it| self.shows_server(request.principal(), &it.server));
        let owner = owner.ok_or_else(|| not_found("prompt", &name))?;
        let mut params = request.params.clone();
        params.insert("name", payload(&owner.name.into()));
        self.forward(&owner.server, request, &params).await
    }

    pub(super) async fn complete(&self, request: &InboundRequest) -> Outcome {
        #[derive(Deserialize)]
        struct Reference {
            #[serde(rename = "type", default)]
            kind: String,
            #[serde(default)]
            name: String,
            #[serde(default)]
            uri: String,
        }
        let invalid_reference =
            || server::invalid_params("`ref` names neither a prompt nor a resource");
        let raw = request.params.get("ref").ok_or_else(invalid_reference)?;
        let reference: Reference = raw.decode().map_err(|_| invalid_reference())?;
        let catalogue = self.first_catalogue().await;
        match reference.kind.as_str() {
            "ref/prompt" => {
                let owner = catalogue.prompts.get(&reference.name);
                let owner = owner.ok_or_else(|| not_found("prompt", &reference.name))?;
                let renamed = with_name(raw, &owner.name).ok_or_else(invalid_reference)?;
                let mut params = request.params.clone();
                params.insert("ref", renamed);
                self.forward(&owner.server, request, &params).await
            }
            "ref/resource" => {
                let of_template = catalogue.templates.iter().find(|it| it.name == reference.uri);
                let server = of_template.map(|it| &it.server);
                let server = server.or_else(|| catalogue.server_for_uri(&reference.uri));
                let server = server.ok_or_else(|| not_found("resource", &reference.uri))?;
                self.forward(server, request, &request.params).await
            }
            _ => Err(invalid_reference()),
        }
    }

    /// Forwards to the server of a task. Only the principal that started the task can reach it.
    pub(super) async fn forward_task(&self, request: &InboundRequest) -> Outcome {
        let catalogue = self.catalogue();
        let has_tasks = |name: &&str| catalogue.servers_with(name).next().is_some();
        if ![TASKS_EXTENSION, LEGACY_TASKS].iter().any(has_tasks) {
            return Err(server::method_not_found(request.method.as_str()));
        }
        let client = request.client();
        if client.era == Era::Modern && !client.supports_extension(TASKS_EXTENSION) {
            return Err(server::missing_capability(&json!({"extensions": {TASKS_EXTENSION: {}}})));
        }
        let task = required_string(request, "taskId")?;
        let server = self.server_of_task(&task, request.principal()).await?;
        let server = server.ok_or_else(|| not_found("task", &task))?;
        if request.method.is_read_only() {
            return self.forward(&server, request, &request.params).await;
        }
        // A change of a task is a call of `mcp__server__method:NAME` to rules and the audit log.
        let method = request.method.as_str();
        let tool = catalogue
            .servers
            .iter()
            .find(|it| it.server == server)
            .map(|it| Arc::new(Tool::extension_method(&it.server, &it.prefix, method)))
            .filter(|tool| self.shows_tool(request.principal(), tool))
            .ok_or_else(|| server::method_not_found(method))?;
        with_progress(request, |progress| self.relay_method(request, &tool, progress)).await
    }
}

fn required_string(request: &InboundRequest, name: &str) -> Result<String, RpcError> {
    let missing = || server::invalid_params(&format!("`{name}` is missing or is not a string"));
    request.params.get_string(name).ok_or_else(missing)
}

/// An object with another `name`.
fn with_name(object: &Payload, name: &str) -> Option<Payload> {
    let mut members: Map<String, Json> = object.decode().ok()?;
    members.insert("name".to_owned(), name.into());
    Some(payload(&Json::Object(members)))
}
