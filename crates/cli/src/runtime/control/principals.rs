//! Control messages about the principals of a gateway.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use serde_json::{Value as Json, json};
use switchboard::utc_timestamp;
use switchboard_gateway::{Gateway, PrincipalQuota, PrincipalUse, RevokeError, RevokedSubject};

use super::{ControlResponse, request_all};

/// A change of what is revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevocationChange {
    /// It is revoked.
    Revoke,
    /// It is no longer revoked.
    Restore,
}

/// What a gateway says about a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeOutcome {
    /// Was there anything to change?
    pub is_changed: bool,
    /// Do all replicas have it?
    pub is_shared: bool,
    /// Why it does not hold everywhere.
    pub error: Option<String>,
}

/// The response to a request for the principals, or to a change.
pub(super) async fn respond(gateway: &Gateway, request: &Json) -> Json {
    let subject = subject_from_json(request);
    match (request["principals"].as_str(), subject) {
        (None, _) => {
            let principals = gateway.principals().await;
            let all: Vec<Json> = principals.iter().map(|it| to_json(gateway, it)).collect();
            json!({"principals": all})
        }
        (Some("revoke"), Some(subject)) => {
            change_to_json(gateway, gateway.revoke(subject).await.map(|()| true))
        }
        (Some("restore"), Some(subject)) => {
            change_to_json(gateway, gateway.restore(&subject).await)
        }
        (Some(_), _) => json!({"error": "unknown request"}),
    }
}

fn change_to_json(gateway: &Gateway, outcome: Result<bool, RevokeError>) -> Json {
    let is_shared = gateway.has_store() && outcome.is_ok();
    match outcome {
        Ok(is_changed) => json!({"changed": is_changed, "shared": is_shared}),
        Err(error) => json!({"changed": true, "shared": is_shared, "error": error.to_string()}),
    }
}

fn subject_from_json(request: &Json) -> Option<RevokedSubject> {
    if let Some(name) = request["name"].as_str() {
        return Some(RevokedSubject::Principal(name.to_owned()));
    }
    request["token"].as_str().map(|it| RevokedSubject::Token(it.to_owned()))
}

/// Changes what is revoked at every running gateway. Returns what each says, by its process.
pub fn change_revocation(
    folder: &Path,
    change: RevocationChange,
    subject: &RevokedSubject,
) -> io::Result<Vec<(u32, ChangeOutcome)>> {
    let action = match change {
        RevocationChange::Revoke => "revoke",
        RevocationChange::Restore => "restore",
    };
    let request = match subject {
        RevokedSubject::Principal(name) => json!({"principals": action, "name": name}),
        RevokedSubject::Token(id) => json!({"principals": action, "token": id}),
    };
    let responses = request_all(folder, &request)?;
    // Other processes than gateways, and older ones, say nothing of it.
    let outcome = |it: ControlResponse| {
        let outcome = ChangeOutcome {
            is_changed: it.body["changed"].as_bool()?,
            is_shared: it.body["shared"].as_bool()?,
            error: it.body["error"].as_str().map(str::to_owned),
        };
        Some((it.process, outcome))
    };
    Ok(responses.into_iter().filter_map(outcome).collect())
}

/// The principals of every running gateway, by its process.
pub fn of_running_gateways(folder: &Path) -> io::Result<Vec<(u32, Vec<Json>)>> {
    let responses = request_all(folder, &json!({"principals": true}))?;
    let principals = |it: ControlResponse| {
        let list = it.body["principals"].as_array()?.clone();
        Some((it.process, list))
    };
    Ok(responses.into_iter().filter_map(principals).collect())
}

fn to_json(gateway: &Gateway, principal: &PrincipalUse) -> Json {
    let subject = RevokedSubject::Principal(principal.name.clone());
    json!({
        "name": principal.name,
        "calls": principal.calls,
        "denied": principal.denied,
        "failed": principal.failed,
        "running": principal.running,
        "revoked": gateway.is_revoked(&subject),
        "lastSeen": seen(principal.last_seen),
        "quotas": principal.quotas.iter().map(quota_to_json).collect::<Vec<_>>(),
    })
}

fn seen(time: SystemTime) -> Option<String> {
    (time > SystemTime::UNIX_EPOCH).then(|| utc_timestamp(time))
}

fn quota_to_json(it: &PrincipalQuota) -> Json {
    let limit = |used: u64, most: Option<u64>| most.map(|most| json!({"used": used, "most": most}));
    json!({
        "calls": it.subject,
        "perMinute": limit(it.used.minute, it.quota.per_minute),
        "perDay": limit(it.used.day, it.quota.per_day),
        "concurrent": limit(it.used.running, it.quota.concurrent),
    })
}
