//! `swb idp`: one login for every server that accepts assertions of the identity provider.

use testkit::authorization_server::{AuthorizationConfig, Site};
use testkit::{AuthorizationServer, Sandbox};

use crate::login_support::{scene_with_browser, times_opened};
use crate::support::{USER, json, scene};

/// Two entries of one server that accepts the identity provider's assertions. They share its login.
fn setup() -> (AuthorizationServer, Sandbox) {
    let charter = AuthorizationConfig {
        id_jag_client: Some("app".to_owned()),
        ..AuthorizationConfig::compliant().client("idp-app", None).client("app", Some("shh"))
    };
    let authority = AuthorizationServer::start(charter);
    let scene = scene_with_browser();
    let oauth = r#"{"xaa": true, "clientId": "app", "clientSecret": "shh"}"#;
    let entry = format!(r#"{{"type": "http", "url": "{}", "oauth": {oauth}}}"#, authority.url());
    let other = format!(
        r#"{{"type": "http", "url": "{}", "oauth": {oauth}, "headers": {{"X-Other": "1"}}}}"#,
        authority.url()
    );
    let issuer = authority.origin(Site::Identity);
    scene.write(
        USER,
        &format!(
            r#"{{"identityProvider": {{"issuer": "{issuer}", "clientId": "idp-app"}},
                "mcpServers": {{"one": {entry}, "two": {other}}}}}"#
        ),
    );
    (authority, scene)
}

#[test]
fn one_login_at_the_provider_serves_both_entries() {
    let (authority, scene) = setup();
    let before = scene.swb(&["login", "one"]);
    assert!(before.expect_failure(8).contains("swb idp login"), "{}", before.to_snapshot());
    assert!(scene.swb(&["idp", "status"]).expect_failure(8).contains("swb idp login"));
    let ran = scene.swb(&["idp", "login"]);
    assert!(ran.expect_success().starts_with("Signed in at "), "{}", ran.to_snapshot());
    let status = json(&scene, &["status", "--json"]);
    let states: Vec<_> = status["servers"].as_array().expect("a list").iter().collect();
    assert!(states.iter().all(|it| it["state"] == "connected"), "{status:#}");
    assert_eq!((states.len(), times_opened(&scene)), (2, 1));
    assert!(scene.swb(&["login", "one"]).expect_success().starts_with("Already signed in"));
    assert!(scene.swb(&["idp", "login"]).expect_success().starts_with("Already signed in"));
    assert!(scene.swb(&["idp", "status"]).expect_success().contains(": good\n"));
    let all = json(&scene, &["auth", "status", "--json"]);
    let all = all["logins"].as_array().expect("a list").clone();
    assert!(all.iter().any(|it| it["isIdentityProvider"] == true), "{all:?}");
    // The client id and secret, base64-encoded as in the `Authorization` header.
    assert_eq!(authority.sites_that_received("YXBwOnNoaA=="), [Site::Issuer]);
    assert!(scene.swb(&["idp", "logout"]).expect_success().starts_with("Signed out of "));
    assert!(scene.swb(&["idp", "status"]).expect_failure(8).contains("not signed in at "));
}

#[test]
fn without_a_provider_the_error_names_the_setting() {
    let ran = scene().swb(&["idp", "login"]);
    assert!(ran.expect_failure(3).contains("identityProvider"), "{}", ran.to_snapshot());
}
