//! The owners of tasks, also of those that other replicas have started, and the request states that any replica has used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use switchboard_wire::jsonrpc::message::{Payload, RpcError};

use super::errors::{
    invalid_request_state, store_away, too_many_request_states, used_request_state,
};
use super::used_states::StateRefusal;
use super::{REQUEST_STATE_TTL, Relay};
use crate::shared::key_digest::digest;
use crate::shared::shared_state::ReplicaAddress;

/// How long the owner of a task is remembered.
const TASK_TTL: Duration = Duration::from_secs(24 * 3600);

/// Where a task runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskOwner {
    pub(crate) server: String,
    pub(crate) replica: ReplicaAddress,
}

fn task_key(task: &str, principal: &str) -> String {
    format!("task:{}", digest(&format!("{principal}\0{task}")))
}

impl Relay {
    /// Records the task that a result starts, if it does, for all replicas.
    pub(super) async fn record_task(&self, result: &Payload, server: &str, principal: &Arc<str>) {
        let Some(task) = self.task_owners.record(result, server, principal) else { return };
        let Some(store) = self.shared.store() else { return };
        let owner = TaskOwner { server: server.to_owned(), replica: self.shared.my_address() };
        let text = serde_json::to_vec(&owner).expect("it has only texts");
        let key = task_key(&task, principal);
        let sealed = self.shared.sealer().seal_bytes(&key, &text);
        // Without the store, the task can be reached through this replica only.
        let _reported_by_the_store = store.put(&key, &sealed, TASK_TTL).await;
    }

    /// The server of a task of this principal, whichever replica started it.
    pub(super) async fn server_of_task(
        &self,
        task: &str,
        principal: &Arc<str>,
    ) -> Result<Option<Arc<str>>, RpcError> {
        if let Some(server) = self.task_owners.server_of(task, principal) {
            return Ok(Some(server));
        }
        Ok(self.shared_task(task, principal).await?.map(|it| it.server.into()))
    }

    /// Where a task of this principal runs, if another replica started it.
    pub(crate) async fn task_elsewhere(
        &self,
        task: &str,
        principal: &Arc<str>,
    ) -> Option<ReplicaAddress> {
        if self.task_owners.server_of(task, principal).is_some() {
            return None;
        }
        let replica = self.shared_task(task, principal).await.ok()??.replica;
        Some(replica).filter(|it| it.id != self.shared.me().id)
    }

    async fn shared_task(
        &self,
        task: &str,
        principal: &str,
    ) -> Result<Option<TaskOwner>, RpcError> {
        let Some(store) = self.shared.store() else { return Ok(None) };
        let key = task_key(task, principal);
        let Some(sealed) = store.get(&key).await.map_err(|_| store_away())? else {
            return Ok(None);
        };
        let text = self.shared.sealer().unseal_bytes(&key, &sealed);
        Ok(text.and_then(|it| serde_json::from_slice(&it).ok()))
    }

    /// Uses a state that is valid once, also if another replica has issued it. Noted in the store first: a use that could
    /// not be noted leaves the state as it was.
    pub(super) async fn use_state_once(
        &self,
        account: &Arc<str>,
        (issuer, number): (&ReplicaAddress, u64),
    ) -> Result<(), RpcError> {
        let is_own = issuer.id == self.shared.me().id;
        let use_here = || self.used_states.consume(account, number, Instant::now());
        let Some(store) = self.shared.store() else {
            // Only the replica that has issued a state knows whether it was used. Requests are sent there first.
            return match is_own {
                true => use_here().map_err(refused_request_state),
                false => Err(invalid_request_state()),
            };
        };
        let key = format!("used:{}-{number}", issuer.id);
        match store.put_new(&key, b"1", REQUEST_STATE_TTL).await {
            Ok(is_first) => {
                if is_own {
                    // So that this replica can tell while the store is away.
                    let _used_or_too_many = use_here();
                }
                is_first.then_some(()).ok_or_else(used_request_state)
            }
            Err(_) if is_own && self.used_states.is_used(number) => Err(used_request_state()),
            // Another replica may have used it. It stays valid: the client tries again.
            Err(_) => Err(store_away()),
        }
    }
}

fn refused_request_state(refusal: StateRefusal) -> RpcError {
    match refusal {
        StateRefusal::Used => used_request_state(),
        StateRefusal::TooMany => too_many_request_states(),
    }
}
