//! The login flows of the program: refresh, logins without a user, step-up to more scopes, and servers with their own
//! variations.

use std::io::BufRead;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use testkit::authorization_server::{
    AuthorizationConfig, Challenge, Endpoint, OAuthQuirk, ResponseFault, SigningKey,
};
use testkit::{AuthorizationServer, Sandbox, Script};

use crate::login_support::{configure, log_in, scene_with_browser, setup, setup_with, state};
use crate::serve::StdioClient;
use crate::support::{self, wait_for};

/// Logs in and connects. The second connection needs no further login.
#[track_caller]
fn check_login(charter: AuthorizationConfig) {
    let (authority, scene) = setup(charter);
    assert_eq!(log_in(&scene)["state"], "connected");
    assert_eq!(state(&scene), "connected");
    assert_eq!(authority.counters().logins, 1);
}

#[test]
fn a_401_without_a_challenge_needs_a_login() {
    check_login(AuthorizationConfig {
        challenge: Challenge::None,
        ..AuthorizationConfig::compliant()
    });
    check_login(AuthorizationConfig {
        challenge: Challenge::WithoutMetadata,
        ..AuthorizationConfig::compliant()
    });
}

#[test]
fn the_supported_one_of_several_challenges_is_used() {
    check_login(AuthorizationConfig {
        challenge: Challenge::Multiple,
        ..AuthorizationConfig::compliant()
    });
}

#[test]
fn unusual_token_responses_are_accepted() {
    check_login(
        AuthorizationConfig::compliant()
            .quirk(OAuthQuirk::ErrorsWithStatus200)
            .quirk(OAuthQuirk::TokensInAuthedUser)
            .quirk(OAuthQuirk::CommaSeparatedScopes),
    );
    check_login(AuthorizationConfig::compliant().quirk(OAuthQuirk::ExpiresInAsString));
    check_login(
        AuthorizationConfig::compliant()
            .quirk(OAuthQuirk::NoExpiresIn)
            .quirk(OAuthQuirk::NoTokenType),
    );
}

#[test]
fn a_refresh_error_with_status_200_needs_a_login() {
    for word in ["invalid_refresh_token", "expired_refresh_token", "token_expired"] {
        let charter = AuthorizationConfig::compliant()
            .quirk(OAuthQuirk::ErrorsWithStatus200)
            .quirk(OAuthQuirk::RefreshErrorCode(word.to_owned()));
        let (authority, scene) = setup(charter);
        log_in(&scene);
        authority.end_all_logins();
        assert_eq!(state(&scene), "needs-auth", "{word}");
        let login = &support::json(&scene, &["auth", "status", "--json"])["logins"][0];
        assert_eq!(login["standing"], "ended", "{word}");
        assert_eq!(log_in(&scene)["isNew"], true);
        assert_eq!((state(&scene), authority.counters().logins), ("connected".to_owned(), 2));
    }
}

#[test]
fn an_expired_token_is_refreshed_and_each_refresh_token_is_used_once() {
    let (authority, scene) =
        setup(AuthorizationConfig { token_lifetime: 1, ..AuthorizationConfig::compliant() });
    log_in(&scene);
    let refreshes = || authority.counters().refreshes;
    for _ in 0..2 {
        let before = refreshes();
        wait_for(|| {
            assert_eq!(state(&scene), "connected");
            refreshes() > before
        });
    }
    let tally = authority.counters();
    assert_eq!(
        (tally.logins, tally.refresh_tokens_reused, tally.peak_concurrent_refreshes),
        (1, 0, 1)
    );
}

#[test]
fn a_rejected_token_is_refreshed_without_the_user() {
    let (authority, scene) = setup(AuthorizationConfig::compliant());
    log_in(&scene);
    authority.revoke_access_tokens();
    assert_eq!(state(&scene), "connected");
    let tally = authority.counters();
    assert_eq!((tally.logins, tally.refreshes, tally.refresh_tokens_reused), (1, 1, 0));
}

#[test]
fn an_unavailable_authorization_server_does_not_end_the_login() {
    let (authority, scene) = setup(AuthorizationConfig::compliant());
    log_in(&scene);
    authority.revoke_access_tokens();
    authority
        .reconfigure(|it| *it = it.clone().fault(Endpoint::Refresh, ResponseFault::Unavailable));
    let status = scene.swb(&["status", "web"]);
    assert!(!status.expect_success().contains("connected"), "{}", status.to_snapshot());
    authority.reconfigure(|it| it.faults.clear());
    assert_eq!((state(&scene), authority.counters().logins), ("connected".to_owned(), 1));
}

/// Connects twice without a user. The second connection uses the token of the first.
#[track_caller]
fn check_unattended_login(authority: &AuthorizationServer, scene: &Sandbox) {
    assert_eq!(state(scene), "connected");
    let asked = authority.counters().requests.get(&Endpoint::Token).copied();
    assert_eq!(state(scene), "connected");
    assert_eq!(authority.counters().requests.get(&Endpoint::Token).copied(), asked);
    assert!(
        scene.swb(&["login", "web"]).expect_success().starts_with("Already signed in to `web`")
    );
    assert_eq!(authority.counters().logins, 0, "no user had to log in");
}

#[test]
fn a_program_signs_in_with_its_secret() {
    let oauth = r#"{"grant": "client_credentials", "clientId": "robot", "clientSecret": "s3"}"#;
    let (authority, scene) =
        setup_with(AuthorizationConfig::compliant().client("robot", Some("s3")), oauth);
    check_unattended_login(&authority, &scene);
}

#[test]
fn a_program_signs_in_with_its_key() {
    let key = SigningKey::new();
    let authority = AuthorizationServer::start(
        AuthorizationConfig::compliant().client_with_key("robot", key.public_jwk()),
    );
    let mut scene = scene_with_browser();
    scene.set_env("ROBOT_KEY", &key.to_pem());
    let oauth =
        r#"{"grant": "client_credentials", "clientId": "robot", "privateKey": "${ROBOT_KEY}"}"#;
    configure(&scene, &authority, oauth);
    check_unattended_login(&authority, &scene);
}

#[test]
fn a_program_signs_in_with_a_workload_token() {
    let authority =
        AuthorizationServer::start(AuthorizationConfig::compliant().client("robot", None));
    let mut scene = scene_with_browser();
    scene.set_env("PLATFORM_TOKEN", &authority.workload_token(600));
    let oauth =
        r#"{"grant": "jwt_bearer", "clientId": "robot", "workloadToken": "${PLATFORM_TOKEN}"}"#;
    configure(&scene, &authority, oauth);
    check_unattended_login(&authority, &scene);
}

#[test]
fn a_wrong_client_secret_is_reported_with_the_servers_error() {
    let oauth = r#"{"grant": "client_credentials", "clientId": "robot", "clientSecret": "no"}"#;
    let (_authority, scene) =
        setup_with(AuthorizationConfig::compliant().client("robot", Some("s3")), oauth);
    let ran = scene.swb(&["login", "web"]);
    assert!(ran.expect_failure(8).contains("invalid_client"), "{}", ran.to_snapshot());
    assert!(ran.stderr.contains("swb get web"), "{}", ran.to_snapshot());
}

#[test]
fn a_call_that_needs_more_scopes_names_the_login_command() {
    let charter = AuthorizationConfig {
        resource_scopes: vec!["read".to_owned()],
        script: Script::modern(),
        ..AuthorizationConfig::compliant().scope_requirement("echo", "write")
    };
    let (_authority, scene) = setup(charter);
    log_in(&scene);
    let call = ["call", "mcp__web__echo", "text=hello", "--mode", "bypass"];
    let ran = scene.swb(&call);
    assert!(
        ran.expect_failure(8).contains("`swb login web --scopes read,write`"),
        "{}",
        ran.to_snapshot()
    );
    scene.swb(&["login", "web", "--scopes", "read,write"]).expect_success();
    assert!(scene.swb(&call).expect_success().contains("hello"));
}

#[test]
fn running_programs_notice_a_login() {
    let (_authority, scene) = setup(AuthorizationConfig::compliant());
    let mut command = scene.command(&scene.project(), &["status", "--watch", "--json"]);
    let watching = command.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut watching = KillOnDrop(watching);
    let stdout = watching.0.stdout.take().expect("it is piped");
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::BufRead::lines(std::io::BufReader::new(stdout)).map_while(Result::ok) {
            let _test_over = tell.send(line);
        }
    });
    let sees = |word: &str| {
        let end = Instant::now() + Duration::from_secs(20);
        while let Ok(line) = told.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if line.contains(word) {
                return;
            }
        }
        panic!("`{word}` was never seen");
    };
    sees("needs-auth");
    log_in(&scene);
    sees("\"connected\"");
    scene.swb(&["logout", "web"]).expect_success();
    sees("needs-auth");
}

#[test]
fn an_outage_during_a_connection_keeps_the_login() {
    let (authority, scene) = setup(AuthorizationConfig::compliant());
    log_in(&scene);
    let mut raw = StdioClient::legacy(&scene, &["--pool", "--mode", "bypass"]);
    let call = |raw: &mut StdioClient| {
        raw.send_request(
            "tools/call",
            json!({"name": "mcp__web__echo", "arguments": {"text": "here"}}),
        );
        loop {
            let mut line = String::new();
            raw.output.read_line(&mut line).expect("it answers");
            let message: Json = serde_json::from_str(&line).expect("it is JSON");
            if message["id"] == raw.last_id {
                return message;
            }
        }
    };
    assert_eq!(call(&mut raw)["result"]["content"][0]["text"], "here");
    authority
        .reconfigure(|it| *it = it.clone().fault(Endpoint::Refresh, ResponseFault::Unavailable));
    authority.revoke_access_tokens();
    for _ in 0..2 {
        let refused = call(&mut raw);
        assert!(refused["error"]["message"].is_string(), "{refused}");
    }
    authority.reconfigure(|it| it.faults.clear());
    let answer = call(&mut raw);
    assert_eq!(answer["result"]["content"][0]["text"], "here", "{answer}");
    assert_eq!(authority.counters().logins, 1);
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}

/// A child process that is killed when it is dropped.
struct KillOnDrop(std::process::Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}
