//! `swb reconnect`.

use testkit::{Quirk, Script, ScriptedProgram, ScriptedServer};

use crate::status::Watch;
use crate::support::{USER, json, scene};

#[test]
fn a_running_program_reconnects_on_request() {
    let scene = scene();
    scene.write_servers(
        USER,
        &format!("\"s\": {}", ScriptedProgram::config_entry(&Script::legacy())),
    );
    let watch = Watch::start(&scene);
    let first = watch.wait_for("it is connected", |line| line["state"] == "connected");
    insta::assert_snapshot!(scene.swb(&["reconnect", "s"]).expect_success(), @"`s` is reconnecting.");
    let again = watch.wait_for("it is connected again", |line| {
        line["state"] == "connected" && line["process"] != first["process"]
    });
    assert!(again["process"].is_u64());
    watch.interrupt();
    insta::assert_snapshot!(scene.swb(&["reconnect", "s"]).expect_failure(7), @r"
    error: no running swb process uses `s`

    hint: `swb ping s` connects to it once
    ");
}

#[test]
fn a_server_that_needs_login_is_not_retried_until_the_user_reconnects() {
    let scene = scene();
    let wall = ScriptedServer::http(
        Script::legacy().quirk(Quirk::RequiresBearer { token: "t".to_owned() }),
    );
    scene.write_servers(USER, &format!(r#""s": {{"type": "http", "url": "{}"}}"#, wall.url()));
    assert_eq!(scene.swb(&["ping", "s"]).code, 8);
    let asked = wall.requests().len();
    assert!(asked > 0);
    let status = json(&scene, &["status", "--json"]);
    assert_eq!(status["servers"][0]["state"], "needs-auth");
    assert_eq!(wall.requests().len(), asked, "a server that needs login is not retried");
    assert_eq!(scene.swb(&["reconnect", "s"]).code, 7);
    assert_eq!(scene.swb(&["ping", "s"]).code, 8);
    assert!(wall.requests().len() > asked, "an explicit reconnect sends a request");
}
