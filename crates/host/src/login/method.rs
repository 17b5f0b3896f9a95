//! Which kind of login a server's entry calls for.

use switchboard_config::entry::server::{OAuthGrant, RemoteConfig, ServerSpec, TransportConfig};
use switchboard_config::scope::Scope;
use switchboard_config::template::ExpandedText;

use crate::sources::desired_server::DesiredServer;

/// How a user signs in to a server that requires a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginMethod {
    /// An OAuth login at the server.
    OAuth,
    /// The server belongs to a connector account; the user renews the account's token.
    ConnectorAccount,
}

impl LoginMethod {
    /// The login method of a server; `None` where its entry sets the credentials or the login is not interactive.
    pub(crate) fn for_server(desired: &DesiredServer) -> Option<LoginMethod> {
        if desired.scope == Scope::Connectors {
            return Some(LoginMethod::ConnectorAccount);
        }
        match &desired.spec.transport {
            TransportConfig::ConnectorProxy(_) => Some(LoginMethod::ConnectorAccount),
            TransportConfig::Http(_)
            | TransportConfig::Sse(_)
            | TransportConfig::Ws(_)
            | TransportConfig::Stdio(_)
            | TransportConfig::SseIde(_)
            | TransportConfig::WsIde(_)
            | TransportConfig::Sdk { .. } => {
                let oauth = login_remote(&desired.spec).ok()?.oauth.as_ref();
                let is_interactive =
                    oauth.is_none_or(|it| it.grant == OAuthGrant::AuthorizationCode);
                is_interactive.then_some(LoginMethod::OAuth)
            }
        }
    }
}

/// The remote part of an entry that supports an OAuth login, or why there is none. An entry that sets `Authorization`
/// itself needs no login.
pub(crate) fn login_remote(spec: &ServerSpec) -> Result<&RemoteConfig<ExpandedText>, &'static str> {
    let remote = match &spec.transport {
        TransportConfig::Http(remote)
        | TransportConfig::Sse(remote)
        | TransportConfig::Ws(remote) => remote,
        TransportConfig::ConnectorProxy(_) => return Err("it belongs to your connector account"),
        TransportConfig::Stdio(_) => return Err("it is a program on this machine"),
        TransportConfig::SseIde(_) | TransportConfig::WsIde(_) => {
            return Err("it is inside an IDE");
        }
        TransportConfig::Sdk { .. } => return Err("it is inside this program"),
    };
    let is_authorization =
        |(name, _): &(String, ExpandedText)| name.eq_ignore_ascii_case("authorization");
    match remote.headers.iter().any(is_authorization) || remote.headers_helper.is_some() {
        true => Err("its entry sets the credentials"),
        false => Ok(remote),
    }
}
