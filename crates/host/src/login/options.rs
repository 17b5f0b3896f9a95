//! The options of logins: those of the host, and those of each login.

use std::fmt;
use std::sync::Arc;

use switchboard_auth::browser::browser_flow::LoginPrompt;
use switchboard_auth::token_store::file_store::StoragePreference;
use switchboard_auth::token_store::shared_lock::SharedLocks;
use switchboard_config::settings::connector_account::ConnectorAccount;
use switchboard_config::settings::identity_provider::IdentityProvider;
use url::Url;

use crate::login::session_ingress::SessionIngressOptions;

/// The login options of a host.
#[derive(Clone, Default)]
pub struct LoginOptions {
    /// The location of the token store.
    pub token_storage: StoragePreference,
    /// Guides the user through a login when a server requires one while it is connected to. Without a guide the
    /// server stays in the status `needs-auth`.
    pub guide: Option<Arc<dyn LoginPrompt>>,
    /// The URL of our client metadata document.
    pub client_metadata_url: Option<Url>,
    /// The identity provider for servers with `oauth.xaa`.
    pub identity_provider: Option<IdentityProvider>,
    /// The account whose connectors are used.
    pub account: Option<ConnectorAccount>,
    /// The token of the session that this program runs in.
    pub session_ingress: Option<SessionIngressOptions>,
    /// Locks logins on other machines, too.
    pub shared_locks: Option<Arc<dyn SharedLocks>>,
}

impl fmt::Debug for LoginOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginOptions")
            .field("token_storage", &self.token_storage)
            .finish_non_exhaustive()
    }
}

/// The options of one login.
#[derive(Debug, Clone, Default)]
pub struct LoginRequest {
    /// The port of the redirect URI; any free port by default.
    pub port: Option<u16>,
    /// Scopes instead of those that the entry or the server names.
    pub scopes: Vec<String>,
    /// Use a device code instead of a browser on this machine.
    pub use_device_code: bool,
}
