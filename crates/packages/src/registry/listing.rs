//! Pages of a registry's list: what they contain, and where they end. A registry that never ends is left after a fixed
//! number of pages.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use switchboard_config::registry::RegistryServer;

use super::error::RegistryError;

/// The maximum length of a cursor.
const MAX_CURSOR: usize = 2048;

/// The bounds of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageLimits {
    /// The maximum number of pages.
    pub(super) pages: usize,
    /// The maximum number of elements.
    pub(super) rows: usize,
    /// How many different servers are enough.
    pub(super) servers: usize,
}

impl Default for PageLimits {
    fn default() -> PageLimits {
        PageLimits { pages: 20, rows: 1000, servers: usize::MAX }
    }
}

impl PageLimits {
    /// The cursor of the next page, or why there is none.
    pub(super) fn next_cursor(
        self,
        next: Option<String>,
        before: &[String],
        list: &ServerList,
    ) -> Result<String, ListEnd> {
        let Some(cursor) = next else { return Err(ListEnd::Complete) };
        if list.distinct_servers() >= self.servers {
            return Err(ListEnd::Enough);
        }
        if cursor.len() > MAX_CURSOR || before.contains(&cursor) {
            return Err(ListEnd::BadCursor);
        }
        if before.len() + 1 >= self.pages || list.rows >= self.rows {
            return Err(ListEnd::TooLong);
        }
        Ok(cursor)
    }
}

/// Why a list ends.
#[derive(Debug, Default)]
pub enum ListEnd {
    /// It is complete.
    #[default]
    Complete,
    /// There are as many servers as the user wants to see.
    Enough,
    /// The registry has more pages than are read.
    TooLong,
    /// The registry repeats its pages, or names a page that no registry has.
    BadCursor,
    /// A later page could not be read.
    Failed(Box<RegistryError>),
}

/// Servers of a registry.
#[derive(Debug, Default)]
pub struct ServerList {
    /// The servers, in the order of the registry.
    pub servers: Vec<RegistryServer>,
    /// How many elements could not be read.
    pub unreadable: usize,
    /// Why it ends.
    pub end: ListEnd,
    /// How many elements there were.
    rows: usize,
}

impl ServerList {
    /// Adds the elements of a page and returns the cursor of the next one; `None` if it is not a page.
    pub(super) fn add_page(&mut self, page: &Json) -> Option<Option<String>> {
        let rows = page.get("servers")?;
        let rows = match rows {
            Json::Null => &[][..],
            Json::Array(rows) => rows,
            Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => return None,
        };
        self.rows += rows.len();
        for row in rows {
            match RegistryServer::read(row) {
                Ok(server) => self.servers.push(server),
                Err(_) => self.unreadable += 1,
            }
        }
        let metadata = page.get("metadata");
        let cursor = metadata
            .and_then(|it| it.get("nextCursor").or_else(|| it.get("next_cursor")))
            .and_then(Json::as_str);
        Some(cursor.filter(|it| !it.is_empty()).map(str::to_owned))
    }

    fn distinct_servers(&self) -> usize {
        let mut names: Vec<&str> = self.servers.iter().map(|it| it.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    }

    /// One version of each server: the one that the registry calls the latest, otherwise the last published.
    pub(super) fn latest_of_each(mut self, count: usize) -> ServerList {
        let mut order: Vec<String> = Vec::new();
        let mut best: BTreeMap<String, RegistryServer> = BTreeMap::new();
        for server in std::mem::take(&mut self.servers) {
            match best.get(&server.name) {
                None => order.push(server.name.clone()),
                Some(there) if rank(there) >= rank(&server) => continue,
                Some(_) => {}
            }
            best.insert(server.name.clone(), server);
        }
        if order.len() > count {
            order.truncate(count);
            self.end = ListEnd::Enough;
        }
        self.servers = order.iter().filter_map(|name| best.remove(name)).collect();
        self
    }
}

/// Times of a registry are in ISO 8601, which sorts as text.
fn rank(server: &RegistryServer) -> (bool, &str) {
    (server.is_latest, server.published_at.as_deref().unwrap_or_default())
}
