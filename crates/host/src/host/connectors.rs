//! The connectors of the connector account.

use std::sync::Arc;
use std::time::Duration;

use switchboard_auth::secret::Secret;
use tokio::time::timeout;

use super::Host;
use crate::failure::error_chain;
use crate::login::connector_account;
use crate::login::connectors;
use crate::login::connectors::{ConnectorsError, LIST_TIMEOUT};
use crate::login::server_login::ServerLoginError;
use crate::sources::connector_cache;
use crate::sources::connector_cache::ConnectorList;

impl Host {
    /// Fetches the account's connectors; where that fails, the cached list with the reason.
    pub async fn connectors(&self) -> Result<ConnectorList, ConnectorsError> {
        let context = self.context();
        let account = context.login.options.account.as_ref().ok_or(ConnectorsError::NoAccount)?;
        let fetched = match timeout(LIST_TIMEOUT, self.fetch_connectors()).await {
            Ok(fetched) => fetched,
            Err(_) => Err(ConnectorsError::Timeout),
        };
        match fetched {
            Ok(list) => {
                if let Some(text) = list.to_cache_text() {
                    let path = connector_cache::cache_path(&context.paths, account);
                    context.state_writer.write_file(path, text);
                }
                Ok(list)
            }
            Err(error) => {
                let (paths, account) = (context.paths.clone(), account.clone());
                let reading = move || connector_cache::cached_connectors(&paths, &account);
                let cached = tokio::task::spawn_blocking(reading).await.ok().flatten();
                cached.map(|it| it.with_stale_reason(error_chain(&error))).ok_or(error)
            }
        }
    }

    async fn fetch_connectors(&self) -> Result<ConnectorList, ConnectorsError> {
        let context = self.context();
        let token = context.account_token().await.map_err(|cause| {
            ConnectorsError::Token(Arc::new(ServerLoginError::unavailable(cause)))
        })?;
        let token = token.ok_or(ConnectorsError::NoAccount)?;
        connectors::fetch_list(&context.login, &token).await
    }

    /// Stores a token for the connector account and replaces the one before.
    pub async fn store_account_token(
        &self,
        token: Secret,
        ttl: Option<Duration>,
    ) -> Result<(), ServerLoginError> {
        connector_account::store_token(&self.context().login, token, ttl).await
    }
}
