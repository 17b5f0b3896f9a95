//! Lists: those that the catalogue holds, and those that each server pages through itself.

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use switchboard::catalogue::ListKind;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::protocol::request_meta::RawObject;
use switchboard_wire::server;

use super::Relay;
use crate::downstream::request::{InboundRequest, Outcome};
use crate::json::payload;
use crate::method::Method;

impl Relay {
    /// A page of a list, without the entries that are hidden from the principal.
    pub(super) async fn list(&self, list: ListKind, request: &InboundRequest) -> Outcome {
        Box::pin(self.first_lists.wait()).await;
        let catalogue = self.catalogue();
        let cursor = request.params.get_string("cursor");
        let pages = catalogue.lists.get(&list);
        let pages = pages.ok_or_else(|| server::invalid_params("there is no list yet"))?;
        let page = pages.page(request.client().era, cursor.as_deref())?;
        let principal = request.principal();
        if !self.hides_anything(principal) {
            return Ok(page);
        }
        let mut page: Map<String, Json> =
            page.decode().map_err(|_| server::internal_error("the list cannot be read"))?;
        if let Some(Json::Array(entries)) = page.get_mut(list.id()) {
            entries.retain(|entry| match (list, catalogue.owner_of_entry(list, entry)) {
                (ListKind::Tools, _) => {
                    let name = entry["name"].as_str();
                    let tool = name.and_then(|name| catalogue.tools.get(name));
                    tool.is_none_or(|tool| self.shows_tool(principal, tool))
                }
                (_, owner) => owner.is_none_or(|server| self.shows_server(principal, server)),
            });
        }
        Ok(payload(&Json::Object(page)))
    }

    /// A page of a list that several servers have. A page is one server's; the cursor holds the server's index and the
    /// server's own cursor.
    pub(super) async fn list_across_servers(
        &self,
        request: &InboundRequest,
        capability: &str,
    ) -> Outcome {
        let catalogue = self.catalogue();
        let is_visible = |it: &Arc<str>| self.shows_server(request.principal(), it);
        let servers = catalogue.servers_with(capability).map(|it| it.server.clone());
        let servers: Vec<Arc<str>> = servers.filter(is_visible).collect();
        let mut params = request.params.clone();
        let cursor = params.remove("cursor").and_then(|it| it.decode::<String>().ok());
        let invalid_cursor = || server::invalid_params("the cursor is invalid");
        let (index, server_cursor) = match &cursor {
            None => (0, None),
            Some(cursor) => {
                let (index, rest) = cursor.split_once(':').ok_or_else(invalid_cursor)?;
                let index = index.parse().map_err(|_| invalid_cursor())?;
                (index, Some(rest).filter(|it| !it.is_empty()))
            }
        };
        let server = servers.get(index).ok_or_else(|| match cursor {
            None => server::method_not_found(request.method.as_str()),
            Some(_) => invalid_cursor(),
        })?;
        if let Some(server_cursor) = server_cursor {
            params.insert("cursor", payload(&server_cursor.into()));
        }
        let page = self.forward(server, request, &params).await?;
        self.with_next_cursor(page, (index, servers.len()), request).await
    }

    /// Replaces the server's cursor by one that leads to its next page or to the next server.
    async fn with_next_cursor(
        &self,
        page: Payload,
        (index, server_count): (usize, usize),
        request: &InboundRequest,
    ) -> Outcome {
        let lists_tasks = request.method == Method::TasksList;
        let mut members = RawObject::parse(Some(&page))
            .ok_or_else(|| server::internal_error("a server's list is not an object"))?;
        let next = members.remove("nextCursor").and_then(|it| it.decode::<String>().ok());
        let next = match next {
            Some(server_cursor) => Some(format!("{index}:{server_cursor}")),
            None => (index + 1 < server_count).then(|| format!("{}:", index + 1)),
        };
        if next.is_none() && !lists_tasks && server_count == 1 {
            return Ok(page);
        }
        if let Some(next) = next {
            members.insert("nextCursor", payload(&next.into()));
        }
        if lists_tasks && let Some(tasks) = members.get("tasks") {
            let all: Vec<Json> = tasks.decode().unwrap_or_default();
            let mut tasks = Vec::new();
            for task in all {
                let id = task["taskId"].as_str().unwrap_or_default();
                if self.server_of_task(id, request.principal()).await?.is_some() {
                    tasks.push(task);
                }
            }
            members.insert("tasks", payload(&Json::Array(tasks)));
        }
        Ok(members.to_payload())
    }
}
