//! What `--json` prints, checked with the schemas of the reference page.

use serde_json::{Value as Json, json};
use swb_cli::output::json_schema;
use testkit::model_service::{API_KEY, Reply, ReplyEnd, ReplyPart};
use testkit::{ModelService, Sandbox, Script, ScriptedProgram};

use crate::support::{USER, scene};

/// A sandbox with a server that works, one that does not start, and one that waits for approval.
fn three_servers() -> Sandbox {
    let scene = scene();
    let good = ScriptedProgram::config_entry(&Script::legacy());
    let servers = format!(r#"{{"s": {good}, "gone": {{"command": "no-such-program-here"}}}}"#);
    scene.write(
        USER,
        &format!(r#"{{"permissions": {{"allow": ["mcp__s"]}}, "mcpServers": {servers}}}"#),
    );
    scene.write_servers(".mcp.json", r#""team": {"command": "x"}"#);
    scene
}

#[track_caller]
fn check(schema: &Json, value: &Json) {
    let validator = jsonschema::validator_for(schema).expect("a valid schema");
    let errors: Vec<String> = validator.iter_errors(value).map(|it| it.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}\n{value:#}");
}

#[test]
fn a_server_has_one_shape_in_every_command() {
    let scene = three_servers();
    let mut seen = Vec::new();
    for (words, list) in [
        (&["list", "--json"][..], "servers"),
        (&["status", "--json"], "servers"),
        (&["doctor", "--json"], "servers"),
        (&["get", "s", "--json"], "definitions"),
        (&["get", "gone", "--json"], "definitions"),
        (&["get", "team", "--json"], "definitions"),
    ] {
        let ran = scene.swb(words);
        let printed: Json = serde_json::from_str(&ran.stdout).expect("one JSON object");
        for server in printed[list].as_array().expect("a list") {
            check(&json_schema::server(), server);
            let of = |key: &str| server[key].as_str().unwrap_or_default().to_owned();
            seen.push(format!("{} {} {}", words[0], of("name"), of("state")));
        }
    }
    seen.sort();
    let expected = [
        "doctor gone failed",
        "doctor s connected",
        "doctor team pending",
        "get gone ready",
        "get s ready",
        "get team pending",
        "list gone ready",
        "list s ready",
        "list team pending",
        "status gone failed",
        "status s connected",
        "status team pending",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_command_that_fails_prints_an_error_also_beside_its_output() {
    let scene = three_servers();
    for (words, exit, code, member) in [
        (&["status", "--require", "gone"][..], 9, "start-failed", Some("servers")),
        (&["doctor", "gone"], 9, "start-failed", Some("servers")),
        (&["call", "mcp__s__fail", "text=no"], 11, "tool-failed", Some("content")),
        (&["call", "mcp__s__add", "a=one"], 2, "usage", None),
        (&["call", "mcp__gone__x"], 9, "start-failed", None),
        (&["list", "--require", "team"], 7, "not-ready", None),
    ] {
        check_failure(&scene, &[words, &["--json"]].concat(), (exit, code), member);
    }
    scene.write(".mcp.json", "{");
    check_failure(&scene, &["config", "check", "--json"], (3, "configuration"), Some("problems"));
    check_failure(&scene, &["tools", "--json"], (3, "configuration"), Some("tools"));
    let usage = ["-p", "x", "--output-format", "json", "--no-such-option"];
    check_failure(&scene, &usage, (2, "usage"), None);
}

#[track_caller]
fn check_failure(scene: &Sandbox, words: &[&str], expected: (i32, &str), member: Option<&str>) {
    let ran = scene.swb(words);
    assert_eq!(ran.code, expected.0, "{words:?} {}", ran.to_snapshot());
    let printed: Json = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("{words:?}: {error}\n{}", ran.to_snapshot()));
    check(&json_schema::failure(), &printed);
    let error = &printed["error"];
    assert_eq!(
        (&error["exit"], &error["code"]),
        (&json!(expected.0), &json!(expected.1)),
        "{words:?}"
    );
    let others: Vec<&String> =
        printed.as_object().expect("an object").keys().filter(|it| *it != "error").collect();
    assert_eq!(others.is_empty(), member.is_none(), "{words:?}: {others:?}");
    assert!(member.is_none_or(|it| printed.get(it).is_some()), "{words:?}: {others:?}");
}

#[test]
fn what_is_wrong_with_arguments_is_the_cause() {
    let scene = three_servers();
    let ran = scene.swb(&["call", "mcp__s__add", "a=one", "--json"]);
    let printed: Json = serde_json::from_str(&ran.stdout).expect("one JSON object");
    let cause = printed["error"]["cause"].as_str().unwrap_or_default();
    assert!(cause.contains("`a` should be number, not string"), "{printed}");
}

#[test]
fn an_answer_that_was_cut_is_an_error_of_the_result() {
    let reply = Reply::Message(vec![ReplyPart::text("half an")], ReplyEnd::MaxTokens);
    let service = ModelService::start([reply]).expect("it starts");
    let mut scene = three_servers();
    scene.set_env("ANTHROPIC_API_KEY", API_KEY).set_env("ANTHROPIC_BASE_URL", service.origin());
    let ran = scene.swb(&["-p", "hi", "--output-format", "json"]);
    let printed: Json = serde_json::from_str(&ran.stdout).expect("one JSON object");
    check(&json_schema::failure(), &printed);
    assert_eq!(printed["error"]["exit"], ran.code, "{printed}");
    assert_eq!(printed["result"], "half an", "{printed}");
}
