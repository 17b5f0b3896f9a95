//! Starts the four origins on one thread, records requests, and dispatches them to the endpoints.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::config::{AuthorizationConfig, IssuerOrigin};
use super::endpoint_fault::Endpoint;
use super::metadata::{issuer_metadata_path, resource_metadata_path};
use super::observed_request::{ObservedRequest, Site};
use super::shared_state::{KEY_ID, Origins, SharedState};
use super::{
    authorize_endpoint, clients, device_endpoint, metadata, resource_guard, token_endpoint,
};
use crate::http::loopback::{LoopbackListener, ServerThread};
use crate::http::recorded_request::recorded_headers;
use crate::http::response::{empty_response, json_response};
use crate::scripted::{ServerState, Transport, router};

/// Starts all origins.
pub(crate) fn start(
    config: AuthorizationConfig,
    server: Arc<ServerState>,
) -> io::Result<(Arc<SharedState>, ServerThread)> {
    let [resource, issuer, identity, attacker] = [
        LoopbackListener::bind()?,
        LoopbackListener::bind()?,
        LoopbackListener::bind()?,
        LoopbackListener::bind()?,
    ];
    let origins = Origins {
        resource: resource.origin.clone(),
        issuer: issuer.origin.clone(),
        identity: identity.origin.clone(),
        attacker: attacker.origin.clone(),
    };
    let shared = Arc::new(SharedState::new(origins, config));
    let not_found = || Router::new().fallback(async || empty_response(StatusCode::NOT_FOUND));
    let sites = [
        (Site::Resource, resource, router(Transport::Http, server)),
        (Site::Issuer, issuer, not_found()),
        (Site::Identity, identity, not_found()),
        (Site::Attacker, attacker, not_found()),
    ];
    let servers = sites.map(|(site, port, inner)| {
        let state = (Arc::clone(&shared), site);
        (port, inner.layer(from_fn_with_state(state, receive)))
    });
    let thread = ServerThread::spawn("auth-server", Vec::from(servers))?;
    Ok((shared, thread))
}

/// The endpoint that a request addresses.
fn endpoint(shared: &SharedState, received: &ObservedRequest) -> Option<Endpoint> {
    let store = shared.store();
    let config = &store.config;
    let path = received.path.as_str();
    if received.site == Site::Resource {
        if path == "/mcp" {
            return Some(Endpoint::Resource);
        }
        if Some(path) == resource_metadata_path(config.resource_metadata) {
            return Some(Endpoint::ResourceMetadata);
        }
    }
    let issuing_site = match config.issuer_origin {
        IssuerOrigin::Separate => Site::Issuer,
        IssuerOrigin::SameAsResource => Site::Resource,
    };
    let (metadata_path, base) = match received.site {
        Site::Identity => (Some("/.well-known/openid-configuration".to_owned()), ""),
        site if site == issuing_site => (issuer_metadata_path(config), config.issuer_path.as_str()),
        Site::Resource | Site::Issuer | Site::Attacker => return None,
    };
    if metadata_path.is_some_and(|it| it == path) {
        return Some(Endpoint::IssuerMetadata);
    }
    match path.strip_prefix(base)? {
        "/authorize" => Some(Endpoint::Authorize),
        "/token" if received.field("grant_type") == "refresh_token" => Some(Endpoint::Refresh),
        "/token" => Some(Endpoint::Token),
        "/register" => Some(Endpoint::Registration),
        "/revoke" => Some(Endpoint::Revocation),
        "/device" => Some(Endpoint::Device),
        "/jwks" => Some(Endpoint::Keys),
        _ => None,
    }
}

async fn receive(
    State((shared, site)): State<(Arc<SharedState>, Site)>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return empty_response(StatusCode::BAD_REQUEST);
    };
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    fields.extend(
        form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).into_owned(),
    );
    let is_form = parts
        .headers
        .get("content-type")
        .is_some_and(|it| it.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    if is_form {
        fields.extend(form_urlencoded::parse(&bytes).into_owned());
    }
    let received = ObservedRequest {
        site,
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        headers: recorded_headers(&parts.headers),
        fields,
        body: String::from_utf8_lossy(&bytes).into_owned(),
        status: None,
    };
    let number = {
        let mut store = shared.store();
        store.requests.push(received.clone());
        store.requests.len() - 1
    };
    let request = Request::from_parts(parts, Body::from(bytes));
    let response = respond(&shared, &received, (request, next)).await;
    shared.store().requests[number].status = Some(response.status().as_u16());
    response
}

async fn respond(
    shared: &Arc<SharedState>,
    received: &ObservedRequest,
    inner: (Request, Next),
) -> Response {
    let Some(endpoint) = endpoint(shared, received) else {
        return attacker_response(shared, received);
    };
    let faults = shared.store().count_request(endpoint);
    for fault in &faults {
        if let Some(response) = fault.replacement_response(&shared.origins.attacker).await {
            return response;
        }
    }
    let mut response = respond_at(endpoint, shared, received, inner).await;
    for fault in &faults {
        response = fault.alter_response(response).await;
    }
    response
}

async fn respond_at(
    endpoint: Endpoint,
    shared: &Arc<SharedState>,
    received: &ObservedRequest,
    (request, next): (Request, Next),
) -> Response {
    match endpoint {
        Endpoint::ResourceMetadata => metadata_response(&metadata::protected_resource_metadata(
            shared,
            &shared.store().config,
        )),
        Endpoint::IssuerMetadata => match received.site {
            Site::Identity => metadata_response(&metadata::identity_provider_metadata(shared)),
            Site::Resource | Site::Issuer | Site::Attacker => metadata_response(
                &metadata::authorization_server_metadata(shared, &shared.store().config),
            ),
        },
        Endpoint::Registration => clients::register(shared, received),
        Endpoint::Authorize => authorize_endpoint::authorize(shared, received).await,
        Endpoint::Token | Endpoint::Refresh => token_endpoint::respond(shared, received).await,
        Endpoint::Revocation => token_endpoint::revoke(shared, received),
        Endpoint::Device => device_endpoint::start(shared, received),
        Endpoint::Keys => {
            let mut key = shared.identity_key.public_jwk();
            key["kid"] = json!(KEY_ID);
            key["use"] = json!("sig");
            metadata_response(&json!({"keys": [key]}))
        }
        Endpoint::Resource => match resource_guard::check(shared, received) {
            Ok(()) => next.run(request).await,
            Err(rejection) => *rejection,
        },
    }
}

/// The attacker accepts every request.
fn attacker_response(shared: &SharedState, received: &ObservedRequest) -> Response {
    if received.site != Site::Attacker {
        return empty_response(StatusCode::NOT_FOUND);
    }
    let document = shared.client_document.lock().expect("no holder of the lock panics").clone();
    match document.filter(|_| received.path == "/client.json") {
        Some(document) => metadata_response(&document),
        None => metadata_response(&json!({})),
    }
}

/// A JSON document.
fn metadata_response(value: &Value) -> Response {
    json_response(StatusCode::OK, Body::from(value.to_string()))
}
