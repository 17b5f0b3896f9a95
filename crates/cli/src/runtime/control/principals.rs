//! Control messages about the principals of a gateway.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use serde_json::{Value as Json, json};
use switchboard::utc_timestamp;
use switchboard_gateway::{Gateway, PrincipalQuota, PrincipalUse};

use super::{ControlResponse, request_all};

/// The response to a request for the principals.
pub(super) async fn respond(gateway: &Gateway) -> Json {
    let principals = gateway.principals().await;
    json!({"principals": principals.iter().map(to_json).collect::<Vec<_>>()})
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

fn to_json(principal: &PrincipalUse) -> Json {
    json!({
        "name": principal.name,
        "calls": principal.calls,
        "denied": principal.denied,
        "failed": principal.failed,
        "running": principal.running,
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
