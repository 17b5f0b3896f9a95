//! The SHA-256 of a bundle's file, which identifies it in entries and in the store.

use std::fmt;

const PREFIX: &str = "sha256:";

/// The SHA-256 of a bundle's file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BundleHash(String);

impl BundleHash {
    /// Reads 64 hexadecimal digits, with or without `sha256:` before them.
    pub fn parse(text: &str) -> Option<BundleHash> {
        let digits = text.strip_prefix(PREFIX).unwrap_or(text);
        let is_hash = digits.len() == 64 && digits.bytes().all(|it| it.is_ascii_hexdigit());
        is_hash.then(|| BundleHash(digits.to_ascii_lowercase()))
    }

    /// The digits, in lower case: the name of the bundle's folder.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// The first digits, for users.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

/// As entries have it.
impl fmt::Display for BundleHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_exactly_64_hexadecimal_digits() {
        let digits = "AB".repeat(32);
        let hash = BundleHash::parse(&format!("sha256:{digits}")).expect("it is one");
        assert_eq!(hash.digits(), "ab".repeat(32));
        assert_eq!(BundleHash::parse(&digits), Some(hash.clone()));
        assert_eq!(BundleHash::parse(&hash.to_string()), Some(hash));
        for text in ["", "sha256:", &digits[1..], &format!("../{}", &digits[3..]), "sha512:00"] {
            assert_eq!(BundleHash::parse(text), None, "{text}");
        }
    }
}
