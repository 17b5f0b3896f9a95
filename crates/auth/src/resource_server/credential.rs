//! The credential of a request that was accepted, kept so that streams and sessions end when it becomes invalid: the
//! token was removed from the file, it has expired, or the issuer has withdrawn its key.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::watch;
use tokio::time::sleep;

use super::authenticator::Authenticator;
use super::credentials::PresentedToken;
use super::principal::Principal;

/// How often access tokens are checked for expiry.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The token of an accepted request; empty where the request needs none: there is no authentication, or its connection
/// has a client certificate, whose validity the connection checks. Prints nothing of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credential {
    token: Option<Arc<str>>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}

impl Credential {
    /// Does a request have this credential? Cheap.
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        self.token.as_deref() == presented(headers)
    }
}

fn presented(headers: &HeaderMap) -> Option<&str> {
    PresentedToken::from_headers(headers).ok().map(|it| it.token)
}

/// Tells when credentials may have become invalid.
#[derive(Debug)]
pub struct ValidityChanges(ChangeSource);

#[derive(Debug)]
enum ChangeSource {
    /// Requests need no credential.
    None,
    TokenFile(watch::Receiver<u64>),
    /// Time passes.
    Clock,
}

impl ValidityChanges {
    /// Waits until credentials are to be checked again. Cancel-safe.
    pub async fn next(&mut self) {
        match &mut self.0 {
            ChangeSource::None => std::future::pending().await,
            ChangeSource::TokenFile(changes) => {
                if changes.changed().await.is_err() {
                    std::future::pending().await
                }
            }
            ChangeSource::Clock => sleep(CHECK_INTERVAL).await,
        }
    }
}

impl Authenticator {
    /// The credential of a request that was accepted.
    pub fn credential(&self, headers: &HeaderMap) -> Credential {
        match self {
            Authenticator::Disabled(_) | Authenticator::ClientCertificate => Credential::default(),
            Authenticator::TokenFile(_) | Authenticator::Jwt(_) => {
                Credential { token: presented(headers).map(Arc::from) }
            }
        }
    }

    /// Is the credential of an earlier request still valid, and does this list not deny it? Never waits.
    pub fn is_valid(
        &self,
        credential: &Credential,
        is_denied: impl Fn(&Principal) -> bool,
    ) -> bool {
        let Some(token) = credential.token.as_deref() else { return true };
        let principal = match self {
            Authenticator::Disabled(_) | Authenticator::ClientCertificate => return true,
            Authenticator::TokenFile(list) => list.find(token),
            Authenticator::Jwt(issuer) => issuer.still_valid(token),
        };
        principal.is_some_and(|it| !is_denied(&it))
    }

    /// Tells when to check credentials again.
    pub fn validity_changes(&self) -> ValidityChanges {
        ValidityChanges(match self {
            Authenticator::Disabled(_) | Authenticator::ClientCertificate => ChangeSource::None,
            Authenticator::TokenFile(list) => ChangeSource::TokenFile(list.changes()),
            Authenticator::Jwt(_) => ChangeSource::Clock,
        })
    }
}
