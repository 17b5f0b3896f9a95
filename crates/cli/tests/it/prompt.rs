//! `swb prompt`.

use testkit::{Script, ScriptedProgram};

use crate::support::{USER, json, scene};

#[test]
fn a_prompt_says_what_it_says_in_either_era() {
    let scene = scene();
    let legacy = ScriptedProgram::config_entry(&Script::legacy().prompts(1));
    let modern = ScriptedProgram::config_entry(&Script::modern().prompts(1));
    scene.write_servers(USER, &format!("\"old\": {legacy}, \"new\": {modern}"));
    let listed = json(&scene, &["prompts", "--json"]);
    let name = listed["prompts"][0]["name"].as_str().expect("a name").to_owned();
    for server in ["old", "new"] {
        let answer = json(&scene, &["prompt", server, &name, "topic=birds", "--json"]);
        assert!(answer["messages"].as_array().is_some_and(|it| !it.is_empty()), "{answer}");
        let text = scene.swb(&["prompt", server, &name, "topic=birds"]);
        assert!(text.expect_success().contains("user:\n"), "{}", text.to_snapshot());
    }
}

#[test]
fn a_prompt_that_is_not_there_gets_the_nearest_one() {
    let scene = scene();
    scene.write_servers(
        USER,
        &format!("\"s\": {}", ScriptedProgram::config_entry(&Script::legacy().prompts(1))),
    );
    insta::assert_snapshot!(scene.swb(&["prompt", "s", "prompt_9"]).expect_failure(5));
    insta::assert_snapshot!(
        "a_bad_argument",
        scene.swb(&["prompt", "s", "prompt_0", "topic"]).expect_failure(2)
    );
}
