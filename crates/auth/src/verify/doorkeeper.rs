//! The port at which requests show who they come from. Whom we have seen is let in without waiting ([`Doorkeeper::known`]);
//! everybody else is looked at ([`Doorkeeper::verify`]), and told what is missing ([`Doorkeeper::challenge`]).

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use serde_json::Value;
use thiserror::Error;

use super::bearer_list::BearerList;
use super::dpop_check::ProofFault;
use super::jws_check;
use super::jwt_check::{IssuerCheck, TokenFault};
use super::key_ring::IssuerFault;
use super::principal::Principal;
use super::protected_resource::{ProtectedResource, challenge};
use crate::scopes::Scopes;

/// Says who a request comes from.
#[derive(Debug)]
pub enum Doorkeeper {
    /// Nobody is asked: whoever comes is this one. For loopback only.
    Nobody(Principal),
    /// Who is on a list.
    List(Arc<BearerList>),
    /// Whom an issuer vouches for.
    Issuer(Box<IssuerCheck>),
}

/// A request, as far as it says who sent it.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its method.
    pub method: &'a Method,
    /// Its target. Only the path counts.
    pub target: &'a Uri,
}

/// Why a request is not let in. Nothing of the request is in it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It shows no token.
    #[error("a token is needed")]
    NoToken,
    /// It shows one in a way that nobody understands.
    #[error("the authorization header is malformed, or there are several")]
    Malformed,
    /// The token is not good.
    #[error("{0}")]
    Token(TokenFault),
    /// The token is good, and its sender does not prove to be its owner.
    #[error("{0}")]
    Proof(ProofFault),
    /// The token is good, and not for this.
    #[error("the token does not have the scopes that are needed")]
    Scopes(Scopes),
    /// Nobody can say: the issuer does not answer.
    #[error("the issuer's keys are not there")]
    Unavailable(#[source] IssuerFault),
}

impl Refusal {
    /// The answer's status.
    pub fn status(&self) -> StatusCode {
        match self {
            Refusal::NoToken | Refusal::Token(_) | Refusal::Proof(_) => StatusCode::UNAUTHORIZED,
            Refusal::Malformed => StatusCode::BAD_REQUEST,
            Refusal::Scopes(_) => StatusCode::FORBIDDEN,
            Refusal::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl Doorkeeper {
    /// Lets everybody in as `local`. For loopback only.
    pub fn nobody() -> Doorkeeper {
        Doorkeeper::Nobody(Principal::local())
    }

    /// Who it is, where that is known already: a look-up, and no waiting. Bound tokens need a proof with every request,
    /// and so are never known. Must be called inside of the runtime: old keys are fetched anew behind it.
    pub fn known(&self, headers: &HeaderMap) -> Option<Principal> {
        match self {
            Doorkeeper::Nobody(local) => Some(local.clone()),
            Doorkeeper::List(list) => list.client(Shown::bearer(headers)?),
            Doorkeeper::Issuer(issuer) => issuer.known(Shown::bearer(headers)?),
        }
    }

    /// Who it is. May wait for the issuer's keys, with a deadline.
    pub async fn verify(&self, asked: Asked<'_>) -> Result<Principal, Refusal> {
        match self {
            Doorkeeper::Nobody(local) => Ok(local.clone()),
            Doorkeeper::List(list) => match Shown::read(asked.headers)? {
                Shown { scheme: Scheme::Bearer, token } => {
                    list.client(token).ok_or(Refusal::Token(TokenFault::Unlisted))
                }
                Shown { scheme: Scheme::Dpop, .. } => Err(Refusal::Token(TokenFault::Scheme)),
            },
            Doorkeeper::Issuer(issuer) => {
                let shown = Shown::read(asked.headers)?;
                match issuer.known(shown.token).filter(|_| shown.scheme == Scheme::Bearer) {
                    Some(known) => Ok(known),
                    None => issuer.verify(shown, asked).await,
                }
            }
        }
    }

    /// What the answer to a refusal says in `WWW-Authenticate`.
    pub fn challenge(&self, refusal: &Refusal) -> Option<HeaderValue> {
        challenge(refusal, self.resource())
    }

    /// Us, where an issuer's tokens name us.
    pub fn resource(&self) -> Option<&ProtectedResource> {
        match self {
            Doorkeeper::Nobody(_) | Doorkeeper::List(_) => None,
            Doorkeeper::Issuer(issuer) => Some(issuer.resource()),
        }
    }

    /// The document about us, to be served to everybody at the path of [`ProtectedResource::metadata_url`].
    pub fn document(&self) -> Option<Value> {
        match self {
            Doorkeeper::Nobody(_) | Doorkeeper::List(_) => None,
            Doorkeeper::Issuer(issuer) => Some(issuer.document()),
        }
    }

    /// Waits for what is under way.
    pub async fn close(&self) {
        match self {
            Doorkeeper::Nobody(_) | Doorkeeper::List(_) => {}
            Doorkeeper::Issuer(issuer) => issuer.close().await,
        }
    }
}

/// How a token is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Bearer,
    Dpop,
}

/// What a request shows.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub scheme: Scheme,
    pub token: &'a str,
}

impl<'a> Shown<'a> {
    /// The token of a request. It is in one header, and never in the address.
    fn read(headers: &'a HeaderMap) -> Result<Shown<'a>, Refusal> {
        let mut all = headers.get_all(header::AUTHORIZATION).iter();
        let value = all.next().ok_or(Refusal::NoToken)?;
        if all.next().is_some() {
            return Err(Refusal::Malformed);
        }
        let text = value.to_str().map_err(|_| Refusal::Malformed)?;
        let (scheme, token) = text.split_once(' ').ok_or(Refusal::Malformed)?;
        let scheme = match scheme {
            it if it.eq_ignore_ascii_case("bearer") => Scheme::Bearer,
            it if it.eq_ignore_ascii_case("dpop") => Scheme::Dpop,
            // Somebody's password, which is none of our affair.
            _ => return Err(Refusal::NoToken),
        };
        let token = token.trim_matches(' ');
        let is_of_token = |sign: u8| sign.is_ascii_alphanumeric() || b"-._~+/=".contains(&sign);
        let is_token = !token.is_empty()
            && token.len() <= jws_check::LONGEST
            && token.bytes().all(is_of_token);
        is_token.then_some(Shown { scheme, token }).ok_or(Refusal::Malformed)
    }

    fn bearer(headers: &'a HeaderMap) -> Option<&'a str> {
        let shown = Shown::read(headers).ok()?;
        (shown.scheme == Scheme::Bearer).then_some(shown.token)
    }
}
