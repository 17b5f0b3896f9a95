//! Guards the protected resource: checks tokens, proofs and scopes, and sends challenges.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::Value;

use super::config::{AuthorizationConfig, Challenge, DpopPolicy, OAuthQuirk, ResourceIndicator};
use super::dpop;
use super::dpop::{DpopError, ExpectedProof};
use super::grant_store::GrantStore;
use super::metadata::resource_metadata_path;
use super::observed_request::{ObservedRequest, Site};
use super::shared_state::SharedState;
use crate::http::response::{json_response, with_header};

/// The nonce for DPoP proofs at the resource.
const NONCE: &str = "nonce-of-the-resource";
/// A scope that no token has.
const UNOBTAINABLE_SCOPE: &str = "more:than:you:have";

/// Checks a request; the error is the response that rejects it.
pub(crate) fn check(shared: &SharedState, request: &ObservedRequest) -> Result<(), Box<Response>> {
    let mut store = shared.store();
    let reject = |config: &AuthorizationConfig, denial: &Denial<'_>| {
        Err(Box::new(denial.response(shared, config)))
    };
    let presented = request.header("authorization").unwrap_or_default();
    let Some((scheme, token)) = presented.split_once(' ') else {
        return reject(&store.config, &Denial::NoToken);
    };
    let Some(grant) = store.access_grant(token).cloned() else {
        return reject(&store.config, &Denial::BadToken("invalid_token"));
    };
    let is_audience = store.config.resource_indicator == ResourceIndicator::Ignored
        || grant.resource.as_deref() == Some(shared.resource_url().as_str());
    if grant.site == Site::Identity || !is_audience {
        return reject(&store.config, &Denial::BadToken("invalid_token"));
    }
    let expected_scheme = if grant.dpop_thumbprint.is_some() { "DPoP" } else { "Bearer" };
    if !scheme.eq_ignore_ascii_case(expected_scheme) {
        return reject(&store.config, &Denial::BadToken("invalid_token"));
    }
    if grant.dpop_thumbprint.is_some() {
        let url = shared.resource_url();
        let expected_proof = ExpectedProof { url: &url, nonce: NONCE, token: Some(token) };
        match dpop::verify_proof(&mut store, request, expected_proof) {
            Ok(key) if key == grant.dpop_thumbprint => {}
            Ok(_) | Err(DpopError::Invalid(_)) => {
                return reject(&store.config, &Denial::BadToken("invalid_dpop_proof"));
            }
            Err(DpopError::NonceRequired) => {
                return reject(&store.config, &Denial::BadToken("use_dpop_nonce"));
            }
        }
    }
    match missing_scope(&store, request, |scope| grant.scopes.contains(scope)) {
        Some(scope) => reject(&store.config, &Denial::InsufficientScope(&scope)),
        None => Ok(()),
    }
}

/// The required scope that a request does not have.
fn missing_scope(
    store: &GrantStore,
    request: &ObservedRequest,
    has: impl Fn(&str) -> bool,
) -> Option<String> {
    let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default();
    let tool = message["params"]["name"].as_str().filter(|_| method == "tools/call");
    if method == "tools/call" && store.config.has_quirk(&OAuthQuirk::AlwaysInsufficientScope) {
        return Some(UNOBTAINABLE_SCOPE.to_owned());
    }
    let requirements = store.config.scope_requirements.iter();
    let mut requirements = requirements.filter(|requirement| {
        requirement.target == method || Some(requirement.target.as_str()) == tool
    });
    requirements
        .find(|requirement| !has(&requirement.scope))
        .map(|requirement| requirement.scope.clone())
}

enum Denial<'a> {
    NoToken,
    BadToken(&'a str),
    InsufficientScope(&'a str),
}

impl Denial<'_> {
    fn response(&self, shared: &SharedState, config: &AuthorizationConfig) -> Response {
        let code = match self {
            Denial::NoToken | Denial::BadToken(_) => StatusCode::UNAUTHORIZED,
            Denial::InsufficientScope(_) => StatusCode::FORBIDDEN,
        };
        let mut response = json_response(code, Body::from("{}"));
        if config.dpop == DpopPolicy::RequiredWithNonce {
            response = with_header(response, "dpop-nonce", NONCE);
        }
        let own_challenge = self.challenge(shared, config);
        let challenges = match config.challenge {
            Challenge::None => Vec::new(),
            Challenge::Full | Challenge::WithoutMetadata => vec![own_challenge],
            Challenge::Multiple => {
                vec![
                    "Basic realm=\"here, there\"".to_owned(),
                    "Negotiate".to_owned(),
                    own_challenge,
                ]
            }
        };
        for challenge in challenges {
            let value =
                HeaderValue::from_str(&challenge).expect("a configuration has valid headers");
            response.headers_mut().append("www-authenticate", value);
        }
        response
    }

    fn challenge(&self, shared: &SharedState, config: &AuthorizationConfig) -> String {
        let mut parameters = Vec::new();
        if let Some(metadata_path) = resource_metadata_path(config.resource_metadata)
            && config.challenge != Challenge::WithoutMetadata
        {
            parameters
                .push(format!("resource_metadata=\"{}{metadata_path}\"", shared.origins.resource));
        }
        match self {
            Denial::NoToken => {}
            Denial::BadToken(error) => parameters.push(format!("error=\"{error}\"")),
            Denial::InsufficientScope(_) => {
                parameters.push("error=\"insufficient_scope\"".to_owned())
            }
        }
        let scope = match self {
            Denial::NoToken | Denial::BadToken(_) => config.challenge_scope.as_deref(),
            Denial::InsufficientScope(scope) => Some(*scope),
        };
        parameters.extend(scope.map(|scope| format!("scope=\"{scope}\"")));
        let scheme = match config.dpop {
            DpopPolicy::Ignored | DpopPolicy::Optional => "Bearer",
            DpopPolicy::Required | DpopPolicy::RequiredWithNonce => "DPoP",
        };
        match parameters.is_empty() {
            true => scheme.to_owned(),
            false => format!("{scheme} {}", parameters.join(", ")),
        }
    }
}
