//! `swb tools`.

use serde_json::json;
use testkit::{Quirk, Script, ScriptedProgram, ScriptedServer, Size, Terminal, scripted};

use crate::support::{USER, json as json_of, scene};

#[test]
fn every_tool_is_listed_with_its_exposed_name() {
    let scene = scene();
    let remote = ScriptedServer::http(Script::modern().tools(1));
    let local = ScriptedProgram::config_entry(&Script::legacy().tools(1));
    scene.write_servers(
        USER,
        &format!(r#""local": {local}, "far-away": {{"type": "http", "url": "{}"}}"#, remote.url()),
    );
    let list = json_of(&scene, &["tools", "--json"]);
    let tools = list["tools"].as_array().expect("a list");
    let names: Vec<&str> = tools.iter().filter_map(|it| it["name"].as_str()).collect();
    assert!(
        names.contains(&"mcp__local__echo") && names.contains(&"mcp__far-away__echo"),
        "{names:?}"
    );
    let echo = tools.iter().find(|it| it["name"] == "mcp__local__echo").expect("it is there");
    assert_eq!((&echo["server"], &echo["tool"]), (&json!("local"), &json!("echo")));
    assert_eq!(echo["inputSchema"]["type"], "object");
    let ours = tools.iter().find(|it| it["name"] == "ListMcpResources").expect("it is there");
    assert_eq!((&ours["server"], &ours["deferred"]), (&json!(null), &json!(true)));
    assert_eq!(echo["deferred"], false);
    let text = scene.swb(&["tools", "local"]);
    assert!(
        text.expect_success().contains("mcp__local__add") && !text.stdout.contains("far-away"),
        "{}",
        text.to_snapshot()
    );
}

#[test]
fn filters_and_unconditional_denials_remove_tools_and_invalid_ones_are_reported() {
    let scene = scene();
    let bad = ScriptedProgram::config_entry(&Script::legacy().quirk(Quirk::BadToolSchema));
    let mut entry: serde_json::Value =
        serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy())).expect("JSON");
    entry["tools"] = json!({"allow": ["echo", "add", "fail"], "deny": ["fail"]});
    let settings = format!(
        r#"{{"permissions": {{"deny": ["mcp__some__add", "mcp__some__echo(text=no)"]}}, "mcpServers": {{"some": {entry}, "bad": {bad}}}}}"#
    );
    scene.write(USER, &settings);
    let some = json_of(&scene, &["tools", "some", "--json"]);
    let names: Vec<&str> = some["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["tool"].as_str())
        .collect();
    assert_eq!(names, ["echo"]);
    let ran = scene.swb(&["tools", "bad"]);
    assert!(
        ran.expect_success().contains("mcp__bad__echo") && ran.stderr.contains("left out"),
        "{}",
        ran.to_snapshot()
    );
}

#[test]
fn remembered_lists_are_used_without_a_connection_until_they_are_refreshed() {
    let scene = scene();
    let program = scene.path("~/server");
    std::os::unix::fs::symlink(scripted::program(), &program).expect("a link");
    let entry = json!({"command": program, "args": [Script::legacy().to_json()]});
    scene.write_servers(USER, &format!("\"one\": {entry}"));
    let first = json_of(&scene, &["tools", "--json"]);
    assert_eq!(first["remembered"], json!([]));
    std::fs::remove_file(&program).expect("it is there");
    let second = json_of(&scene, &["tools", "--json"]);
    assert_eq!(second["remembered"], json!(["one"]));
    assert_eq!(second["tools"], first["tools"]);
    let found = scene.swb(&["search", "echo"]);
    assert!(found.expect_success().contains("mcp__one__echo"), "{}", found.to_snapshot());
    assert_eq!(
        found.stderr,
        "note: `one` is listed as of the last connection; `--refresh` connects\n"
    );
    for words in [&["tools", "--refresh"][..], &["search", "echo", "--refresh"]] {
        let ran = scene.swb(words);
        assert!(!ran.expect_success().contains("mcp__one__echo"), "{}", ran.to_snapshot());
        assert!(ran.stderr.contains("was not found"), "{}", ran.to_snapshot());
    }
    // Another definition has other lists.
    let entry = json!({"command": program, "args": [Script::legacy().tools(1).to_json()]});
    scene.write_servers(USER, &format!("\"one\": {entry}"));
    let ran = scene.swb(&["tools", "one"]);
    assert!(!ran.expect_success().contains("mcp__one__echo"), "{}", ran.to_snapshot());
}

#[test]
fn what_is_remembered_of_a_server_is_readable_by_the_owner_only_and_checked_like_its_response() {
    use std::os::unix::fs::PermissionsExt;
    let scene = scene();
    let entry = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(USER, &format!("\"one\": {entry}"));
    json_of(&scene, &["tools", "--json"]);
    let folder = scene.path("~/.local/share/switchboard/lists");
    let files = std::fs::read_dir(folder).expect("the lists");
    let file = files.flatten().next().expect("one file").path();
    let mode = std::fs::metadata(&file).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let hostile = r#"{"format":1,"lists":{"tools":[{"name":"\u001b[2Jx","inputSchema":{"type":"object"}},{"name":7}]}}"#;
    std::fs::write(&file, hostile).expect("it is ours");
    let ran = scene.swb(&["tools", "one"]);
    assert!(!ran.expect_success().contains('\u{1b}'), "{}", ran.to_snapshot());
    std::fs::write(&file, "{").expect("it is ours");
    let again = json_of(&scene, &["tools", "--json"]);
    assert_eq!(again["remembered"], json!([]), "a damaged file counts as none");
}

#[test]
fn a_narrow_terminal_shortens_descriptions_and_never_names() {
    let scene = scene();
    let name = "a_tool_with_a_name_that_needs_most_of_the_line";
    let entry = ScriptedProgram::config_entry(&Script::legacy().tool(name));
    scene.write_servers(USER, &format!("\"s\": {entry}"));
    let size = Size { columns: 60, rows: 40 };
    let terminal = Terminal::with_size(&scene.command(&scene.project(), &["tools", "s"]), size);
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains(&format!("mcp__s__{name} ")), "{shown}");
    assert!(!shown.contains("Has a name of its own."), "{shown}");
}
