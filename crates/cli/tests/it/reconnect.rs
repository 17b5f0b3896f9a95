//! `swb reconnect`.

use testkit::{Quirk, Script, ScriptedProgram, ScriptedServer};

use crate::status::Watch;
use crate::support::{USER, json, scene};

#[test]
fn a_running_program_connects_anew_when_it_is_told_to() {
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
fn a_server_that_wants_a_login_is_left_alone_for_a_while_unless_somebody_asks() {
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
    assert_eq!(wall.requests().len(), asked, "nobody hammers a server that wants a login");
    assert_eq!(scene.swb(&["reconnect", "s"]).code, 7);
    assert_eq!(scene.swb(&["ping", "s"]).code, 8);
    assert!(wall.requests().len() > asked, "somebody asked for it");
}
