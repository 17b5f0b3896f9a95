//! A question as a server gets it, read only as far as somebody must know: its parameters member by member, and what
//! it says of itself in `_meta`. Values stay the bytes that came.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;

use crate::client::{METHOD, NAME, VERSION, name_member};
use crate::era::{LEGACY, MODERN, WITH_BATCHES, code, key};
use crate::message::{Payload, RemoteError};
use crate::mirror::unwrapped;
use crate::reception::{invalid, refusal, with_data};

/// The members of an object, in their order. Of two with one name the last counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members(Vec<(String, Payload)>);

impl Members {
    /// Reads an object; absent is empty. None where it is something else.
    pub fn read(object: Option<&Payload>) -> Option<Members> {
        let Some(object) = object else { return Some(Members::default()) };
        let bytes = object.as_bytes();
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let members = reader.deserialize_map(Gather(bytes)).ok()?;
        reader.end().ok()?;
        Some(Members(members))
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<&Payload> {
        self.0.iter().rev().find(|it| it.0 == name).map(|it| &it.1)
    }

    /// One of them that is text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.decode().ok()
    }

    /// Takes one out.
    pub fn take(&mut self, name: &str) -> Option<Payload> {
        let found = self.get(name).cloned();
        if found.is_some() {
            self.0.retain(|it| it.0 != name);
        }
        found
    }

    /// Puts one in, in place of what had its name.
    pub fn put(&mut self, name: &str, value: Payload) {
        match self.0.iter_mut().find(|it| it.0 == name) {
            Some(member) => member.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// All of them.
    pub fn into_all(self) -> Vec<(String, Payload)> {
        self.0
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object.
    pub fn written(&self) -> Payload {
        let mut text = vec![b'{'];
        self.write_inside(&mut text);
        text.push(b'}');
        Payload::from_json(text.into())
    }

    fn write_inside(&self, text: &mut Vec<u8>) {
        for (index, (name, value)) in self.0.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            text.extend_from_slice(serde_json::Value::from(name.as_str()).to_string().as_bytes());
            text.push(b':');
            text.extend_from_slice(value.as_bytes());
        }
    }
}

struct Gather<'a>(&'a Bytes);

impl<'de> Visitor<'de> for Gather<'_> {
    type Value = Vec<(String, Payload)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(4);
        while let Some((name, value)) = map.next_entry::<Cow<'_, str>, &RawValue>()? {
            let value = Payload::from_json(self.0.slice_ref(value.get().as_bytes()));
            members.push((name.into_owned(), value));
        }
        Ok(members)
    }
}

/// What a question says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meta {
    /// The version that it is written in, where it says so: then it is a modern one.
    pub version: Option<String>,
    /// What the client can do, where the question says so.
    pub capabilities: Option<Payload>,
    /// Who the client is, where the question says so.
    pub client: Option<Payload>,
    /// What signs of progress have to carry; absent where nobody wants them.
    pub progress_token: Option<Payload>,
    /// How much of what goes on the client wants to hear.
    pub log_level: Option<String>,
    /// Everything else.
    pub rest: Members,
}

impl Meta {
    /// Takes it out of a question's parameters. None where it is no object.
    pub fn take(params: &mut Members) -> Option<Meta> {
        let Some(raw) = params.take("_meta") else { return Some(Meta::default()) };
        let mut rest = Members::read(Some(&raw))?;
        Some(Meta {
            version: rest.take(key::VERSION).and_then(|it| it.decode().ok()),
            capabilities: rest.take(key::CAPABILITIES),
            client: rest.take(key::CLIENT),
            progress_token: rest.take("progressToken").filter(is_token),
            log_level: rest.take(key::LOG_LEVEL).and_then(|it| it.decode().ok()),
            rest,
        })
    }

    /// Everything else, as members of another object, for a server that this is passed on to. A level is said where
    /// there is one.
    pub fn passed_on(&self, level: Option<&str>) -> Option<String> {
        let mut text = Vec::new();
        self.rest.write_inside(&mut text);
        if let Some(level) = level {
            if !text.is_empty() {
                text.push(b',');
            }
            text.extend_from_slice(format!("\"{}\":{}", key::LOG_LEVEL, json!(level)).as_bytes());
        }
        Some(text).filter(|it| !it.is_empty()).and_then(|it| String::from_utf8(it).ok())
    }

    /// Lets a modern question in, or says why not: it must say its version and what the client can do.
    pub fn admit_modern(&self) -> Result<(), RemoteError> {
        let lacks = |key: &str| invalid(&format!("`_meta` lacks `{key}`"));
        let version = self.version.as_deref().ok_or_else(|| lacks(key::VERSION))?;
        let is_object = |it: &&Payload| it.as_bytes().starts_with(b"{");
        if self.capabilities.as_ref().filter(is_object).is_none() {
            return Err(lacks(key::CAPABILITIES));
        }
        match MODERN.contains(&version) {
            true => Ok(()),
            false => {
                let error = refusal(code::UNSUPPORTED_VERSION, "this version is not spoken here");
                Err(with_data(error, &json!({"supported": MODERN, "requested": version})))
            }
        }
    }
}

fn is_token(payload: &Payload) -> bool {
    payload.as_bytes().first().is_some_and(|it| matches!(it, b'"' | b'-' | b'0'..=b'9'))
}

/// Is this what a header says of the version, and is that a modern one?
pub fn names_modern(headers: &HeaderMap) -> bool {
    let version = headers.get(VERSION).and_then(|it| it.to_str().ok());
    version.is_some_and(|it| MODERN.contains(&it.trim()) || !LEGACY.contains(&it.trim()))
}

/// Is this a version of the legacy era that is spoken here?
pub fn is_legacy_version(version: &str) -> bool {
    LEGACY.contains(&version)
}

/// May clients of this version send several messages at once?
pub fn has_batches(version: &str) -> bool {
    version == WITH_BATCHES
}

/// Compares the version that a header says with what a modern question says itself.
pub fn check_version(headers: &HeaderMap, meta: &Meta) -> Result<(), RemoteError> {
    match &meta.version {
        Some(version) => check(headers, &VERSION, version),
        None => Ok(()),
    }
}

/// Compares what headers say of a modern question with what it says itself.
pub fn check_headers(
    headers: &HeaderMap,
    method: &str,
    params: &Members,
) -> Result<(), RemoteError> {
    check(headers, &METHOD, method)?;
    match name_member(method).and_then(|it| params.text(it)) {
        Some(name) => check(headers, &NAME, &name),
        None => Ok(()),
    }
}

fn check(headers: &HeaderMap, name: &HeaderName, expected: &str) -> Result<(), RemoteError> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().and_then(said);
    match value.as_deref() == Some(expected) && values.next().is_none() {
        true => Ok(()),
        false => Err(mismatch(name)),
    }
}

/// What a header says, without what was put around it for the way.
pub(crate) fn said(value: &HeaderValue) -> Option<String> {
    unwrapped(value.to_str().ok()?.trim_matches([' ', '\t']))
}

/// A header and the question say different things.
pub(crate) fn mismatch(name: &HeaderName) -> RemoteError {
    let message = format!("the header `{name}` is missing, or is not what the question says");
    refusal(code::HEADER_MISMATCH, &message)
}

/// The status that goes with an error to a modern question.
pub fn status(error: &RemoteError) -> u16 {
    match error.code {
        code::METHOD_NOT_FOUND => 404,
        code::HEADER_MISMATCH
        | code::MISSING_CAPABILITY
        | code::UNSUPPORTED_VERSION
        | code::INVALID_REQUEST
        | code::PARSE => 400,
        _ => 200,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    fn payload(json: &Json) -> Payload {
        Payload::of(json).expect("JSON")
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn members_keep_their_bytes_and_the_last_of_a_name_counts() {
        let object = Payload::from_json(Bytes::from_static(br#"{"a": 1.0 ,"b":{ },"a":[2 ]}"#));
        let mut members = Members::read(Some(&object)).expect("an object");
        assert_eq!(members.get("a").expect("it is there").as_bytes().as_ref(), b"[2 ]");
        assert_eq!(members.take("a").expect("it is there").as_bytes().as_ref(), b"[2 ]");
        assert_eq!(members.written().as_bytes().as_ref(), br#"{"b":{ }}"#);
        assert_eq!(Members::read(Some(&payload(&json!([1])))), None);
        assert!(Members::read(None).expect("nothing").is_empty());
    }

    #[test]
    fn what_is_known_of_the_metadata_is_taken_and_the_rest_is_passed_on() {
        let params = json!({"name": "t", "_meta": {
            key::VERSION: MODERN[0], key::CAPABILITIES: {}, "progressToken": "p",
            key::LOG_LEVEL: "info", "traceparent": "00-1",
        }});
        let mut params = Members::read(Some(&payload(&params))).expect("an object");
        let meta = Meta::take(&mut params).expect("an object");
        assert_eq!(meta.progress_token, Some(payload(&json!("p"))));
        assert_eq!(meta.passed_on(None).as_deref(), Some(r#""traceparent":"00-1""#));
        let expected = format!(r#""traceparent":"00-1","{}":"info""#, key::LOG_LEVEL);
        assert_eq!(meta.passed_on(Some("info")), Some(expected));
        assert_eq!(meta.admit_modern(), Ok(()));
        assert_eq!(params.get("_meta"), None);
        assert_eq!(Meta::default().admit_modern().expect_err("nothing is said").code, -32602);
        let strange = Meta { version: Some("2999-01-01".to_owned()), ..meta };
        assert_eq!(strange.admit_modern().expect_err("unknown").code, -32022);
    }

    #[test]
    fn headers_must_say_what_the_question_says() {
        let params = json!({"name": "Grüße", "_meta": {key::VERSION: MODERN[0]}});
        let mut params = Members::read(Some(&payload(&params))).expect("an object");
        let meta = Meta::take(&mut params).expect("an object");
        let version = ("mcp-protocol-version", MODERN[0]);
        let name = ("mcp-name", "=?base64?R3LDvMOfZQ==?=");
        let check = |pairs: &[(&'static str, &'static str)]| {
            let headers = headers(pairs);
            let checked = check_version(&headers, &meta);
            let checked = checked.and_then(|()| check_headers(&headers, "tools/call", &params));
            checked.map_err(|it| it.code)
        };
        assert_eq!(check(&[version, ("mcp-method", "tools/call"), name]), Ok(()));
        assert_eq!(check(&[version, ("mcp-method", "TOOLS/CALL"), name]), Err(-32020));
        assert_eq!(check(&[version, name]), Err(-32020));
        assert_eq!(check(&[version, ("mcp-method", "tools/call")]), Err(-32020));
        assert_eq!(check(&[("mcp-method", "tools/call"), name]), Err(-32020));
    }
}
