//! Requests to a registry: which version of its API it has, page after page within bounds, and what went wrong.

use std::sync::OnceLock;

use serde_json::Value as Json;
use switchboard_auth::fetch::origin_guard::OriginGuard;
use switchboard_auth::fetch::{Fetch, FetchRequest, FetchResponse};
use switchboard_config::display::sanitize_line;
use switchboard_config::registry::RegistryServer;
use tokio::time::{Instant, timeout_at};

use super::api_url::{ApiVersion, RegistryUrl};
use super::error::{LIST_TIMEOUT, RegistryError, RegistryErrorKind};
use super::listing::{ListEnd, PageLimits, ServerList};

/// How many elements are requested at a time: few enough for the limit of a response.
const PAGE_SIZE: &str = "50";
/// The maximum length of an error message of a registry.
const MAX_DETAIL: usize = 200;
/// The version that is the newest.
const LATEST: &str = "latest";

/// A client of one registry. It remembers which version of the API the registry has.
pub struct RegistryClient {
    fetch: Box<dyn Fetch>,
    url: RegistryUrl,
    guard: OriginGuard,
    version: OnceLock<ApiVersion>,
}

/// A path of the API, and its query.
type Endpoint<'e> = (&'e [&'e str], &'e [(&'e str, &'e str)]);

impl RegistryClient {
    /// A client that makes its requests with `fetch`.
    pub fn new(fetch: Box<dyn Fetch>, url: RegistryUrl) -> RegistryClient {
        let guard = OriginGuard::new(url.as_url(), &[]);
        RegistryClient { fetch, url, guard, version: OnceLock::new() }
    }

    /// Adds the host names of proxies, which no registry may name.
    pub fn with_proxies(self, proxies: &[String]) -> RegistryClient {
        RegistryClient { guard: self.guard.with_proxies(proxies), ..self }
    }

    /// The base URL.
    pub fn url(&self) -> &RegistryUrl {
        &self.url
    }

    /// Decides which URLs that the registry names may be fetched.
    pub fn guard(&self) -> &OriginGuard {
        &self.guard
    }

    /// The latest version of each server whose name contains a text, at most `count` of them.
    pub async fn search(&self, text: &str, count: usize) -> Result<ServerList, RegistryError> {
        let query = [("search", text), ("version", LATEST), ("limit", PAGE_SIZE)];
        let limits = PageLimits { servers: count, ..PageLimits::default() };
        let list = self.list(&["servers"], &query, limits).await?;
        Ok(list.latest_of_each(count))
    }

    /// One version of a server, or the latest one.
    pub async fn server(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<RegistryServer, RegistryError> {
        let segments = ["servers", name, "versions", version.unwrap_or(LATEST)];
        let row = self.get((&segments, &[])).await?;
        let server = RegistryServer::read(&row)
            .map_err(|error| self.error(RegistryErrorKind::Listing(error)))?;
        // Anything else would be shown and added under a name that the user did not choose.
        let is_right = server.name == name && version.is_none_or(|it| server.version == it);
        if is_right { Ok(server) } else { Err(self.error(RegistryErrorKind::NotFound)) }
    }

    /// The versions of a server.
    pub async fn versions(&self, name: &str) -> Result<ServerList, RegistryError> {
        let segments = ["servers", name, "versions"];
        let mut list = self.list(&segments, &[], PageLimits::default()).await?;
        list.servers.retain(|it| it.name == name);
        Ok(list)
    }

    /// Page after page. What the first pages contained is kept when a later one fails.
    async fn list(
        &self,
        segments: &[&str],
        query: &[(&str, &str)],
        limits: PageLimits,
    ) -> Result<ServerList, RegistryError> {
        let deadline = Instant::now() + LIST_TIMEOUT;
        let mut list = ServerList::default();
        let mut cursors: Vec<String> = Vec::new();
        loop {
            let mut query = query.to_vec();
            query.extend(cursors.last().map(|it| ("cursor", it.as_str())));
            let page = match timeout_at(deadline, self.get((segments, &query))).await {
                Ok(page) => page,
                Err(_) => Err(self.error(RegistryErrorKind::TimedOut)),
            };
            let added = page.and_then(|page| {
                list.add_page(&page).ok_or_else(|| self.error(RegistryErrorKind::Shape))
            });
            let next = match added {
                Ok(next) => next,
                Err(error) if cursors.is_empty() => return Err(error),
                Err(error) => {
                    list.end = ListEnd::Failed(Box::new(error));
                    return Ok(list);
                }
            };
            let next = limits.next_cursor(next, &cursors, &list);
            match next {
                Ok(cursor) => cursors.push(cursor),
                Err(end) => {
                    list.end = end;
                    return Ok(list);
                }
            }
        }
    }

    /// A document of the API, in the version that the registry has.
    async fn get(&self, (segments, query): Endpoint<'_>) -> Result<Json, RegistryError> {
        let versions = match self.version.get() {
            Some(version) => std::slice::from_ref(version),
            None => &ApiVersion::ALL[..],
        };
        for version in versions {
            let response = self.fetch(*version, (segments, query)).await?;
            if response.status == 404 {
                continue;
            }
            let json = self.decode(&response)?;
            let _known = self.version.set(*version);
            return Ok(json);
        }
        Err(self.error(match segments {
            ["servers"] => RegistryErrorKind::NoApi,
            [..] => RegistryErrorKind::NotFound,
        }))
    }

    async fn fetch(
        &self,
        version: ApiVersion,
        (segments, query): Endpoint<'_>,
    ) -> Result<FetchResponse, RegistryError> {
        let url = self.url.endpoint(version, segments, query);
        let checked =
            self.guard.check_url(url).map_err(|error| self.error(RegistryErrorKind::Url(error)))?;
        let response = self.fetch.fetch(FetchRequest::get(checked)).await;
        response.map_err(|error| self.error(RegistryErrorKind::Fetch(error)))
    }

    fn decode(&self, response: &FetchResponse) -> Result<Json, RegistryError> {
        let json: Result<Json, _> = serde_json::from_slice(&response.body);
        if !response.is_success() {
            let detail = json.ok().as_ref().and_then(error_detail);
            let detail = detail.map(|it| format!(": {it}")).unwrap_or_default();
            return Err(self.error(RegistryErrorKind::Status { status: response.status, detail }));
        }
        json.map_err(|_| self.error(RegistryErrorKind::NotJson))
    }

    fn error(&self, kind: RegistryErrorKind) -> RegistryError {
        RegistryError { origin: self.url.as_url().origin().ascii_serialization(), kind }
    }
}

/// What a registry says about an error.
fn error_detail(json: &Json) -> Option<String> {
    let text = ["error", "detail", "message", "title"].iter().find_map(|key| json[key].as_str())?;
    Some(sanitize_line(text).chars().take(MAX_DETAIL).collect())
}

#[cfg(test)]
mod tests;
