//! What a token provider reports when it has no usable token: the action of the user, and failures.

use thiserror::Error;

use super::refresher::RefreshError;
use crate::challenge::AuthChallenge;
use crate::flow::runner::SignInError;
use crate::scopes::Scopes;
use crate::token_store::TokenStoreError;

/// What the user has to do.
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
    /// The login without a user failed.
    SignIn(SignInError),
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
