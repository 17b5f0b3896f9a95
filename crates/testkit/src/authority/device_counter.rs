//! Signing in on another device (RFC 8628): how often it is told to wait, and how that ends, is the charter's to say.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::charter::DeviceEnding;
use super::enrolment::{Refusal, identify, not_stored};
use super::ledger::{Device, Grant, Ledger};
use super::premises::{Premises, Visitor};
use super::sighting::Site;
use crate::scripted::{document, status};

/// Gives a device its codes.
pub(super) fn begin(premises: &Premises, visitor: &Visitor) -> Response {
    let mut ledger = premises.ledger();
    if ledger.charter.device.is_none() {
        return status(StatusCode::NOT_FOUND);
    }
    let client = match identify(premises, &mut ledger, visitor) {
        Ok(client) => client,
        Err(refusal) => return refusal.response(&ledger.charter),
    };
    let code = ledger.word("device");
    let login = ledger.number();
    let seen = &visitor.seen;
    let grant = Grant {
        site: visitor.site,
        client,
        scopes: seen.field("scope").split_whitespace().map(str::to_owned).collect(),
        resource: seen.fields.get("resource").cloned(),
        key: None,
        login,
    };
    ledger.devices.insert(code.clone(), Device { grant, polls: 0 });
    let page = format!("{}/activate", premises.issuer(&ledger.charter, Site::Issuer));
    let answer = json!({
        "device_code": code,
        "user_code": "WDJB-MJHT",
        "verification_uri": page,
        "verification_uri_complete": format!("{page}?user_code=WDJB-MJHT"),
        "expires_in": 600,
        "interval": 1,
    });
    not_stored(document(StatusCode::OK, Body::from(answer.to_string())))
}

/// What a device is told that asks whether somebody said yes.
pub(super) fn poll(ledger: &mut Ledger, visitor: &Visitor, client: &str) -> Result<Grant, Refusal> {
    let no = |error| Err(Refusal::new(error, "the device is not signed in"));
    let code = visitor.seen.field("device_code");
    let course = ledger.charter.device;
    let (Some(course), Some(device)) = (course, ledger.devices.get_mut(code)) else {
        return no("invalid_grant");
    };
    if device.grant.client != client {
        return no("invalid_grant");
    }
    device.polls += 1;
    if device.polls <= course.pending {
        return no("authorization_pending");
    }
    if device.polls <= course.pending + course.slow_down {
        return no("slow_down");
    }
    match course.ending {
        DeviceEnding::Approved => {
            let device = ledger.devices.remove(code).expect("it was there just now");
            ledger.tally.logins += 1;
            Ok(device.grant)
        }
        DeviceEnding::Denied => no("access_denied"),
        DeviceEnding::Expired => no("expired_token"),
    }
}
