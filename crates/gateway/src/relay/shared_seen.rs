//! What sessions and principals have seen, for rules that depend on it (`after`), shared by all replicas. It is read before a
//! call and written before the server gets the call, and only if a rule depends on it. Without the store such a call is
//! refused: another replica may know of a result that forbids it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use switchboard::CallContext;
use switchboard::permission::{ResultMemory, SeenFuture, SeenStore, SeenStoreError, SeenTool};
use switchboard_config::permission::SeenTools;
use switchboard_wire::jsonrpc::message::RpcError;
use tracing::warn;

use super::Relay;
use super::call_contexts::SEEN_WITHOUT_SESSION;
use super::errors::store_away;
use crate::downstream::client::Client;
use crate::shared::key_digest::digest;
use crate::shared::shared_state::SharedState;
use crate::shared::store::StoreError;

/// How long it is known what a session has seen after its last call.
const SESSION_TTL: Duration = Duration::from_secs(7 * 24 * 3600);
/// An entry that is older is sealed again when it is read, so that old keys can go.
const RESEAL_AFTER: Duration = Duration::from_secs(600);
/// No server and no tool has a longer name.
const MAX_NAME_BYTES: usize = 1024;

impl Relay {
    /// The call context of a client, with what its session or its principal has seen on other replicas.
    pub(super) async fn shared_context(
        &self,
        client: &Client,
    ) -> Result<Arc<CallContext>, RpcError> {
        let context = self.client_context(client);
        let Some(record) = self.seen_record(client, &context) else { return Ok(context) };
        let seen = record.read().await.map_err(|_| store_away())?;
        let rules = context.rules.with_seen_elsewhere(Arc::new(seen), Arc::new(record));
        Ok(Arc::new(CallContext { rules, ..CallContext::clone(&context) }))
    }

    /// Records that a client sees results of a method of a server from now on, on all replicas.
    pub(super) async fn record_seen(
        &self,
        client: &Client,
        (server, method): (&str, &str),
    ) -> Result<(), RpcError> {
        let context = self.client_context(client);
        context.rules.record_seen(server, method);
        let Some(record) = self.seen_record(client, &context) else { return Ok(()) };
        let seen = [(server.to_owned(), method.to_owned())];
        record.record(&seen).await.map_err(|SeenStoreError| store_away())
    }

    /// Where it is recorded what the client has seen. None if no rule depends on it, or no other replica needs it.
    fn seen_record(&self, client: &Client, context: &CallContext) -> Option<SeenRecord> {
        if self.shared.store().is_none() || !context.rules.current().depend_on_seen() {
            return None;
        }
        let (scope, memory) = match client.session_digest() {
            Some(session) => {
                (format!("session\0{}\0{session}", client.principal), ResultMemory::Session)
            }
            None => {
                let memory = ResultMemory::For(SEEN_WITHOUT_SESSION);
                (format!("principal\0{}", client.principal), memory)
            }
        };
        let key = format!("seen:{}", digest(&scope));
        Some(SeenRecord { shared: self.shared.clone(), key, memory })
    }
}

/// What one session, or one principal without a session, has seen.
struct SeenRecord {
    shared: SharedState,
    key: String,
    memory: ResultMemory,
}

impl fmt::Debug for SeenRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SeenRecord({})", self.key)
    }
}

/// A tool whose results were seen. Times are in seconds since 1970.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SeenEntry {
    server: String,
    tool: String,
    seen_at: u64,
    sealed_at: u64,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl SeenRecord {
    /// What was seen. An entry that cannot be opened may forbid the call, so it is an error.
    async fn read(&self) -> Result<SeenTools, StoreError> {
        let store = self.shared.store().ok_or(StoreError::Away)?;
        let now = now();
        let mut seen = SeenTools::default();
        let mut stale = Vec::new();
        for sealed in store.members(&self.key).await? {
            let text = self.shared.sealer().unseal_bytes(&self.key, &sealed);
            let Some(entry) = text.and_then(|it| serde_json::from_slice::<SeenEntry>(&it).ok())
            else {
                warn!(
                    "what a client has seen is sealed with a key that is gone: a call is refused"
                );
                return Err(StoreError::Refused);
            };
            let age = Duration::from_secs(now.saturating_sub(entry.seen_at));
            let is_forgotten = match self.memory {
                ResultMemory::Session => false,
                ResultMemory::For(time) => age >= time,
            };
            if is_forgotten {
                continue;
            }
            seen.insert(&entry.server, &entry.tool);
            if now.saturating_sub(entry.sealed_at) >= RESEAL_AFTER.as_secs() {
                stale.push(SeenEntry { sealed_at: now, ..entry });
            }
        }
        if !stale.is_empty() {
            self.write(stale).await?;
        }
        Ok(seen)
    }

    async fn write(&self, entries: Vec<SeenEntry>) -> Result<(), StoreError> {
        let store = self.shared.store().ok_or(StoreError::Away)?;
        let member = |entry: &SeenEntry| {
            let text = serde_json::to_vec(entry).expect("it has texts and numbers");
            let name = digest(&format!("{}\0{}", entry.server, entry.tool));
            (name, self.shared.sealer().seal_bytes(&self.key, &text))
        };
        let members: Vec<_> = entries.iter().map(member).collect();
        let ttl = match self.memory {
            ResultMemory::Session => SESSION_TTL,
            ResultMemory::For(time) => time,
        };
        store.add_members(&self.key, &members, ttl).await
    }
}

impl SeenStore for SeenRecord {
    fn record<'a>(&'a self, tools: &'a [SeenTool]) -> SeenFuture<'a> {
        let now = now();
        let is_name = |(server, tool): &&SeenTool| server.len() + tool.len() <= MAX_NAME_BYTES;
        let entry = |(server, tool): &SeenTool| SeenEntry {
            server: server.clone(),
            tool: tool.clone(),
            seen_at: now,
            sealed_at: now,
        };
        let entries: Vec<SeenEntry> = tools.iter().filter(is_name).map(entry).collect();
        Box::pin(async move {
            match entries.is_empty() {
                true => Ok(()),
                false => self.write(entries).await.map_err(|_| SeenStoreError),
            }
        })
    }
}
