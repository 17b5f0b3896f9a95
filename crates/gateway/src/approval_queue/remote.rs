//! Calls that wait for a decision on other replicas. They have numbers of this queue while they are shown in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard::permission::PermissionDecision;
use tokio::sync::{mpsc, oneshot};

use super::PendingApproval;

/// A call that waits on another replica.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RemoteApproval {
    /// The replica.
    pub(crate) origin: String,
    /// The call, with the number that it has there.
    pub(crate) approval: PendingApproval,
}

/// A decision for another replica.
#[derive(Debug)]
pub(crate) struct RemoteDecision {
    pub(crate) origin: String,
    /// The call's number there.
    pub(crate) id: u64,
    pub(crate) decision: PermissionDecision,
    /// Replied to with the call if it still waited.
    pub(crate) decided: oneshot::Sender<Option<Arc<PendingApproval>>>,
    pub(crate) approval: Arc<PendingApproval>,
}

/// The calls that wait on other replicas, by their number here.
#[derive(Debug, Default)]
pub(super) struct RemoteApprovals {
    by_number: BTreeMap<u64, (String, u64, Arc<PendingApproval>)>,
    decisions: Option<mpsc::Sender<RemoteDecision>>,
}

impl RemoteApprovals {
    /// Replaces the calls. Known ones keep their number; `last` is the number that was used last.
    pub(super) fn set(
        &mut self,
        approvals: Vec<RemoteApproval>,
        decisions: mpsc::Sender<RemoteDecision>,
        last: &mut u64,
    ) {
        let known: BTreeMap<(String, u64), u64> =
            self.by_number.iter().map(|(number, it)| ((it.0.clone(), it.1), *number)).collect();
        self.decisions = Some(decisions);
        self.by_number.clear();
        for RemoteApproval { origin, approval } in approvals {
            let id = approval.id;
            let number = known.get(&(origin.clone(), id)).copied().unwrap_or_else(|| {
                *last += 1;
                *last
            });
            let approval = Arc::new(PendingApproval { id: number, ..approval });
            self.by_number.insert(number, (origin, id, approval));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<PendingApproval>> {
        self.by_number.values().map(|it| &it.2)
    }

    /// Sends a decision to the replica on which the call waits. Gives the reply back if there is none.
    pub(super) fn decide(
        &mut self,
        number: u64,
        decision: PermissionDecision,
        decided: oneshot::Sender<Option<Arc<PendingApproval>>>,
    ) -> Result<(), oneshot::Sender<Option<Arc<PendingApproval>>>> {
        let (Some(decisions), Some((origin, id, approval))) =
            (&self.decisions, self.by_number.get(&number).cloned())
        else {
            return Err(decided);
        };
        let decision = RemoteDecision { origin, id, decision, decided, approval };
        decisions.try_send(decision).map_err(|error| error.into_inner().decided)?;
        self.by_number.remove(&number);
        Ok(())
    }
}
