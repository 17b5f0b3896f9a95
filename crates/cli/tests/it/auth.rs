//! `swb auth`.

use testkit::authorization_server::AuthorizationConfig;

use crate::login_support::{log_in, setup};
use crate::support::{json, scene};

#[test]
fn every_login_is_shown_with_all_but_its_token() {
    let charter = AuthorizationConfig {
        resource_scopes: vec!["read".to_owned()],
        ..AuthorizationConfig::compliant()
    };
    let (authority, scene) = setup(charter);
    log_in(&scene);
    let status = json(&scene, &["auth", "status", "--json"]);
    let login = &status["logins"][0];
    assert_eq!(login["server"], authority.url());
    assert_eq!(login["issuer"], authority.issuer());
    assert_eq!((&login["names"][0], &login["scopes"][0]), (&"web".into(), &"read".into()));
    assert_eq!((&login["standing"], &login["renewable"]), (&"good".into(), &true.into()));
    assert!(login["expiresAt"].as_str().is_some_and(|it| it.ends_with('Z')), "{login}");
    assert_eq!(status["kept"]["folder"], "[ROOT]/person/.local/share/switchboard/logins");
    let text = scene.swb(&["auth", "status"]);
    let text = text.expect_success();
    for part in
        ["web: good\n", "scopes: read\n", "renewed automatically\n", "Stored in ~/.local/share"]
    {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn nobody_is_signed_in_at_first() {
    let ran = scene().swb(&["auth", "status"]);
    assert!(ran.expect_success().starts_with("No logins."), "{}", ran.to_snapshot());
}
