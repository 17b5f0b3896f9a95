//! The clock and the random generator that pure code gets as parameters; tests pass their own.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::secret::Secret;

/// The current time and a random generator, as inputs of pure code.
pub struct TimeAndRandom<'a> {
    /// Seconds since the Unix epoch.
    pub now: u64,
    /// Fills a buffer with random bytes.
    pub random: &'a mut dyn FnMut(&mut [u8]),
}

impl TimeAndRandom<'_> {
    /// A random token of 256 bits, as base64url.
    pub fn random_token(&mut self) -> Secret {
        let mut bytes = [0; 32];
        (self.random)(&mut bytes);
        Secret::new(URL_SAFE_NO_PAD.encode(bytes))
    }
}

/// Calls `run` with this time and the system's random generator.
pub(crate) fn with_system_random<T>(now: u64, run: impl FnOnce(&mut TimeAndRandom<'_>) -> T) -> T {
    run(&mut TimeAndRandom { now, random: &mut fill_random })
}

/// Fills a buffer from the system's random generator.
pub fn fill_random(bytes: &mut [u8]) {
    aws_lc_rs::rand::fill(bytes).expect("the system's generator does not run dry");
}

/// The current time in seconds since the Unix epoch.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
