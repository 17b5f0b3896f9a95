//! `swb search`.

use testkit::{Script, ScriptedProgram};

use crate::support::{USER, json, scene};

#[test]
fn the_best_match_comes_first() {
    let scene = scene();
    scene.write_servers(
        USER,
        &format!("\"s\": {}", ScriptedProgram::config_entry(&Script::legacy().tools(30))),
    );
    let found = json(&scene, &["search", "echo", "--json"]);
    assert_eq!(found["tools"][0]["name"], "mcp__s__echo");
    let few = json(&scene, &["search", "tool", "-n", "3", "--json"]);
    assert_eq!(few["tools"].as_array().map(Vec::len), Some(3));
    assert_eq!(scene.swb(&["search", "zebracrossing"]).expect_success(), "No tools.\n");
}
