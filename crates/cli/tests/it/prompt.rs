//! `swb prompt`.

use testkit::{Script, ScriptedProgram, Terminal};

use crate::support::{USER, json, scene};

#[test]
fn a_prompt_is_printed_in_both_eras() {
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
fn an_unknown_prompt_gets_a_suggestion() {
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

#[test]
fn a_missing_argument_is_named_without_a_terminal() {
    let ran = scene().swb(&["prompt", "demo", "write_about", "tone=funny"]);
    insta::assert_snapshot!(ran.expect_failure(2), @r"
    error: the prompt `write_about` needs 1 more argument
      caused by: `topic`: What it is about

    hint: `swb prompt demo write_about topic=…`
    ");
}

#[test]
fn a_missing_argument_is_asked_for_at_a_terminal() {
    let scene = scene();
    let mut command = scene.command(&scene.project(), &["prompt", "demo", "write_about"]);
    command.env("TERM", "xterm");
    let mut terminal = Terminal::start(&command);
    terminal.wait_for_output("`topic`: What it is about: ");
    terminal.send_keys("birds\r");
    terminal.wait_for_output("Write five lines about birds");
    assert_eq!(terminal.wait_for_exit().0, 0);
}
