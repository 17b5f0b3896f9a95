//! Logins with a hostile authorization server: its URLs reach neither the browser nor a shell, secrets reach only
//! their intended recipient, and responses of other logins are rejected.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::authorization_server::{
    AuthorizationConfig, Consent, Endpoint, IssuerParameter, OAuthQuirk, ResponseFault, Site,
};
use testkit::{AuthorizationServer, Sandbox, Script};

use crate::login_support::{
    browser_arguments, browser_page, log_in, setup, setup_with, state, times_opened,
};
use crate::support::{USER, wait_for};

/// Checks that the login fails and that no browser was started.
#[track_caller]
fn check_fails_without_browser(charter: AuthorizationConfig) -> (AuthorizationServer, String) {
    let (authority, scene) = setup(charter);
    let said = scene.swb(&["login", "web"]).expect_failure(8).to_owned();
    assert_eq!(browser_arguments(&scene), "", "{said}");
    (authority, said)
}

#[test]
fn hostile_addresses_reach_no_browser_and_no_shell() {
    for url in [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "--new-window",
        "-o/tmp/x",
        "http://127.0.0.1/$(touch pwned)\nhttp://127.0.0.1/",
        "x'; touch pwned; '",
        "ms-settings:",
        "https://user:password@example.com/",
        "",
    ] {
        check_fails_without_browser(
            AuthorizationConfig::compliant()
                .quirk(OAuthQuirk::AuthorizationEndpoint(url.to_owned())),
        );
    }
}

#[test]
fn shell_syntax_in_an_address_stays_in_one_argument() {
    let evil = "/a$(touch%20pwned);touch&'x'=(pwned)!*";
    let (authority, scene) = setup(AuthorizationConfig::compliant());
    let url = format!("{}{evil}", authority.issuer());
    authority.reconfigure(|it| it.quirks.push(OAuthQuirk::AuthorizationEndpoint(url)));
    let mut login = scene.command(&scene.project(), &["login", "web"]);
    let child = login.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("it starts");
    wait_for(|| browser_arguments(&scene).lines().count() >= 2);
    let lines = browser_arguments(&scene);
    let (number, address) = lines.split_once('\n').expect("two lines");
    assert_eq!((number, address.trim_end().lines().count()), ("1", 1), "{lines}");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    for place in ["pwned", "~/pwned", "~/browser/pwned"] {
        assert!(!scene.path(place).exists());
    }
}

#[test]
fn addresses_in_private_networks_are_refused_from_a_server_on_this_machine() {
    // Names that resolve to private addresses, and servers on other machines, are covered by the tests of `auth`.
    for url in [
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/authorize",
        "http://192.168.1.1/authorize",
        "http://[fe80::1]/authorize",
        "http://0.0.0.0/authorize",
        "http://2130706433.example@169.254.169.254/",
        "http://0xa9fea9fe/",
    ] {
        let (_authority, said) = check_fails_without_browser(
            AuthorizationConfig::compliant()
                .quirk(OAuthQuirk::AuthorizationEndpoint(url.to_owned())),
        );
        assert!(said.contains("refused"), "{url}: {said}");
    }
}

#[test]
fn metadata_about_another_issuer_or_resource_is_refused() {
    for habit in [OAuthQuirk::WrongIssuerInMetadata, OAuthQuirk::WrongResourceInMetadata] {
        let (authority, said) =
            check_fails_without_browser(AuthorizationConfig::compliant().quirk(habit));
        assert!(said.contains("refused"), "{said}");
        assert_eq!(authority.counters().registrations, 0);
    }
}

#[test]
fn a_response_from_another_issuer_is_not_redeemed() {
    for parameter in [IssuerParameter::Wrong, IssuerParameter::Missing] {
        let (authority, scene) = setup(AuthorizationConfig {
            issuer_parameter: parameter,
            ..AuthorizationConfig::compliant()
        });
        let ran = login_until_page(&scene, &["login", "web"]);
        assert!(!ran.contains("You are signed in"), "{ran}");
        assert_eq!(authority.counters().requests.get(&Endpoint::Token), None);
    }
}

#[test]
fn a_response_with_a_wrong_state_is_rejected() {
    for consent in [Consent::WrongState, Consent::NoState] {
        let (authority, scene) =
            setup(AuthorizationConfig { consent, ..AuthorizationConfig::compliant() });
        let shown = login_until_page(&scene, &["login", "web"]);
        assert!(shown.contains("not the response"), "{shown}");
        assert_eq!(authority.counters().requests.get(&Endpoint::Token), None);
    }
}

/// Starts a login that is not expected to finish, and returns the page on which the browser ended.
#[track_caller]
fn login_until_page(scene: &Sandbox, arguments: &[&str]) -> String {
    let mut command = scene.command(&scene.project(), arguments);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("it starts");
    let page = browser_page(scene);
    let _ended_already = child.kill();
    child.wait().expect("it ends");
    page
}

#[test]
fn a_callback_is_accepted_once() {
    let (authority, scene) = setup(AuthorizationConfig {
        consent: Consent::ShowsPage,
        ..AuthorizationConfig::compliant()
    });
    let start = || {
        let mut command = scene.command(&scene.project(), &["login", "web", "--again"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
    };
    let mut first = start();
    let link = browser_page(&scene);
    let link = link.split("href=\"").nth(1).and_then(|it| it.split('"').next()).expect("a link");
    let url = format!("{}{}", authority.issuer(), link.replace("&amp;", "&"));
    let back = curl(&["-o", "/dev/null", "-w", "%{redirect_url}", &url]);
    // Requests with a foreign `Host`, another path or another method are not accepted as the redirect.
    let foreign =
        curl(&["-w", "%{http_code}", "-o", "/dev/null", "-H", "Host: evil.example", &back]);
    assert_eq!(foreign, "403");
    assert_eq!(curl(&["-w", "%{http_code}", "-o", "/dev/null", "-d", "x", &back]), "404");
    assert_eq!(authority.counters().logins, 0);
    let shown = curl(&[&back]);
    assert!(shown.contains("You are signed in"), "{shown}");
    assert!(first.wait().expect("it ends").success());
    // The response of the first login is sent to the second.
    std::fs::remove_file(scene.path("~/browser/page.html")).expect("it is there");
    let mut second = start();
    browser_page(&scene);
    let old = url::Url::parse(&back).expect("an address");
    let sent = browser_arguments(&scene);
    let sent = url::Url::parse(sent.lines().last().expect("an address")).expect("an address");
    let redirect =
        sent.query_pairs().find(|(name, _)| name == "redirect_uri").expect("it is there").1;
    let mut replayed = url::Url::parse(&redirect).expect("an address");
    replayed.set_query(old.query());
    let shown = curl(&[replayed.as_str()]);
    assert!(shown.contains("not the response"), "{shown}");
    let tally = authority.counters();
    assert_eq!((tally.logins, tally.codes_reused), (1, 0), "no code is shown twice");
    second.kill().expect("it waits");
    second.wait().expect("it ends");
}

fn curl(arguments: &[&str]) -> String {
    let mut command = Command::new("curl");
    let output = command.args(["-sS", "--max-time", "20"]).args(arguments).output();
    String::from_utf8(output.expect("curl can be run").stdout).expect("text")
}

#[test]
fn a_redirect_is_not_followed_with_a_code_or_a_secret() {
    for endpoint in [Endpoint::Token, Endpoint::Registration] {
        let (authority, scene) = setup(
            AuthorizationConfig::compliant().fault(endpoint, ResponseFault::RedirectsToAttacker),
        );
        scene.swb(&["login", "web"]).expect_failure(8);
        let received: Vec<_> =
            authority.requests().into_iter().filter(|it| it.site == Site::Attacker).collect();
        assert!(received.is_empty(), "{endpoint:?}: {received:?}");
    }
}

#[test]
fn huge_and_endless_responses_are_cut_off() {
    for endpoint in [Endpoint::ResourceMetadata, Endpoint::IssuerMetadata, Endpoint::Token] {
        let (_authority, scene) = setup(
            AuthorizationConfig::compliant()
                .fault(endpoint, ResponseFault::OversizedBody(64 << 20)),
        );
        let ran = scene.swb(&["login", "web"]);
        assert!(ran.code == 8 || endpoint == Endpoint::ResourceMetadata, "{}", ran.to_snapshot());
    }
    let start = Instant::now();
    let (_authority, scene) = setup(
        AuthorizationConfig::compliant()
            .fault(Endpoint::IssuerMetadata, ResponseFault::NeverResponds),
    );
    scene.swb(&["login", "web"]).expect_failure(8);
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_token_is_sent_only_to_its_server() {
    let oauth = r#"{"clientId": "me", "clientSecret": "client-canary"}"#;
    let charter = AuthorizationConfig {
        script: Script::modern(),
        ..AuthorizationConfig::compliant().client("me", Some("client-canary"))
    };
    let (authority, scene) = setup_with(charter, oauth);
    let text = scene
        .read(USER)
        .replace("\"type\"", "\"headers\": {\"X-Key\": \"header-canary\"}, \"type\"");
    scene.write(USER, &text);
    log_in(&scene);
    authority.revoke_access_tokens();
    assert_eq!(state(&scene), "connected");
    scene.swb(&["logout", "web"]).expect_success();
    let secrets = crate::login_secrets::secrets_seen(&authority);
    assert!(secrets.access.len() >= 2 && !secrets.refresh.is_empty(), "{secrets:?}");
    for token in &secrets.access {
        // The issuer also receives the token: it is revoked there at logout.
        let sites = authority.sites_that_received(token);
        assert!(sites.iter().all(|it| matches!(it, Site::Resource | Site::Issuer)), "{sites:?}");
    }
    for token in &secrets.refresh {
        assert_eq!(authority.sites_that_received(token), [Site::Issuer]);
    }
    // The client id and secret, base64-encoded as in the `Authorization` header.
    let shown = "bWU6Y2xpZW50LWNhbmFyeQ==";
    assert_eq!(authority.sites_that_received(shown), [Site::Issuer]);
    assert!(authority.sites_that_received("client-canary").is_empty());
    assert_eq!(authority.sites_that_received("header-canary"), [Site::Resource]);
    assert_eq!(times_opened(&scene), 1);
}
