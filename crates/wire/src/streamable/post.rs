//! A message on its way: what it is for, and how much it weighs.

use bytes::Bytes;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::VERSION;
use crate::link::Outgoing;
use crate::message::{Id, Message, Payload};

/// What an exchange counts in `Link::queued`, whatever its size: 256 at once are as many as the peer lets
/// be under way, and 64 slow ones keep nobody waiting.
const EXCHANGE: usize = 4 * 1024;
/// Large questions count for more, but one of 10 MB still leaves room for others.
const BYTES_PER_BYTE: usize = 64;

/// A message on its way.
pub(super) struct Post {
    pub(super) purpose: Purpose,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A question that begins a session.
    Initialize(Id),
    /// Any other question.
    Ask(Id, Lifetime),
    /// The end of a session's beginning.
    Initialized,
    /// Anything else that wants no answer.
    Tell,
}

/// Whether the answer to a question can be had when its stream is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// Its stream is all there is; closing it takes the question back.
    OfItsStream,
    /// The server goes on without us.
    OfItsSession,
}

impl Purpose {
    pub(super) fn of(outgoing: &Outgoing) -> Purpose {
        let is_modern = outgoing.headers.as_ref().is_some_and(|it| it.contains_key(VERSION));
        match &outgoing.message {
            Message::Request { id, .. } if is_modern => {
                Purpose::Ask(id.clone(), Lifetime::OfItsStream)
            }
            Message::Request { id, method, .. } if method == "initialize" => {
                Purpose::Initialize(id.clone())
            }
            Message::Request { id, .. } => Purpose::Ask(id.clone(), Lifetime::OfItsSession),
            Message::Notification { method, .. } if method == "notifications/initialized" => {
                Purpose::Initialized
            }
            Message::Notification { .. } | Message::Answer { .. } => Purpose::Tell,
        }
    }
}

impl Post {
    /// A message with the headers that every one has, and its own.
    pub(super) fn new(purpose: Purpose, prepared: &HeaderMap, outgoing: Outgoing) -> Post {
        let mut headers = prepared.clone();
        if let Some(more) = outgoing.headers {
            headers.extend(*more);
        }
        let mut body = Vec::with_capacity(256);
        outgoing.message.write_to(&mut body);
        Post { purpose, headers, body: body.into() }
    }

    pub(super) fn load(&self) -> usize {
        EXCHANGE + self.body.len() / BYTES_PER_BYTE
    }
}

/// The question that a cancellation names.
pub(super) fn cancelled_id(params: &Payload) -> Option<Id> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
    }
    let parsed: Cancelled<'_> = serde_json::from_slice(params.as_bytes()).ok()?;
    let raw = parsed.id.get();
    Some(match raw.parse() {
        Ok(number) => Id::Number(number),
        Err(_) => Id::Other(Bytes::copy_from_slice(raw.as_bytes())),
    })
}
