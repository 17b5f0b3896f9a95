//! `swb permissions`.

use testkit::{Script, ScriptedProgram};

use crate::support::{USER, json, local_settings, scene};

const RULES: &str = r#"{"permissions": {
  "allow": ["mcp__files__read(path=/srv/*)"],
  "ask": ["mcp__files__write"],
  "deny": ["mcp__files__drop"]
}}"#;

#[test]
fn every_rule_is_listed_with_its_place() {
    let scene = scene();
    assert_eq!(
        scene.swb(&["permissions", "list"]).expect_success(),
        "mode: default\nNo rules: every tool asks at its first use, unless its server is trusted.\n"
    );
    scene.write(USER, RULES);
    insta::assert_snapshot!(scene.swb(&["permissions", "list"]).expect_success());
}

#[test]
fn the_rule_that_decides_is_named_and_so_are_those_that_do_not() {
    let scene = scene();
    scene.write(USER, RULES).write_servers(".mcp.json", r#""files": {"command": "x"}"#);
    let decision = |words: &[&str]| {
        let mut all = vec!["permissions", "explain", "--json"];
        all.extend(words);
        json(&scene, &all)["decision"].as_str().expect("a word").to_owned()
    };
    assert_eq!(decision(&["mcp__files__read", "path=/srv/a"]), "allow");
    assert_eq!(decision(&["mcp__files__read", "path=/srv/../etc"]), "ask");
    assert_eq!(decision(&["mcp__files__read", "path=/etc/a", "--mode", "dontAsk"]), "deny");
    assert_eq!(decision(&["mcp__files__write"]), "ask");
    assert_eq!(decision(&["mcp__files__drop", "--mode", "bypass"]), "deny");
    insta::assert_snapshot!(
        scene.swb(&["permissions", "explain", "mcp__files__read", "path=/etc"]).expect_success()
    );
    scene.swb(&["permissions", "explain", "files"]).expect_failure(2);
}

#[test]
fn an_administrators_rule_holds_and_a_bad_one_is_an_error_with_its_line() {
    let scene = scene();
    scene.write(USER, r#"{"permissions": {"allow": ["mcp__files"]}}"#);
    scene.write(
        "managed/managed-settings.json",
        r#"{"permissions": {"deny": ["mcp__files__drop"]}}"#,
    );
    let denied = json(&scene, &["permissions", "explain", "mcp__files__drop", "--json"]);
    assert_eq!(denied["decision"], "deny");
    scene.write(USER, "{\"permissions\": {\n  \"deny\": [\"mcp__files__drop(path\"]\n}}");
    let ran = scene.swb(&["permissions", "list"]);
    assert!(ran.stderr.contains("settings.json:2:"), "{}", ran.to_snapshot());
}

#[test]
fn rules_are_added_to_a_list_of_a_file_and_comments_stay() {
    let scene = scene();
    scene.write_servers(".mcp.json", r#""files": {"command": "x"}"#);
    scene.write(
        USER,
        "{\n  // mine\n  \"permissions\": {\n    \"allow\": [\n      \"mcp__a\" // why\n    ]\n  }\n}\n",
    );
    let added =
        scene.swb(&["permissions", "add", "-s", "user", "allow", "mcp__files__read(path=/srv/*)"]);
    insta::assert_snapshot!("added", added.expect_success());
    assert_eq!(added.stderr, "");
    assert_eq!(
        scene.read(USER),
        "{\n  // mine\n  \"permissions\": {\n    \"allow\": [\n      \"mcp__a\", // why\n      \"mcp__files__read(path=/srv/*)\"\n    ]\n  }\n}\n"
    );
    let local = local_settings(&scene);
    insta::assert_snapshot!(
        "added_locally",
        scene
            .swb(&["permissions", "add", "deny", "mcp__files__drop", "mcp__files__wipe"])
            .expect_success()
    );
    let text = std::fs::read_to_string(&local).expect("it was made");
    assert!(text.contains(r#""deny": ["mcp__files__drop", "mcp__files__wipe"]"#), "{text}");
    let again = scene.swb(&["permissions", "add", "deny", "mcp__files__drop"]);
    assert!(again.expect_success().contains("is already in"), "{}", again.to_snapshot());
    assert_eq!(std::fs::read_to_string(&local).expect("it is there"), text);
    let explained = json(&scene, &["permissions", "explain", "mcp__files__drop", "--json"]);
    assert_eq!(explained["decision"], "deny");
}

#[test]
fn a_text_that_is_no_rule_is_refused_with_what_is_wrong_and_nothing_is_written() {
    let scene = scene();
    insta::assert_snapshot!(
        scene
            .swb(&["permissions", "add", "allow", "mcp__a", "mcp__files__read(path"])
            .expect_failure(2)
    );
    assert!(!local_settings(&scene).exists());
}

#[test]
fn a_rule_that_decides_nothing_is_warned_of() {
    let scene = scene();
    scene.write_servers(".mcp.json", r#""files": {"command": "x"}"#);
    scene.write(
        "managed/managed-settings.json",
        r#"{"permissions": {"deny": ["mcp__files__d*"], "ask": ["mcp__files"]}}"#,
    );
    let noted = |words: &[&str]| {
        let ran = scene.swb(words);
        ran.expect_success();
        ran.stderr
    };
    insta::assert_snapshot!(
        "pointless",
        noted(&["permissions", "add", "allow", "mcp__files__drop(all=false)"])
    );
    insta::assert_snapshot!("asked", noted(&["permissions", "add", "allow", "mcp__files__read"]));
    insta::assert_snapshot!("broader", noted(&["permissions", "add", "ask", "mcp__files__read"]));
    assert_eq!(noted(&["permissions", "add", "deny", "mcp__files__read"]), "");
    let unknown = noted(&["permissions", "add", "deny", "mcp__nobody"]);
    assert!(unknown.contains("names no configured server"), "{unknown}");
}

#[test]
fn a_project_may_deny_but_not_allow() {
    let scene = scene();
    scene.write_servers(".mcp.json", r#""files": {"command": "x"} // ours"#);
    scene.swb(&["permissions", "add", "-s", "project", "allow", "mcp__files"]).expect_failure(4);
    scene
        .swb(&["permissions", "add", "-s", "project", "deny", "mcp__files__drop"])
        .expect_success();
    assert!(scene.read(".mcp.json").contains("// ours"));
    let denied = json(&scene, &["permissions", "explain", "mcp__files__drop", "--json"]);
    assert_eq!(denied["decision"], "deny");
    scene.write(
        ".mcp.json",
        r#"{"permissions": {"allow": ["mcp__files"], "defaultMode": "bypass"}}"#,
    );
    let asked = scene.swb(&["permissions", "explain", "mcp__files__read", "--json"]);
    assert!(asked.expect_success().contains(r#""decision": "ask""#), "{}", asked.to_snapshot());
    assert!(asked.stderr.contains("has no effect in a project's file"), "{}", asked.to_snapshot());
}

#[test]
fn a_rule_is_taken_out_of_the_place_it_stands_in() {
    let scene = scene();
    scene.write(USER, RULES);
    let gone = scene.swb(&["permissions", "remove", "mcp__files__drop"]);
    insta::assert_snapshot!("gone", gone.expect_success());
    assert_eq!(scene.read(USER), RULES.replace("[\"mcp__files__drop\"]", "[]"));
    insta::assert_snapshot!(
        "not_there",
        scene.swb(&["permissions", "remove", "deny", "mcp__files__write"]).expect_failure(5)
    );
    scene.swb(&["permissions", "add", "ask", "mcp__files__write"]).expect_success();
    scene.swb(&["permissions", "remove", "mcp__files__write"]).expect_failure(6);
    scene
        .swb(&["permissions", "remove", "-s", "local", "ask", "mcp__files__write"])
        .expect_success();
    scene.swb(&["permissions", "remove", "-s", "local", "mcp__files__write"]).expect_failure(5);
}

#[test]
fn past_calls_are_held_against_other_rules() {
    let scene = scene();
    let entry = ScriptedProgram::config_entry(&Script::legacy());
    scene.write(
        USER,
        &format!(r#"{{"permissions": {{"allow": ["mcp__s"]}}, "mcpServers": {{"s": {entry}}}}}"#),
    );
    for _ in 0..2 {
        scene.swb(&["call", "mcp__s__echo", "text=x"]).expect_success();
    }
    scene.swb(&["call", "mcp__s__add", "a:=1", "b:=2"]).expect_success();
    scene.swb(&["call", "mcp__s__whoami"]).expect_success();
    scene.swb(&["call", "mcp__s__nothing"]).expect_failure(5);
    assert_eq!(
        scene.swb(&["permissions", "simulate"]).expect_success(),
        "mode: default\n0 calls would be decided differently, 4 as before; 1 were never decided.\n"
    );
    scene.write(
        "new.json",
        "{\"permissions\": {\n\"deny\": [\"mcp__s__echo\"],\n\"allow\": [\"mcp__s__add(a=1)\", \"mcp__s__whoami\"]}}",
    );
    insta::assert_snapshot!(
        "simulated",
        scene.swb(&["permissions", "simulate", "--rules", "new.json"]).expect_success()
    );
    let asked = json(
        &scene,
        &["permissions", "simulate", "--rules", "new.json", "--mode", "dontAsk", "--json"],
    );
    assert_eq!(asked["changes"][0]["wouldBe"], "deny");
    assert_eq!(asked["depends"][0]["possible"], serde_json::json!(["deny", "allow"]));
    assert_eq!((&asked["same"], &asked["undecided"]), (&1.into(), &1.into()));
    let future = scene.swb(&["permissions", "simulate", "--since", "2999-01-01"]);
    assert!(future.expect_success().contains("0 calls"), "{}", future.to_snapshot());
    scene.write("new.json", r#"{"permissions": {"deny": ["echo"]}}"#);
    let bad = scene.swb(&["permissions", "simulate", "--rules", "new.json"]);
    assert!(bad.expect_failure(3).contains("new.json:1"), "{}", bad.to_snapshot());
    scene.swb(&["permissions", "simulate", "--rules", "nowhere.json"]).expect_failure(3);
    scene.swb(&["permissions", "simulate", "--since", "soon"]).expect_failure(2);
}
