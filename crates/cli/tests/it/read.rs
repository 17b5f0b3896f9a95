//! `swb read`.

use testkit::{Script, Scripted};

use crate::support::{USER, json, scene};

#[test]
fn a_resource_is_read_in_either_era() {
    let scene = scene();
    let legacy = Scripted::entry(&Script::legacy().resources(1));
    let modern = Scripted::entry(&Script::modern().resources(1));
    let none = Scripted::entry(&Script::legacy());
    scene.servers(USER, &format!("\"old\": {legacy}, \"new\": {modern}, \"none\": {none}"));
    for server in ["old", "new"] {
        assert!(!scene.swb(&["read", server, "scripted://resource/0"]).ok().is_empty());
        let read = json(&scene, &["read", server, "scripted://resource/0", "--json"]);
        assert_eq!(read["content"][0]["uri"], "scripted://resource/0");
    }
    assert_eq!(scene.swb(&["read", "old", "scripted://nothing"]).code, 10);
    scene.swb(&["read", "none", "x://y"]).fails(5);
}
