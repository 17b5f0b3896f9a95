//! Raw JSON values: the bytes as received, decoded only by the caller that knows their type.

use std::fmt;
use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;
use serde::de::DeserializeOwned;

/// A JSON value as raw bytes. Clones share the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Bytes);

/// A substring search that is prepared once. It tells whether a payload needs decoding at all; most do not, and
/// payloads can be large.
pub struct LazyFinder(LazyLock<Finder<'static>>);

impl LazyFinder {
    /// A finder that is built at its first use.
    pub const fn new(finder: fn() -> Finder<'static>) -> LazyFinder {
        LazyFinder(LazyLock::new(finder))
    }
}

impl fmt::Debug for LazyFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LazyFinder({:?})", String::from_utf8_lossy(self.0.needle()))
    }
}

impl Payload {
    /// Whether the substring occurs anywhere in the payload.
    pub fn contains(&self, finder: &LazyFinder) -> bool {
        finder.0.find(self.as_bytes()).is_some()
    }

    /// Wraps bytes that are known to be JSON, such as part of another payload.
    pub fn from_json(bytes: Bytes) -> Payload {
        Payload(bytes)
    }

    /// Serializes a value.
    pub fn encode(value: &impl serde::Serialize) -> Result<Payload, serde_json::Error> {
        Ok(Payload(Bytes::from(serde_json::to_vec(value)?)))
    }

    /// The raw JSON.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Decodes the value.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}

/// Prints the size only: payloads are large and may contain secrets.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}
