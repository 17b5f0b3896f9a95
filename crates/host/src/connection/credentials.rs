//! What a server at a URL is shown besides its entry's headers: a login, what a helper prints, or an account's token.

use std::sync::Arc;

use switchboard_auth::token_provider::TokenProvider;
use switchboard_config::entry::server::TransportConfig;
use switchboard_wire::connect::Address;
use switchboard_wire::http::client::Authorize;
use url::Url;

use super::DesiredServer;
use crate::failure::{ConnectionFailure, Evidence, FailureKind};
use crate::host::ConnectionContext;
use crate::login::connectors::AccountToken;
use crate::login::dynamic_headers::DynamicHeaders;
use crate::login::headers_helper;
use crate::login::server_login::ServerLogin;

/// Who says what to show.
pub(super) enum Credentials {
    /// Nobody.
    Nobody,
    /// A login.
    Login(Arc<TokenProvider>),
    /// A command of the person's.
    Helper(Arc<DynamicHeaders>),
    /// An account, at this URL.
    Account(Arc<AccountToken>, Url),
    /// An account that is not set up.
    NoAccount,
}

impl Credentials {
    /// What is shown to a server at this address. A helper runs now, so that what stands in its way is known.
    pub(super) async fn of(
        wanted: &DesiredServer,
        address: &Address,
        signer: Option<&Arc<ServerLogin>>,
        settings: &ConnectionContext,
    ) -> Result<Credentials, ConnectionFailure> {
        let url = match address {
            Address::Http(target) | Address::Sse(target) | Address::WebSocket(target) => {
                target.url()
            }
            Address::Stdio(_) | Address::InProcess(_) => return Ok(Credentials::Nobody),
        };
        if let Some(signer) = signer {
            return Ok(Credentials::Login(signer.token_provider.clone()));
        }
        if let Some(helper) = headers_helper::for_server(wanted, url, settings) {
            return match helper.load().await {
                Ok(()) => Ok(Credentials::Helper(Arc::new(helper))),
                Err(why) => Err(ConnectionFailure::new(FailureKind::InvalidConfig)
                    .with_evidence(Evidence::Detail(why))),
            };
        }
        match is_connector(wanted) {
            false => Ok(Credentials::Nobody),
            true => Ok(match settings.account_token().await? {
                Some(bearer) => Credentials::Account(bearer, url.clone()),
                None => Credentials::NoAccount,
            }),
        }
    }

    /// May this have taken longer than a turn lasts?
    pub(super) fn took_long(&self) -> bool {
        matches!(self, Credentials::Helper(_))
    }

    /// The address with it.
    pub(super) fn on(&self, address: Address) -> Address {
        let shown: Arc<dyn Authorize> = match self {
            Credentials::Nobody | Credentials::NoAccount => return address,
            Credentials::Login(keeper) => keeper.clone(),
            Credentials::Helper(helper) => helper.clone(),
            Credentials::Account(bearer, _) => bearer.authorize(),
        };
        match address {
            Address::Http(target) => Address::Http(target.authorize(shown)),
            Address::Sse(target) => Address::Sse(target.authorize(shown)),
            Address::WebSocket(target) => Address::WebSocket(target.authorize(shown)),
            other @ (Address::Stdio(_) | Address::InProcess(_)) => other,
        }
    }

    /// A failure, with what this has to do with it.
    pub(super) async fn explain(&self, cause: ConnectionFailure) -> ConnectionFailure {
        let is_refused = matches!(cause.kind, FailureKind::AuthRequired | FailureKind::Forbidden);
        if !is_refused {
            return cause;
        }
        let detail = match self {
            Credentials::Nobody | Credentials::Login(_) => return cause,
            Credentials::Helper(helper) => helper.last_error().unwrap_or_else(|| {
                "what `headersHelper` printed is refused, also after it was run again".to_owned()
            }),
            Credentials::Account(bearer, url) => bearer.refusal_reason(url).await,
            Credentials::NoAccount => {
                "no connector account is set up: `connectorAccount` in your settings".to_owned()
            }
        };
        cause.with_evidence(Evidence::Detail(detail))
    }
}

/// Is it reached through an account's proxy, and does its entry leave it to the account what to show?
fn is_connector(wanted: &DesiredServer) -> bool {
    match &wanted.spec.transport {
        TransportConfig::ConnectorProxy(remote) => {
            !remote.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        }
        TransportConfig::Stdio(_)
        | TransportConfig::Http(_)
        | TransportConfig::Sse(_)
        | TransportConfig::Ws(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::Sdk { .. } => false,
    }
}
