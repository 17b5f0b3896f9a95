//! What was revoked although it would still be valid: tokens by their id, and principals with all tokens that were issued
//! until then.

use std::collections::{HashMap, HashSet};

use super::principal::Principal;

/// The revoked tokens and principals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Denylist {
    /// Until when tokens of a principal are revoked, in seconds since 1970.
    principals: HashMap<String, u64>,
    token_ids: HashSet<String>,
}

impl Denylist {
    /// Adds a principal, by its name as it is displayed. Tokens of an issuer that were issued later are valid; a token of a
    /// file and a certificate do not say when they were issued, so that all requests with them are denied.
    pub fn add_principal(&mut self, name: &str, issued_until: u64) {
        let until = self.principals.entry(name.to_owned()).or_default();
        *until = issued_until.max(*until);
    }

    /// Adds a token of an issuer, by its id (`jti`).
    pub fn add_token(&mut self, id: &str) {
        self.token_ids.insert(id.to_owned());
    }

    /// Is the token of this principal revoked?
    pub fn denies(&self, principal: &Principal) -> bool {
        if principal.token_id().is_some_and(|it| self.token_ids.contains(it)) {
            return true;
        }
        if self.principals.is_empty() {
            return false;
        }
        let until = self.principals.get(&principal.to_string());
        until.is_some_and(|until| principal.issued_at().is_none_or(|it| it <= *until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource_server::principal::TokenFacts;
    use crate::scopes::Scopes;

    fn ada(id: Option<&str>, issued_at: Option<u64>) -> Principal {
        let token = TokenFacts { id: id.map(str::to_owned), issued_at };
        let issuer = "https://i".to_owned();
        Principal::from_issuer("ada".to_owned(), issuer, None, (Scopes::default(), token))
    }

    #[test]
    fn tokens_are_denied_by_id_and_by_the_time_at_which_they_were_issued() {
        let mut list = Denylist::default();
        assert!(!list.denies(&ada(Some("1"), None)));
        list.add_token("1");
        assert!(list.denies(&ada(Some("1"), Some(99))) && !list.denies(&ada(Some("2"), None)));
        list.add_principal("ada@https://i", 50);
        list.add_principal("ada@https://i", 40);
        let denied = [Some(49), Some(50), Some(51), None].map(|it| list.denies(&ada(None, it)));
        assert_eq!(denied, [true, true, false, true]);
        assert!(!list.denies(&Principal::from_token_file("ada")), "of no issuer");
        list.add_principal("ada", 0);
        assert!(list.denies(&Principal::from_token_file("ada")));
        list.add_principal("cert:ada", 0);
        assert!(list.denies(&Principal::from_certificate("ada")));
    }
}
