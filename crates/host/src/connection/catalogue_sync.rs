//! Keeps the catalogue of one connection up to date: fetches lists that changed or expired, not too often, and again
//! with backoff where no response came.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_config::entry::server::TransportKind;
use switchboard_wire::backoff::Backoff;
use switchboard_wire::client::Client;
use tokio::time::{Instant, sleep};
use tracing::{debug, info};

use crate::catalogue::completion_cache;
use crate::catalogue::completion_cache::CompletionCache;
use crate::catalogue::fetch;
use crate::catalogue::lists::{Catalogue, FetchedList, ListKind};
use crate::catalogue::remembered;
use crate::connection::context::ConnectionContext;
use crate::connection::optional_wait::{wait_for, wait_until};
use crate::ide::is_ide;
use crate::login::server_login::LoginSlot;
use crate::sources::desired_server::DesiredServer;

/// Changes within this time are fetched together.
const COALESCE_WINDOW: Duration = Duration::from_millis(50);
/// The minimum time between two fetches, however often the server announces changes.
const MIN_FETCH_INTERVAL: Duration = Duration::from_millis(500);
/// The minimum time for which a list counts as valid, whatever its `ttlMs`.
const MIN_TTL: Duration = Duration::from_secs(30);
/// The backoff between fetches of lists that got no response.
const RETRY_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

type FetchFuture = Pin<Box<dyn Future<Output = Vec<(ListKind, FetchedList)>> + Send>>;

/// The catalogue of one connection, and what is being done to keep it up to date.
pub(super) struct CatalogueSync {
    fetcher: ListFetcher,
    catalogue: Arc<Catalogue>,
    dirty_lists: BTreeSet<ListKind>,
    fetching: Option<FetchFuture>,
    last_fetch: Instant,
    refresh_at: Option<Instant>,
    backoff: Backoff,
}

/// Something that happened to a [`CatalogueSync`].
pub(super) enum SyncEvent {
    /// Lists were fetched.
    Fetched(Vec<(ListKind, FetchedList)>),
    /// The catalogue expired, or the backoff elapsed.
    RefreshDue,
}

/// The result of a fetch.
pub(super) enum SyncOutcome {
    /// The catalogue was updated.
    Updated,
    /// The server rejected the request with 401.
    AuthRejected,
}

impl CatalogueSync {
    /// Starts to fetch all lists.
    pub(super) fn start(fetcher: ListFetcher) -> CatalogueSync {
        CatalogueSync {
            fetching: Some(fetcher.fetch(ListKind::ALL.to_vec())),
            fetcher,
            catalogue: Arc::default(),
            dirty_lists: BTreeSet::new(),
            last_fetch: Instant::now(),
            refresh_at: None,
            backoff: RETRY_BACKOFF,
        }
    }

    pub(super) fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// Waits for the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> SyncEvent {
        tokio::select! {
            biased;
            fetched = wait_for(&mut self.fetching) => {
                self.fetching = None;
                SyncEvent::Fetched(fetched)
            }
            () = wait_until(self.refresh_at) => {
                self.refresh_at = None;
                SyncEvent::RefreshDue
            }
        }
    }

    /// Updates the catalogue with fetched lists, and sets the time of the next refresh.
    pub(super) fn on_fetched(&mut self, fetched: Vec<(ListKind, FetchedList)>) -> SyncOutcome {
        if fetched.iter().any(|(_, it)| it.auth_status == Some(401)) {
            return SyncOutcome::AuthRejected;
        }
        let now = Instant::now();
        self.last_fetch = now;
        self.catalogue = Arc::new(self.catalogue.updated_with(fetched));
        self.refresh_at = None;
        if let (Some(ttl), false) = (self.catalogue.ttl(), self.fetcher.announces_changes()) {
            self.refresh_at = Some(now + ttl.max(MIN_TTL));
        }
        if self.catalogue.has_stale_list() {
            let delay = self.backoff.next_delay();
            let server = self.fetcher.desired.name();
            info!(server, ?delay, "a list was not fetched, retrying");
            self.refresh_at = Some(now + delay);
        } else {
            self.backoff.reset();
        }
        SyncOutcome::Updated
    }

    /// Has lists fetched again.
    pub(super) fn mark_dirty(&mut self, lists: &[ListKind]) {
        self.dirty_lists.extend(lists);
        self.fetch_dirty();
    }

    /// Starts to fetch the lists that changed, unless a fetch is under way.
    pub(super) fn fetch_dirty(&mut self) {
        if self.fetching.is_some() || self.dirty_lists.is_empty() {
            return;
        }
        let lists: Vec<ListKind> = std::mem::take(&mut self.dirty_lists).into_iter().collect();
        let pause =
            MIN_FETCH_INTERVAL.saturating_sub(self.last_fetch.elapsed()).max(COALESCE_WINDOW);
        debug!(server = self.fetcher.desired.name(), ?lists, "fetching changed lists");
        let fetching = self.fetcher.fetch(lists);
        self.fetching = Some(Box::pin(async move {
            sleep(pause).await;
            fetching.await
        }));
    }

    fn to_remembered_json(&self) -> Option<String> {
        let instructions = self.fetcher.client.server().instructions.as_deref();
        remembered::to_json(&self.catalogue, instructions)
    }

    /// Stores the catalogue for later runs, and its names for shell completion.
    pub(super) fn save(&self) {
        let ListFetcher { desired, context, .. } = &self.fetcher;
        // The next run may find another IDE.
        if is_ide(desired.spec.transport.kind()) {
            return;
        }
        let is_in_process = desired.spec.transport.kind() == TransportKind::Sdk;
        if let (false, Some(text)) = (is_in_process, self.to_remembered_json()) {
            let folder = &context.remembered_folder;
            let path = remembered::catalogue_path(folder, desired.name(), &desired.fingerprint);
            context.state_writer.write_file(path, text);
        }
        if let Some(names) = CompletionCache::from_catalogue(&self.catalogue) {
            let folder = &context.completion_cache_folder;
            let path = completion_cache::cache_path(folder, desired.name(), &desired.fingerprint);
            context.state_writer.write_file(path, names.to_json());
        }
    }
}

/// Fetches lists over one connection.
pub(super) struct ListFetcher {
    pub(super) client: Client,
    pub(super) desired: DesiredServer,
    pub(super) login_slot: LoginSlot,
    pub(super) context: Arc<ConnectionContext>,
}

impl ListFetcher {
    /// Fetches lists; once more after a login, where the server rejects the request and the user signs in.
    fn fetch(&self, lists: Vec<ListKind>) -> FetchFuture {
        let timeout = self.context.connect_timeout;
        let (client, context) = (self.client.clone(), self.context.clone());
        let (login_slot, desired) = (self.login_slot.clone(), self.desired.clone());
        Box::pin(async move {
            let fetched = fetch::fetch(client.clone(), lists.clone(), timeout).await;
            let is_rejected = fetched.iter().any(|(_, it)| it.auth_status.is_some());
            match is_rejected && login_slot.sign_in_if_required(&desired, &context.login).await {
                true => fetch::fetch(client, lists, timeout).await,
                false => fetched,
            }
        })
    }

    fn announces_changes(&self) -> bool {
        let capabilities = &self.client.server().capabilities;
        let lists = [capabilities.tools, capabilities.resources, capabilities.prompts];
        lists.iter().flatten().any(|it| it.list_changed)
    }
}
