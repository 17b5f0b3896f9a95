//! Random identifiers in the form of a UUID.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// A new identifier: random, not secret.
pub fn new_uuid() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let half = || {
        // Every state has keys of its own, which the standard library takes from the system's random numbers.
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(COUNTER.fetch_add(1, Ordering::Relaxed));
        hasher.write_u32(std::process::id());
        hasher.finish()
    };
    let (high, low) = (half(), half());
    // Version 4, variant 1.
    let high = (high & !0xf000) | 0x4000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_differ_and_have_the_form_of_a_random_uuid() {
        let (one, other) = (new_uuid(), new_uuid());
        assert_ne!(one, other);
        let lengths: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{one}");
        assert_eq!(&one[14..15], "4", "{one}");
        assert!("89ab".contains(&one[19..20]), "{one}");
    }
}
