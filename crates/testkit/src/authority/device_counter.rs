//! Signing in on another device (RFC 8628): how often it is told to wait, and how that ends, is the charter's to say.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::charter::DeviceOutcome;
use super::enrolment::{OAuthError, authenticate_client, with_no_store};
use super::ledger::{DeviceAuthorization, Grant, GrantStore};
use super::premises::{ReceivedRequest, SharedState};
use super::sighting::Site;
use crate::scripted::{empty_response, json_response};

/// Gives a device its codes.
pub(super) fn start(premises: &SharedState, request: &ReceivedRequest) -> Response {
    let mut ledger = premises.store();
    if ledger.config.device.is_none() {
        return empty_response(StatusCode::NOT_FOUND);
    }
    let client = match authenticate_client(premises, &mut ledger, request) {
        Ok(client) => client,
        Err(refusal) => return refusal.to_response(&ledger.config),
    };
    let code = ledger.new_token("device");
    let login = ledger.next_number();
    let seen = &request.observed;
    let grant = Grant {
        site: request.site,
        client,
        scopes: seen.field("scope").split_whitespace().map(str::to_owned).collect(),
        resource: seen.fields.get("resource").cloned(),
        dpop_thumbprint: None,
        login,
    };
    ledger.devices.insert(code.clone(), DeviceAuthorization { grant, polls: 0 });
    let page = format!("{}/activate", premises.issuer_url(&ledger.config, Site::Issuer));
    let answer = json!({
        "device_code": code,
        "user_code": "WDJB-MJHT",
        "verification_uri": page,
        "verification_uri_complete": format!("{page}?user_code=WDJB-MJHT"),
        "expires_in": 600,
        "interval": 1,
    });
    with_no_store(json_response(StatusCode::OK, Body::from(answer.to_string())))
}

/// What a device is told that asks whether somebody said yes.
pub(super) fn poll(
    ledger: &mut GrantStore,
    request: &ReceivedRequest,
    client: &str,
) -> Result<Grant, OAuthError> {
    let refuse = |error| Err(OAuthError::new(error, "the device is not signed in"));
    let code = request.observed.field("device_code");
    let polling = ledger.config.device;
    let (Some(polling), Some(device)) = (polling, ledger.devices.get_mut(code)) else {
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
            let device = ledger.devices.remove(code).expect("it was there just now");
            ledger.counters.logins += 1;
            Ok(device.grant)
        }
        DeviceOutcome::Denied => refuse("access_denied"),
        DeviceOutcome::Expired => refuse("expired_token"),
    }
}
