//! Exchanges tokens: an assertion for an access token (RFC 7523), and at the identity provider an id token for an
//! assertion to a resource's authorization server (RFC 8693 with the ID-JAG profile).

use serde_json::{Value, json};

use super::config::AuthorizationConfig;
use super::grant_store::GrantStore;
use super::jwt::UnverifiedJwt;
use super::oauth_error::OAuthError;
use super::observed_request::{ObservedRequest, Site};
use super::shared_state::{KEY_ID, SharedState};
use crate::random::random_token;

const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// The `typ` header of an ID-JAG assertion.
const ID_JAG_TYPE: &str = "oauth-id-jag+jwt";
/// The lifetime of an assertion in seconds.
const LIFETIME_SECONDS: u64 = 300;

/// Verifies an assertion: signature, audience, expiry and single use.
pub(crate) fn verify_assertion(
    shared: &SharedState,
    store: &mut GrantStore,
    request: &ObservedRequest,
    client: &str,
) -> Result<(), OAuthError> {
    let refuse = |description| Err(OAuthError::new("invalid_grant", description));
    let Some(token) = UnverifiedJwt::parse(request.field("assertion")) else {
        return refuse("the assertion is not a JWT");
    };
    let claims = &token.claims;
    if !token.is_signed_by(&shared.identity_key.public_jwk())
        || claims["iss"] != shared.origins.identity
    {
        return refuse("the assertion has an invalid signature or issuer");
    }
    if claims["aud"] != shared.issuer_url(&store.config, request.site) {
        return refuse("the assertion has the wrong audience");
    }
    if claims["exp"].as_u64().is_none_or(|until| until <= super::unix_time()) {
        return refuse("the assertion has expired");
    }
    if token.header["typ"] == ID_JAG_TYPE
        && (claims["client_id"] != client || claims["resource"] != shared.resource_url())
    {
        return refuse("the assertion is for another client or resource");
    }
    match claims["jti"].as_str() {
        Some(name) if store.used_jtis.insert(format!("assertion {name}")) => Ok(()),
        Some(_) | None => refuse("the assertion was used before or has no jti"),
    }
}

/// Exchanges an id token for an assertion to another authorization server.
pub(crate) fn exchange(
    shared: &SharedState,
    config: &AuthorizationConfig,
    request: &ObservedRequest,
    client: &str,
) -> Result<Value, OAuthError> {
    if request.field("requested_token_type") != ID_JAG
        || request.field("subject_token_type") != ID_TOKEN
    {
        return Err(OAuthError::new(
            "invalid_request",
            "only an id token can be exchanged, for an ID-JAG",
        ));
    }
    let subject = UnverifiedJwt::parse(request.field("subject_token"));
    let is_valid = |token: &UnverifiedJwt| {
        token.is_signed_by(&shared.identity_key.public_jwk())
            && token.claims["aud"] == client
            && token.claims["exp"].as_u64().is_some_and(|until| until > super::unix_time())
    };
    let Some(subject) = subject.filter(is_valid) else {
        return Err(OAuthError::new("invalid_grant", "the id token is invalid"));
    };
    let issuer = shared.issuer_url(config, Site::Issuer);
    if request.field("audience") != issuer || request.field("resource") != shared.resource_url() {
        return Err(OAuthError::new("invalid_target", "the audience or resource is unknown"));
    }
    let for_client = config.id_jag_client.as_deref().unwrap_or(client);
    let assertion = id_jag(shared, &issuer, for_client, subject.claims["sub"].as_str());
    Ok(json!({
        "access_token": assertion,
        "issued_token_type": ID_JAG,
        "token_type": "N_A",
        "expires_in": LIFETIME_SECONDS,
    }))
}

fn id_jag(shared: &SharedState, audience: &str, client: &str, subject: Option<&str>) -> String {
    let now = super::unix_time();
    let claims = json!({
        "iss": shared.origins.identity,
        "sub": subject,
        "aud": audience,
        "client_id": client,
        "resource": shared.resource_url(),
        "jti": random_token(),
        "iat": now,
        "exp": now + LIFETIME_SECONDS,
    });
    shared.identity_key.sign_jwt(json!({"typ": ID_JAG_TYPE, "kid": KEY_ID}), &claims)
}

/// A platform's token about a workload.
pub(crate) fn workload_token(shared: &SharedState, audience: &str, lifetime: i64) -> String {
    let now = super::unix_time();
    let claims = json!({
        "iss": shared.origins.identity,
        "sub": "workload:build-7",
        "aud": audience,
        "jti": random_token(),
        "iat": now,
        "exp": now.saturating_add_signed(lifetime),
    });
    shared.identity_key.sign_jwt(json!({"typ": "JWT", "kid": KEY_ID}), &claims)
}
