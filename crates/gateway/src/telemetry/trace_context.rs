//! The trace context of a request (W3C Trace Context, `traceparent`). Requests carry it in `_meta`; over HTTP it may be
//! in headers instead.

use std::fmt;

use aws_lc_rs::rand;
use http::HeaderMap;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::protocol::request_meta::RequestMeta;

/// The name of the member and of the header.
pub(crate) const TRACEPARENT: &str = "traceparent";
/// Further members to propagate, and the longest value of each in bytes.
const PROPAGATED: [(&str, usize); 2] = [("tracestate", 512), ("baggage", 8192)];

/// A span in a trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceContext {
    pub(crate) trace: [u8; 16],
    pub(crate) span: [u8; 8],
    pub(crate) is_sampled: bool,
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_traceparent())
    }
}

impl TraceContext {
    /// The root of a new trace.
    pub(crate) fn new_root() -> TraceContext {
        TraceContext { trace: random(), span: random(), is_sampled: true }
    }

    /// A new span in the same trace.
    pub(crate) fn child(self) -> TraceContext {
        TraceContext { span: random(), ..self }
    }

    /// Reads the context of a request.
    pub(crate) fn from_meta(meta: &RequestMeta) -> Option<TraceContext> {
        if meta.other_members.is_empty() {
            return None;
        }
        TraceContext::parse(&meta.other_members.get_string(TRACEPARENT)?)
    }

    /// Parses a `traceparent`. Later versions may have further fields.
    pub(crate) fn parse(text: &str) -> Option<TraceContext> {
        let mut parts = text.split('-');
        let [version] = parse_hex(parts.next()?)?;
        let trace = parse_hex(parts.next()?)?;
        let span = parse_hex(parts.next()?)?;
        let [flags] = parse_hex(parts.next()?)?;
        let is_known = version == 0 && parts.next().is_none();
        let is_later = version > 0 && version < 0xff;
        let is_nonzero = trace != [0; 16] && span != [0; 8];
        let context = TraceContext { trace, span, is_sampled: flags & 1 == 1 };
        ((is_known || is_later) && is_nonzero).then_some(context)
    }

    /// Formats a `traceparent`.
    pub(crate) fn to_traceparent(self) -> String {
        let flags = u8::from(self.is_sampled);
        format!("00-{}-{}-{flags:02x}", hex(&self.trace), hex(&self.span))
    }

    /// The trace id in hexadecimal.
    pub(crate) fn trace_id(&self) -> String {
        hex(&self.trace)
    }

    /// The span id in hexadecimal.
    pub(crate) fn span_id(&self) -> String {
        hex(&self.span)
    }
}

/// Copies the context from the headers, if the request itself has none.
pub(crate) fn merge_headers(meta: &mut RequestMeta, headers: &HeaderMap) {
    let Some(parent) = headers.get(TRACEPARENT).and_then(|it| it.to_str().ok()) else { return };
    if meta.other_members.get(TRACEPARENT).is_some() || TraceContext::parse(parent).is_none() {
        return;
    }
    meta.other_members.insert(TRACEPARENT, json_string(parent));
    for (name, max_len) in PROPAGATED {
        let value = headers.get(name).and_then(|it| it.to_str().ok());
        if let Some(value) = value.filter(|it| it.len() <= max_len)
            && meta.other_members.get(name).is_none()
        {
            meta.other_members.insert(name, json_string(value));
        }
    }
}

/// Encodes a JSON string.
pub(crate) fn json_string(text: &str) -> Payload {
    Payload::from_json(serde_json::Value::from(text).to_string().into())
}

/// Encodes bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_lower_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 2 * N || !text.bytes().all(is_lower_hex) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa00b90277-01";

    #[test]
    fn a_context_is_formatted_as_it_was_parsed() {
        let context = TraceContext::parse(GOOD).expect("it is good");
        assert_eq!(context.to_traceparent(), GOOD);
        let child = context.child();
        assert_eq!(child.trace, context.trace);
        assert_ne!(child.span, context.span);
    }

    #[test]
    fn an_invalid_traceparent_is_ignored() {
        let of = |text: &str| TraceContext::parse(text).is_some();
        assert!(!of(&GOOD.to_uppercase()) && !of(&format!("{GOOD}-x")) && !of("") && !of("00"));
        assert!(!of(&GOOD.replace("00-4", "ff-4")));
        assert!(of(&format!("{}-x", GOOD.replace("00-4", "cc-4"))), "a later version");
        assert!(!of("00-00000000000000000000000000000000-00f067aa00b90277-01"));
        assert!(!of("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"));
        assert!(!of("00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa00b90277-01"));
    }

    #[test]
    fn headers_are_used_if_the_request_has_no_context() {
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, http::HeaderValue::from_static(GOOD));
        headers.insert("tracestate", http::HeaderValue::from_static("a=b"));
        let mut meta = RequestMeta::default();
        merge_headers(&mut meta, &headers);
        assert_eq!(TraceContext::from_meta(&meta), TraceContext::parse(GOOD));
        assert_eq!(meta.other_members.get_string("tracestate").as_deref(), Some("a=b"));
        let own = TraceContext::new_root();
        let mut value = RequestMeta::default();
        value.other_members.insert(TRACEPARENT, json_string(&own.to_traceparent()));
        merge_headers(&mut value, &headers);
        assert_eq!(TraceContext::from_meta(&value), Some(own));
        assert_eq!(value.other_members.get("tracestate"), None);
    }
}
