//! Logins at servers and at the identity provider.

use std::sync::Arc;

use switchboard_auth::browser::browser_flow::LoginPrompt;
use switchboard_auth::token_provider::RequiredAction;
use switchboard_auth::token_store::file_store::StorageBackend;
use tokio::sync::watch;

use super::Host;
use crate::login::context::LoginContext;
use crate::login::identity_provider;
use crate::login::method::login_remote;
use crate::login::options::LoginRequest;
use crate::login::pending::LoginStage;
use crate::login::server_login::{ServerLogin, ServerLoginError};
use crate::login::summary::{LoginView, LogoutOutcome};
use crate::sources::desired_server::DesiredServer;

impl Host {
    /// Signs the user in to a server, and reconnects it.
    pub async fn login(
        &self,
        server: &str,
        guide: &dyn LoginPrompt,
        request: &LoginRequest,
    ) -> Result<LoginView, ServerLoginError> {
        let record = self.server_login(server).await?.sign_in(guide, request).await?;
        self.reconnect(server).await;
        Ok(LoginView::from_record(&record))
    }

    /// Starts a login in the background, or follows the one under way; `None` where there is no such server. The caller
    /// shows the page to open. The login ends with the host, or when nothing comes of it for some minutes.
    pub async fn start_login(&self, server: &str) -> Option<watch::Receiver<LoginStage>> {
        Some(self.engine().begin_login(server).await?.stage)
    }

    /// Passes a pasted text, the URL at which the browser ended or the code in it, to the login under way; `None` where no
    /// login waits.
    pub async fn submit_to_login(
        &self,
        server: &str,
        pasted: String,
    ) -> Option<watch::Receiver<LoginStage>> {
        Some(self.engine().submit_to_login(server, pasted).await?.stage)
    }

    /// Revokes and removes the login at a server, and reconnects it.
    pub async fn logout(&self, server: &str) -> Result<LogoutOutcome, ServerLoginError> {
        let outcome = self.server_login(server).await?.sign_out().await?;
        self.reconnect(server).await;
        Ok(outcome)
    }

    /// The login at a server, where there is one.
    pub async fn stored_login(&self, server: &str) -> Result<Option<LoginView>, ServerLoginError> {
        let record = self.server_login(server).await?.stored_record().await;
        Ok(record.as_ref().map(LoginView::from_record))
    }

    /// The scopes to request after a server rejected a call for missing scopes, with those already granted; `None`
    /// where it did not.
    pub async fn required_scopes(&self, server: &str) -> Option<Vec<String>> {
        match self.server_login(server).await.ok()?.required_action()? {
            RequiredAction::SignIn { .. } => None,
            RequiredAction::GrantMoreScopes { challenge, granted } => {
                let all = granted.unwrap_or_default().union(&challenge.scopes.unwrap_or_default());
                Some(all.iter().map(str::to_owned).collect())
            }
        }
    }

    /// All stored logins, and how they are stored.
    pub async fn logins(&self) -> Result<(Vec<LoginView>, String), ServerLoginError> {
        let services = self.login_context().services().await;
        let services = services.map_err(ServerLoginError::unavailable)?;
        let storage = match &services.storage_backend {
            StorageBackend::Keychain => "sealed; the key is in the system's keychain".to_owned(),
            StorageBackend::File { keychain_error: None } => {
                "in files that only you can read".to_owned()
            }
            StorageBackend::File { keychain_error: Some(error) } => {
                format!("in files that only you can read ({error})")
            }
        };
        let all = services.token_store.all().await?;
        Ok((all.iter().map(LoginView::from_record).collect(), storage))
    }

    /// Revokes and removes the login at a server, without connecting to it.
    pub async fn forget_login(
        &self,
        desired: &DesiredServer,
    ) -> Result<LogoutOutcome, ServerLoginError> {
        let name = desired.name().to_owned();
        if let Err(reason) = login_remote(&desired.spec) {
            return Err(ServerLoginError::Unsupported(name, reason));
        }
        let login = ServerLogin::open(desired, self.login_context()).await;
        let login = login.map_err(ServerLoginError::unavailable)?;
        login.ok_or(ServerLoginError::UnknownServer(name))?.sign_out().await
    }

    /// Signs the user in at the identity provider.
    pub async fn login_to_identity_provider(
        &self,
        guide: &dyn LoginPrompt,
        request: &LoginRequest,
    ) -> Result<LoginView, ServerLoginError> {
        let login = identity_provider::open(self.login_context()).await?;
        let record = login.sign_in(guide, request).await?;
        Ok(LoginView::from_record(&record))
    }

    /// The login at the identity provider, where there is one.
    pub async fn identity_provider_login(&self) -> Result<Option<LoginView>, ServerLoginError> {
        let record = identity_provider::open(self.login_context()).await?.stored_record().await;
        Ok(record.as_ref().map(LoginView::from_record))
    }

    /// Revokes and removes the login at the identity provider.
    pub async fn logout_from_identity_provider(&self) -> Result<LogoutOutcome, ServerLoginError> {
        identity_provider::open(self.login_context()).await?.sign_out().await
    }

    fn login_context(&self) -> &Arc<LoginContext> {
        &self.context().login
    }

    async fn server_login(&self, server: &str) -> Result<Arc<ServerLogin>, ServerLoginError> {
        let unknown_server = || ServerLoginError::UnknownServer(server.to_owned());
        let handle = self.engine().connection(server).ok_or_else(unknown_server)?;
        let desired = handle.desired();
        if let Err(reason) = login_remote(&desired.spec) {
            return Err(ServerLoginError::Unsupported(server.to_owned(), reason));
        }
        let login = handle.login_slot().login(desired, self.login_context()).await;
        login.map_err(ServerLoginError::unavailable)?.ok_or_else(unknown_server)
    }
}
