//! `swb resources`.

use testkit::{Script, ScriptedProgram, ScriptedServer};

use crate::support::{USER, json, scene};

#[test]
fn resources_of_every_server_are_listed() {
    let scene = scene();
    let remote = ScriptedServer::http(Script::modern().resources(1));
    let local = ScriptedProgram::config_entry(&Script::legacy().resources(2));
    scene.write_servers(
        USER,
        &format!(
            r#""local": {local}, "remote": {{"type": "http", "url": "{}"}}, "none": {}"#,
            remote.url(),
            ScriptedProgram::config_entry(&Script::legacy())
        ),
    );
    insta::assert_snapshot!(scene.swb(&["resources"]).expect_success());
    let list = json(&scene, &["resources", "local", "--json"]);
    let resources = list["resources"].as_array().expect("a list");
    assert!(resources.len() == 2 && resources.iter().all(|it| it["server"] == "local"), "{list}");
    assert_eq!(scene.swb(&["resources", "none"]).expect_success(), "No resources.\n");
}

#[test]
fn an_unreachable_server_does_not_hide_the_resources_of_others() {
    let scene = scene();
    let local = ScriptedProgram::config_entry(&Script::legacy().resources(1));
    scene.write_servers(
        USER,
        &format!(r#""local": {local}, "gone": {{"command": "no-such-program"}}"#),
    );
    let ran = scene.swb(&["resources"]);
    assert!(
        ran.expect_success().contains("local") && ran.stderr.contains("was not found"),
        "{}",
        ran.to_snapshot()
    );
}
