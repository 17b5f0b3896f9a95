//! Summaries of logins for display.

use switchboard_auth::token_provider::revocation::RevokeError;
use switchboard_auth::token_store::{LoginRecord, LoginStatus};

/// A stored login, without its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoginView {
    /// The server's URL.
    pub server: String,
    /// The configured client id, where there is one.
    pub client: Option<String>,
    /// The authorization server.
    pub issuer: String,
    /// The user's account, where the authorization server names it.
    pub identity: Option<String>,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// When the access token expires, in seconds since 1970.
    pub expires_at: Option<u64>,
    /// Whether there is a refresh token.
    pub is_renewable: bool,
    /// Whether the login can still be used, as far as it is known.
    pub is_valid: bool,
}

/// The result of a logout.
#[derive(Debug)]
pub enum LogoutOutcome {
    /// There was no login.
    NotLoggedIn,
    /// The tokens were revoked and removed.
    Revoked,
    /// The tokens were removed here; the authorization server did not revoke them.
    RemovedLocally(RevokeError),
}

impl LoginView {
    pub(crate) fn from_record(record: &LoginRecord) -> LoginView {
        LoginView {
            server: record.key.server.clone(),
            client: Some(record.key.client.clone()).filter(|it| !it.is_empty()),
            issuer: record.key.issuer.clone(),
            identity: record.account.clone(),
            scopes: record.scopes.iter().flat_map(|it| it.iter().map(str::to_owned)).collect(),
            expires_at: record.tokens.expires_at,
            is_renewable: record.tokens.refresh_token.is_some(),
            is_valid: record.status == LoginStatus::Good,
        }
    }
}
