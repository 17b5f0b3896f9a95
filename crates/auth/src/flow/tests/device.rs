//! Logins on another device (RFC 8628).

use serde_json::json;

use super::*;

#[test]
fn a_user_signs_in_on_another_device() {
    let mut polls = 0;
    let respond = |request: &FetchRequest| match request.url.path() {
        "/device" => respond_with(
            200,
            json!({
                "device_code": "dc", "user_code": "AB\u{1b}CD", "expires_in": 600, "interval": 5,
                "verification_uri": "https://as.example.com/activate",
            }),
        ),
        "/token" => {
            polls += 1;
            match polls {
                1 => respond_with(400, json!({ "error": "authorization_pending" })),
                2 => respond_with(400, json!({ "error": "slow_down" })),
                3 => unreachable(),
                _ => serve(request),
            }
        }
        _ => serve(request),
    };
    let run = run_flow(plan(LoginGrant::Device), respond);
    assert_eq!(run.last_form()["device_code"], "dc");
    assert!(run.outcome.is_ok());
    let run = run_flow(plan(LoginGrant::Device), |request| match request.url.path() {
        "/device" => respond_with(
            200,
            json!({
                "device_code": "dc", "user_code": "x", "expires_in": 60,
                "verification_uri": "https://as.example.com/activate",
            }),
        ),
        "/token" => respond_with(400, json!({ "error": "authorization_pending" })),
        _ => serve(request),
    });
    assert_eq!(run.error(), FlowError::TimedOut);
}
