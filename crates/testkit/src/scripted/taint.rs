//! Inserts a text into all output of a server and removes it from all input: the server behaves as usual, but every
//! name, message and value is hostile. Members that the protocol itself reads stay unchanged.

use serde_json::{Map, Value};

/// Members that control the protocol.
const PROTOCOL_MEMBERS: [&str; 19] = [
    "jsonrpc",
    "id",
    "method",
    "protocolVersion",
    "supportedVersions",
    "type",
    "mode",
    "format",
    "resultType",
    "nextCursor",
    "requestState",
    "progressToken",
    "elicitationId",
    "data",
    "blob",
    "cacheScope",
    "io.modelcontextprotocol/subscriptionId",
    "x-mcp-header",
    "url",
];
/// Members whose keys are chosen by the server.
const NAMED_BY_SERVER: [&str; 2] = ["properties", "structuredContent"];
/// The member whose keys stay unchanged: a tool with hostile argument names would be quarantined.
const PLAIN_SCHEMA: &str = "inputSchema";

/// Taints an outgoing message.
pub fn insert(bytes: Vec<u8>, taint: &str) -> Vec<u8> {
    match serde_json::from_slice(&bytes) {
        Ok(message) => tainted("", MemberNames::Hostile, message, taint).to_string().into_bytes(),
        Err(_) => bytes,
    }
}

/// Removes the taint from an incoming message.
pub fn remove(bytes: Vec<u8>, taint: &str) -> Vec<u8> {
    match serde_json::from_slice(&bytes) {
        Ok(message) => without_taint(message, taint).to_string().into_bytes(),
        Err(_) => bytes,
    }
}

/// Whether keys are tainted.
#[derive(Clone, Copy, PartialEq)]
enum MemberNames {
    Hostile,
    Plain,
}

fn tainted(member: &str, names: MemberNames, value: Value, taint: &str) -> Value {
    let names = if member == PLAIN_SCHEMA { MemberNames::Plain } else { names };
    match value {
        Value::Array(items) if member == "required" && names == MemberNames::Plain => items.into(),
        Value::String(text) if !PROTOCOL_MEMBERS.contains(&member) => {
            Value::String(with_taint(&text, taint))
        }
        Value::Array(items) => {
            items.into_iter().map(|it| tainted(member, names, it, taint)).collect()
        }
        Value::Object(members) => {
            let renames = NAMED_BY_SERVER.contains(&member) && names == MemberNames::Hostile;
            let members = members.into_iter().map(|(name, value)| {
                let value = tainted(&name, names, value, taint);
                (if renames { with_taint(&name, taint) } else { name }, value)
            });
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// Inserts the taint near the start, where truncation does not remove it; keeps URIs valid.
fn with_taint(text: &str, taint: &str) -> String {
    match (text.contains("://"), text.char_indices().nth(1)) {
        (false, Some((second, _))) => format!("{}{taint}{}", &text[..second], &text[second..]),
        (true, _) | (false, None) => format!("{text}{taint}"),
    }
}

fn without_taint(value: Value, taint: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace(taint, "")),
        Value::Array(items) => items.into_iter().map(|it| without_taint(it, taint)).collect(),
        Value::Object(members) => {
            let members = members
                .into_iter()
                .map(|(name, value)| (name.replace(taint, ""), without_taint(value, taint)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_taint_round_trips_and_the_protocol_stays_readable() {
        let message = json!({"jsonrpc": "2.0", "id": "a", "result": {"tools": [{
            "name": "echo", "uri": "a://b", "empty": "",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            "requestedSchema": {"properties": {"text": {"type": "string"}}, "required": ["text"]},
        }]}});
        let sent = insert(message.to_string().into_bytes(), "!!");
        let seen: Value = serde_json::from_slice(&sent).expect("JSON");
        assert_eq!(
            seen,
            json!({"jsonrpc": "2.0", "id": "a", "result": {"tools": [{
                "name": "e!!cho", "uri": "a://b!!", "empty": "!!",
                "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
                "requestedSchema": {"properties": {"t!!ext": {"type": "string"}}, "required": ["t!!ext"]},
            }]}})
        );
        let back: Value = serde_json::from_slice(&remove(sent, "!!")).expect("JSON");
        assert_eq!(back, message);
    }
}
