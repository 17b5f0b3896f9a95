//! `swb read`.

use testkit::{Script, ScriptedProgram};

use crate::support::{USER, json, scene};

#[test]
fn a_resource_is_read_in_either_era() {
    let scene = scene();
    let legacy = ScriptedProgram::config_entry(&Script::legacy().resources(1));
    let modern = ScriptedProgram::config_entry(&Script::modern().resources(1));
    let none = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(USER, &format!("\"old\": {legacy}, \"new\": {modern}, \"none\": {none}"));
    for server in ["old", "new"] {
        assert!(!scene.swb(&["read", server, "scripted://resource/0"]).expect_success().is_empty());
        let read = json(&scene, &["read", server, "scripted://resource/0", "--json"]);
        assert_eq!(read["content"][0]["uri"], "scripted://resource/0");
    }
    assert_eq!(scene.swb(&["read", "old", "scripted://nothing"]).code, 10);
    scene.swb(&["read", "none", "x://y"]).expect_failure(5);
}
