//! OAuth scopes: an ordered set, the choice of scopes to request, and the limit of step-up logins.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The scope with which many authorization servers issue refresh tokens.
const OFFLINE_ACCESS: &str = "offline_access";
/// Limits for scopes that a server names.
const MAX_SCOPES: usize = 256;
const MAX_SCOPE_LENGTH: usize = 512;
/// How many step-up logins one operation may cause.
pub const MAX_STEP_UPS: u32 = 2;

/// A set of scopes in the order of insertion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// Parses scopes separated by whitespace. Commas separate too, because some servers write them.
    pub fn parse(text: &str) -> Scopes {
        Scopes::new(text.split(|character: char| character.is_whitespace() || character == ','))
    }

    /// Collects scopes. Values that are not valid scopes (RFC 6749, section 3.3) are dropped.
    pub fn new<T: AsRef<str>>(all: impl IntoIterator<Item = T>) -> Scopes {
        let mut scopes = Scopes::default();
        for scope in all {
            scopes.insert(scope.as_ref());
        }
        scopes
    }

    fn insert(&mut self, scope: &str) {
        let is_scope = |character: u8| matches!(character, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        let is_good =
            !scope.is_empty() && scope.len() <= MAX_SCOPE_LENGTH && scope.bytes().all(is_scope);
        if is_good && self.0.len() < MAX_SCOPES && !self.contains(scope) {
            self.0.push(scope.to_owned());
        }
    }

    /// Whether the set has no scope.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set has this scope.
    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|it| it == scope)
    }

    /// Whether the set has all of these scopes.
    pub fn contains_all(&self, others: &Scopes) -> bool {
        others.iter().all(|scope| self.contains(scope))
    }

    /// The scopes of both sets.
    pub fn union(&self, others: &Scopes) -> Scopes {
        Scopes::new(self.iter().chain(others.iter()))
    }

    /// Iterates over the scopes.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// The scopes as a `scope` parameter: separated by spaces.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// The sources that can name scopes for a login.
#[derive(Debug, Default)]
pub struct ScopeSources<'a> {
    /// Scopes that the user configured. They take precedence.
    pub configured: Option<&'a Scopes>,
    /// Scopes in the challenge.
    pub challenge: Option<&'a Scopes>,
    /// Scopes in the server's metadata.
    pub resource: Option<&'a Scopes>,
    /// Scopes that the authorization server supports.
    pub supported: Option<&'a Scopes>,
    /// Scopes that were granted before, in a step-up login.
    pub granted: Option<&'a Scopes>,
}

/// Selects the scopes to request: the configured ones, else those of the challenge, else those of the server's
/// metadata, else none. Granted scopes are requested again, so that a step-up login keeps them.
/// `offline_access` is added where the authorization server supports it.
pub fn select_scopes(sources: &ScopeSources<'_>) -> Option<Scopes> {
    let base = match (sources.configured, sources.challenge, sources.granted) {
        (Some(configured), Some(challenged), Some(_)) => Some(configured.union(challenged)),
        (Some(configured), _, _) => Some(configured.clone()),
        (None, Some(challenged), _) => Some(challenged.clone()),
        (None, None, _) => sources.resource.cloned(),
    };
    let mut requested = match (base, sources.granted) {
        (Some(base), Some(granted)) => granted.union(&base),
        (Some(base), None) => base,
        (None, Some(granted)) => granted.clone(),
        (None, None) => return None,
    };
    let is_known = sources.supported.is_some_and(|supported| supported.contains(OFFLINE_ACCESS));
    if is_known && !requested.is_empty() {
        requested.insert(OFFLINE_ACCESS);
    }
    (!requested.is_empty()).then_some(requested)
}

/// Counts the step-up logins of one operation. A login does not reset it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepUpLimit(u32);

impl StepUpLimit {
    /// Counts one step-up login; `false` when the limit is reached.
    pub fn try_acquire(&mut self) -> bool {
        let is_left = self.0 < MAX_STEP_UPS;
        self.0 = self.0.saturating_add(1);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(text: &str) -> Option<Scopes> {
        (!text.is_empty()).then(|| Scopes::parse(text))
    }

    #[test]
    fn scopes_are_selected_in_order_and_merged_for_a_step_up() {
        // configured, challenged, resource, supported by the authorization server, granted; expected
        for (configured, challenged, resource, supported, granted, expected) in [
            ("", "", "", "", "", ""),
            ("", "", "", "a offline_access", "", ""),
            ("", "c", "r", "", "", "c"),
            ("", "", "r s", "", "", "r s"),
            ("f", "c", "r", "", "", "f"),
            ("", "c", "r", "c offline_access", "", "c offline_access"),
            ("", "c offline_access", "", "offline_access", "", "c offline_access"),
            ("", "w", "r", "", "r", "r w"),
            ("f", "w", "", "", "f", "f w"),
            ("f", "", "", "", "f g", "f g"),
            ("", "", "", "", "h", "h"),
            ("", "", "r", "", "h", "h r"),
        ] {
            let [configured, challenged, resource, supported, granted] =
                [configured, challenged, resource, supported, granted].map(scopes);
            let sources = ScopeSources {
                configured: configured.as_ref(),
                challenge: challenged.as_ref(),
                resource: resource.as_ref(),
                supported: supported.as_ref(),
                granted: granted.as_ref(),
            };
            assert_eq!(select_scopes(&sources), scopes(expected), "{sources:?}");
        }
    }

    #[test]
    fn invalid_scopes_are_dropped() {
        assert_eq!(Scopes::parse("a,b  a\tc\n").to_string(), "a b c");
        assert_eq!(
            Scopes::new(["a b", "\"", "\\", "é", "\u{1}", "", "ok:/x"]).to_string(),
            "ok:/x"
        );
        assert_eq!(Scopes::new([&"x".repeat(MAX_SCOPE_LENGTH + 1)]).to_string(), "");
        assert_eq!(Scopes::new((0..1000).map(|it| it.to_string())).iter().count(), MAX_SCOPES);
    }

    #[test]
    fn step_ups_are_limited() {
        let mut operation = StepUpLimit::default();
        let taken = (0..10).filter(|_| operation.try_acquire()).count();
        assert_eq!(taken, MAX_STEP_UPS as usize);
    }

    #[test]
    fn a_set_contains_its_own_scopes() {
        let granted = Scopes::parse("a b");
        assert!(
            granted.contains_all(&Scopes::parse("b")) && granted.contains_all(&Scopes::default())
        );
        assert!(!granted.contains_all(&Scopes::parse("b c")));
    }
}
