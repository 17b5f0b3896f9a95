//! Raw JSON values: the bytes as received, decoded only by the caller that knows their type.

use std::fmt;
use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;
use serde::de::DeserializeOwned;

/// A piece of JSON, as bytes. Cloning shares them.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Bytes);

/// A word that is looked for in payloads before anything is read: most do not have it, and may be large.
pub struct LazyFinder(LazyLock<Finder<'static>>);

impl LazyFinder {
    /// A word; how it is looked for is worked out once.
    pub const fn new(finder: fn() -> Finder<'static>) -> LazyFinder {
        LazyFinder(LazyLock::new(finder))
    }
}

impl fmt::Debug for LazyFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Word({:?})", String::from_utf8_lossy(self.0.needle()))
    }
}

impl Payload {
    /// Is the word in it, wherever that is?
    pub fn contains(&self, finder: &LazyFinder) -> bool {
        finder.0.find(self.as_bytes()).is_some()
    }

    /// Takes bytes that are known to be JSON, such as those of another payload.
    pub fn from_json(bytes: Bytes) -> Payload {
        Payload(bytes)
    }

    /// Writes a value as JSON.
    pub fn encode(value: &impl serde::Serialize) -> Result<Payload, serde_json::Error> {
        Ok(Payload(Bytes::from(serde_json::to_vec(value)?)))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Reads it as whatever the caller expects it to be.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}

/// Prints its size only: payloads are large, and may hold secrets.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}
