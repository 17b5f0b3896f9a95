//! The connector account: the list of its connectors, and the login at it.

use std::sync::Arc;
use std::time::Duration;

use switchboard_auth::browser::browser_flow::LoginPrompt;
use switchboard_auth::secret::Secret;
use switchboard_config::settings::connector_account::ConnectorAccount;
use tokio::time::timeout;

use super::Host;
use crate::failure::error_chain;
use crate::login::connector_account;
use crate::login::connector_account::{AccountToken, no_account};
use crate::login::connectors;
use crate::login::connectors::{ConnectorsError, LIST_TIMEOUT};
use crate::login::options::LoginRequest;
use crate::login::server_login::{ServerLogin, ServerLoginError};
use crate::login::summary::{LoginView, LogoutOutcome};
use crate::sources::connector_cache;
use crate::sources::connector_cache::{ConnectorList, ListFailureKind};

impl Host {
    /// Fetches the account's connectors; where that fails, the cached list with the reason.
    pub async fn connectors(&self) -> Result<ConnectorList, ConnectorsError> {
        let account = self.account().ok_or(ConnectorsError::NoAccount)?.clone();
        let error = match self.refresh_connectors(LIST_TIMEOUT).await {
            Ok(list) => return Ok(list),
            Err(error) => error,
        };
        let paths = self.context().paths.clone();
        let reading = move || connector_cache::cached_connectors(&paths, &account);
        let cached = tokio::task::spawn_blocking(reading).await.ok().flatten();
        cached.map(|it| it.with_stale_reason(error_chain(&error))).ok_or(error)
    }

    /// Fetches the account's connectors within a time, and keeps them for the next start, or why there are none.
    pub async fn refresh_connectors(
        &self,
        limit: Duration,
    ) -> Result<ConnectorList, ConnectorsError> {
        let account = self.account().ok_or(ConnectorsError::NoAccount)?;
        let fetched = match timeout(limit, self.fetch_connectors()).await {
            Ok(fetched) => fetched,
            Err(_) => Err(ConnectorsError::Timeout(limit)),
        };
        let context = self.context();
        let path = connector_cache::cache_path(&context.paths, account);
        let text = match &fetched {
            Ok(list) => list.to_cache_text(),
            Err(error) => match error.kind() {
                Some(kind) => self.failure_text(account, kind, error_chain(error)).await,
                None => None,
            },
        };
        if let Some(text) = text {
            context.state_writer.write_file(path, text);
        }
        fetched
    }

    /// Stores a token for the connector account and replaces the one before.
    pub async fn store_account_token(
        &self,
        token: Secret,
        ttl: Option<Duration>,
    ) -> Result<(), ServerLoginError> {
        connector_account::store_token(&self.context().login, token, ttl).await
    }

    /// Signs the user in at the connector account, and fetches its connectors.
    pub async fn login_to_account(
        &self,
        guide: &dyn LoginPrompt,
        request: &LoginRequest,
    ) -> Result<LoginView, ServerLoginError> {
        let record = self.account_server_login().await?.sign_in(guide, request).await?;
        Ok(LoginView::from_record(&record))
    }

    /// The login at the connector account, where there is one.
    pub async fn account_login(&self) -> Result<Option<LoginView>, ServerLoginError> {
        let record = self.account_server_login().await?.stored_record().await;
        Ok(record.as_ref().map(LoginView::from_record))
    }

    /// Revokes and removes the login at the connector account, and forgets its connectors.
    pub async fn logout_from_account(&self) -> Result<LogoutOutcome, ServerLoginError> {
        let outcome = self.account_server_login().await?.sign_out().await?;
        if let (Some(account), Some(text)) = (self.account(), connector_cache::text_after_logout())
        {
            let context = self.context();
            let path = connector_cache::cache_path(&context.paths, account);
            context.state_writer.write_file(path, text);
        }
        Ok(outcome)
    }

    fn account(&self) -> Option<&ConnectorAccount> {
        self.context().login.options.account.as_ref()
    }

    async fn account_server_login(&self) -> Result<Arc<ServerLogin>, ServerLoginError> {
        let token = self.context().account_token().await.map_err(ServerLoginError::unavailable)?;
        let token = token.ok_or_else(no_account)?;
        let name = || "your connector account".to_owned();
        token.login().cloned().ok_or_else(|| {
            ServerLoginError::Unsupported(
                name(),
                "`connectorAccount.token` in your settings names its token",
            )
        })
    }

    async fn fetch_connectors(&self) -> Result<ConnectorList, ConnectorsError> {
        let context = self.context();
        let token: Option<Arc<AccountToken>> = context.account_token().await.map_err(|cause| {
            ConnectorsError::Token(Arc::new(ServerLoginError::unavailable(cause)))
        })?;
        let token = token.ok_or(ConnectorsError::NoAccount)?;
        connectors::fetch_list(&context.login, &token).await
    }

    /// The text of the cache file after a failed request.
    async fn failure_text(
        &self,
        account: &ConnectorAccount,
        kind: ListFailureKind,
        reason: String,
    ) -> Option<String> {
        let (paths, account) = (self.context().paths.clone(), account.clone());
        let reading =
            move || connector_cache::text_after_failure(&paths, &account, (kind, &reason));
        tokio::task::spawn_blocking(reading).await.ok().flatten()
    }
}
