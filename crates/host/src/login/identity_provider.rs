//! The login at the identity provider of the settings, whose identity token signs the user in at every server with
//! `oauth.xaa`.

use std::sync::Arc;

use switchboard_auth::scopes::Scopes;
use switchboard_auth::token_provider::refresher::TrustSettings;
use switchboard_config::entry::server::OAuthGrant;

use crate::failure::{ConnectionFailure, FailureKind};
use crate::login::context::LoginContext;
use crate::login::profile::{IdentityProviderProfile, OAuthProfile};
use crate::login::server_login::{ServerLogin, ServerLoginError};

/// Opens the login at the identity provider.
pub(crate) async fn open(context: &Arc<LoginContext>) -> Result<ServerLogin, ServerLoginError> {
    let services = context.services().await.map_err(ServerLoginError::unavailable)?;
    let shared = context.clone();
    let reading =
        tokio::task::spawn_blocking(move || IdentityProviderProfile::from_settings(&shared)).await;
    let provider =
        reading.unwrap_or_else(|_| Err(ConnectionFailure::new(FailureKind::InvalidConfig)));
    let IdentityProviderProfile { issuer, client, .. } =
        provider.map_err(ServerLoginError::unavailable)?;
    let profile = OAuthProfile {
        name: issuer.host_str().unwrap_or_default().to_owned(),
        server: issuer.clone(),
        client_id: Some(client.id),
        credential: client.credential,
        metadata_url: None,
        scopes: Some(Scopes::new(["openid", "profile", "email", "offline_access"])),
        grant: OAuthGrant::AuthorizationCode,
        callback_port: context.options.identity_provider.as_ref().and_then(|it| it.callback_port),
        workload_token: None,
        identity_provider: None,
        client_metadata_url: None,
        proxies: services.proxies.clone(),
        stored_as: None,
    };
    let trust = TrustSettings { trusted_urls: vec![issuer], ..profile.trust() };
    Ok(ServerLogin::interactive(profile, services, trust))
}
