//! JSON values as payloads.

use bytes::Bytes;
use serde_json::Value as Json;
use switchboard_wire::jsonrpc::message::Payload;

/// Encodes a JSON value.
pub(crate) fn payload(json: &Json) -> Payload {
    Payload::from_json(json.to_string().into())
}

/// The payload `{}`.
pub(crate) fn empty_object() -> Payload {
    Payload::from_json(Bytes::from_static(b"{}"))
}
