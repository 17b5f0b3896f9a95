//! Which program runs for a relative path, whatever folder the command is typed in: never one of another folder.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value as Json;
use testkit::{Sandbox, Script, ScriptedProgram};

use crate::support::{USER, scene, states};

/// Writes an executable script. The program that runs appends its name to `ran` in the home folder.
fn write_script(scene: &Sandbox, path: &str, name: &str, then: &str) {
    let ran = scene.home().join("ran");
    scene.write(path, &format!("#!/bin/sh\necho {name} >> '{}'\n{then}\n", ran.display()));
    let file = scene.path(path);
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).expect("changed");
}

/// A script that is a working server.
fn write_server(scene: &Sandbox, path: &str, name: &str) {
    let entry = ScriptedProgram::config_entry(&Script::legacy());
    let entry: Json = serde_json::from_str(&entry).expect("JSON");
    let word = |it: &Json| format!("'{}'", it.as_str().expect("a string"));
    let mut then = String::from("exec env");
    for (variable, value) in entry["env"].as_object().into_iter().flatten() {
        then.push_str(&format!(" {variable}={}", word(value)));
    }
    then.push_str(&format!(" {}", word(&entry["command"])));
    for argument in entry["args"].as_array().into_iter().flatten() {
        then.push_str(&format!(" {}", word(argument)));
    }
    write_script(scene, path, name, &then);
}

/// The names of the programs that ran since the last time.
fn take_ran(scene: &Sandbox) -> String {
    let ran = scene.home().join("ran");
    let text = std::fs::read_to_string(&ran).unwrap_or_default();
    let _absent = std::fs::remove_file(ran); // Nothing ran.
    text
}

fn call_in(scene: &Sandbox, folder: &Path, server: &str) -> i32 {
    scene.swb_in(folder, &["call", &format!("mcp__{server}__echo"), "text=hello"]).code
}

#[test]
fn an_approved_server_runs_its_own_program_from_every_folder() {
    let scene = scene();
    scene.write(USER, r#"{"permissions": {"allow": ["mcp__a", "mcp__b", "mcp__c"]}}"#);
    for path in ["tools/server", "server.sh", "work/run.sh"] {
        write_server(&scene, path, "own");
        write_script(&scene, &format!("sub/{path}"), "decoy", "exit 1");
    }
    scene.write_servers(
        ".mcp.json",
        r#""a": {"command": "./tools/server"},
           "b": {"command": "sh", "args": ["server.sh"]},
           "c": {"command": "sh", "args": ["run.sh"], "cwd": "work"}"#,
    );
    scene.swb(&["approve", "--all"]).expect_success();
    let sub = scene.project().join("sub");
    for server in ["a", "b", "c"] {
        for folder in [&scene.project(), &sub] {
            assert_eq!(call_in(&scene, folder, server), 0, "{server} in {}", folder.display());
            let ran = take_ran(&scene);
            assert!(ran.lines().all(|it| it == "own") && !ran.is_empty(), "{server}: {ran}");
        }
    }
}

#[test]
fn an_approval_of_a_missing_program_does_not_cover_one_that_appears() {
    let mut scene = scene();
    let bin = scene.home().join("bin");
    let path = std::env::var("PATH").expect("a search path");
    scene.set_env("PATH", &format!("{}:{path}", bin.display()));
    scene.write(USER, r#"{"permissions": {"allow": ["mcp__s"]}}"#);
    scene.write_servers(".mcp.json", r#""s": {"command": "late-server"}"#);
    scene.swb(&["approve", "s"]).expect_success();
    assert_eq!(states(&scene, &[]), ["s project ready"]);
    write_server(&scene, "~/bin/late-server", "late");
    assert_eq!(states(&scene, &[]), ["s project pending"]);
    assert_ne!(call_in(&scene, &scene.project(), "s"), 0);
    assert_eq!(take_ran(&scene), "");
    scene.swb(&["approve", "s"]).expect_success();
    assert_eq!(call_in(&scene, &scene.project(), "s"), 0);
    assert_eq!(take_ran(&scene), "late\n");
}

#[test]
fn a_users_relative_path_does_not_lead_into_the_working_folder() {
    let scene = scene();
    write_script(&scene, "tools/server", "decoy", "exit 1");
    write_server(&scene, "~/.config/switchboard/tools/server", "own");
    scene.write(
        USER,
        r#"{"permissions": {"allow": ["mcp__s"]}, "mcpServers": {"s": {"command": "./tools/server"}}}"#,
    );
    assert_eq!(call_in(&scene, &scene.project(), "s"), 0);
    assert_eq!(take_ran(&scene), "own\n");
}

#[test]
fn an_added_command_is_the_program_in_the_folder_where_it_was_typed() {
    let scene = scene();
    scene.write(".git/HEAD", "");
    scene.write(USER, r#"{"permissions": {"allow": ["mcp__u", "mcp__l", "mcp__p"]}}"#);
    write_script(&scene, "tools/server", "decoy", "exit 1");
    write_server(&scene, "sub/tools/server", "own");
    let sub = scene.project().join("sub");
    for (name, scope) in [("u", "user"), ("l", "local"), ("p", "project")] {
        let added = scene.swb_in(&sub, &["add", name, "-s", scope, "--", "./tools/server"]);
        added.expect_success();
    }
    scene.swb(&["approve", "p"]).expect_success();
    for server in ["u", "l", "p"] {
        for folder in [&scene.project(), &sub] {
            assert_eq!(call_in(&scene, folder, server), 0, "{server} in {}", folder.display());
            let ran = take_ran(&scene);
            assert!(ran.lines().all(|it| it == "own") && !ran.is_empty(), "{server}: {ran}");
        }
    }
    // The file of a project is shared, so it names no folder of this machine.
    let file = scene.read(".mcp.json");
    assert!(file.contains(r#""./sub/tools/server""#), "{file}");
}
