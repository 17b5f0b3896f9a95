//! The authenticated sender of a request.

use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::scopes::Scopes;

/// An authenticated client or user. Equal if name and issuer are equal; scopes differ between tokens and do not
/// count. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Principal(Arc<PrincipalFields>);

#[derive(Debug)]
struct PrincipalFields {
    name: String,
    issuer: Option<String>,
    client: Option<String>,
    scopes: Scopes,
    token: TokenFacts,
}

/// What an issuer's token says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TokenFacts {
    /// Its id (`jti`).
    pub(crate) id: Option<String>,
    /// When it was issued (`iat`), in seconds since 1970.
    pub(crate) issued_at: Option<u64>,
}

impl Principal {
    /// The principal of all requests without authentication.
    pub fn local() -> Principal {
        Principal::from_token_file("local")
    }

    /// A client of the token file.
    pub(crate) fn from_token_file(name: &str) -> Principal {
        let scopes = Scopes::default();
        Principal(Arc::new(PrincipalFields {
            name: name.to_owned(),
            issuer: None,
            client: None,
            scopes,
            token: TokenFacts::default(),
        }))
    }

    /// The owner of a client certificate. No name of a token file starts with this prefix.
    pub(crate) fn from_certificate(name: &str) -> Principal {
        Principal::from_token_file(&format!("cert:{name}"))
    }

    /// The subject of an issuer's token.
    pub(crate) fn from_issuer(
        name: String,
        issuer: String,
        client: Option<String>,
        (scopes, token): (Scopes, TokenFacts),
    ) -> Principal {
        Principal(Arc::new(PrincipalFields { name, issuer: Some(issuer), client, scopes, token }))
    }

    /// The name. It is foreign text: use `Display` for output.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The issuer; `None` for a client of the token file or with a client certificate.
    pub fn issuer(&self) -> Option<&str> {
        self.0.issuer.as_deref()
    }

    /// The OAuth client that acts for the subject, if the issuer names it.
    pub fn client(&self) -> Option<&str> {
        self.0.client.as_deref()
    }

    /// The scopes of the token. Empty for clients without one of an issuer.
    pub fn scopes(&self) -> &Scopes {
        &self.0.scopes
    }

    /// The id of the token (`jti`), where it has one.
    pub fn token_id(&self) -> Option<&str> {
        self.0.token.id.as_deref()
    }

    /// When the token was issued (`iat`), in seconds since 1970, where it says so.
    pub fn issued_at(&self) -> Option<u64> {
        self.0.token.issued_at
    }

    /// Whether the principal has all of these scopes. Clients without a token of an issuer have
    /// every scope.
    pub fn has_scopes(&self, needed: &Scopes) -> bool {
        self.0.issuer.is_none() || self.0.scopes.contains_all(needed)
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Principal) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.name == other.0.name && self.0.issuer == other.0.issuer)
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
        self.0.issuer.hash(state);
    }
}

/// `name` or `name@issuer`. Characters that could be misread in a log are escaped.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(&self.0.name, f)?;
        match &self.0.issuer {
            Some(issuer) => {
                f.write_char('@')?;
                write_escaped(issuer, f)
            }
            None => Ok(()),
        }
    }
}

fn write_escaped(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for character in text.chars() {
        match character.is_alphanumeric()
            || (character.is_ascii_graphic() && !"\"\\".contains(character))
        {
            true => f.write_char(character)?,
            false => write!(f, "{}", character.escape_unicode())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn ada(issuer: &str, scopes: &str) -> Principal {
        let scopes = Scopes::parse(scopes);
        let token = TokenFacts::default();
        Principal::from_issuer("ada".to_owned(), issuer.to_owned(), None, (scopes, token))
    }

    #[test]
    fn principals_are_equal_by_name_and_issuer() {
        let all: HashSet<_> =
            [ada("https://a", "x"), ada("https://a", "y"), ada("https://b", "x")].into();
        assert_eq!(all.len(), 2);
        assert_ne!(ada("https://a", "x"), Principal::from_token_file("ada"));
        assert_eq!(Principal::from_token_file("local"), Principal::local());
    }

    #[test]
    fn only_an_issuer_limits_scopes() {
        let needed = Scopes::parse("tools");
        assert!(
            Principal::local().has_scopes(&needed)
                && ada("https://a", "x tools").has_scopes(&needed)
        );
        assert!(!ada("https://a", "x").has_scopes(&needed));
    }

    #[test]
    fn a_name_is_escaped_for_logs() {
        assert_eq!(ada("https://a.b/c", "").to_string(), "ada@https://a.b/c");
        let odd = Principal::from_token_file("a\n\u{1b}[31m\"\u{202e} é");
        assert_eq!(odd.to_string(), r"a\u{a}\u{1b}[31m\u{22}\u{202e}\u{20}é");
    }
}
