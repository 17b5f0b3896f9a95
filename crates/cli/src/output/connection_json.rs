//! Connections as JSON.

use serde_json::{Map, Value as Json, json};
use switchboard::catalogue::ListKind;
use switchboard::connection::{ServerView, Status};
use switchboard::wire::connect::Fallback;
use switchboard::wire::protocol::capabilities::{ListCapability, ServerCapabilities};
use switchboard::{ConnectionFailure, Evidence};

/// What a server's JSON says about its connection; nothing but nulls and no notes where there is none.
pub fn members(connection: Option<&ServerView>) -> Map<String, Json> {
    let server_info = connection.and_then(|it| it.server_info.as_ref());
    let cause =
        connection.and_then(|it| it.status.cause().map(|cause| cause_json(cause, &it.name)));
    let ready_after = connection.and_then(|it| it.time_to_ready);
    let counted = connection.filter(|it| it.server_info.is_some());
    let members = json!({
        "attempt": connection.and_then(|it| attempt_json(&it.status)),
        "cause": cause,
        "era": server_info.map(|it| it.era.as_str()),
        "protocolVersion": server_info.map(|it| it.protocol_version.clone()),
        "server": server_info.map(|it| json!({
            "name": it.name, "version": it.server_version, "title": it.title,
        })),
        "capabilities": server_info.map(|it| capabilities_json(&it.capabilities)),
        "counts": counted.map(counts_json),
        "readyAfterMs": ready_after.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
        "process": connection.and_then(|it| it.pid),
        "shared": connection.map(|it| it.is_shared),
        "detour": connection.and_then(|it| it.fallback).map(fallback_id),
        "notes": connection.map(ServerView::notes).unwrap_or_default(),
    });
    match members {
        Json::Object(members) => members,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Map::new()
        }
    }
}

fn attempt_json(status: &Status) -> Option<Json> {
    match status {
        Status::Pending { attempt, max_attempts, .. } => {
            Some(json!({"attempt": attempt, "of": max_attempts}))
        }
        Status::Connected
        | Status::Failed(_)
        | Status::NeedsAuth(_)
        | Status::SessionRefused(_)
        | Status::Disabled => None,
    }
}

fn counts_json(view: &ServerView) -> Json {
    let count = |list: ListKind| view.catalogue.items(list).len();
    json!({
        "tools": count(ListKind::Tools),
        "resources": count(ListKind::Resources),
        "resourceTemplates": count(ListKind::ResourceTemplates),
        "prompts": count(ListKind::Prompts),
    })
}

fn fallback_id(fallback: Fallback) -> &'static str {
    match fallback {
        Fallback::Restarted => "started-again",
        Fallback::HttpSse2024 => "older-transport",
    }
}

/// A failure as JSON.
fn cause_json(cause: &ConnectionFailure, name: &str) -> Json {
    let piece = |it: &Evidence| json!({"kind": it.label(), "text": it.text()});
    json!({
        "id": cause.id(),
        "message": cause.to_string(),
        "evidence": cause.evidence.iter().map(piece).collect::<Vec<_>>(),
        "fix": cause.remedy(name),
    })
}

fn capabilities_json(capabilities: &ServerCapabilities) -> Json {
    let listing = |it: Option<ListCapability>| {
        it.map(|it| json!({"listChanged": it.list_changed, "subscribe": it.subscribe}))
    };
    json!({
        "tools": listing(capabilities.tools),
        "resources": listing(capabilities.resources),
        "prompts": listing(capabilities.prompts),
        "others": capabilities.others,
    })
}
