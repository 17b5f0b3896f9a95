//! `swb logout`.

use testkit::authority::{Charter, Endpoint, How};

use crate::signing_kit::{log_in, stage, state};
use crate::support::json;

#[test]
fn a_logout_gives_the_login_back_and_forgets_it() {
    let (authority, scene) = stage(Charter::good());
    assert!(scene.swb(&["logout", "web"]).ok().starts_with("Nobody was signed in"));
    log_in(&scene);
    let ran = scene.swb(&["logout", "web"]);
    assert!(ran.ok().contains("given back and forgotten"), "{}", ran.shown());
    assert!(authority.tally().revocations > 0);
    assert_eq!(state(&scene), "needs-auth");
    assert_eq!(json(&scene, &["auth", "status", "--json"])["logins"], serde_json::json!([]));
}

#[test]
fn a_login_that_cannot_be_given_back_is_forgotten_and_that_is_said() {
    let (authority, scene) = stage(Charter::good().lapse(Endpoint::Revocation, How::Down));
    log_in(&scene);
    let ran = scene.swb(&["logout", "web", "--json"]);
    assert!(ran.ok().contains("\"forgotten\""), "{}", ran.shown());
    assert!(ran.stderr.contains("503") && ran.stderr.contains("stays good"), "{}", ran.shown());
    assert_eq!((authority.tally().revocations, state(&scene)), (0, "needs-auth".to_owned()));
}
