//! The credentials of a remote server besides its entry's headers: a login, a headers helper or the connector account.

use std::sync::Arc;

use switchboard_config::entry::server::TransportConfig;
use switchboard_wire::connect::Address;
use switchboard_wire::http::client::Authorize;
use url::Url;

use crate::connection::context::ConnectionContext;
use crate::failure::{ConnectionFailure, Evidence, FailureKind};
use crate::login::connector_account::AccountToken;
use crate::login::dynamic_headers::DynamicHeaders;
use crate::login::headers_helper;
use crate::login::server_login::ServerLogin;
use crate::sources::desired_server::DesiredServer;

/// The source of a server's credentials.
pub(super) enum Credentials {
    /// There is none besides the headers of the entry with these names.
    EntryHeaders(Vec<String>),
    /// A login.
    Login(Arc<ServerLogin>),
    /// The command that `headersHelper` names.
    Helper(Arc<DynamicHeaders>),
    /// The connector account, for a server at this URL.
    Account(Arc<AccountToken>, Url),
    /// A connector account that is not set up.
    NoAccount,
}

impl Credentials {
    /// The credentials for a server at this address. A headers helper runs now, so that its errors are known.
    pub(super) async fn load(
        desired: &DesiredServer,
        address: &Address,
        login: Option<&Arc<ServerLogin>>,
        context: &ConnectionContext,
    ) -> Result<Credentials, ConnectionFailure> {
        let url = match address {
            Address::Http(target) | Address::Sse(target) | Address::WebSocket(target) => {
                target.url()
            }
            Address::Stdio(_) | Address::Shared(_) | Address::InProcess(_) => {
                return Ok(Credentials::EntryHeaders(Vec::new()));
            }
        };
        if let Some(login) = login {
            return Ok(Credentials::Login(login.clone()));
        }
        if let Some(helper) = headers_helper::for_server(desired, url, &context.env) {
            return match helper.load().await {
                Ok(()) => Ok(Credentials::Helper(Arc::new(helper))),
                Err(error) => Err(ConnectionFailure::invalid_config(error)),
            };
        }
        match uses_account(desired) {
            false => Ok(Credentials::EntryHeaders(header_names(desired))),
            true => Ok(match context.account_token().await? {
                Some(token) => Credentials::Account(token, url.clone()),
                None => Credentials::NoAccount,
            }),
        }
    }

    /// Whether a command was run, which may have taken long.
    pub(super) fn ran_command(&self) -> bool {
        matches!(self, Credentials::Helper(_))
    }

    /// The address with the credentials.
    pub(super) fn apply(&self, address: Address) -> Address {
        let authorize: Arc<dyn Authorize> = match self {
            Credentials::EntryHeaders(_) | Credentials::NoAccount => return address,
            Credentials::Login(login) => login.authorize(),
            Credentials::Helper(helper) => helper.clone(),
            Credentials::Account(token, _) => token.authorize(),
        };
        match address {
            Address::Http(target) => Address::Http(target.authorize(authorize)),
            Address::Sse(target) => Address::Sse(target.authorize(authorize)),
            Address::WebSocket(target) => Address::WebSocket(target.authorize(authorize)),
            other @ (Address::Stdio(_) | Address::Shared(_) | Address::InProcess(_)) => other,
        }
    }

    /// Adds to a rejection why the credentials did not work.
    pub(super) async fn explain(&self, cause: ConnectionFailure) -> ConnectionFailure {
        let is_rejected = matches!(cause.kind, FailureKind::AuthRequired | FailureKind::Forbidden);
        if !is_rejected {
            return cause;
        }
        let detail = match self {
            Credentials::EntryHeaders(headers) => return refused_headers(cause, headers),
            Credentials::Login(_) => return cause,
            Credentials::Helper(helper) => helper.last_error().unwrap_or_else(|| {
                "the server refuses the headers of `headersHelper`, also after it was run again"
                    .to_owned()
            }),
            Credentials::Account(token, url) => token.refusal_reason(url).await,
            Credentials::NoAccount => {
                "no connector account is set up: `connectorAccount` in your settings".to_owned()
            }
        };
        cause.with_evidence(Evidence::Detail(detail))
    }
}

/// A 401 in spite of the entry's headers is not the wish for a login: an entry with an `Authorization` cannot have one.
fn refused_headers(cause: ConnectionFailure, headers: &[String]) -> ConnectionFailure {
    match (&cause.kind, headers.is_empty()) {
        (FailureKind::AuthRequired, false) => {
            let kind = FailureKind::HeaderRefused { headers: headers.to_vec() };
            ConnectionFailure { kind, ..cause }
        }
        (_, _) => cause,
    }
}

/// The names of the headers in the server's entry.
fn header_names(desired: &DesiredServer) -> Vec<String> {
    match &desired.spec.transport {
        TransportConfig::Http(remote)
        | TransportConfig::Sse(remote)
        | TransportConfig::Ws(remote)
        | TransportConfig::ConnectorProxy(remote) => {
            remote.headers.iter().map(|(name, _)| name.clone()).collect()
        }
        TransportConfig::Stdio(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::Sdk { .. } => Vec::new(),
    }
}

/// Whether the server is reached through the account's proxy and its entry sets no `Authorization`.
fn uses_account(desired: &DesiredServer) -> bool {
    match &desired.spec.transport {
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
