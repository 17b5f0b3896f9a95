//! The token and revocation endpoints. `token_exchange` and `device_endpoint` handle assertions and device codes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::clients::authenticate_client;
use super::config::{DpopPolicy, OAuthQuirk, ResourceIndicator};
use super::dpop;
use super::dpop::{DpopError, ExpectedProof};
use super::grant_store::{
    AuthorizationCode, Grant, GrantStore, RefreshOutcome, RefreshTokenIssue, TokenPair,
};
use super::jwt::sha256_base64url;
use super::oauth_error::{OAuthError, with_no_store};
use super::observed_request::{ObservedRequest, Site};
use super::shared_state::{KEY_ID, SharedState};
use super::{device_endpoint, token_exchange};
use crate::http::response::{empty_response, json_response, with_header};
use crate::random::random_token;

/// The nonce for DPoP proofs at the token endpoint.
const NONCE: &str = "nonce-of-the-issuer";
/// The lifetime of an id token in seconds.
const ID_TOKEN_LIFETIME_SECONDS: u64 = 3600;

/// A successful token response.
#[derive(Debug)]
pub(crate) enum TokenResponse {
    /// Issued tokens.
    Tokens { grant: Grant, pair: TokenPair, id_token: Option<String> },
    /// Another response, as it is sent.
    Raw(Value),
}

/// Counts a refresh as in progress until dropped, because the client may disconnect.
struct RefreshInProgress(Arc<SharedState>);

impl RefreshInProgress {
    fn begin(shared: &Arc<SharedState>) -> RefreshInProgress {
        shared.store().refresh_started();
        RefreshInProgress(Arc::clone(shared))
    }
}

impl Drop for RefreshInProgress {
    fn drop(&mut self) {
        self.0.store().refresh_ended();
    }
}

/// Handles a request to the token endpoint.
pub(crate) async fn respond(shared: &Arc<SharedState>, request: &ObservedRequest) -> Response {
    if request.method != "POST" {
        return empty_response(StatusCode::METHOD_NOT_ALLOWED);
    }
    let is_refresh = request.field("grant_type") == "refresh_token";
    let refresh_guard = is_refresh.then(|| RefreshInProgress::begin(shared));
    let delay_ms = shared.store().config.token_delay_ms;
    tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    let mut store = shared.store();
    let response = match issue_tokens(shared, &mut store, request) {
        Ok(issued) => token_response(&store, request.site, issued),
        Err(error) => {
            let response = error.to_response(&store.config);
            match error.error.as_str() {
                "use_dpop_nonce" => with_header(response, "dpop-nonce", NONCE),
                _ => response,
            }
        }
    };
    drop(store);
    drop(refresh_guard);
    response
}

fn issue_tokens(
    shared: &SharedState,
    store: &mut GrantStore,
    request: &ObservedRequest,
) -> Result<TokenResponse, OAuthError> {
    let client = authenticate_client(shared, store, request)?;
    let key = dpop_thumbprint(shared, store, request)?;
    match request.field("grant_type") {
        "authorization_code" => authorization_code_grant(shared, store, request, (client, key)),
        "refresh_token" => refresh_token_grant(store, request, &client, key),
        "client_credentials" => {
            let is_confidential = store
                .clients
                .get(&client)
                .is_some_and(|it| it.secret.is_some() || it.key.is_some());
            if !is_confidential {
                return Err(OAuthError::new(
                    "unauthorized_client",
                    "the client is not confidential",
                ));
            }
            let grant = new_grant(shared, store, request, (client, key))?;
            let pair = store.issue(&grant, RefreshTokenIssue::No);
            Ok(TokenResponse::Tokens { grant, pair, id_token: None })
        }
        "urn:ietf:params:oauth:grant-type:jwt-bearer" => {
            token_exchange::verify_assertion(shared, store, request, &client)?;
            let grant = new_grant(shared, store, request, (client, key))?;
            let pair = store.issue(&grant, RefreshTokenIssue::No);
            Ok(TokenResponse::Tokens { grant, pair, id_token: None })
        }
        "urn:ietf:params:oauth:grant-type:token-exchange" if request.site == Site::Identity => {
            token_exchange::exchange(shared, &store.config, request, &client)
                .map(TokenResponse::Raw)
        }
        "urn:ietf:params:oauth:grant-type:device_code" => {
            let mut grant = device_endpoint::poll(store, request, &client)?;
            grant.dpop_thumbprint = key;
            let pair = store.issue(&grant, RefreshTokenIssue::Yes);
            Ok(TokenResponse::Tokens { grant, pair, id_token: None })
        }
        _ => Err(OAuthError::new("unsupported_grant_type", "the grant type is not supported")),
    }
}

/// The key that new tokens are bound to.
fn dpop_thumbprint(
    shared: &SharedState,
    store: &mut GrantStore,
    request: &ObservedRequest,
) -> Result<Option<String>, OAuthError> {
    let policy = store.config.dpop;
    if request.site == Site::Identity || policy == DpopPolicy::Ignored {
        return Ok(None);
    }
    let url = format!("{}/token", shared.issuer_url(&store.config, request.site));
    let expected_proof = ExpectedProof { url: &url, nonce: NONCE, token: None };
    match dpop::verify_proof(store, request, expected_proof) {
        Ok(None) if policy != DpopPolicy::Optional => {
            Err(OAuthError::new("invalid_dpop_proof", "there is no proof"))
        }
        Ok(key) => Ok(key),
        Err(DpopError::NonceRequired) => {
            Err(OAuthError::new("use_dpop_nonce", "a nonce is required"))
        }
        Err(DpopError::Invalid(why)) => Err(OAuthError::new("invalid_dpop_proof", why)),
    }
}

fn check_resource(
    shared: &SharedState,
    store: &GrantStore,
    request: &ObservedRequest,
) -> Result<(), OAuthError> {
    let is_for_resource = request.site == Site::Identity
        || store.config.resource_indicator == ResourceIndicator::Ignored
        || request.field("resource") == shared.resource_url();
    match is_for_resource {
        true => Ok(()),
        false => Err(OAuthError::new("invalid_target", "the resource is unknown")),
    }
}

fn new_grant(
    shared: &SharedState,
    store: &mut GrantStore,
    request: &ObservedRequest,
    (client, key): (String, Option<String>),
) -> Result<Grant, OAuthError> {
    check_resource(shared, store, request)?;
    let scopes = request.field("scope").split_whitespace().map(str::to_owned).collect();
    let resource = request.fields.get("resource").cloned();
    let login = store.next_number();
    Ok(Grant { site: request.site, client, scopes, resource, dpop_thumbprint: key, login })
}

fn authorization_code_grant(
    shared: &SharedState,
    store: &mut GrantStore,
    request: &ObservedRequest,
    (client, key): (String, Option<String>),
) -> Result<TokenResponse, OAuthError> {
    check_resource(shared, store, request)?;
    let code = store.take_code(request.field("code"));
    let is_valid = |code: &AuthorizationCode| {
        code.grant.client == client
            && code.grant.site == request.site
            && code.redirect_uri == request.field("redirect_uri")
            && (43..=128).contains(&request.field("code_verifier").len())
            && sha256_base64url(request.field("code_verifier").as_bytes()) == code.challenge
    };
    let Some(code) = code.filter(is_valid) else {
        return Err(OAuthError::new("invalid_grant", "the code is invalid"));
    };
    store.counters.logins += 1;
    let grant = Grant { dpop_thumbprint: key, ..code.grant };
    let pair = store.issue(&grant, RefreshTokenIssue::Yes);
    let is_identified = request.site == Site::Identity && grant.scopes.contains("openid");
    let id_token = is_identified
        .then(|| id_token(shared, &grant.client, code.nonce.as_deref(), ID_TOKEN_LIFETIME_SECONDS));
    Ok(TokenResponse::Tokens { grant, pair, id_token })
}

/// An id token that is valid for `lifetime_seconds`.
pub(crate) fn id_token(
    shared: &SharedState,
    client: &str,
    nonce: Option<&str>,
    lifetime_seconds: u64,
) -> String {
    let now = super::unix_time();
    let mut claims = json!({
        "iss": shared.origins.identity,
        "sub": "ada",
        "aud": client,
        "iat": now,
        "exp": now + lifetime_seconds,
        "email": "ada@example.com",
    });
    if let Some(nonce) = nonce {
        claims["nonce"] = json!(nonce);
    }
    shared.identity_key.sign_jwt(json!({"typ": "JWT", "kid": KEY_ID}), &claims)
}

/// An access token for a resource that verifies signatures itself (RFC 9068).
pub(crate) fn access_token(shared: &SharedState, resource: &str, changes: &Value) -> String {
    let now = super::unix_time();
    let mut claims = json!({
        "iss": shared.issuer_url(&shared.config(), Site::Issuer),
        "sub": "ada",
        "aud": resource,
        "client_id": "app",
        "scope": "mcp",
        "jti": random_token(),
        "iat": now,
        "exp": now + 600,
    });
    for (name, value) in changes.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    shared.identity_key.sign_jwt(json!({"typ": "at+jwt", "kid": KEY_ID}), &claims)
}

fn refresh_token_grant(
    store: &mut GrantStore,
    request: &ObservedRequest,
    client: &str,
    key: Option<String>,
) -> Result<TokenResponse, OAuthError> {
    let error_code = store.config.find_quirk(|quirk| {
        if let OAuthQuirk::RefreshErrorCode(error_code) = quirk {
            Some(error_code.clone())
        } else {
            None
        }
    });
    let error_code = error_code.unwrap_or_else(|| "invalid_grant".to_owned());
    let refuse = |description| Err(OAuthError::new(&error_code, description));
    let grant = match store.redeem_refresh_token(request.field("refresh_token")) {
        RefreshOutcome::Valid(grant) => grant,
        RefreshOutcome::Invalid => return refuse("the refresh token is invalid"),
    };
    if grant.client != client || grant.site != request.site || grant.dpop_thumbprint != key {
        return refuse("the refresh token belongs to another client or key");
    }
    let requested_scopes: BTreeSet<String> =
        request.field("scope").split_whitespace().map(str::to_owned).collect();
    if !requested_scopes.is_subset(&grant.scopes) {
        return Err(OAuthError::new("invalid_scope", "the scope exceeds the grant"));
    }
    let with_refresh = match store.config.has_quirk(&OAuthQuirk::NoRefreshRotation) {
        true => RefreshTokenIssue::No,
        false => RefreshTokenIssue::Yes,
    };
    let pair = store.issue(&grant, with_refresh);
    Ok(TokenResponse::Tokens { grant, pair, id_token: None })
}

fn token_response(store: &GrantStore, site: Site, issued: TokenResponse) -> Response {
    let config = &store.config;
    let has = |quirk: &OAuthQuirk| site != Site::Identity && config.has_quirk(quirk);
    let body = match issued {
        TokenResponse::Raw(body) => body,
        TokenResponse::Tokens { grant, pair, id_token } => {
            let kind = if grant.dpop_thumbprint.is_some() { "DPoP" } else { "Bearer" };
            let mut body = json!({"access_token": pair.access});
            if !has(&OAuthQuirk::NoTokenType) {
                body["token_type"] = json!(kind);
            }
            if has(&OAuthQuirk::ExpiresInAsString) {
                body["expires_in"] = json!(config.token_lifetime.to_string());
            } else if !has(&OAuthQuirk::NoExpiresIn) {
                body["expires_in"] = json!(config.token_lifetime);
            }
            if let Some(refresh) = pair.refresh {
                body["refresh_token"] = json!(refresh);
            }
            if let Some(id_token) = id_token {
                body["id_token"] = json!(id_token);
            }
            if !grant.scopes.is_empty() {
                let separator = if has(&OAuthQuirk::CommaSeparatedScopes) { "," } else { " " };
                let scopes: Vec<&str> = grant.scopes.iter().map(String::as_str).collect();
                body["scope"] = json!(scopes.join(separator));
            }
            match has(&OAuthQuirk::TokensInAuthedUser) {
                true => json!({"ok": true, "authed_user": body}),
                false => body,
            }
        }
    };
    with_no_store(json_response(StatusCode::OK, Body::from(body.to_string())))
}

/// Revokes tokens (RFC 7009). An unknown token is no error.
pub(crate) fn revoke(shared: &SharedState, request: &ObservedRequest) -> Response {
    let mut store = shared.store();
    match authenticate_client(shared, &mut store, request) {
        Ok(_) => {
            store.revoke(request.field("token"));
            empty_response(StatusCode::OK)
        }
        Err(error) => error.to_response(&store.config),
    }
}
