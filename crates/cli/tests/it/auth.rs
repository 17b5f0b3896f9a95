//! `swb auth`.

use testkit::authorization_server::{
    AuthorizationConfig, ClientMetadataDocuments, ObservedRequest,
};
use testkit::{AuthorizationServer, Sandbox};

use crate::login::free_port;
use crate::login_support::{log_in, scene_with_browser, setup, state};
use crate::support::{USER, json, scene};

const MANAGED: &str = "managed/managed-settings.json";
const DOCUMENT: &str = "https://example.com/switchboard.json";
const OTHER_DOCUMENT: &str = "https://example.org/swb/client.json";

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
fn without_logins_the_list_is_empty() {
    for words in [&["auth", "status"][..], &["auth"]] {
        let ran = scene().swb(words);
        assert!(ran.expect_success().starts_with("No logins."), "{}", ran.to_snapshot());
    }
}

fn supports_documents() -> AuthorizationConfig {
    AuthorizationConfig {
        client_metadata_documents: ClientMetadataDocuments::Supported,
        ..AuthorizationConfig::compliant()
    }
}

fn settings_with(document: &str) -> String {
    format!(r#"{{"oauth": {{"clientMetadataUrl": "{document}"}}}}"#)
}

/// A server whose entry has this `oauth` member, in user settings that name a document.
fn setup_with_document(config: AuthorizationConfig, oauth: &str) -> (AuthorizationServer, Sandbox) {
    let authority = AuthorizationServer::start(config);
    let scene = scene_with_browser();
    let url = authority.url();
    let entry = format!(r#"{{"type": "http", "url": "{url}", "oauth": {oauth}}}"#);
    let settings = format!(
        r#"{{"oauth": {{"clientMetadataUrl": "{DOCUMENT}"}}, "mcpServers": {{"web": {entry}}}}}"#
    );
    scene.write(USER, &settings);
    (authority, scene)
}

/// Hosts the document that the program prints, as its user would.
fn host_document(scene: &Sandbox, authority: &AuthorizationServer, arguments: &[&str]) -> String {
    let document = json(scene, &[&["auth", "client-metadata"], arguments].concat());
    let url = document["client_id"].as_str().expect("a client id").to_owned();
    authority.host_client_metadata(&url, document);
    url
}

/// The client ids of all requests to the authorization server, each once.
fn client_ids(authority: &AuthorizationServer) -> Vec<String> {
    let id = |it: &ObservedRequest| it.fields.get("client_id").cloned();
    let mut ids: Vec<String> = authority.requests().iter().filter_map(id).collect();
    ids.dedup();
    ids
}

#[test]
fn a_login_uses_the_hosted_document_that_the_settings_name_and_registers_no_client() {
    let (authority, scene) = setup_with_document(supports_documents(), "{}");
    host_document(&scene, &authority, &[]);
    assert_eq!(log_in(&scene)["state"], "connected");
    assert_eq!(client_ids(&authority), [DOCUMENT]);
    let counters = authority.counters();
    assert_eq!((counters.registrations, counters.logins), (0, 1));
    assert_eq!(state(&scene), "connected");
}

#[test]
fn the_document_of_an_entry_takes_precedence_and_has_the_callback_port_of_the_entry() {
    let port = free_port();
    let oauth = format!(r#"{{"clientMetadataUrl": "{OTHER_DOCUMENT}", "callbackPort": {port}}}"#);
    let (authority, scene) = setup_with_document(supports_documents(), &oauth);
    host_document(&scene, &authority, &[OTHER_DOCUMENT]);
    let document = json(&scene, &["auth", "client-metadata", OTHER_DOCUMENT]);
    assert_eq!(
        document["redirect_uris"][2],
        format!("http://localhost:{port}/callback"),
        "{document}"
    );
    assert_eq!(log_in(&scene)["state"], "connected");
    assert_eq!(client_ids(&authority), [OTHER_DOCUMENT]);
}

#[test]
fn the_document_of_the_administrator_takes_precedence_over_that_of_the_user() {
    let (authority, scene) = setup_with_document(supports_documents(), "{}");
    scene.write(MANAGED, &settings_with(OTHER_DOCUMENT));
    host_document(&scene, &authority, &[]);
    log_in(&scene);
    assert_eq!(client_ids(&authority), [OTHER_DOCUMENT]);
}

#[test]
fn a_client_is_registered_where_documents_are_not_supported() {
    let (authority, scene) = setup_with_document(AuthorizationConfig::compliant(), "{}");
    log_in(&scene);
    assert_eq!(authority.counters().registrations, 1);
    assert!(!client_ids(&authority).contains(&DOCUMENT.to_owned()));
}

#[test]
fn the_printed_document_describes_a_public_native_client() {
    let ran = scene().swb(&["auth", "client-metadata", DOCUMENT]);
    insta::assert_snapshot!(ran.expect_success(), @r#"
    {
      "client_id": "https://example.com/switchboard.json",
      "client_name": "Switchboard",
      "application_type": "native",
      "redirect_uris": [
        "http://127.0.0.1/callback",
        "http://localhost/callback"
      ],
      "grant_types": [
        "authorization_code",
        "refresh_token",
        "urn:ietf:params:oauth:grant-type:device_code"
      ],
      "response_types": [
        "code"
      ],
      "token_endpoint_auth_method": "none"
    }
    "#);
}

#[test]
fn a_missing_or_invalid_url_of_a_document_is_refused() {
    let scene = scene();
    insta::assert_snapshot!(scene.swb(&["auth", "client-metadata"]).expect_failure(2), @r"
    error: no URL of a client metadata document is configured

    hint: run `swb auth client-metadata URL`, host the document there, and set `oauth.clientMetadataUrl` in your settings
    ");
    let ran = scene.swb(&["auth", "client-metadata", "http://example.com/c.json"]);
    insta::assert_snapshot!(ran.expect_failure(2), @r"
    error: `http://example.com/c.json` cannot be the URL of the document
      caused by: it must begin with `https://` and have a path, without user name, password or fragment

    hint: for example `https://example.com/switchboard.json`
    ");
    scene.write(USER, &settings_with("http://example.com/c.json"));
    let ran = scene.swb(&["config", "check"]);
    assert!(ran.stderr.contains("oauth.clientMetadataUrl"), "{}", ran.to_snapshot());
}
