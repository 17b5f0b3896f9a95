//! `swb complete`.

use testkit::{Quirk, Script, Scripted};

use crate::support::{USER, json, scene};

fn with(script: &Script) -> testkit::Scene {
    let scene = scene();
    scene.servers(USER, &format!("\"s\": {}", Scripted::entry(script)));
    scene
}

#[test]
fn values_come_one_a_line_in_either_era() {
    for script in [Script::legacy(), Script::modern()] {
        let scene = with(&script.prompts(1).resources(1));
        let ran = scene.swb(&["complete", "s", "--prompt", "prompt_0", "topic", "ap"]);
        assert_eq!(ran.ok(), "apple\napricot\n");
        let all = ["complete", "s", "--template", "scripted://resource/{number}", "number"];
        assert_eq!(scene.swb(&all).ok(), "apple\napricot\nbanana\n");
    }
}

#[test]
fn programs_get_json_and_the_server_gets_what_is_known_already() {
    let scene = scene();
    let journal = scene.path("journal");
    let script = Script::legacy().prompts(1).journal(&journal);
    scene.servers(USER, &format!("\"s\": {}", Scripted::entry(&script)));
    let arguments = ["complete", "s", "--prompt", "prompt_0", "topic", "b", "--context", "a=b=c"];
    let answer = json(&scene, &[&arguments[..], &["--json"]].concat());
    assert_eq!(answer["values"], serde_json::json!(["banana"]));
    assert_eq!((&answer["total"], &answer["hasMore"]), (&1.into(), &false.into()));
    let heard = scene.read("journal");
    assert!(heard.contains(r#""context":{"arguments":{"a":"b=c"}}"#), "{heard}");
}

#[test]
fn who_cannot_complete_is_said_to_be_unable_and_a_wrong_name_has_a_near_one() {
    let scene = with(&Script::legacy().prompts(1).quirk(Quirk::NoCompletions));
    insta::assert_snapshot!(
        "unable",
        scene.swb(&["complete", "s", "--prompt", "prompt_0", "topic"]).fails(5)
    );
    let scene = with(&Script::legacy().prompts(1));
    insta::assert_snapshot!(
        "near",
        scene.swb(&["complete", "s", "--prompt", "prompt0", "topic"]).fails(5)
    );
    scene.swb(&["complete", "s", "topic"]).fails(2);
    scene.swb(&["complete", "s", "--prompt", "a", "--template", "b", "topic"]).fails(2);
    scene.swb(&["complete", "s", "--prompt", "a", "topic", "--context", "x"]).fails(2);
}
