//! `swb permissions`.

use crate::support::{USER, json, scene};

const RULES: &str = r#"{"permissions": {
  "allow": ["mcp__files__read(path=/srv/*)"],
  "ask": ["mcp__files__write"],
  "deny": ["mcp__files__drop"]
}}"#;

#[test]
fn every_rule_is_listed_with_its_place() {
    let scene = scene();
    assert_eq!(
        scene.swb(&["permissions", "list"]).ok(),
        "mode: default\nNo rules: every tool asks at its first use, unless its server is trusted.\n"
    );
    scene.write(USER, RULES);
    insta::assert_snapshot!(scene.swb(&["permissions", "list"]).ok());
}

#[test]
fn the_rule_that_decides_is_named_and_so_are_those_that_do_not() {
    let scene = scene();
    scene.write(USER, RULES).servers(".mcp.json", r#""files": {"command": "x"}"#);
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
        scene.swb(&["permissions", "explain", "mcp__files__read", "path=/etc"]).ok()
    );
    scene.swb(&["permissions", "explain", "files"]).fails(2);
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
    assert!(ran.stderr.contains("settings.json:2:"), "{}", ran.shown());
}
