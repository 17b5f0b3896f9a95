//! What one replica asks another, as sealed bytes: the whole request with its client, and the parts of the response. Only
//! replicas with the same key can make or read them; a captured one is refused, because it is accepted once, for a short
//! time, and by one replica only.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use switchboard_wire::shared::Shared;
use tokio::time::Instant;

use super::store::ReplicaId;
use crate::sealed_state::{ExchangeCipher, StateSealer};

/// What exchanges are sealed for.
const PURPOSE: &str = "request between replicas";
/// The most that the clocks of two replicas may differ, together with the time that a request is under way.
const MAX_AGE: Duration = Duration::from_secs(30);
/// The most requests to remember. Beyond it new ones are refused until old ones expire.
const MAX_REMEMBERED: usize = 1_000_000;
/// The length of the length before a part.
const LENGTH_LEN: usize = 4;
/// The largest part of a response.
const MAX_PART_LEN: usize = 64 * 1024 * 1024;

/// A request of one replica to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Envelope {
    pub(crate) to: ReplicaId,
    pub(crate) from: ReplicaId,
    /// When it was sent, in milliseconds since 1970.
    sent_at: u64,
    pub(crate) operation: Operation,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Operation {
    /// To respond to a client's request. Its body follows.
    Respond {
        method: String,
        headers: Vec<(String, String)>,
        principal: String,
        /// What the client's limits are counted for.
        account: String,
    },
    /// To decide a call that waits for approval there.
    Decide { id: u64, decision: String },
}

/// Why a request of another replica is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnvelopeError {
    /// It is not sealed with one of our keys, or is malformed.
    Unsealed,
    /// It is for another replica: one that was here before.
    OtherReplica,
    /// It is too old, or the clocks differ.
    Clock,
    /// It was received before.
    Repeated,
}

/// The exchanges that were accepted lately. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct AcceptedExchanges {
    /// Shared state: the connections of all replicas look for repeated requests in it.
    salts: Shared<RememberedSalts>,
}

#[derive(Debug, Default)]
struct RememberedSalts {
    salts: HashSet<Vec<u8>>,
    in_order: VecDeque<(Instant, Vec<u8>)>,
}

impl AcceptedExchanges {
    /// Remembers a salt. Returns false if it is known.
    fn insert(&self, salt: &[u8]) -> bool {
        self.salts.update(|remembered| {
            let now = Instant::now();
            while remembered.in_order.front().is_some_and(|it| now - it.0 > 2 * MAX_AGE) {
                if let Some((_, old)) = remembered.in_order.pop_front() {
                    remembered.salts.remove(&old);
                }
            }
            if remembered.salts.len() >= MAX_REMEMBERED || !remembered.salts.insert(salt.to_vec()) {
                return false;
            }
            remembered.in_order.push_back((now, salt.to_vec()));
            true
        })
    }
}

fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Seals a request.
pub(crate) fn seal(
    sealer: &StateSealer,
    (from, to): (ReplicaId, ReplicaId),
    operation: &Operation,
    body: &[u8],
) -> (Bytes, ResponseReader) {
    let operation = operation.clone();
    let envelope = Envelope { to, from, sent_at: now_millis(), operation };
    let head = serde_json::to_vec(&envelope).expect("it has only texts and numbers");
    let (mut sealed, cipher) = sealer.exchange(PURPOSE);
    let mut content = Vec::with_capacity(LENGTH_LEN + head.len() + body.len() + 32);
    content.extend_from_slice(&length(head.len()));
    content.extend_from_slice(&head);
    content.extend_from_slice(body);
    cipher.seal(0, &mut content);
    sealed.append(&mut content);
    (sealed.into(), ResponseReader { cipher, next: 1, buffer: BytesMut::new() })
}

fn length(bytes: usize) -> [u8; LENGTH_LEN] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes()
}

/// Opens a request that is for this replica, and returns its body and what seals the response.
pub(crate) fn open(
    sealer: &StateSealer,
    (me, accepted): (ReplicaId, &AcceptedExchanges),
    sealed: &[u8],
) -> Result<(Envelope, Bytes, ResponseSealer), EnvelopeError> {
    let (content, cipher) = sealer.accept(PURPOSE, sealed).ok_or(EnvelopeError::Unsealed)?;
    let mut content = Bytes::from(content);
    let head = take_part(&mut content).ok_or(EnvelopeError::Unsealed)?;
    let envelope: Envelope = serde_json::from_slice(&head).map_err(|_| EnvelopeError::Unsealed)?;
    if envelope.to != me {
        return Err(EnvelopeError::OtherReplica);
    }
    if now_millis().abs_diff(envelope.sent_at) > MAX_AGE.as_millis() as u64 {
        return Err(EnvelopeError::Clock);
    }
    let salt = &sealed[..sealed.len().min(16)];
    if !accepted.insert(salt) {
        return Err(EnvelopeError::Repeated);
    }
    Ok((envelope, content, ResponseSealer { cipher, next: 1 }))
}

/// A part with its length before it.
fn take_part(content: &mut Bytes) -> Option<Bytes> {
    if content.len() < LENGTH_LEN {
        return None;
    }
    let length = usize::try_from(content.get_u32()).ok()?;
    (length <= content.len()).then(|| content.split_to(length))
}

/// A part of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResponsePart {
    Head(StatusCode, HeaderMap),
    Data(Bytes),
    /// The response is complete.
    End,
}

const HEAD: u8 = 0;
const DATA: u8 = 1;
const END: u8 = 2;

/// Seals the parts of a response.
#[derive(Debug)]
pub(crate) struct ResponseSealer {
    cipher: ExchangeCipher,
    next: u64,
}

impl ResponseSealer {
    pub(crate) fn seal(&mut self, part: &ResponsePart) -> Bytes {
        let mut content = match part {
            ResponsePart::Head(status, headers) => {
                let headers: Vec<(String, String)> = header_pairs(headers);
                let head = serde_json::to_vec(&(status.as_u16(), headers));
                let mut content = vec![HEAD];
                content.append(&mut head.expect("it has only texts and numbers"));
                content
            }
            ResponsePart::Data(bytes) => {
                let mut content = Vec::with_capacity(bytes.len() + 32);
                content.push(DATA);
                content.extend_from_slice(bytes);
                content
            }
            ResponsePart::End => vec![END],
        };
        self.cipher.seal(self.next, &mut content);
        self.next += 1;
        let mut sealed = Vec::with_capacity(content.len() + LENGTH_LEN);
        sealed.extend_from_slice(&length(content.len()));
        sealed.append(&mut content);
        sealed.into()
    }
}

/// Reads the parts of a response.
#[derive(Debug)]
pub(crate) struct ResponseReader {
    cipher: ExchangeCipher,
    next: u64,
    buffer: BytesMut,
}

/// The response was changed on its way, or is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BrokenResponse;

impl ResponseReader {
    /// Adds received bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next part, if all of it was received.
    pub(crate) fn next(&mut self) -> Result<Option<ResponsePart>, BrokenResponse> {
        let Some(length) = self.buffer.first_chunk::<LENGTH_LEN>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| BrokenResponse)?;
        if length > MAX_PART_LEN {
            return Err(BrokenResponse);
        }
        if self.buffer.len() < LENGTH_LEN + length {
            return Ok(None);
        }
        self.buffer.advance(LENGTH_LEN);
        let sealed = self.buffer.split_to(length).to_vec();
        let content = self.cipher.open(self.next, sealed).ok_or(BrokenResponse)?;
        self.next += 1;
        let mut content = Bytes::from(content);
        let kind = content.first().copied().ok_or(BrokenResponse)?;
        content.advance(1);
        match kind {
            HEAD => {
                let (status, headers): (u16, Vec<(String, String)>) =
                    serde_json::from_slice(&content).map_err(|_| BrokenResponse)?;
                let status = StatusCode::from_u16(status).map_err(|_| BrokenResponse)?;
                Ok(Some(ResponsePart::Head(status, header_map(&headers))))
            }
            DATA => Ok(Some(ResponsePart::Data(content))),
            END => Ok(Some(ResponsePart::End)),
            _ => Err(BrokenResponse),
        }
    }
}

/// Headers as texts, without those of one connection and those that are no text.
pub(crate) fn header_pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    const OF_ONE_CONNECTION: [HeaderName; 7] = [
        http::header::CONNECTION,
        http::header::CONTENT_LENGTH,
        http::header::TRANSFER_ENCODING,
        http::header::TE,
        http::header::TRAILER,
        http::header::UPGRADE,
        http::header::EXPECT,
    ];
    let pairs = headers.iter().filter(|(name, _)| !OF_ONE_CONNECTION.contains(name));
    pairs.filter_map(|(name, it)| Some((name.to_string(), it.to_str().ok()?.to_owned()))).collect()
}

pub(crate) fn header_map(pairs: &[(String, String)]) -> HeaderMap {
    let parse = |(name, value): &(String, String)| {
        Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in pairs.iter().filter_map(parse) {
        headers.append(name, value);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ReplicaId = ReplicaId(1);
    const B: ReplicaId = ReplicaId(2);

    fn respond() -> Operation {
        Operation::Respond {
            method: "POST".to_owned(),
            headers: vec![("authorization".to_owned(), "Bearer secret".to_owned())],
            principal: "ada".to_owned(),
            account: "ada".to_owned(),
        }
    }

    #[test]
    fn a_request_is_accepted_once_and_by_its_receiver_only() {
        let sealer = StateSealer::new();
        let (sealed, _) = seal(&sealer, (A, B), &respond(), b"body");
        assert!(!sealed.windows(6).any(|it| it == b"secret"));
        let accepted = AcceptedExchanges::default();
        let refused = |me, sealed: &[u8]| open(&sealer, (me, &accepted), sealed).map(drop);
        assert_eq!(refused(A, &sealed), Err(EnvelopeError::OtherReplica));
        let (envelope, body, _) = open(&sealer, (B, &accepted), &sealed).expect("it is for us");
        assert_eq!((envelope.from, envelope.operation, &*body), (A, respond(), &b"body"[..]));
        assert_eq!(refused(B, &sealed), Err(EnvelopeError::Repeated));
        for at in [0, 15, 16, sealed.len() - 1] {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            assert_eq!(refused(B, &changed), Err(EnvelopeError::Unsealed), "at {at}");
        }
        assert_eq!(refused(B, b""), Err(EnvelopeError::Unsealed));
        let other = open(&StateSealer::new(), (B, &accepted), &sealed).map(drop);
        assert_eq!(other, Err(EnvelopeError::Unsealed));
    }

    #[test]
    fn an_old_request_is_refused() {
        let sealer = StateSealer::new();
        let late = now_millis() - MAX_AGE.as_millis() as u64 - 1000;
        let envelope = Envelope { to: B, from: A, sent_at: late, operation: respond() };
        let head = serde_json::to_vec(&envelope).expect("JSON");
        let content = [&length(head.len()), &head[..]].concat();
        let sealed = sealer.seal_bytes(PURPOSE, &content);
        let opened = open(&sealer, (B, &AcceptedExchanges::default()), &sealed).map(drop);
        assert_eq!(opened, Err(EnvelopeError::Clock));
    }

    #[test]
    fn a_response_arrives_in_parts_and_none_can_be_left_out() {
        let sealer = StateSealer::new();
        let (sealed, mut reader) = seal(&sealer, (A, B), &respond(), b"");
        let opened = open(&sealer, (B, &AcceptedExchanges::default()), &sealed);
        let (_, _, mut response) = opened.expect("it is for us");
        let headers = header_map(&[("content-type".to_owned(), "text/event-stream".to_owned())]);
        let parts = [
            ResponsePart::Head(StatusCode::OK, headers),
            ResponsePart::Data(Bytes::from_static(b"data: 1\n\n")),
            ResponsePart::End,
        ];
        let bytes: Vec<Bytes> = parts.iter().map(|it| response.seal(it)).collect();
        let mut received = Vec::new();
        // One byte at a time.
        for byte in bytes.concat() {
            reader.push(&[byte]);
            received.extend(reader.next().expect("unchanged"));
        }
        assert_eq!(received, parts);
        let (sealed, mut reader) = seal(&sealer, (A, B), &respond(), b"");
        let opened = open(&sealer, (B, &AcceptedExchanges::default()), &sealed);
        let (_, _, mut response) = opened.expect("it is for us");
        let _left_out = response.seal(&parts[0]);
        reader.push(&response.seal(&parts[2]));
        assert_eq!(reader.next(), Err(BrokenResponse));
    }
}
