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

/// Whether the server accepts a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acceptance {
    /// Presumably.
    Presumed,
    /// The server refused the token before this one and has not accepted this one yet.
    Unproven,
}

impl CurrentLogin {
    pub(super) fn new(record: LoginRecord) -> CurrentLogin {
        let dpop_key = record.dpop_key.as_ref().and_then(DpopKey::from_stored);
        CurrentLogin { record: Arc::new(record), dpop_key, acceptance: Acceptance::Presumed }
    }

    /// Whether another refusal would show that refreshing does not help. An expired token shows nothing.
    pub(super) fn is_unproven(&self) -> bool {
        self.acceptance == Acceptance::Unproven && !self.record.tokens.is_expired(unix_now())
    }

    /// Whether the login has the scopes that the plan asks for.
    pub(super) fn satisfies(&self, plan: &LoginPlan) -> bool {
        match (&plan.challenge.scopes, &self.record.scopes) {
            (Some(requested), Some(granted)) => granted.contains_all(requested),
            (Some(_) | None, None) | (None, Some(_)) => plan.granted_scopes.is_none(),
        }
    }

    /// Whether this `Authorization` header carries its access token.
    pub(super) fn matches_header(&self, header: Option<&HeaderValue>) -> bool {
        let header = header.and_then(|value| value.to_str().ok());
        let token = header.and_then(|text| text.split_once(' ')).map(|(_, token)| token);
        token.is_some_and(|token| self.record.tokens.access_token.equals(token))
    }
}
