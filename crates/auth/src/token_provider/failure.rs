//! The reports of a token provider without a usable token: the required user action, and failures.

use thiserror::Error;

use super::refresher::RefreshError;
use crate::challenge::AuthChallenge;
use crate::flow::runner::SignInError;
use crate::scopes::Scopes;
use crate::token_store::TokenStoreError;

/// The required user action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequiredAction {
    /// Log in.
    SignIn {
        /// The challenge of the server.
        challenge: AuthChallenge,
    },
    /// Log in again with more scopes.
    GrantMoreScopes {
        /// The challenge of the server.
        challenge: AuthChallenge,
        /// The scopes granted so far, to keep.
        granted: Option<Scopes>,
    },
}

/// Why there is no token, where logging in is not the remedy.
#[derive(Debug)]
pub enum TokenFailure {
    /// The record could not be read.
    Store(TokenStoreError),
    /// The refresh failed, for now.
    Refresh(RefreshError),
    /// The non-interactive login failed.
    SignIn(SignInError),
}

impl LoginError {
    /// The kind of error for logs, without anything that a server sent.
    pub fn log_label(&self) -> &'static str {
        match self {
            LoginError::SignIn(SignInError::Failed(error)) => error.log_label(),
            LoginError::SignIn(SignInError::UserUnavailable(_)) => "no user",
            LoginError::Store(_) => "not stored",
        }
    }
}

/// Why a login failed, or was not stored.
#[derive(Debug, Error)]
pub enum LoginError {
    /// The login failed.
    #[error(transparent)]
    SignIn(#[from] SignInError),
    /// The record could not be read or stored.
    #[error(transparent)]
    Store(#[from] TokenStoreError),
}
