//! Tokens for other tokens: an assertion for an access token (RFC 7523), and at the identity provider an id token for
//! the assertion that a resource's own authorization server takes (RFC 8693 and its profile for enterprises).

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
/// What the header of such an assertion says.
const ID_JAG_TYPE: &str = "oauth-id-jag+jwt";
/// How long an assertion lives, in seconds.
const LIFETIME_SECONDS: u64 = 300;

/// Is an assertion signed by the identity provider, meant for us, still good, and not used before?
pub(crate) fn verify_assertion(
    shared: &SharedState,
    store: &mut GrantStore,
    request: &ObservedRequest,
    client: &str,
) -> Result<(), OAuthError> {
    let refuse = |description| Err(OAuthError::new("invalid_grant", description));
    let Some(token) = UnverifiedJwt::parse(request.field("assertion")) else {
        return refuse("the assertion is no token");
    };
    let claims = &token.claims;
    if !token.is_signed_by(&shared.identity_key.public_jwk())
        || claims["iss"] != shared.origins.identity
    {
        return refuse("the assertion is signed by nobody whom we trust");
    }
    if claims["aud"] != shared.issuer_url(&store.config, request.site) {
        return refuse("the assertion is for somebody else");
    }
    if claims["exp"].as_u64().is_none_or(|until| until <= super::unix_time()) {
        return refuse("the assertion is over");
    }
    if token.header["typ"] == ID_JAG_TYPE
        && (claims["client_id"] != client || claims["resource"] != shared.resource_url())
    {
        return refuse("the assertion is for another client or resource");
    }
    match claims["jti"].as_str() {
        Some(name) if store.used_jtis.insert(format!("assertion {name}")) => Ok(()),
        Some(_) | None => refuse("the assertion was used before, or has no name"),
    }
}

/// An id token becomes an assertion for another authorization server.
pub(crate) fn exchange(
    shared: &SharedState,
    config: &AuthorizationConfig,
    request: &ObservedRequest,
    client: &str,
) -> Result<Value, OAuthError> {
    if request.field("requested_token_type") != ID_JAG
        || request.field("subject_token_type") != ID_TOKEN
    {
        return Err(OAuthError::new("invalid_request", "only id tokens are taken, for assertions"));
    }
    let subject = UnverifiedJwt::parse(request.field("subject_token"));
    let is_valid = |token: &UnverifiedJwt| {
        token.is_signed_by(&shared.identity_key.public_jwk())
            && token.claims["aud"] == client
            && token.claims["exp"].as_u64().is_some_and(|until| until > super::unix_time())
    };
    let Some(subject) = subject.filter(is_valid) else {
        return Err(OAuthError::new("invalid_grant", "the id token is not good, or not yours"));
    };
    let issuer = shared.issuer_url(config, Site::Issuer);
    if request.field("audience") != issuer || request.field("resource") != shared.resource_url() {
        return Err(OAuthError::new("invalid_target", "nobody signs in there through us"));
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

/// What a platform says about a program that runs on it.
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
