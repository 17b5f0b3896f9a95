//! The credentials of a remote server besides its entry's headers: a login, a headers helper, the connector account or the
//! session that this program runs in. Also says why they were refused.

use std::sync::Arc;

use switchboard_config::entry::server::TransportConfig;
use switchboard_wire::connect::Address;
use switchboard_wire::http::client::Authorize;
use url::Url;

use crate::connection::context::ConnectionContext;
use crate::failure::{ConnectionFailure, Evidence, FailureKind, RefusedSession};
use crate::login::connector_account::{AccountToken, SessionState};
use crate::login::connectors;
use crate::login::context::LoginContext;
use crate::login::dynamic_headers::DynamicHeaders;
use crate::login::headers_helper;
use crate::login::server_login::ServerLogin;
use crate::login::session_ingress::SessionToken;
use crate::sources::connector_cache;
use crate::sources::connector_cache::ListFailureKind;
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
    /// The session that this program runs in.
    Session(Arc<LoginContext>),
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
        if uses_session(desired, &context.login) {
            return Ok(Credentials::Session(context.login.clone()));
        }
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
            Credentials::Session(login) => match &login.session_token {
                Some(token) => token.authorize(),
                None => return address,
            },
        };
        match address {
            Address::Http(target) => Address::Http(target.authorize(authorize)),
            Address::Sse(target) => Address::Sse(target.authorize(authorize)),
            Address::WebSocket(target) => Address::WebSocket(target.authorize(authorize)),
            other @ (Address::Stdio(_) | Address::Shared(_) | Address::InProcess(_)) => other,
        }
    }

    /// Adds to a rejection why the credentials did not work.
    pub(super) async fn explain(
        &self,
        cause: ConnectionFailure,
        context: &ConnectionContext,
    ) -> ConnectionFailure {
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
            Credentials::Account(token, url) => {
                return refused_account(cause, (token, url), context).await;
            }
            Credentials::Session(login) => return refused_session(cause, login),
            Credentials::NoAccount => {
                "no connector account is set up: `connectorAccount` in your settings".to_owned()
            }
        };
        cause.with_evidence(Evidence::Detail(detail))
    }
}

/// Whether the token of this program's session stands in for a login at the server.
pub(super) fn uses_session(desired: &DesiredServer, login: &LoginContext) -> bool {
    login.session_token.as_ref().is_some_and(|it| it.is_for(&desired.spec))
}

/// A 401 of a server that is reached with the token of this program's session, or with that of the connector account;
/// `None` for other servers.
pub(super) async fn explain_shared_session(
    cause: &ConnectionFailure,
    desired: &DesiredServer,
    context: &ConnectionContext,
) -> Option<ConnectionFailure> {
    if uses_session(desired, &context.login) {
        return Some(refused_session(cause.clone(), &context.login));
    }
    let url = desired.spec.transport.url().filter(|_| uses_account(desired))?;
    let url = Url::parse(&url.to_unresolved_string()).ok()?;
    let token = context.account_token().await.ok()??;
    Some(refused_account(cause.clone(), (&token, &url), context).await)
}

fn refused_session(cause: ConnectionFailure, login: &LoginContext) -> ConnectionFailure {
    if cause.kind != FailureKind::AuthRequired {
        return cause;
    }
    let error = login.session_token.as_ref().and_then(SessionToken::last_error);
    let kind = FailureKind::SessionRefused(RefusedSession::Ingress);
    let detail =
        error.unwrap_or_else(|| "the token is refused, also after it was read again".to_owned());
    ConnectionFailure { kind, ..cause }.with_evidence(Evidence::Detail(detail))
}

/// A refused connector: the account says whether the session is to blame, or the connector wants a login of its own.
async fn refused_account(
    cause: ConnectionFailure,
    (token, url): (&AccountToken, &Url),
    context: &ConnectionContext,
) -> ConnectionFailure {
    let detail =
        |cause: ConnectionFailure, text: String| cause.with_evidence(Evidence::Detail(text));
    if !token.is_for(url) {
        let text = "it is not at your connector account's own address, so no token is sent to it";
        return detail(cause, text.to_owned());
    }
    if cause.kind != FailureKind::AuthRequired {
        return detail(cause, "your connector account's token was sent".to_owned());
    }
    match connectors::session_state(&context.login, token).await {
        SessionState::Refused(refusal, why) => {
            record_refusal(context, refusal, why.clone()).await;
            let kind = FailureKind::SessionRefused(token.session_kind());
            detail(ConnectionFailure { kind, ..cause }, why)
        }
        SessionState::NotRefreshed(why) => {
            detail(ConnectionFailure { kind: FailureKind::LoginNotRefreshed, ..cause }, why)
        }
        SessionState::Accepted => {
            let manage_url = token.manage_url().map(str::to_owned);
            let kind = FailureKind::ConnectorLoginRequired { manage_url };
            ConnectionFailure { kind, ..cause }
        }
    }
}

/// Keeps the account's word beside its list, for commands that connect to nothing.
async fn record_refusal(context: &ConnectionContext, refusal: ListFailureKind, why: String) {
    let Some(account) = context.login.options.account.clone() else { return };
    let (paths, path) =
        (context.paths.clone(), connector_cache::cache_path(&context.paths, &account));
    let reading = move || connector_cache::text_after_failure(&paths, &account, (refusal, &why));
    if let Ok(Some(text)) = tokio::task::spawn_blocking(reading).await {
        context.state_writer.write_file(path, text);
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
pub(super) fn uses_account(desired: &DesiredServer) -> bool {
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
