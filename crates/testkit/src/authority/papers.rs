//! The documents in which an authority says what it is: the resource's, the authorization server's, the identity
//! provider's.

use serde_json::{Value, json};

use super::charter::{Binding, Charter, Documents, Habit, IssuerParameter, Registration};
use super::premises::Premises;
use super::sighting::Site;

/// The resource's metadata (RFC 9728).
pub fn of_resource(premises: &Premises, charter: &Charter) -> Value {
    let resource = match charter.has(&Habit::NamesAnotherResource) {
        true => format!("{}/mcp", premises.origins.elsewhere),
        false => premises.resource(),
    };
    let mut paper = json!({
        "resource": resource,
        "authorization_servers": [premises.issuer(charter, Site::Issuer)],
        "bearer_methods_supported": ["header"],
    });
    if !charter.resource_scopes.is_empty() {
        paper["scopes_supported"] = json!(charter.resource_scopes);
    }
    match charter.binding {
        Binding::Ignored => {}
        Binding::Offered => paper["dpop_signing_alg_values_supported"] = json!(["ES256"]),
        Binding::Demanded | Binding::WithNonce => {
            paper["dpop_signing_alg_values_supported"] = json!(["ES256"]);
            paper["dpop_bound_access_tokens_required"] = json!(true);
        }
    }
    paper
}

/// The authorization server's metadata (RFC 8414, or OpenID Connect's).
pub fn of_issuer(premises: &Premises, charter: &Charter) -> Value {
    let issuer = premises.issuer(charter, Site::Issuer);
    let named = match charter.has(&Habit::NamesAnotherIssuer) {
        true => premises.origins.elsewhere.clone(),
        false => issuer.clone(),
    };
    let elsewhere = charter.habit_with(|habit| match habit {
        Habit::SendsPeopleTo(url) => Some(url.clone()),
        Habit::ErrorsLookWell
        | Habit::RefusesRefreshAs(_)
        | Habit::ExpiryIsText
        | Habit::NoExpiry
        | Habit::NoTokenType
        | Habit::NestedTokens
        | Habit::ScopesWithCommas
        | Habit::NoRotation
        | Habit::NoRefreshTokens
        | Habit::NamesAnotherIssuer
        | Habit::NamesAnotherResource
        | Habit::NeverEnough => None,
    });
    let mut paper = json!({
        "issuer": named,
        "authorization_endpoint": elsewhere.unwrap_or_else(|| format!("{issuer}/authorize")),
        "token_endpoint": format!("{issuer}/token"),
        "revocation_endpoint": format!("{issuer}/revoke"),
        "jwks_uri": format!("{issuer}/jwks"),
        "response_types_supported": ["code"],
        "grant_types_supported": [
            "authorization_code",
            "refresh_token",
            "client_credentials",
            "urn:ietf:params:oauth:grant-type:jwt-bearer",
        ],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": charter.auth_methods,
        "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
    });
    match charter.registration {
        Registration::Absent => {}
        Registration::Public | Registration::WithSecret | Registration::Refused => {
            paper["registration_endpoint"] = json!(format!("{issuer}/register"));
        }
    }
    if charter.documents == Documents::Taken {
        paper["client_id_metadata_document_supported"] = json!(true);
    }
    match charter.issuer_parameter {
        IssuerParameter::Unannounced | IssuerParameter::Absent => {}
        IssuerParameter::Announced | IssuerParameter::Missing | IssuerParameter::Wrong => {
            paper["authorization_response_iss_parameter_supported"] = json!(true);
        }
    }
    if charter.binding != Binding::Ignored {
        paper["dpop_signing_alg_values_supported"] = json!(["ES256"]);
    }
    if !charter.issuer_scopes.is_empty() {
        paper["scopes_supported"] = json!(charter.issuer_scopes);
    }
    if charter.device.is_some() {
        paper["device_authorization_endpoint"] = json!(format!("{issuer}/device"));
        if let Some(grants) = paper["grant_types_supported"].as_array_mut() {
            grants.push(json!("urn:ietf:params:oauth:grant-type:device_code"));
        }
    }
    paper
}

/// The identity provider's metadata.
pub fn of_identity(premises: &Premises) -> Value {
    let issuer = &premises.origins.identity;
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/jwks"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "code_challenge_methods_supported": ["S256"],
        "scopes_supported": ["openid", "offline_access"],
        "grant_types_supported": [
            "authorization_code",
            "refresh_token",
            "urn:ietf:params:oauth:grant-type:token-exchange",
        ],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        "authorization_response_iss_parameter_supported": true,
    })
}
