//! The ways to sign in and to stay signed in, through the program: renewals, logins without anybody, more scopes, and
//! servers that do it in a way of their own.

use std::io::BufRead;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use testkit::authority::{Challenge, Charter, Endpoint, Habit, How, SignatureKey};
use testkit::{Authority, Scene, Script};

use crate::serve::Raw;
use crate::signing_kit::{configure, log_in, scene_with_browser, stage, stage_with, state};
use crate::support::{self, until};

/// Signs in and connects; the second time nobody signs in any more.
#[track_caller]
fn works(charter: Charter) {
    let (authority, scene) = stage(charter);
    assert_eq!(log_in(&scene)["state"], "connected");
    assert_eq!(state(&scene), "connected");
    assert_eq!(authority.tally().logins, 1);
}

#[test]
fn a_refusal_without_a_challenge_is_one_to_sign_in_for() {
    works(Charter { challenge: Challenge::None, ..Charter::good() });
    works(Charter { challenge: Challenge::Bare, ..Charter::good() });
}

#[test]
fn the_right_one_of_several_challenges_is_taken() {
    works(Charter { challenge: Challenge::Several, ..Charter::good() });
}

#[test]
fn answers_in_a_way_of_their_own_are_understood() {
    works(
        Charter::good()
            .habit(Habit::ErrorsLookWell)
            .habit(Habit::NestedTokens)
            .habit(Habit::ScopesWithCommas),
    );
    works(Charter::good().habit(Habit::ExpiryIsText));
    works(Charter::good().habit(Habit::NoExpiry).habit(Habit::NoTokenType));
}

#[test]
fn a_login_that_ended_behind_a_good_status_is_one_to_sign_in_for() {
    for word in ["invalid_refresh_token", "expired_refresh_token", "token_expired"] {
        let charter = Charter::good()
            .habit(Habit::ErrorsLookWell)
            .habit(Habit::RefusesRefreshAs(word.to_owned()));
        let (authority, scene) = stage(charter);
        log_in(&scene);
        authority.end_all();
        assert_eq!(state(&scene), "needs-auth", "{word}");
        let login = &support::json(&scene, &["auth", "status", "--json"])["logins"][0];
        assert_eq!(login["standing"], "ended", "{word}");
        assert_eq!(log_in(&scene)["isNew"], true);
        assert_eq!((state(&scene), authority.tally().logins), ("connected".to_owned(), 2));
    }
}

#[test]
fn a_token_that_ends_is_renewed_and_each_refresh_token_is_shown_once() {
    let (authority, scene) = stage(Charter { lifetime: 1, ..Charter::good() });
    log_in(&scene);
    let refreshes = || authority.tally().refreshes;
    for _ in 0..2 {
        let before = refreshes();
        until(|| {
            assert_eq!(state(&scene), "connected");
            refreshes() > before
        });
    }
    let tally = authority.tally();
    assert_eq!((tally.logins, tally.reused, tally.most_refreshes_at_once), (1, 0, 1));
}

#[test]
fn a_token_that_is_refused_is_renewed_without_anybody() {
    let (authority, scene) = stage(Charter::good());
    log_in(&scene);
    authority.forget_access();
    assert_eq!(state(&scene), "connected");
    let tally = authority.tally();
    assert_eq!((tally.logins, tally.refreshes, tally.reused), (1, 1, 0));
}

#[test]
fn an_authorization_server_that_is_down_costs_nobody_a_login() {
    let (authority, scene) = stage(Charter::good());
    log_in(&scene);
    authority.forget_access();
    authority.change(|it| *it = it.clone().lapse(Endpoint::Refresh, How::Down));
    let status = scene.swb(&["status", "web"]);
    assert!(!status.ok().contains("connected"), "{}", status.shown());
    authority.change(|it| it.lapses.clear());
    assert_eq!((state(&scene), authority.tally().logins), ("connected".to_owned(), 1));
}

/// Connects without anybody, twice; the second time with what the first got.
#[track_caller]
fn signs_in_alone(authority: &Authority, scene: &Scene) {
    assert_eq!(state(scene), "connected");
    let asked = authority.tally().requests.get(&Endpoint::Token).copied();
    assert_eq!(state(scene), "connected");
    assert_eq!(authority.tally().requests.get(&Endpoint::Token).copied(), asked);
    assert!(scene.swb(&["login", "web"]).ok().starts_with("Already signed in to `web`"));
    assert_eq!(authority.tally().logins, 0, "nobody was needed");
}

#[test]
fn a_program_signs_in_with_its_secret() {
    let oauth = r#"{"grant": "client_credentials", "clientId": "robot", "clientSecret": "s3"}"#;
    let (authority, scene) = stage_with(Charter::good().client("robot", Some("s3")), oauth);
    signs_in_alone(&authority, &scene);
}

#[test]
fn a_program_signs_in_with_its_key() {
    let key = SignatureKey::new();
    let authority = Authority::start(Charter::good().signing_client("robot", key.public()));
    let mut scene = scene_with_browser();
    scene.set("ROBOT_KEY", &key.pem());
    let oauth =
        r#"{"grant": "client_credentials", "clientId": "robot", "privateKey": "${ROBOT_KEY}"}"#;
    configure(&scene, &authority, oauth);
    signs_in_alone(&authority, &scene);
}

#[test]
fn a_platform_vouches_for_a_program() {
    let authority = Authority::start(Charter::good().client("robot", None));
    let mut scene = scene_with_browser();
    scene.set("PLATFORM_TOKEN", &authority.workload_token(600));
    let oauth =
        r#"{"grant": "jwt_bearer", "clientId": "robot", "workloadToken": "${PLATFORM_TOKEN}"}"#;
    configure(&scene, &authority, oauth);
    signs_in_alone(&authority, &scene);
}

#[test]
fn a_program_whose_secret_is_wrong_learns_what_was_said() {
    let oauth = r#"{"grant": "client_credentials", "clientId": "robot", "clientSecret": "no"}"#;
    let (_authority, scene) = stage_with(Charter::good().client("robot", Some("s3")), oauth);
    let ran = scene.swb(&["login", "web"]);
    assert!(ran.fails(8).contains("invalid_client"), "{}", ran.shown());
    assert!(ran.stderr.contains("swb get web"), "{}", ran.shown());
}

#[test]
fn a_call_that_needs_more_scopes_says_how_to_get_them() {
    let charter = Charter {
        resource_scopes: vec!["read".to_owned()],
        script: Script::modern(),
        ..Charter::good().need("echo", "write")
    };
    let (_authority, scene) = stage(charter);
    log_in(&scene);
    let call = ["call", "mcp__web__echo", "text=hello", "--mode", "bypass"];
    let ran = scene.swb(&call);
    assert!(ran.fails(8).contains("`swb login web --scopes read,write`"), "{}", ran.shown());
    scene.swb(&["login", "web", "--scopes", "read,write"]).ok();
    assert!(scene.swb(&call).ok().contains("hello"));
}

#[test]
fn a_login_is_noticed_by_programs_that_run() {
    let (_authority, scene) = stage(Charter::good());
    let mut command = scene.command(&scene.project(), &["status", "--watch", "--json"]);
    let watching = command.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut watching = Ended(watching);
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
    scene.swb(&["logout", "web"]).ok();
    sees("needs-auth");
}

#[test]
fn an_outage_while_a_connection_stands_costs_no_login() {
    let (authority, scene) = stage(Charter::good());
    log_in(&scene);
    let mut raw = Raw::legacy(&scene, &["--pool", "--mode", "bypass"]);
    let call = |raw: &mut Raw| {
        raw.send("tools/call", json!({"name": "mcp__web__echo", "arguments": {"text": "here"}}));
        loop {
            let mut line = String::new();
            raw.output.read_line(&mut line).expect("it answers");
            let message: Json = serde_json::from_str(&line).expect("it is JSON");
            if message["id"] == raw.asked {
                return message;
            }
        }
    };
    assert_eq!(call(&mut raw)["result"]["content"][0]["text"], "here");
    authority.change(|it| *it = it.clone().lapse(Endpoint::Refresh, How::Down));
    authority.forget_access();
    for _ in 0..2 {
        let refused = call(&mut raw);
        assert!(refused["error"]["message"].is_string(), "{refused}");
    }
    authority.change(|it| it.lapses.clear());
    let answer = call(&mut raw);
    assert_eq!(answer["result"]["content"][0]["text"], "here", "{answer}");
    assert_eq!(authority.tally().logins, 1);
    raw.input = None;
    assert_eq!(raw.ended().0, Some(0));
}

/// A program that ends with the test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}
