//! A string that must never be printed: a token, a client secret, an authorization code, a PKCE verifier.
//! `token_store` decides field by field, with `revealed`, which secrets are written to disk.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;

/// A secret string. It prints as `Secret(…)`; only [`Secret::reveal`] returns the text.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// Returns the text. Review every use.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether the secret is this text. Compares in constant time.
    pub fn equals(&self, text: &str) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), text.as_bytes()).is_ok()
    }
}

/// Compares in constant time.
impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.equals(&other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// For `#[serde(with = "…")]`: serializes a secret as plain text. Use it only for files that are encrypted or
/// private to their owner.
pub(crate) mod revealed {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Secret;

    pub(crate) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.reveal())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        String::deserialize(from).map(Secret::new)
    }

    /// The same for `Option<Secret>`.
    pub(crate) mod or_none {
        use serde::{Deserialize, Deserializer, Serializer};

        use super::super::Secret;

        pub(crate) fn serialize<S: Serializer>(
            secret: &Option<Secret>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match secret {
                Some(secret) => to.serialize_some(secret.reveal()),
                None => to.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Secret>, D::Error> {
            Ok(Option::<String>::deserialize(from)?.map(Secret::new))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new("canary");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "Secret(…) Some(Secret(…))");
        assert_eq!(secret.reveal(), "canary");
    }

    #[test]
    fn secrets_are_equal_by_their_whole_text() {
        let secret = Secret::new("canary");
        assert!(secret.equals("canary") && secret == Secret::new("canary"));
        for other in ["", "c", "canar", "canaryy", "Canary", "\0canary"] {
            assert!(!secret.equals(other), "{other}");
        }
        assert!(Secret::new("").equals(""));
    }
}
