//! Scopes: a set that keeps its order, which ones to ask for, and how often to ask for more.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The scope that makes many authorization servers hand out refresh tokens.
const OFFLINE_ACCESS: &str = "offline_access";
/// How many scopes are kept of what a server says, and how long one may be.
const MAX_SCOPES: usize = 256;
const MAX_SCOPE_LENGTH: usize = 512;
/// How often more is asked for on behalf of one operation.
pub const MAX_STEP_UPS: u32 = 2;

/// A set of scopes in the order in which they were named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// The scopes in a text, between blanks. Some servers put commas there, which no scope can hold for them.
    pub fn parse(text: &str) -> Scopes {
        Scopes::new(text.split(|character: char| character.is_whitespace() || character == ','))
    }

    /// These scopes. What is no scope (RFC 6749, section 3.3) is left out.
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

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Is it one of them?
    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|it| it == scope)
    }

    /// Are all the others among them?
    pub fn contains_all(&self, others: &Scopes) -> bool {
        others.iter().all(|scope| self.contains(scope))
    }

    /// These and the others.
    pub fn union(&self, others: &Scopes) -> Scopes {
        Scopes::new(self.iter().chain(others.iter()))
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// Prints them as a request has them.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// Whatever names scopes before a login.
#[derive(Debug, Default)]
pub struct ScopeSources<'a> {
    /// What the person wrote into the configuration. It stands above everything else.
    pub configured: Option<&'a Scopes>,
    /// What the challenge named.
    pub challenge: Option<&'a Scopes>,
    /// What the server's metadata names.
    pub resource: Option<&'a Scopes>,
    /// What the authorization server knows.
    pub supported: Option<&'a Scopes>,
    /// What was granted before, where the server wants more.
    pub granted: Option<&'a Scopes>,
}

/// What to ask for: configured, else challenged, else what the server names, else nothing in particular.
/// What is held is kept by asking for it again. A way to stay signed in is asked for where there is one.
pub fn select_scopes(sources: &ScopeSources<'_>) -> Option<Scopes> {
    let base = match (sources.configured, sources.challenge, sources.granted) {
        (Some(configured), Some(challenged), Some(_)) => Some(configured.union(challenged)),
        (Some(configured), _, _) => Some(configured.clone()),
        (None, Some(challenged), _) => Some(challenged.clone()),
        (None, None, _) => sources.resource.cloned(),
    };
    let mut requested = match (base, sources.granted) {
        (Some(base), Some(held)) => held.union(&base),
        (Some(base), None) => base,
        (None, Some(held)) => held.clone(),
        (None, None) => return None,
    };
    let is_known = sources.supported.is_some_and(|known| known.contains(OFFLINE_ACCESS));
    if is_known && !requested.is_empty() {
        requested.insert(OFFLINE_ACCESS);
    }
    (!requested.is_empty()).then_some(requested)
}

/// How often one operation asked for more. It belongs to the operation, so a login does not set it back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepUpLimit(u32);

impl StepUpLimit {
    /// May more be asked for once more? Counts it.
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
    fn scopes_are_chosen_in_order_and_added_up_for_a_step_up() {
        // configured, challenged, resource, known to the authorization server, held; expected
        for (configured, challenged, resource, known, held, expected) in [
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
            let [configured, challenged, resource, known, held] =
                [configured, challenged, resource, known, held].map(scopes);
            let sources = ScopeSources {
                configured: configured.as_ref(),
                challenge: challenged.as_ref(),
                resource: resource.as_ref(),
                supported: known.as_ref(),
                granted: held.as_ref(),
            };
            assert_eq!(select_scopes(&sources), scopes(expected), "{sources:?}");
        }
    }

    #[test]
    fn only_scopes_are_taken_for_scopes() {
        assert_eq!(Scopes::parse("a,b  a\tc\n").to_string(), "a b c");
        assert_eq!(
            Scopes::new(["a b", "\"", "\\", "é", "\u{1}", "", "ok:/x"]).to_string(),
            "ok:/x"
        );
        assert_eq!(Scopes::new([&"x".repeat(MAX_SCOPE_LENGTH + 1)]).to_string(), "");
        assert_eq!(Scopes::new((0..1000).map(|it| it.to_string())).iter().count(), MAX_SCOPES);
    }

    #[test]
    fn asking_for_more_comes_to_an_end() {
        let mut operation = StepUpLimit::default();
        let taken = (0..10).filter(|_| operation.try_acquire()).count();
        assert_eq!(taken, MAX_STEP_UPS as usize);
    }

    #[test]
    fn a_set_covers_what_it_holds() {
        let held = Scopes::parse("a b");
        assert!(held.contains_all(&Scopes::parse("b")) && held.contains_all(&Scopes::default()));
        assert!(!held.contains_all(&Scopes::parse("b c")));
    }
}
