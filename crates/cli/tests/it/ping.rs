//! `swb ping`.

use testkit::{Quirk, Script, ScriptedProgram};

use crate::support::{USER, json, scene};

#[test]
fn a_ping_reports_the_round_trip_time_in_both_eras() {
    let scene = scene();
    let legacy = ScriptedProgram::config_entry(&Script::legacy());
    let modern = ScriptedProgram::config_entry(&Script::modern());
    scene.write_servers(USER, &format!("\"old\": {legacy}, \"new\": {modern}"));
    for (name, era) in [("old", "legacy"), ("new", "modern")] {
        let ping = json(&scene, &["ping", name, "-n", "3", "--json"]);
        assert_eq!(ping["era"], era);
        let times = ping["pingMs"].as_array().expect("a list");
        assert!(times.len() == 3 && times.iter().all(|it| it.as_f64().is_some_and(|ms| ms > 0.0)));
    }
    let text = scene.swb(&["mcp", "ping", "old"]);
    assert!(
        text.expect_success().contains("protocol version 2025-11-25; ready after"),
        "{}",
        text.to_snapshot()
    );
}

#[test]
fn a_ping_of_an_unreachable_server_reports_cause_and_remedy() {
    let mut scene = scene();
    let exits =
        ScriptedProgram::config_entry(&Script::legacy().quirk(Quirk::ExitsAtOnce { code: 3 }));
    scene.write_servers(
        USER,
        &format!(r#""exits": {exits}, "gone": {{"command": "no-such-program"}}, "off": {{"command": "x", "disabled": true}}"#),
    );
    scene.set_env("PATH", "/usr/bin:/bin");
    insta::assert_snapshot!(scene.swb(&["ping", "gone"]).expect_failure(9));
    insta::assert_snapshot!("it_ended_at_once", scene.swb(&["ping", "exits"]).expect_failure(9));
    insta::assert_snapshot!("it_is_switched_off", scene.swb(&["ping", "off"]).expect_failure(7));
}
