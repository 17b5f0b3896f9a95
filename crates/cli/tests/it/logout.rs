//! `swb logout`.

use testkit::authorization_server::{AuthorizationConfig, Endpoint, ResponseFault};

use crate::login_support::{log_in, setup, state};
use crate::support::json;

#[test]
fn a_logout_revokes_and_removes_the_login() {
    let (authority, scene) = setup(AuthorizationConfig::compliant());
    assert!(scene.swb(&["logout", "web"]).expect_success().starts_with("Not signed in"));
    log_in(&scene);
    let ran = scene.swb(&["logout", "web"]);
    assert!(ran.expect_success().contains("revoked and deleted"), "{}", ran.to_snapshot());
    assert!(authority.counters().revocations > 0);
    assert_eq!(state(&scene), "needs-auth");
    assert_eq!(json(&scene, &["auth", "status", "--json"])["logins"], serde_json::json!([]));
}

#[test]
fn a_login_that_cannot_be_revoked_is_removed_with_a_warning() {
    let (authority, scene) = setup(
        AuthorizationConfig::compliant().fault(Endpoint::Revocation, ResponseFault::Unavailable),
    );
    log_in(&scene);
    let ran = scene.swb(&["logout", "web", "--json"]);
    assert!(ran.expect_success().contains("\"forgotten\""), "{}", ran.to_snapshot());
    assert!(
        ran.stderr.contains("503") && ran.stderr.contains("stays valid"),
        "{}",
        ran.to_snapshot()
    );
    assert_eq!((authority.counters().revocations, state(&scene)), (0, "needs-auth".to_owned()));
}
