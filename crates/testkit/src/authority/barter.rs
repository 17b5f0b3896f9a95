//! Tokens for other tokens: an assertion for an access token (RFC 7523), and at the identity provider an id token for
//! the assertion that a resource's own authorization server takes (RFC 8693 and its profile for enterprises).

use serde_json::{Value, json};

use super::charter::AuthorizationConfig;
use super::enrolment::OAuthError;
use super::ledger::GrantStore;
use super::premises::{KEY_ID, ReceivedRequest, SharedState};
use super::sighting::Site;
use super::signature_key::{UnverifiedJwt, random_token};

const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// What the header of such an assertion says.
const ID_JAG_TYPE: &str = "oauth-id-jag+jwt";
/// How long an assertion lives, in seconds.
const LIFETIME_SECONDS: u64 = 300;

/// Is an assertion signed by the identity provider, meant for us, still good, and not used before?
pub(super) fn verify_assertion(
    premises: &SharedState,
    ledger: &mut GrantStore,
    request: &ReceivedRequest,
    client: &str,
) -> Result<(), OAuthError> {
    let refuse = |description| Err(OAuthError::new("invalid_grant", description));
    let Some(token) = UnverifiedJwt::parse(request.observed.field("assertion")) else {
        return refuse("the assertion is no token");
    };
    let claims = &token.claims;
    if !token.is_signed_by(&premises.identity_key.public_jwk())
        || claims["iss"] != premises.origins.identity
    {
        return refuse("the assertion is signed by nobody whom we trust");
    }
    if claims["aud"] != premises.issuer_url(&ledger.config, request.site) {
        return refuse("the assertion is for somebody else");
    }
    if claims["exp"].as_u64().is_none_or(|until| until <= super::unix_time()) {
        return refuse("the assertion is over");
    }
    if token.header["typ"] == ID_JAG_TYPE
        && (claims["client_id"] != client || claims["resource"] != premises.resource_url())
    {
        return refuse("the assertion is for another client or resource");
    }
    match claims["jti"].as_str() {
        Some(name) if ledger.used_jtis.insert(format!("assertion {name}")) => Ok(()),
        Some(_) | None => refuse("the assertion was used before, or has no name"),
    }
}

/// An id token becomes an assertion for another authorization server.
pub(super) fn exchange(
    premises: &SharedState,
    charter: &AuthorizationConfig,
    request: &ReceivedRequest,
    client: &str,
) -> Result<Value, OAuthError> {
    let seen = &request.observed;
    if seen.field("requested_token_type") != ID_JAG || seen.field("subject_token_type") != ID_TOKEN
    {
        return Err(OAuthError::new("invalid_request", "only id tokens are taken, for assertions"));
    }
    let subject = UnverifiedJwt::parse(seen.field("subject_token"));
    let is_valid = |token: &UnverifiedJwt| {
        token.is_signed_by(&premises.identity_key.public_jwk())
            && token.claims["aud"] == client
            && token.claims["exp"].as_u64().is_some_and(|until| until > super::unix_time())
    };
    let Some(subject) = subject.filter(is_valid) else {
        return Err(OAuthError::new("invalid_grant", "the id token is not good, or not yours"));
    };
    let issuer = premises.issuer_url(charter, Site::Issuer);
    if seen.field("audience") != issuer || seen.field("resource") != premises.resource_url() {
        return Err(OAuthError::new("invalid_target", "nobody signs in there through us"));
    }
    let for_client = charter.id_jag_client.as_deref().unwrap_or(client);
    let assertion = id_jag(premises, &issuer, for_client, subject.claims["sub"].as_str());
    Ok(json!({
        "access_token": assertion,
        "issued_token_type": ID_JAG,
        "token_type": "N_A",
        "expires_in": LIFETIME_SECONDS,
    }))
}

fn id_jag(premises: &SharedState, audience: &str, client: &str, subject: Option<&str>) -> String {
    let now = super::unix_time();
    let claims = json!({
        "iss": premises.origins.identity,
        "sub": subject,
        "aud": audience,
        "client_id": client,
        "resource": premises.resource_url(),
        "jti": random_token(),
        "iat": now,
        "exp": now + LIFETIME_SECONDS,
    });
    premises.identity_key.sign_jwt(json!({"typ": ID_JAG_TYPE, "kid": KEY_ID}), &claims)
}

/// What a platform says about a program that runs on it.
pub(super) fn workload_token(premises: &SharedState, audience: &str, lifetime: i64) -> String {
    let now = super::unix_time();
    let claims = json!({
        "iss": premises.origins.identity,
        "sub": "workload:build-7",
        "aud": audience,
        "jti": random_token(),
        "iat": now,
        "exp": now.saturating_add_signed(lifetime),
    });
    premises.identity_key.sign_jwt(json!({"typ": "JWT", "kid": KEY_ID}), &claims)
}
