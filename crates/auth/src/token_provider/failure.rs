//! What a token provider reports when it has no usable token: the action of the user, and failures.

use thiserror::Error;

use super::refresher::RefreshError;
use crate::challenge::AuthChallenge;
use crate::flow::runner::SignInError;
use crate::scopes::Scopes;
use crate::token_store::TokenStoreError;

/// What a person would have to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequiredAction {
    /// Sign in.
    SignIn {
        /// What the server said.
        challenge: AuthChallenge,
    },
    /// Sign in again, for more.
    GrantMoreScopes {
        /// What the server said.
        challenge: AuthChallenge,
        /// What is held already and is to be kept.
        granted: Option<Scopes>,
    },
}

/// Why there is nothing to show, where that is not for a person to mend by signing in.
#[derive(Debug)]
pub enum TokenFailure {
    /// The login could not be read.
    Store(TokenStoreError),
    /// It could not be renewed, for now.
    Refresh(RefreshError),
    /// Signing in without a person did not work.
    SignIn(SignInError),
}

/// Why nobody is signed in, or the login is not kept.
#[derive(Debug, Error)]
pub enum LoginError {
    /// Nobody is.
    #[error(transparent)]
    SignIn(#[from] SignInError),
    /// Somebody is, or could be, but the login cannot be kept.
    #[error(transparent)]
    Store(#[from] TokenStoreError),
}
