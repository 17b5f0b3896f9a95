//! The authorization server of a connector account: discovery, registration, a user who approves at once, codes,
//! refresh tokens that are used once, devices and revocation.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use serde_json::{Value, json};
use std::sync::Arc;
use url::form_urlencoded;

use super::AccountState;
use crate::http::response::{empty_response, json_response, with_header};
use crate::random::random_token;

/// The routes of the authorization server.
pub(super) fn routes() -> Router<Arc<AccountState>> {
    Router::new()
        .route("/.well-known/oauth-protected-resource", get(resource_metadata))
        .route("/.well-known/oauth-protected-resource/{*path}", get(resource_metadata))
        .route("/.well-known/oauth-authorization-server", get(issuer_metadata))
        .route("/register", post(register))
        .route("/authorize", get(authorize))
        .route("/device", post(device))
        .route("/token", post(token))
        .route("/revoke", post(revoke))
}

/// Whether a path belongs to the authorization server, which needs no token.
pub(super) fn is_public(path: &str) -> bool {
    path.starts_with("/.well-known/")
        || matches!(path, "/register" | "/authorize" | "/device" | "/token" | "/revoke")
}

fn answer(body: &Value) -> Response {
    json_response(StatusCode::OK, Body::from(body.to_string()))
}

async fn resource_metadata(State(state): State<Arc<AccountState>>) -> Response {
    let origin = &state.origin;
    answer(&json!({"resource": state.list_url(), "authorization_servers": [origin]}))
}

async fn issuer_metadata(State(state): State<Arc<AccountState>>) -> Response {
    let origin = &state.origin;
    answer(&json!({
        "issuer": origin,
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "registration_endpoint": format!("{origin}/register"),
        "device_authorization_endpoint": format!("{origin}/device"),
        "revocation_endpoint": format!("{origin}/revoke"),
        "response_types_supported": ["code"],
        "grant_types_supported": [
            "authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code",
        ],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    }))
}

async fn register(request: Request) -> Response {
    let bytes = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap_or_default();
    let mut client: Value = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!({}));
    client["client_id"] = "registered".into();
    client["token_endpoint_auth_method"] = "none".into();
    json_response(StatusCode::CREATED, Body::from(client.to_string()))
}

async fn authorize(State(state): State<Arc<AccountState>>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let parameter = |name: &str| {
        let found = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned())
    };
    let Some(redirect) = parameter("redirect_uri") else {
        return empty_response(StatusCode::BAD_REQUEST);
    };
    let code = random_token();
    state.grants().codes.push(code.clone());
    let answer: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("code", &code)
        .append_pair("state", &parameter("state").unwrap_or_default())
        .append_pair("iss", &state.origin)
        .finish();
    with_header(empty_response(StatusCode::FOUND), "location", &format!("{redirect}?{answer}"))
}

async fn device(State(state): State<Arc<AccountState>>) -> Response {
    let code = random_token();
    state.grants().codes.push(code.clone());
    answer(&json!({
        "device_code": code,
        "user_code": "ABCD-EFGH",
        "verification_uri": format!("{}/activate", state.origin),
        "expires_in": 600,
        "interval": 1,
    }))
}

async fn token(State(state): State<Arc<AccountState>>, request: Request) -> Response {
    let bytes = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap_or_default();
    let field = |name: &str| {
        let found = form_urlencoded::parse(&bytes).find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned()).unwrap_or_default()
    };
    let mut grants = state.grants();
    let (list, used) = match field("grant_type").as_str() {
        "refresh_token" => {
            grants.refreshes += 1;
            (&mut grants.refresh_tokens, field("refresh_token"))
        }
        "authorization_code" => {
            grants.logins += 1;
            (&mut grants.codes, field("code"))
        }
        _ => {
            grants.logins += 1;
            (&mut grants.codes, field("device_code"))
        }
    };
    let Some(index) = list.iter().position(|it| *it == used) else {
        let body = Body::from(json!({"error": "invalid_grant"}).to_string());
        return json_response(StatusCode::BAD_REQUEST, body);
    };
    list.remove(index);
    let refresh = random_token();
    grants.refresh_tokens.push(refresh.clone());
    drop(grants);
    answer(&json!({
        "access_token": state.replace_token(),
        "token_type": "Bearer",
        "refresh_token": refresh,
        "expires_in": 3600,
    }))
}

async fn revoke(State(state): State<Arc<AccountState>>) -> Response {
    state.end_session();
    empty_response(StatusCode::OK)
}
