//! Device authorization (RFC 8628). The configuration decides the responses to polling.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::clients::authenticate_client;
use super::config::DeviceOutcome;
use super::grant_store::{DeviceAuthorization, Grant, GrantStore};
use super::oauth_error::{OAuthError, with_no_store};
use super::observed_request::{ObservedRequest, Site};
use super::shared_state::SharedState;
use crate::http::response::{empty_response, json_response};

/// Issues device and user codes.
pub(crate) fn start(shared: &SharedState, request: &ObservedRequest) -> Response {
    let mut store = shared.store();
    if store.config.device.is_none() {
        return empty_response(StatusCode::NOT_FOUND);
    }
    let client = match authenticate_client(shared, &mut store, request) {
        Ok(client) => client,
        Err(error) => return error.to_response(&store.config),
    };
    let code = store.new_token("device");
    let login = store.next_number();
    let grant = Grant {
        site: request.site,
        client,
        scopes: request.field("scope").split_whitespace().map(str::to_owned).collect(),
        resource: request.fields.get("resource").cloned(),
        dpop_thumbprint: None,
        login,
    };
    store.devices.insert(code.clone(), DeviceAuthorization { grant, polls: 0 });
    let verification_uri = format!("{}/activate", shared.issuer_url(&store.config, Site::Issuer));
    let body = json!({
        "device_code": code,
        "user_code": "WDJB-MJHT",
        "verification_uri": verification_uri,
        "verification_uri_complete": format!("{verification_uri}?user_code=WDJB-MJHT"),
        "expires_in": 600,
        "interval": 1,
    });
    with_no_store(json_response(StatusCode::OK, Body::from(body.to_string())))
}

/// The result of a device's poll.
pub(crate) fn poll(
    store: &mut GrantStore,
    request: &ObservedRequest,
    client: &str,
) -> Result<Grant, OAuthError> {
    let refuse = |error| Err(OAuthError::new(error, "the device is not signed in"));
    let code = request.field("device_code");
    let polling = store.config.device;
    let (Some(polling), Some(device)) = (polling, store.devices.get_mut(code)) else {
        return refuse("invalid_grant");
    };
    if device.grant.client != client {
        return refuse("invalid_grant");
    }
    device.polls += 1;
    if device.polls <= polling.pending {
        return refuse("authorization_pending");
    }
    if device.polls <= polling.pending + polling.slow_down {
        return refuse("slow_down");
    }
    match polling.outcome {
        DeviceOutcome::Approved => {
            let device = store.devices.remove(code).expect("it was there just now");
            store.counters.logins += 1;
            Ok(device.grant)
        }
        DeviceOutcome::Denied => refuse("access_denied"),
        DeviceOutcome::Expired => refuse("expired_token"),
    }
}
