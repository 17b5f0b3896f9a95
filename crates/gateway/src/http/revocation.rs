//! Ends the streams and sessions of clients whose credential is no longer valid, or is revoked. Requests are checked when
//! they arrive.

use std::sync::Arc;

use http::HeaderMap;
use switchboard_auth::resource_server::{AuthError, Authenticator, Credential, Principal};
use tokio::sync::watch;

use crate::http::shutdown::wait_until_true;
use crate::shared::revocations::RevocationList;

/// Checks credentials again when they may have become invalid. Clones share the task that tells when.
#[derive(Debug, Clone)]
pub(crate) struct Revocations {
    authenticator: Arc<Authenticator>,
    list: Arc<RevocationList>,
    /// Changes when credentials are to be checked.
    checks: watch::Receiver<u64>,
}

impl Revocations {
    /// The checks of an authenticator's credentials, and the future that starts them until shutdown.
    pub(crate) fn new(
        (authenticator, list): (Arc<Authenticator>, Arc<RevocationList>),
        mut shutdown: watch::Receiver<bool>,
    ) -> (Revocations, impl Future<Output = ()> + Send + 'static) {
        let (check, checks) = watch::channel(0);
        let mut changes = authenticator.validity_changes();
        let mut revoked = list.changes();
        let running = async move {
            let mut count: u64 = 0;
            loop {
                tokio::select! {
                    () = changes.next() => {}
                    () = revoked.next() => {}
                    () = wait_until_true(&mut shutdown) => return,
                }
                count = count.wrapping_add(1);
                let _no_streams = check.send(count);
            }
        };
        (Revocations { authenticator, list, checks }, running)
    }

    /// May a principal that has authenticated send requests?
    pub(crate) fn check(&self, principal: &Principal) -> Result<(), AuthError> {
        self.list.check(principal)
    }

    /// The credential of a request that was accepted.
    pub(crate) fn credential(&self, headers: &HeaderMap) -> Credential {
        self.authenticator.credential(headers)
    }

    /// Waits until credentials are to be checked. Cancel-safe.
    pub(crate) async fn next_check(&mut self) {
        if self.checks.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Is a credential still valid?
    pub(crate) fn is_valid(&self, credential: &Credential) -> bool {
        self.authenticator.is_valid(credential, |it| self.list.check(it).is_err())
    }

    /// Completes when a credential is no longer valid.
    pub(crate) async fn revoked(mut self, credential: Credential) {
        while self.is_valid(&credential) {
            self.next_check().await;
        }
    }
}
