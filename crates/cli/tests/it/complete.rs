//! `swb complete`.

use testkit::{Quirk, Script, ScriptedProgram};

use crate::support::{USER, json, scene};

fn scene_with_server(script: &Script) -> testkit::Sandbox {
    let scene = scene();
    scene.write_servers(USER, &format!("\"s\": {}", ScriptedProgram::config_entry(script)));
    scene
}

#[test]
fn values_are_printed_one_per_line_in_both_eras() {
    for script in [Script::legacy(), Script::modern()] {
        let scene = scene_with_server(&script.prompts(1).resources(1));
        let ran = scene.swb(&["complete", "s", "--prompt", "prompt_0", "topic", "ap"]);
        assert_eq!(ran.expect_success(), "apple\napricot\n");
        let all = ["complete", "s", "--template", "scripted://resource/{number}", "number"];
        assert_eq!(scene.swb(&all).expect_success(), "apple\napricot\nbanana\n");
    }
}

#[test]
fn json_output_lists_values_and_the_server_gets_known_arguments() {
    let scene = scene();
    let journal = scene.path("journal");
    let script = Script::legacy().prompts(1).journal(&journal);
    scene.write_servers(USER, &format!("\"s\": {}", ScriptedProgram::config_entry(&script)));
    let arguments = ["complete", "s", "--prompt", "prompt_0", "topic", "b", "--context", "a=b=c"];
    let answer = json(&scene, &[&arguments[..], &["--json"]].concat());
    assert_eq!(answer["values"], serde_json::json!(["banana"]));
    assert_eq!((&answer["total"], &answer["hasMore"]), (&1.into(), &false.into()));
    let heard = scene.read("journal");
    assert!(heard.contains(r#""context":{"arguments":{"a":"b=c"}}"#), "{heard}");
}

#[test]
fn a_server_without_completions_is_an_error_and_a_misspelt_name_gets_a_suggestion() {
    let scene = scene_with_server(&Script::legacy().prompts(1).quirk(Quirk::NoCompletions));
    insta::assert_snapshot!(
        "unable",
        scene.swb(&["complete", "s", "--prompt", "prompt_0", "topic"]).expect_failure(5)
    );
    let scene = scene_with_server(&Script::legacy().prompts(1));
    insta::assert_snapshot!(
        "near",
        scene.swb(&["complete", "s", "--prompt", "prompt0", "topic"]).expect_failure(5)
    );
    scene.swb(&["complete", "s", "topic"]).expect_failure(2);
    scene.swb(&["complete", "s", "--prompt", "a", "--template", "b", "topic"]).expect_failure(2);
    scene.swb(&["complete", "s", "--prompt", "a", "topic", "--context", "x"]).expect_failure(2);
}
