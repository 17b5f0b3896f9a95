//! The login that a token provider sends with requests, and whether the server accepted it.

use std::sync::Arc;

use http::HeaderValue;

use crate::crypto::dpop::DpopKey;
use crate::flow::LoginPlan;
use crate::time_and_random::unix_now;
use crate::token_store::LoginRecord;

#[derive(Clone)]
pub(super) struct CurrentLogin {
    pub(super) record: Arc<LoginRecord>,
    pub(super) dpop_key: Option<DpopKey>,
    pub(super) acceptance: Acceptance,
}

/// What the server thinks of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acceptance {
    /// It may well take it.
    Presumed,
    /// It refused the one before, and has not taken this one yet.
    Unproven,
}

impl CurrentLogin {
    pub(super) fn new(record: LoginRecord) -> CurrentLogin {
        let dpop_key = record.dpop_key.as_ref().and_then(DpopKey::from_stored);
        CurrentLogin { record: Arc::new(record), dpop_key, acceptance: Acceptance::Presumed }
    }

    /// Would a refusal mean that the server takes none of these? One that has ended meanwhile proves nothing.
    pub(super) fn is_unproven(&self) -> bool {
        self.acceptance == Acceptance::Unproven && !self.record.tokens.is_expired(unix_now())
    }

    /// May it do what a login is wanted for?
    pub(super) fn satisfies(&self, plan: &LoginPlan) -> bool {
        match (&plan.challenge.scopes, &self.record.scopes) {
            (Some(wanted), Some(granted)) => granted.contains_all(wanted),
            (Some(_) | None, None) | (None, Some(_)) => plan.granted_scopes.is_none(),
        }
    }

    /// Is its token the one that was shown?
    pub(super) fn matches_header(&self, shown: Option<&HeaderValue>) -> bool {
        let shown = shown.and_then(|value| value.to_str().ok());
        let token = shown.and_then(|text| text.split_once(' ')).map(|(_, token)| token);
        token.is_some_and(|token| self.record.tokens.access_token.equals(token))
    }
}
