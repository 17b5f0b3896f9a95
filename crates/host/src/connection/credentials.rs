//! What a server at a URL is shown besides its entry's headers: a login, what a helper prints, or an account's token.

use std::sync::Arc;

use switchboard_auth::keeper::Keeper;
use switchboard_config::entry::Transport;
use switchboard_wire::dial::Address;
use switchboard_wire::network::Authorize;
use url::Url;

use super::Wanted;
use crate::cause::{Cause, CauseKind, Evidence};
use crate::connectors::Bearer;
use crate::engine::Settings;
use crate::headers_helper;
use crate::shown_headers::ShownHeaders;
use crate::signing::Signer;

/// Who says what to show.
pub(super) enum Credentials {
    /// Nobody.
    Nobody,
    /// A login.
    Login(Arc<Keeper>),
    /// A command of the person's.
    Helper(Arc<ShownHeaders>),
    /// An account, at this URL.
    Account(Arc<Bearer>, Url),
    /// An account that is not set up.
    NoAccount,
}

impl Credentials {
    /// What is shown to a server at this address. A helper runs now, so that what stands in its way is known.
    pub(super) async fn of(
        wanted: &Wanted,
        address: &Address,
        signer: Option<&Arc<Signer>>,
        settings: &Settings,
    ) -> Result<Credentials, Cause> {
        let url = match address {
            Address::Http(target) | Address::Sse(target) | Address::WebSocket(target) => {
                target.url()
            }
            Address::Program(_) | Address::Linked(_) => return Ok(Credentials::Nobody),
        };
        if let Some(signer) = signer {
            return Ok(Credentials::Login(signer.keeper.clone()));
        }
        if let Some(helper) = headers_helper::of(wanted, url, settings) {
            return match helper.begin().await {
                Ok(()) => Ok(Credentials::Helper(Arc::new(helper))),
                Err(why) => Err(Cause::of(CauseKind::Unusable).with(Evidence::Detail(why))),
            };
        }
        match is_connector(wanted) {
            false => Ok(Credentials::Nobody),
            true => Ok(match settings.bearer().await? {
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
            other @ (Address::Program(_) | Address::Linked(_)) => other,
        }
    }

    /// A failure, with what this has to do with it.
    pub(super) async fn explain(&self, cause: Cause) -> Cause {
        let is_refused = matches!(cause.kind, CauseKind::WantsLogin | CauseKind::Forbidden);
        if !is_refused {
            return cause;
        }
        let detail = match self {
            Credentials::Nobody | Credentials::Login(_) => return cause,
            Credentials::Helper(helper) => helper.trouble().unwrap_or_else(|| {
                "what `headersHelper` printed is refused, also after it was run again".to_owned()
            }),
            Credentials::Account(bearer, url) => bearer.explain(url).await,
            Credentials::NoAccount => {
                "no connector account is set up: `connectorAccount` in your settings".to_owned()
            }
        };
        cause.with(Evidence::Detail(detail))
    }
}

/// Is it reached through an account's proxy, and does its entry leave it to the account what to show?
fn is_connector(wanted: &Wanted) -> bool {
    match &wanted.spec.transport {
        Transport::ConnectorProxy(remote) => {
            !remote.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        }
        Transport::Stdio(_)
        | Transport::Http(_)
        | Transport::Sse(_)
        | Transport::Ws(_)
        | Transport::SseIde(_)
        | Transport::WsIde(_)
        | Transport::Sdk { .. } => false,
    }
}
