//! The metadata documents of the resource, the authorization server and the identity provider, and their paths.

use serde_json::{Value, json};

use super::config::{
    AuthorizationConfig, ClientMetadataDocuments, DpopPolicy, IssuerMetadataLocation,
    IssuerParameter, OAuthQuirk, Registration, ResourceMetadataLocation,
};
use super::observed_request::Site;
use super::shared_state::SharedState;

/// The path of the protected resource metadata if only the challenge names it.
const UNLISTED_METADATA_PATH: &str = "/about/this-resource.json";

/// The protected resource metadata (RFC 9728).
pub fn protected_resource_metadata(shared: &SharedState, config: &AuthorizationConfig) -> Value {
    let resource = match config.has_quirk(&OAuthQuirk::WrongResourceInMetadata) {
        true => format!("{}/mcp", shared.origins.attacker),
        false => shared.resource_url(),
    };
    let mut metadata = json!({
        "resource": resource,
        "authorization_servers": [shared.issuer_url(config, Site::Issuer)],
        "bearer_methods_supported": ["header"],
    });
    if !config.resource_scopes.is_empty() {
        metadata["scopes_supported"] = json!(config.resource_scopes);
    }
    match config.dpop {
        DpopPolicy::Ignored => {}
        DpopPolicy::Optional => metadata["dpop_signing_alg_values_supported"] = json!(["ES256"]),
        DpopPolicy::Required | DpopPolicy::RequiredWithNonce => {
            metadata["dpop_signing_alg_values_supported"] = json!(["ES256"]);
            metadata["dpop_bound_access_tokens_required"] = json!(true);
        }
    }
    metadata
}

/// The authorization server metadata (RFC 8414 or OpenID Connect).
pub fn authorization_server_metadata(shared: &SharedState, config: &AuthorizationConfig) -> Value {
    let issuer = shared.issuer_url(config, Site::Issuer);
    let advertised_issuer = match config.has_quirk(&OAuthQuirk::WrongIssuerInMetadata) {
        true => shared.origins.attacker.clone(),
        false => issuer.clone(),
    };
    let custom_endpoint = config.find_quirk(|quirk| match quirk {
        OAuthQuirk::AuthorizationEndpoint(url) => Some(url.clone()),
        OAuthQuirk::ErrorsWithStatus200
        | OAuthQuirk::RefreshErrorCode(_)
        | OAuthQuirk::ExpiresInAsString
        | OAuthQuirk::NoExpiresIn
        | OAuthQuirk::NoTokenType
        | OAuthQuirk::TokensInAuthedUser
        | OAuthQuirk::CommaSeparatedScopes
        | OAuthQuirk::NoRefreshRotation
        | OAuthQuirk::NoRefreshTokens
        | OAuthQuirk::WrongIssuerInMetadata
        | OAuthQuirk::WrongResourceInMetadata
        | OAuthQuirk::AlwaysInsufficientScope => None,
    });
    let mut metadata = json!({
        "issuer": advertised_issuer,
        "authorization_endpoint": custom_endpoint.unwrap_or_else(|| format!("{issuer}/authorize")),
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
        "token_endpoint_auth_methods_supported": config.auth_methods,
        "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
    });
    match config.registration {
        Registration::Absent => {}
        Registration::Public | Registration::WithSecret | Registration::Refused => {
            metadata["registration_endpoint"] = json!(format!("{issuer}/register"));
        }
    }
    if config.client_metadata_documents == ClientMetadataDocuments::Supported {
        metadata["client_id_metadata_document_supported"] = json!(true);
    }
    match config.issuer_parameter {
        IssuerParameter::Unannounced | IssuerParameter::Absent => {}
        IssuerParameter::Announced | IssuerParameter::Missing | IssuerParameter::Wrong => {
            metadata["authorization_response_iss_parameter_supported"] = json!(true);
        }
    }
    if config.dpop != DpopPolicy::Ignored {
        metadata["dpop_signing_alg_values_supported"] = json!(["ES256"]);
    }
    if !config.issuer_scopes.is_empty() {
        metadata["scopes_supported"] = json!(config.issuer_scopes);
    }
    if config.device.is_some() {
        metadata["device_authorization_endpoint"] = json!(format!("{issuer}/device"));
        if let Some(grants) = metadata["grant_types_supported"].as_array_mut() {
            grants.push(json!("urn:ietf:params:oauth:grant-type:device_code"));
        }
    }
    metadata
}

/// The identity provider metadata.
pub fn identity_provider_metadata(shared: &SharedState) -> Value {
    let issuer = &shared.origins.identity;
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

/// The path of the protected resource metadata.
pub(crate) fn resource_metadata_path(location: ResourceMetadataLocation) -> Option<&'static str> {
    match location {
        ResourceMetadataLocation::AtPath => Some("/.well-known/oauth-protected-resource/mcp"),
        ResourceMetadataLocation::AtRoot => Some("/.well-known/oauth-protected-resource"),
        ResourceMetadataLocation::InChallengeOnly => Some(UNLISTED_METADATA_PATH),
        ResourceMetadataLocation::Absent => None,
    }
}

/// The path of the authorization server metadata.
pub(crate) fn issuer_metadata_path(config: &AuthorizationConfig) -> Option<String> {
    let path = &config.issuer_path;
    match config.issuer_metadata {
        IssuerMetadataLocation::OauthInserted => {
            Some(format!("/.well-known/oauth-authorization-server{path}"))
        }
        IssuerMetadataLocation::OidcInserted => {
            Some(format!("/.well-known/openid-configuration{path}"))
        }
        IssuerMetadataLocation::OidcAppended => {
            Some(format!("{path}/.well-known/openid-configuration"))
        }
        IssuerMetadataLocation::Absent => None,
    }
}
