//! Who somebody is, once that was shown.

use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::scopes::Scopes;

/// Somebody whom we know. Two are the same if their name and who vouches for it are; what they may do changes from one
/// token to the next and is no part of that. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Principal(Arc<PrincipalFields>);

#[derive(Debug)]
struct PrincipalFields {
    name: String,
    issuer: Option<String>,
    client: Option<String>,
    scopes: Scopes,
}

impl Principal {
    /// Whoever is on this machine, where nobody is asked.
    pub fn local() -> Principal {
        Principal::from_token_file("local")
    }

    /// A client on our own list.
    pub(crate) fn from_token_file(name: &str) -> Principal {
        let scopes = Scopes::default();
        Principal(Arc::new(PrincipalFields {
            name: name.to_owned(),
            issuer: None,
            client: None,
            scopes,
        }))
    }

    /// Somebody whom an issuer vouches for.
    pub(crate) fn from_issuer(
        name: String,
        issuer: String,
        client: Option<String>,
        scopes: Scopes,
    ) -> Principal {
        Principal(Arc::new(PrincipalFields { name, issuer: Some(issuer), client, scopes }))
    }

    /// The name, as whoever vouches for it says it. It is another's text: print the whole instead.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Who vouches for it; `None` for our own list.
    pub fn issuer(&self) -> Option<&str> {
        self.0.issuer.as_deref()
    }

    /// The program that acts for them, where the issuer says so.
    pub fn client(&self) -> Option<&str> {
        self.0.client.as_deref()
    }

    /// What the issuer lets them do. Nothing is said of clients on our own list.
    pub fn scopes(&self) -> &Scopes {
        &self.0.scopes
    }

    /// May they do all of this? Who is on our own list may do everything.
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

/// `name`, or `name@issuer`. Every sign that could pass for something else in a log is escaped.
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
        Principal::from_issuer("ada".to_owned(), issuer.to_owned(), None, scopes)
    }

    #[test]
    fn somebody_is_the_same_with_other_scopes_and_another_with_another_issuer() {
        let all: HashSet<_> =
            [ada("https://a", "x"), ada("https://a", "y"), ada("https://b", "x")].into();
        assert_eq!(all.len(), 2);
        assert_ne!(ada("https://a", "x"), Principal::from_token_file("ada"));
        assert_eq!(Principal::from_token_file("local"), Principal::local());
    }

    #[test]
    fn only_an_issuer_limits_what_somebody_may_do() {
        let needed = Scopes::parse("tools");
        assert!(
            Principal::local().has_scopes(&needed)
                && ada("https://a", "x tools").has_scopes(&needed)
        );
        assert!(!ada("https://a", "x").has_scopes(&needed));
    }

    #[test]
    fn a_name_prints_on_one_line_and_passes_for_nothing_else() {
        assert_eq!(ada("https://a.b/c", "").to_string(), "ada@https://a.b/c");
        let odd = Principal::from_token_file("a\n\u{1b}[31m\"\u{202e} é");
        assert_eq!(odd.to_string(), r"a\u{a}\u{1b}[31m\u{22}\u{202e}\u{20}é");
    }
}
