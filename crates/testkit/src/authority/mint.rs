//! Where tokens are had and given back. What is no code and no refresh token is left to `barter` and `device_counter`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::charter::{DpopPolicy, OAuthQuirk, ResourceIndicator};
use super::enrolment::{OAuthError, authenticate_client, with_no_store};
use super::ledger::{
    AuthorizationCode, Grant, GrantStore, RefreshOutcome, RefreshTokenIssue, TokenPair,
};
use super::premises::{KEY_ID, ReceivedRequest, SharedState};
use super::proof_check::{self, DpopError, ExpectedProof};
use super::sighting::Site;
use super::signature_key::{random_token, sha256_base64url};
use super::{barter, device_counter};
use crate::scripted::{empty_response, json_response, with_header};

/// The number that proofs have to repeat at the token endpoint.
const NONCE: &str = "number-of-the-issuer";
/// How long an id token lives, in seconds.
const ID_TOKEN_LIFETIME_SECONDS: u64 = 3600;

/// What is handed out.
#[derive(Debug)]
pub(super) enum TokenResponse {
    /// Tokens of our own.
    Tokens { grant: Grant, pair: TokenPair, id_token: Option<String> },
    /// Something else, as it is answered.
    Raw(Value),
}

/// A refresh that is under way, until it is dropped: whoever asks may leave in the middle.
struct RefreshInProgress(Arc<SharedState>);

impl RefreshInProgress {
    fn begin(premises: &Arc<SharedState>) -> RefreshInProgress {
        premises.store().refresh_started();
        RefreshInProgress(Arc::clone(premises))
    }
}

impl Drop for RefreshInProgress {
    fn drop(&mut self) {
        self.0.store().refresh_ended();
    }
}

/// Answers at the token endpoint.
pub(super) async fn respond(premises: &Arc<SharedState>, request: &ReceivedRequest) -> Response {
    if request.observed.method != "POST" {
        return empty_response(StatusCode::METHOD_NOT_ALLOWED);
    }
    let is_refresh = request.observed.field("grant_type") == "refresh_token";
    let refresh_guard = is_refresh.then(|| RefreshInProgress::begin(premises));
    let delay_ms = premises.store().config.token_delay_ms;
    tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    let mut ledger = premises.store();
    let response = match issue_tokens(premises, &mut ledger, request) {
        Ok(issued) => token_response(&ledger, request.site, issued),
        Err(refusal) => {
            let response = refusal.to_response(&ledger.config);
            match refusal.error.as_str() {
                "use_dpop_nonce" => with_header(response, "dpop-nonce", NONCE),
                _ => response,
            }
        }
    };
    drop(ledger);
    drop(refresh_guard);
    response
}

fn issue_tokens(
    premises: &SharedState,
    ledger: &mut GrantStore,
    request: &ReceivedRequest,
) -> Result<TokenResponse, OAuthError> {
    let client = authenticate_client(premises, ledger, request)?;
    let key = dpop_thumbprint(premises, ledger, request)?;
    match request.observed.field("grant_type") {
        "authorization_code" => authorization_code_grant(premises, ledger, request, (client, key)),
        "refresh_token" => refresh_token_grant(ledger, request, &client, key),
        "client_credentials" => {
            let is_confidential = ledger
                .clients
                .get(&client)
                .is_some_and(|it| it.secret.is_some() || it.key.is_some());
            if !is_confidential {
                return Err(OAuthError::new("unauthorized_client", "anybody could say that"));
            }
            let grant = new_grant(premises, ledger, request, (client, key))?;
            let pair = ledger.issue(&grant, RefreshTokenIssue::No);
            Ok(TokenResponse::Tokens { grant, pair, id_token: None })
        }
        "urn:ietf:params:oauth:grant-type:jwt-bearer" => {
            barter::verify_assertion(premises, ledger, request, &client)?;
            let grant = new_grant(premises, ledger, request, (client, key))?;
            let pair = ledger.issue(&grant, RefreshTokenIssue::No);
            Ok(TokenResponse::Tokens { grant, pair, id_token: None })
        }
        "urn:ietf:params:oauth:grant-type:token-exchange" if request.site == Site::Identity => {
            barter::exchange(premises, &ledger.config, request, &client).map(TokenResponse::Raw)
        }
        "urn:ietf:params:oauth:grant-type:device_code" => {
            let mut grant = device_counter::poll(ledger, request, &client)?;
            grant.dpop_thumbprint = key;
            let pair = ledger.issue(&grant, RefreshTokenIssue::Yes);
            Ok(TokenResponse::Tokens { grant, pair, id_token: None })
        }
        _ => Err(OAuthError::new("unsupported_grant_type", "tokens are not had in this way here")),
    }
}

/// The key that new tokens are bound to.
fn dpop_thumbprint(
    premises: &SharedState,
    ledger: &mut GrantStore,
    request: &ReceivedRequest,
) -> Result<Option<String>, OAuthError> {
    let binding = ledger.config.dpop;
    if request.site == Site::Identity || binding == DpopPolicy::Ignored {
        return Ok(None);
    }
    let url = format!("{}/token", premises.issuer_url(&ledger.config, request.site));
    let expected_proof = ExpectedProof { url: &url, nonce: NONCE, token: None };
    match proof_check::verify_proof(ledger, &request.observed, expected_proof) {
        Ok(None) if binding != DpopPolicy::Optional => {
            Err(OAuthError::new("invalid_dpop_proof", "there is no proof"))
        }
        Ok(key) => Ok(key),
        Err(DpopError::NonceRequired) => Err(OAuthError::new("use_dpop_nonce", "say our number")),
        Err(DpopError::Invalid(why)) => Err(OAuthError::new("invalid_dpop_proof", why)),
    }
}

fn check_resource(
    premises: &SharedState,
    ledger: &GrantStore,
    request: &ReceivedRequest,
) -> Result<(), OAuthError> {
    let is_for_resource = request.site == Site::Identity
        || ledger.config.resource_indicator == ResourceIndicator::Ignored
        || request.observed.field("resource") == premises.resource_url();
    match is_for_resource {
        true => Ok(()),
        false => Err(OAuthError::new("invalid_target", "that is not a resource of ours")),
    }
}

fn new_grant(
    premises: &SharedState,
    ledger: &mut GrantStore,
    request: &ReceivedRequest,
    (client, key): (String, Option<String>),
) -> Result<Grant, OAuthError> {
    check_resource(premises, ledger, request)?;
    let scopes = request.observed.field("scope").split_whitespace().map(str::to_owned).collect();
    let resource = request.observed.fields.get("resource").cloned();
    let login = ledger.next_number();
    Ok(Grant { site: request.site, client, scopes, resource, dpop_thumbprint: key, login })
}

fn authorization_code_grant(
    premises: &SharedState,
    ledger: &mut GrantStore,
    request: &ReceivedRequest,
    (client, key): (String, Option<String>),
) -> Result<TokenResponse, OAuthError> {
    let seen = &request.observed;
    check_resource(premises, ledger, request)?;
    let code = ledger.take_code(seen.field("code"));
    let is_right = |code: &AuthorizationCode| {
        code.grant.client == client
            && code.grant.site == request.site
            && code.redirect_uri == seen.field("redirect_uri")
            && (43..=128).contains(&seen.field("code_verifier").len())
            && sha256_base64url(seen.field("code_verifier").as_bytes()) == code.challenge
    };
    let Some(code) = code.filter(is_right) else {
        return Err(OAuthError::new("invalid_grant", "the code is not good, or not yours"));
    };
    ledger.counters.logins += 1;
    let grant = Grant { dpop_thumbprint: key, ..code.grant };
    let pair = ledger.issue(&grant, RefreshTokenIssue::Yes);
    let is_identified = request.site == Site::Identity && grant.scopes.contains("openid");
    let id_token = is_identified.then(|| {
        id_token(premises, &grant.client, code.nonce.as_deref(), ID_TOKEN_LIFETIME_SECONDS)
    });
    Ok(TokenResponse::Tokens { grant, pair, id_token })
}

/// Says who somebody is, for so many seconds.
pub(super) fn id_token(
    premises: &SharedState,
    client: &str,
    nonce: Option<&str>,
    lifetime_seconds: u64,
) -> String {
    let now = super::unix_time();
    let mut claims = json!({
        "iss": premises.origins.identity,
        "sub": "ada",
        "aud": client,
        "iat": now,
        "exp": now + lifetime_seconds,
        "email": "ada@example.com",
    });
    if let Some(nonce) = nonce {
        claims["nonce"] = json!(nonce);
    }
    premises.identity_key.sign_jwt(json!({"typ": "JWT", "kid": KEY_ID}), &claims)
}

/// A token of the authorization server for a resource that checks signatures itself (RFC 9068).
pub(super) fn access_token(premises: &SharedState, resource: &str, changes: &Value) -> String {
    let now = super::unix_time();
    let mut claims = json!({
        "iss": premises.issuer_url(&premises.config(), Site::Issuer),
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
    premises.identity_key.sign_jwt(json!({"typ": "at+jwt", "kid": KEY_ID}), &claims)
}

fn refresh_token_grant(
    ledger: &mut GrantStore,
    request: &ReceivedRequest,
    client: &str,
    key: Option<String>,
) -> Result<TokenResponse, OAuthError> {
    let error_code = ledger.config.find_quirk(|habit| {
        if let OAuthQuirk::RefreshErrorCode(error_code) = habit {
            Some(error_code.clone())
        } else {
            None
        }
    });
    let error_code = error_code.unwrap_or_else(|| "invalid_grant".to_owned());
    let refuse = |description| Err(OAuthError::new(&error_code, description));
    let grant = match ledger.redeem_refresh_token(request.observed.field("refresh_token")) {
        RefreshOutcome::Valid(grant) => grant,
        RefreshOutcome::Invalid => return refuse("the refresh token is not good"),
    };
    if grant.client != client || grant.site != request.site || grant.dpop_thumbprint != key {
        return refuse("the refresh token is somebody else's");
    }
    let requested_scopes: BTreeSet<String> =
        request.observed.field("scope").split_whitespace().map(str::to_owned).collect();
    if !requested_scopes.is_subset(&grant.scopes) {
        return Err(OAuthError::new("invalid_scope", "that is more than was granted"));
    }
    let with_refresh = match ledger.config.has_quirk(&OAuthQuirk::NoRefreshRotation) {
        true => RefreshTokenIssue::No,
        false => RefreshTokenIssue::Yes,
    };
    let pair = ledger.issue(&grant, with_refresh);
    Ok(TokenResponse::Tokens { grant, pair, id_token: None })
}

fn token_response(ledger: &GrantStore, site: Site, issued: TokenResponse) -> Response {
    let charter = &ledger.config;
    let has = |habit: &OAuthQuirk| site != Site::Identity && charter.has_quirk(habit);
    let body = match issued {
        TokenResponse::Raw(body) => body,
        TokenResponse::Tokens { grant, pair, id_token } => {
            let kind = if grant.dpop_thumbprint.is_some() { "DPoP" } else { "Bearer" };
            let mut body = json!({"access_token": pair.access});
            if !has(&OAuthQuirk::NoTokenType) {
                body["token_type"] = json!(kind);
            }
            if has(&OAuthQuirk::ExpiresInAsString) {
                body["expires_in"] = json!(charter.token_lifetime.to_string());
            } else if !has(&OAuthQuirk::NoExpiresIn) {
                body["expires_in"] = json!(charter.token_lifetime);
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

/// Takes tokens back (RFC 7009). A token that nobody knows is no error.
pub(super) fn revoke(premises: &SharedState, request: &ReceivedRequest) -> Response {
    let mut ledger = premises.store();
    match authenticate_client(premises, &mut ledger, request) {
        Ok(_) => {
            ledger.revoke(request.observed.field("token"));
            empty_response(StatusCode::OK)
        }
        Err(refusal) => refusal.to_response(&ledger.config),
    }
}
