//! `swb prompts`.

use testkit::{Script, ScriptedProgram};

use crate::support::{USER, json, scene};

#[test]
fn prompts_are_listed_with_their_arguments() {
    let scene = scene();
    scene.write_servers(
        USER,
        &format!("\"s\": {}", ScriptedProgram::config_entry(&Script::legacy().prompts(2))),
    );
    insta::assert_snapshot!(scene.swb(&["prompts"]).expect_success());
    let list = json(&scene, &["prompts", "--json"]);
    assert_eq!(list["prompts"].as_array().map(Vec::len), Some(2));
}
