//! Calls that wait for approval: each replica tells the others its own through the store, so that an administrator sees all
//! of them on any replica. A decision is sent to the replica on which the call waits.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use switchboard::permission::{DefinitionDiff, GrantScope, LineChange, PermissionDecision};
use switchboard_config::permission::{RuleCoverage, Suggestion, ToolRule};
use tokio::sync::mpsc;

use crate::approval_queue::remote::{RemoteApproval, RemoteDecision};
use crate::approval_queue::{ApprovalQueue, PendingApproval};
use crate::gateway::Gateway;
use crate::http::replica::Replicas;
use crate::shared::envelope::{Operation, ResponsePart};
use crate::shared::shared_state::SharedState;
use crate::shared::store::{ReplicaId, SharedList};

/// How long calls of a replica stay in the store. It ends earlier where the replica does.
const APPROVALS_TTL: Duration = Duration::from_secs(24 * 3600);
/// The capacity of the queue of decisions for other replicas.
const DECISION_CAPACITY: usize = 64;

impl Gateway {
    /// Shares the calls that wait for approval with the other replicas. Runs until it is dropped.
    pub async fn share_approvals(&self, queue: ApprovalQueue) {
        let shared = self.relay.shared.clone();
        if shared.store().is_none() {
            return std::future::pending().await;
        }
        let _shared_already = self.relay.shared_approvals.set(queue.clone());
        let (decisions, mut decided_here) = mpsc::channel(DECISION_CAPACITY);
        let (mut own, mut fleet) = (queue.watch_own(), shared.watch_fleet());
        let replicas = Replicas::default();
        let (mut published, mut shown) = (Vec::new(), Some(Vec::new()));
        let mut resync = shared.resync_signal();
        let mut resynced = resync.borrow_and_update().all;
        let mut sending = FuturesUnordered::new();
        loop {
            let mine: Vec<SharedApproval> =
                own.borrow_and_update().iter().map(|it| SharedApproval::new(it)).collect();
            if mine != published && publish(&shared, &mine).await {
                published = mine;
            }
            fleet.mark_unchanged();
            let others = of_others(&shared);
            if shown.as_ref() != Some(&others) {
                queue.set_remote(others.clone(), decisions.clone()).await;
                shown = Some(others);
            }
            tokio::select! {
                changed = own.changed() => if changed.is_err() { return },
                changed = fleet.changed() => if changed.is_err() { return },
                changed = resync.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let all = resync.borrow_and_update().all;
                    if std::mem::replace(&mut resynced, all) != all {
                        // The store may have lost them, or they are sealed with an old key.
                        published.clear();
                    }
                }
                Some(decision) = decided_here.recv(), if sending.len() < DECISION_CAPACITY => {
                    sending.push(send(&shared, &replicas, decision));
                }
                // A call whose decision was not delivered is shown again.
                Some(Delivery::Failed) = sending.next() => shown = None,
            }
        }
    }

    /// Decides a call that waits here, on behalf of another replica. Returns whether it waited.
    pub(crate) async fn decide_approval(&self, id: u64, decision: &str) -> bool {
        let decision = serde_json::from_str(decision).ok();
        let decision = decision.and_then(|it| decision_from_json(&it));
        match (self.relay.shared_approvals.get(), decision) {
            (Some(queue), Some(decision)) => queue.decide(id, decision).await.is_some(),
            (None, _) | (_, None) => false,
        }
    }
}

fn purpose(replica: ReplicaId) -> String {
    format!("approvals {replica}")
}

/// Writes the calls that wait here. Returns whether the store has them.
async fn publish(shared: &SharedState, approvals: &[SharedApproval]) -> bool {
    let Some(store) = shared.store() else { return false };
    let me = shared.me().id;
    let sealed = match approvals.is_empty() {
        true => Vec::new(),
        false => {
            let text = serde_json::to_vec(approvals).expect("it has only texts and numbers");
            shared.sealer().seal_bytes(&purpose(me), &text)
        }
    };
    let entry = (&*me.to_string(), &*sealed);
    store.put_entry(SharedList::Approvals, entry, APPROVALS_TTL).await.is_ok()
}

/// The calls that wait on the other replicas that are alive.
fn of_others(shared: &SharedState) -> Vec<RemoteApproval> {
    let fleet = shared.fleet();
    let Some(entries) = fleet.lists.get(&SharedList::Approvals) else { return Vec::new() };
    let mut all = Vec::new();
    for (member, sealed) in entries {
        let Ok(replica) = member.parse::<ReplicaId>() else { continue };
        if replica == shared.me().id || !fleet.alive.contains_key(&replica) {
            continue;
        }
        let text = shared.sealer().unseal_bytes(&purpose(replica), sealed);
        let waiting: Option<Vec<SharedApproval>> =
            text.and_then(|it| serde_json::from_slice(&it).ok());
        all.extend(
            waiting
                .into_iter()
                .flatten()
                .map(|it| RemoteApproval { origin: member.clone(), approval: it.into_pending() }),
        );
    }
    all
}

/// Whether a decision has reached its replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Delivered,
    Failed,
}

/// Sends a decision to the replica on which the call waits.
async fn send(shared: &SharedState, replicas: &Replicas, decision: RemoteDecision) -> Delivery {
    let RemoteDecision { origin, id, decision, decided, approval } = decision;
    let delivered = async {
        let replica: ReplicaId = origin.parse().ok()?;
        let fleet = shared.fleet();
        let address = fleet.address(replica)?;
        let decision = decision_to_json(&decision).to_string();
        let operation = Operation::Decide { id, decision };
        let to = (replica, address);
        let mut parts = replicas.send(shared, to, operation, &Bytes::new()).await.ok()?;
        match parts.next().await.ok()?? {
            ResponsePart::Head(StatusCode::OK, _) => Some(Some(approval)),
            ResponsePart::Head(..) | ResponsePart::Data(_) | ResponsePart::End => Some(None),
        }
    };
    let (delivery, was_decided) = match delivered.await {
        Some(was_decided) => (Delivery::Delivered, was_decided),
        None => (Delivery::Failed, None),
    };
    let _caller_left = decided.send(was_decided);
    delivery
}

/// A waiting call as other replicas read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SharedApproval {
    id: u64,
    caller: String,
    server: String,
    tool: String,
    arguments: Json,
    reason: String,
    flags: Vec<String>,
    /// Coverage and rule.
    suggestions: Vec<(String, String)>,
    /// The kind of change, and the line.
    changes: Option<Vec<(char, String)>>,
    /// In seconds since 1970.
    requested_at: u64,
}

const COVERAGES: [(&str, RuleCoverage); 3] = [
    ("arguments", RuleCoverage::Arguments),
    ("tool", RuleCoverage::Tool),
    ("server", RuleCoverage::Server),
];
const CHANGES: [(char, LineChange); 3] =
    [('+', LineChange::Added), ('-', LineChange::Removed), (' ', LineChange::Unchanged)];

impl SharedApproval {
    fn new(approval: &PendingApproval) -> SharedApproval {
        let suggestion = |it: &Suggestion| {
            let coverage = COVERAGES.iter().find(|(_, coverage)| *coverage == it.coverage)?;
            Some((coverage.0.to_owned(), it.rule.to_string()))
        };
        let line = |(change, line): &(LineChange, String)| {
            let sign = CHANGES.iter().find(|it| it.1 == *change).map_or(' ', |it| it.0);
            (sign, line.clone())
        };
        let since = approval.requested_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        SharedApproval {
            id: approval.id,
            caller: approval.caller.clone(),
            server: approval.server.clone(),
            tool: approval.tool.clone(),
            arguments: approval.arguments.clone(),
            reason: approval.reason.clone(),
            flags: approval.flags.clone(),
            suggestions: approval.suggestions.iter().filter_map(suggestion).collect(),
            changes: approval
                .definition_change
                .as_ref()
                .map(|it| it.lines.iter().map(line).collect()),
            requested_at: since.as_secs(),
        }
    }

    fn into_pending(self) -> PendingApproval {
        let suggestion = |(coverage, rule): (String, String)| {
            let coverage = COVERAGES.iter().find(|it| it.0 == coverage)?.1;
            Some(Suggestion { coverage, rule: ToolRule::parse(&rule).ok()? })
        };
        let line = |(sign, line): (char, String)| {
            let change = CHANGES.iter().find(|it| it.0 == sign);
            (change.map_or(LineChange::Unchanged, |it| it.1), line)
        };
        PendingApproval {
            id: self.id,
            caller: self.caller,
            server: self.server,
            tool: self.tool,
            arguments: self.arguments,
            reason: self.reason,
            flags: self.flags,
            suggestions: self.suggestions.into_iter().filter_map(suggestion).collect(),
            definition_change: self
                .changes
                .map(|lines| DefinitionDiff { lines: lines.into_iter().map(line).collect() }),
            requested_at: SystemTime::UNIX_EPOCH + Duration::from_secs(self.requested_at),
        }
    }
}

fn decision_to_json(decision: &PermissionDecision) -> Json {
    match decision {
        PermissionDecision::Allow { decided_by, scope } => {
            let (scope, rule) = match scope {
                GrantScope::Once => ("once", None),
                GrantScope::Session(rule) => ("session", Some(rule.to_string())),
                GrantScope::Always(rule) => ("always", Some(rule.to_string())),
            };
            json!({"allow": decided_by, "scope": scope, "rule": rule})
        }
        PermissionDecision::AllowChanged { decided_by, arguments } => {
            json!({"allow": decided_by, "arguments": arguments})
        }
        PermissionDecision::Deny(reason) => json!({"deny": reason}),
        PermissionDecision::DeniedByUser => json!({"deny": null}),
        PermissionDecision::NoAnswer => json!({}),
    }
}

fn decision_from_json(json: &Json) -> Option<PermissionDecision> {
    if let Some(reason) = json.get("deny") {
        return Some(match reason.as_str() {
            Some(reason) => PermissionDecision::Deny(reason.to_owned()),
            None => PermissionDecision::DeniedByUser,
        });
    }
    let Some(decided_by) = json["allow"].as_str().map(str::to_owned) else {
        return Some(PermissionDecision::NoAnswer);
    };
    if let Some(arguments) = json.get("arguments").cloned() {
        return Some(PermissionDecision::AllowChanged { decided_by, arguments });
    }
    let rule = || json["rule"].as_str().and_then(|it| ToolRule::parse(it).ok());
    let scope = match json["scope"].as_str()? {
        "once" => GrantScope::Once,
        "session" => GrantScope::Session(rule()?),
        "always" => GrantScope::Always(rule()?),
        _ => return None,
    };
    Some(PermissionDecision::Allow { decided_by, scope })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_and_calls_survive_the_way_to_another_replica() {
        let rule = ToolRule::parse("mcp__s__t").expect("a rule");
        let allow = |scope| PermissionDecision::Allow { decided_by: "ops".to_owned(), scope };
        let changed = PermissionDecision::AllowChanged {
            decided_by: "ops".to_owned(),
            arguments: json!({"a": 1}),
        };
        let decisions = [
            allow(GrantScope::Once),
            allow(GrantScope::Session(rule.clone())),
            allow(GrantScope::Always(rule.clone())),
            changed,
            PermissionDecision::Deny("no".to_owned()),
            PermissionDecision::DeniedByUser,
            PermissionDecision::NoAnswer,
        ];
        for decision in decisions {
            assert_eq!(decision_from_json(&decision_to_json(&decision)), Some(decision));
        }
        let approval = PendingApproval {
            id: 7,
            caller: "ada".to_owned(),
            server: "s".to_owned(),
            tool: "t".to_owned(),
            arguments: json!({"a": 1}),
            reason: "a rule asks".to_owned(),
            flags: vec!["destructive".to_owned()],
            suggestions: vec![Suggestion { coverage: RuleCoverage::Tool, rule }],
            definition_change: Some(DefinitionDiff {
                lines: vec![(LineChange::Added, "x".to_owned())],
            }),
            requested_at: SystemTime::UNIX_EPOCH + Duration::from_secs(5),
        };
        let text = serde_json::to_string(&SharedApproval::new(&approval)).expect("JSON");
        let read: SharedApproval = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read.into_pending(), approval);
    }
}
