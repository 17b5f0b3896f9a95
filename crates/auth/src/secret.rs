//! A text that must never be printed: a token, a client's secret, a code, a verifier.
//! Writing one to disk is a choice of `vault`'s, made field by field with [`revealed`].

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;

/// A secret. It prints as `Secret(…)`; [`Secret::reveal`] is the one way to its text.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes a text into keeping.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself. Every use is a place to look at twice.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Is it this text? Takes as long for a near miss as for a far one.
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

/// For `#[serde(with = "…")]`: a secret as its plain text, which belongs into a sealed file only.
pub(crate) mod revealed {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Secret;

    pub(crate) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.reveal())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        String::deserialize(from).map(Secret::new)
    }

    /// The same where there may be none.
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
