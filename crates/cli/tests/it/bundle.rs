//! `swb bundle`, and `swb add FILE.mcpb`, with bundles made by the real packing tool.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value as Json, json as value};
use testkit::{Sandbox, Terminal, real_servers};

use crate::support::{USER, json, local_settings, scene, states, wait_for};

/// A server without packages: its tool `show` returns its arguments and two variables.
const SERVER: &str = r#"
const answer = (id, result) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }) + '\n');
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method } = JSON.parse(line);
    if (method === 'initialize') {
        const info = { name: 'probe', version: '1' };
        answer(id, { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: info });
    } else if (method === 'tools/list') {
        answer(id, { tools: [{ name: 'show', inputSchema: { type: 'object' } }] });
    } else if (method === 'tools/call') {
        const text = JSON.stringify({ args: process.argv.slice(2), token: process.env.TOKEN, mode: process.env.MODE });
        answer(id, { content: [{ type: 'text', text }] });
    } else if (id !== undefined) {
        process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no' } }) + '\n');
    }
});
"#;

pub fn manifest(version: &str) -> Json {
    value!({
        "manifest_version": "0.3", "name": "probe", "display_name": "Probe", "version": version,
        "description": "Shows how it was started", "author": {"name": "Ada"},
        "server": {"type": "node", "entry_point": "server/index.js", "mcp_config": {
            "command": "node",
            "args": ["${__dirname}/server/index.js", "${user_config.folders}", "--level=${user_config.level}"],
            "env": {"TOKEN": "${user_config.token}", "MODE": "${user_config.mode}"},
        }},
        "tools": [{"name": "show", "description": "Shows it"}],
        "compatibility": {"platforms": ["linux", "darwin"], "runtimes": {"node": ">=18"}},
        "user_config": {
            "folders": {"type": "directory", "title": "Folders", "description": "What it may show", "multiple": true, "required": true},
            "token": {"type": "string", "title": "Token", "description": "Of the service", "sensitive": true, "required": true},
            "level": {"type": "number", "title": "Level", "description": "How much", "default": 0, "min": 0, "max": 9},
            "mode": {"type": "string", "title": "Mode", "description": "Which", "default": "${HOME}/m"},
        },
    })
}

/// Runs the packing tool in the project's folder.
#[track_caller]
pub fn mcpb(scene: &Sandbox, args: &[&str]) {
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    let tool = real_servers::mcpb(&args);
    let run = Command::new(&tool.command)
        .args(&tool.args)
        .current_dir(scene.project())
        .output()
        .expect("the tool starts");
    let shown = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "mcpb {args:?}: {shown}{}", String::from_utf8_lossy(&run.stderr));
}

/// Packs a bundle with this manifest into a file of the project.
pub fn pack(scene: &Sandbox, manifest: &Json, file: &str) {
    scene.write("source/manifest.json", &manifest.to_string());
    scene.write("source/server/index.js", SERVER);
    mcpb(scene, &["pack", "source", file]);
}

/// A sandbox in whose search path `node` is found.
pub fn node_scene() -> Sandbox {
    let mut scene = scene();
    let node = real_servers::node();
    let bin = node.parent().expect("it is in a folder");
    let path = std::env::var("PATH").expect("a search path");
    scene.set_env("PATH", &format!("{}:{path}", bin.display()));
    scene
}

/// A sandbox with a packed bundle `probe.mcpb` in the project.
fn packed() -> Sandbox {
    let scene = node_scene();
    pack(&scene, &manifest("1.0.0"), "probe.mcpb");
    scene
}

/// The installed bundles.
fn installed(scene: &Sandbox) -> Vec<Json> {
    json(scene, &["bundle", "list", "--json"])["bundles"].as_array().expect("a list").clone()
}

/// The folder with the files of a listed bundle.
fn folder_of(scene: &Sandbox, bundle: &Json) -> PathBuf {
    let shown = bundle["folder"].as_str().expect("a path");
    PathBuf::from(shown.replace("[ROOT]", &scene.root().display().to_string()))
}

/// The result of the server's tool.
#[track_caller]
fn call(scene: &Sandbox) -> Json {
    let ran = scene.swb(&["call", "mcp__probe__show", "--mode", "bypass"]);
    serde_json::from_str(ran.expect_success()).expect("the tool returns JSON")
}

const FILE_SECRETS: [&str; 2] = ["--secrets", "file"];

#[test]
fn a_bundle_is_added_configured_called_updated_and_uninstalled() {
    let scene = packed();
    let added = scene.swb(&["add", "probe.mcpb", "--scope", "user", "--yes"]);
    let shown = added.expect_success();
    assert!(shown.contains("Probe 1.0.0 by Ada\n"), "{}", added.to_snapshot());
    assert!(shown.contains("Signature:    unsigned: nothing proves who made it"), "{shown}");
    assert!(shown.contains("Needs config: folders, token"), "{shown}");
    assert!(
        added.stderr.contains("swb bundle configure probe folders=VALUE token=VALUE"),
        "{}",
        added.stderr
    );
    // Visible in every command, and never started.
    assert_eq!(states(&scene, &[]), ["probe user needs-config"]);
    let listed = scene.swb(&["list"]);
    assert!(listed.expect_success().contains("needs config"), "{}", listed.to_snapshot());
    assert!(listed.stderr.contains("swb bundle configure probe"), "{}", listed.to_snapshot());
    let got = json(&scene, &["get", "probe", "--json"]);
    assert_eq!(got["definitions"][0]["state"], "needs-config", "{got}");
    let doctor = scene.swb(&["doctor"]);
    assert!(doctor.stdout.contains("its bundle needs folders, token"), "{}", doctor.to_snapshot());
    let refused = scene.swb(&["call", "mcp__probe__show", "--mode", "bypass"]);
    assert!(refused.expect_failure(7).contains("needs config"), "{}", refused.to_snapshot());
    // One value is not enough; the secret never is in the settings.
    scene
        .swb(&[&["bundle", "configure", "probe", "token=hunter2$HOME"][..], &FILE_SECRETS].concat())
        .expect_success();
    assert_eq!(states(&scene, &[]), ["probe user needs-config"]);
    let configured =
        scene.swb(&["bundle", "configure", "probe", "folders=one", "folders=~/two", "level=3"]);
    assert!(
        configured.expect_success().contains("state: ready to start"),
        "{}",
        configured.to_snapshot()
    );
    assert_eq!(states(&scene, &[]), ["probe user ready"]);
    assert!(!scene.read(USER).contains("hunter2"), "{}", scene.read(USER));
    let (one, two) = ("[ROOT]/person/project/one", "[ROOT]/person/two");
    let called = call(&scene);
    assert_eq!(called["args"], value!([one, two, "--level=3"]));
    assert_eq!(called["token"], "hunter2$HOME");
    assert_eq!(called["mode"], "[ROOT]/person/m");
    // A new version is another file: it replaces the entry and keeps the values that it has options for.
    let mut next = manifest("2.0.0");
    next["user_config"].as_object_mut().expect("an object").shift_remove("level");
    next["server"]["mcp_config"]["args"] =
        value!(["${__dirname}/server/index.js", "${user_config.folders}"]);
    pack(&scene, &next, "next.mcpb");
    let again = scene.swb(&["add", "next.mcpb", "--scope", "user", "--yes"]);
    assert!(
        again.expect_failure(6).contains("already in the user scope"),
        "{}",
        again.to_snapshot()
    );
    scene.swb(&["add", "next.mcpb", "--scope", "user", "--yes", "--overwrite"]).expect_success();
    assert_eq!(call(&scene)["args"], value!([one, two]));
    let bundles = installed(&scene);
    assert_eq!(bundles.len(), 2, "{bundles:?}");
    let unused: Vec<bool> =
        bundles.iter().map(|it| it["servers"].as_array().expect("a list").is_empty()).collect();
    assert_eq!(unused.iter().filter(|it| **it).count(), 1, "{bundles:?}");
    let removed = scene.swb(&["bundle", "uninstall", "--unused"]);
    assert_eq!(removed.expect_success(), "Deleted the files of 1 bundle\n");
    let secret = scene.home().join(".config/switchboard/secrets/probe.userConfig.token");
    assert!(secret.exists(), "the secret is in a file of its own");
    let folder = folder_of(&scene, &installed(&scene)[0]);
    assert!(folder.exists());
    let removed = scene.swb(&["bundle", "uninstall", "probe"]);
    assert!(
        removed.expect_success().contains("Deleted 1 stored secret\nDeleted the bundle's files\n"),
        "{}",
        removed.to_snapshot()
    );
    assert!(!scene.read(USER).contains("probe"), "{}", scene.read(USER));
    assert!(!folder.exists() && !secret.exists());
    assert_eq!(installed(&scene), Vec::<Json>::new());
}

#[test]
fn a_projects_bundle_waits_for_approval_and_again_when_its_hash_changes() {
    let scene = packed();
    scene
        .swb(&[
            "add",
            "probe.mcpb",
            "--scope",
            "project",
            "--yes",
            "--config",
            "folders=/srv",
            "--config",
            "token=${TOKEN:-t}",
        ])
        .expect_success();
    assert_eq!(states(&scene, &[]), ["probe project pending"]);
    let refused = scene.swb(&["call", "mcp__probe__show", "--mode", "bypass"]);
    assert!(refused.expect_failure(7).contains("pending approval"), "{}", refused.to_snapshot());
    let approved = scene.swb(&["approve", "probe"]);
    assert!(
        approved.expect_success().contains("server/index.js /srv --level=0"),
        "{}",
        approved.to_snapshot()
    );
    assert_eq!(call(&scene)["token"], "t");
    pack(&scene, &manifest("1.0.1"), "next.mcpb");
    scene.swb(&["add", "next.mcpb", "--scope", "project", "--yes", "--overwrite"]).expect_success();
    let state = &json(&scene, &["list", "--json"])["servers"][0];
    assert_eq!(state["state"], "pending", "{state}");
    assert!(
        state["reason"].as_str().is_some_and(|it| it.contains("changed since you approved")),
        "{state}"
    );
    // A colleague has the entry, but not the file.
    scene.swb(&["approve", "probe"]).expect_success();
    for bundle in installed(&scene) {
        let folder = folder_of(&scene, &bundle);
        fs::remove_dir_all(folder.parent().expect("a folder")).expect("it can be removed");
    }
    let listed = scene.swb(&["list"]);
    assert!(listed.stdout.contains("invalid"), "{}", listed.to_snapshot());
    let got = scene.swb(&["get", "probe"]);
    assert!(
        format!("{}{}", got.stdout, got.stderr).contains("swb bundle install FILE"),
        "{}",
        got.to_snapshot()
    );
    scene.swb(&["bundle", "install", "next.mcpb"]).expect_success();
    assert_eq!(states(&scene, &[]), ["probe project ready"]);
}

#[test]
fn a_policy_for_commands_decides_before_a_bundle_is_installed() {
    let scene = packed();
    let settings = scene.managed().join("managed-settings.json");
    fs::create_dir_all(scene.managed()).expect("a folder");
    fs::write(&settings, r#"{"allowedMcpServers": [{"serverCommand": ["other"]}]}"#)
        .expect("written");
    let added = scene.swb(&[
        "add",
        "probe.mcpb",
        "--yes",
        "--config",
        "folders=/srv",
        "--config",
        "token=${T:-t}",
    ]);
    assert!(added.expect_failure(4).contains("a policy refuses it"), "{}", added.to_snapshot());
    assert_eq!(installed(&scene), Vec::<Json>::new());
}

#[test]
fn a_secret_is_not_written_to_a_projects_file_and_not_without_its_store() {
    let scene = packed();
    let add = |more: &[&str]| {
        scene.swb(
            &[
                &[
                    "add",
                    "probe.mcpb",
                    "--yes",
                    "--config",
                    "folders=/srv",
                    "--config",
                    "token=hunter2",
                ],
                more,
            ]
            .concat(),
        )
    };
    let refused = add(&["--scope", "project"]);
    assert!(
        refused.expect_failure(2).contains("a project's file may not refer to one"),
        "{}",
        refused.to_snapshot()
    );
    assert!(refused.stderr.contains("token='${VARIABLE}'"), "{}", refused.stderr);
    let mut scene_without = packed();
    scene_without.write("~/bin/secret-tool", "#!/bin/sh\nexit 1\n");
    make_executable(&scene_without.path("~/bin/secret-tool"));
    let path = std::env::var("PATH").expect("a search path");
    scene_without
        .set_env("PATH", &format!("{}:{path}", scene_without.home().join("bin").display()));
    let failed = scene_without.swb(&[
        "add",
        "probe.mcpb",
        "--yes",
        "--config",
        "folders=/srv",
        "--config",
        "token=hunter2",
    ]);
    assert!(failed.expect_failure(1).contains("nothing was written"), "{}", failed.to_snapshot());
    assert!(failed.stderr.contains("--secrets file"), "{}", failed.stderr);
    assert!(!local_settings(&scene_without).exists());
    let kept = add(&["--scope", "user", "--secrets", "keep"]);
    kept.expect_success();
    assert!(
        kept.stderr.contains("the value is secret, but is not kept in the secret store"),
        "{}",
        kept.stderr
    );
    let got = scene.swb(&["get", "probe"]);
    assert!(!got.stdout.contains("hunter2"), "{}", got.to_snapshot());
}

#[cfg(unix)]
fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
}

#[test]
fn a_keychain_keeps_a_secret_until_the_server_is_uninstalled() {
    let mut scene = packed();
    scene.write(
        "~/bin/secret-tool",
        "#!/bin/sh\nfor name; do :; done\ncase $1 in\nstore) cat > \"$HOME/bin/$name\" ;;\nlookup) cat \"$HOME/bin/$name\" ;;\nclear) rm \"$HOME/bin/$name\" ;;\nesac\n",
    );
    make_executable(&scene.path("~/bin/secret-tool"));
    let node = real_servers::node();
    let node = node.parent().expect("it is in a folder").display().to_string();
    let path = std::env::var("PATH").expect("a search path");
    scene.set_env("PATH", &format!("{}:{node}:{path}", scene.home().join("bin").display()));
    scene
        .swb(&[
            "add",
            "probe.mcpb",
            "--scope",
            "user",
            "--yes",
            "--config",
            "folders=/srv",
            "--config",
            "token=hunter2",
        ])
        .expect_success();
    assert!(
        scene.read(USER).contains("${keychain:probe.userConfig.token}"),
        "{}",
        scene.read(USER)
    );
    assert_eq!(call(&scene)["token"], "hunter2");
    scene.swb(&["bundle", "uninstall", "probe"]).expect_success();
    assert!(!scene.path("~/bin/probe.userConfig.token").exists());
}

#[test]
fn values_are_checked_before_they_are_written() {
    let scene = packed();
    scene.swb(&["add", "probe.mcpb", "--yes"]).expect_success();
    let before = fs::read_to_string(local_settings(&scene)).expect("the entry is there");
    for (value, message) in [
        ("level=12", "the value must be a number from 0 to 9"),
        ("level=x", "the value must be a number"),
        ("mode", "option number 1 is not KEY=VALUE"),
        ("lvel=1", "there is no option `lvel`"), // misspelt on purpose
    ] {
        let failed = scene.swb(&["bundle", "configure", "probe", value]);
        assert!(failed.expect_failure(2).contains(message), "{}", failed.to_snapshot());
    }
    let twice = scene.swb(&["bundle", "configure", "probe", "level=1", "level=2"]);
    assert!(
        twice.expect_failure(2).contains("the option has only one value"),
        "{}",
        twice.to_snapshot()
    );
    let unset = scene.swb(&["bundle", "configure", "probe", "--unset", "level"]);
    assert!(unset.expect_failure(2).contains("no option `level`"), "{}", unset.to_snapshot());
    assert_eq!(fs::read_to_string(local_settings(&scene)).expect("the entry"), before);
    scene.swb(&["bundle", "configure", "probe", "level=2", "mode=a$b"]).expect_success();
    let shown = json(&scene, &["bundle", "configure", "probe", "--json"]);
    assert_eq!(shown["state"], "needs-config");
    assert_eq!(shown["options"][2]["value"], 2);
    assert_eq!(shown["options"][3]["value"], "a$$b", "as the file has it: {shown}");
    scene.swb(&["bundle", "configure", "probe", "--unset", "level"]).expect_success();
    let shown = scene.swb(&["bundle", "configure", "probe"]);
    assert!(
        shown
            .expect_success()
            .contains("level (number): Level - How much\n      default: 0\n      value: not set\n"),
        "{}",
        shown.to_snapshot()
    );
    let other = scene.swb(&["bundle", "configure", "absent", "a=b"]);
    other.expect_failure(5);
}

#[test]
fn at_a_terminal_options_are_asked_by_title_and_the_command_is_shown_before_it_is_written() {
    let scene = packed();
    let arguments = ["add", "probe.mcpb", "--scope", "user", "--secrets", "file"];
    let start = || Terminal::start(&scene.command(&scene.project(), &arguments));
    let answer = |mut terminal: Terminal, last: &str| {
        terminal
            .wait_for_output("Folders - What it may show, several separated by commas (required): ")
            .send_keys("/a, /b\r")
            .wait_for_output("Token - Of the service (required): ")
            .send_keys("hunter2\r")
            .wait_for_output("Level - How much (Enter for the default): ")
            .send_keys("\r")
            .wait_for_output("Mode - Which (Enter for the default): ")
            .send_keys("fast\r")
            .wait_for_output("Add it? [y/N] ")
            .send_keys(last);
        terminal.wait_for_exit()
    };
    let (code, shown) = answer(start(), "n\r");
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("Nothing was written."), "{shown}");
    assert_eq!(installed(&scene), Vec::<Json>::new());
    let (code, shown) = answer(start(), "y\r");
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("hunter2"), "a secret is typed without echo: {shown}");
    let command = shown.find("server/index.js /a /b --level=0").expect("the command is shown");
    assert!(command < shown.find("Add it?").expect("it asks"), "{shown}");
    let called = call(&scene);
    assert_eq!((&called["token"], &called["mode"]), (&value!("hunter2"), &value!("fast")));
}

#[test]
fn a_bundle_is_inspected_and_verified_without_being_installed() {
    let scene = packed();
    let shown = scene.swb(&["bundle", "inspect", "probe.mcpb"]);
    for line in [
        "Probe 1.0.0 by Ada\n  Shows how it was started\n",
        "  Server:       node\n  Needs:        node >=18\n  Platforms:    linux, darwin\n  Announces:    show\n",
        "    folders (directory, list, required): Folders - What it may show\n",
        "    token (string, required, secret): Token - Of the service\n",
    ] {
        assert!(shown.expect_success().contains(line), "{line}: {}", shown.to_snapshot());
    }
    let shown = json(&scene, &["bundle", "inspect", "probe.mcpb", "--json"]);
    assert_eq!(shown["manifest"]["serverType"], "node");
    assert_eq!(shown["needsConfig"], value!(["folders", "token"]));
    assert_eq!(shown["signature"]["state"], "unsigned");
    let hash = shown["hash"].as_str().expect("a hash").trim_start_matches("sha256:").to_owned();
    let verified = scene.swb(&["bundle", "verify", "probe.mcpb", "--sha256", &hash]);
    assert!(verified.expect_success().starts_with("unsigned"), "{}", verified.to_snapshot());
    let other = scene.swb(&["bundle", "verify", "probe.mcpb", "--sha256", &"0".repeat(64)]);
    assert!(other.expect_failure(6).contains("not the expected file"), "{}", other.to_snapshot());
    scene.swb(&["bundle", "verify", "probe.mcpb", "--sha256", "x"]).expect_failure(2);
    scene.swb(&["bundle", "verify", "absent.mcpb"]).expect_failure(5);
    scene.write("text.mcpb", "no archive");
    scene.swb(&["bundle", "verify", "text.mcpb"]).expect_failure(3);
    assert_eq!(installed(&scene), Vec::<Json>::new());
    let empty = scene.swb(&["bundle", "list"]);
    assert!(empty.expect_success().contains("No bundle is installed"), "{}", empty.to_snapshot());
}

#[test]
fn a_signed_bundle_names_its_signer_and_a_changed_one_is_refused() {
    let scene = packed();
    let run = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out",
            "cert.pem",
        ])
        .args(["-subj", "/CN=Ada Example", "-days", "2"])
        .current_dir(scene.project())
        .output()
        .expect("openssl starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    mcpb(&scene, &["sign", "--cert", "cert.pem", "--key", "key.pem", "probe.mcpb"]);
    let verified = scene.swb(&["bundle", "verify", "probe.mcpb"]);
    assert!(
        verified.expect_success().starts_with("self-signed as CN=Ada Example"),
        "{}",
        verified.to_snapshot()
    );
    let trusted = json(&scene, &["bundle", "verify", "probe.mcpb", "--ca", "cert.pem", "--json"]);
    assert_eq!(trusted["signature"]["state"], "signed");
    assert_eq!(trusted["signature"]["chain"], "ok");
    let not_pem = scene.swb(&["bundle", "verify", "probe.mcpb", "--ca", "source/manifest.json"]);
    assert!(
        not_pem.expect_failure(2).contains("no certificate in PEM"),
        "{}",
        not_pem.to_snapshot()
    );
    let mut bytes = fs::read(scene.path("probe.mcpb")).expect("the bundle");
    let at = bytes.len() - b"MCPB_SIG_END".len() - 1;
    bytes[at] ^= 1;
    fs::write(scene.path("broken.mcpb"), bytes).expect("a bundle");
    let broken = scene.swb(&["bundle", "verify", "broken.mcpb"]);
    assert_eq!(broken.code, 3, "{}", broken.to_snapshot());
    assert!(
        broken.stdout.starts_with("broken: the signature does not match the certificate"),
        "{}",
        broken.to_snapshot()
    );
    for arguments in [&["add", "broken.mcpb", "--yes"][..], &["bundle", "install", "broken.mcpb"]] {
        let refused = scene.swb(arguments);
        assert!(refused.expect_failure(3).contains("broken"), "{}", refused.to_snapshot());
    }
    assert_eq!(installed(&scene), Vec::<Json>::new());
}

#[test]
fn without_a_terminal_adding_needs_yes_and_bundle_options_need_a_bundle() {
    let scene = packed();
    let refused = scene.swb(&["add", "probe.mcpb"]);
    assert!(
        refused.expect_failure(2).contains("confirmation needs a terminal"),
        "{}",
        refused.to_snapshot()
    );
    assert!(refused.stderr.contains("Probe 1.0.0 by Ada"), "{}", refused.stderr);
    for option in [&["--config", "a=b"][..], &["--name", "x"], &["--yes"], &["--sha256", "00"]] {
        let refused = scene.swb(&[&["add"], option, &["s", "--", "node"]].concat());
        assert!(
            refused.expect_failure(2).contains("has an effect with a bundle only"),
            "{}",
            refused.to_snapshot()
        );
    }
    scene.swb(&["add", "mine", "probe.mcpb", "--yes", "--scope", "user"]).expect_success();
    scene
        .swb(&["add", "probe.mcpb", "--yes", "--scope", "user", "--name", "ours"])
        .expect_success();
    assert_eq!(states(&scene, &[]), ["mine user needs-config", "ours user needs-config"]);
    // Both use the same files.
    let removed = scene.swb(&["bundle", "uninstall", "mine"]);
    assert!(
        removed.expect_success().contains("Kept the bundle's files"),
        "{}",
        removed.to_snapshot()
    );
    assert_eq!(installed(&scene)[0]["servers"], value!(["ours"]));
}

#[test]
fn a_missing_runtime_and_another_platform_are_diagnosed() {
    let mut scene = scene();
    let mut uv = manifest("1.0.0");
    uv["manifest_version"] = value!("0.4");
    uv["server"] = value!({"type": "uv", "entry_point": "src/server.py", "mcp_config": {
        "command": "uv", "args": ["run", "--directory", "${__dirname}", "src/server.py"]}});
    uv["user_config"] = value!({});
    pack(&scene, &uv, "uv.mcpb");
    scene.set_env("PATH", &scene.home().join("bin").display().to_string());
    let added = scene.swb(&["add", "uv.mcpb", "--yes", "--scope", "user"]);
    let warning = "warning: `uv` is not installed; install uv: pip install uv";
    assert!(added.expect_success().contains(warning), "{}", added.to_snapshot());
    let doctor = scene.swb(&["doctor"]);
    assert!(doctor.stdout.contains("`uv` was not found"), "{}", doctor.to_snapshot());
    assert!(doctor.stdout.contains("install uv: pip install uv"), "{}", doctor.to_snapshot());
    let mut elsewhere = manifest("1.0.0");
    elsewhere["compatibility"]["platforms"] = value!(["win32"]);
    pack(&scene, &elsewhere, "elsewhere.mcpb");
    let refused = scene.swb(&["add", "elsewhere.mcpb", "--yes"]);
    assert!(refused.expect_failure(3).contains("does not run on"), "{}", refused.to_snapshot());
}

/// The server in Python: the same tool.
const PYTHON_SERVER: &str = r#"#!/usr/bin/env python3
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    method, number = request.get("method"), request.get("id")
    if number is None:
        continue
    answer = {"jsonrpc": "2.0", "id": number}
    if method == "initialize":
        info = {"name": "probe", "version": "1"}
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "show", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        shown = {"args": sys.argv[1:], "token": os.environ.get("TOKEN"), "mode": os.environ.get("MODE")}
        answer["result"] = {"content": [{"type": "text", "text": json.dumps(shown)}]}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"#;

#[test]
fn bundles_of_python_and_with_a_program_of_their_own_are_installed_and_called() {
    let python = value!({"type": "python", "entry_point": "server/main.py", "mcp_config": {
        "command": "python3", "args": ["${__dirname}/server/main.py", "${user_config.folders}"],
        "env": {"TOKEN": "${user_config.token}", "MODE": "python"}}});
    let binary = value!({"type": "binary", "entry_point": "server/run", "mcp_config": {
        "command": "${__dirname}/server/run", "args": ["${user_config.folders}"],
        "env": {"TOKEN": "${user_config.token}", "MODE": "binary"}}});
    for (server, file, mode) in [(python, "main.py", "python"), (binary, "run", "binary")] {
        let scene = scene();
        let mut manifest = manifest("1.0.0");
        manifest["server"] = server;
        manifest["compatibility"]["runtimes"] = value!({"python": ">=3.8"});
        for option in ["level", "mode"] {
            manifest["user_config"].as_object_mut().expect("an object").shift_remove(option);
        }
        scene.write(&format!("source/server/{file}"), PYTHON_SERVER);
        make_executable(&scene.path(&format!("source/server/{file}")));
        pack(&scene, &manifest, "probe.mcpb");
        let add = ["add", "probe.mcpb", "--scope", "user", "--yes"];
        let values = ["--config", "folders=/srv", "--config", "token=t", "--secrets", "file"];
        scene.swb(&[&add[..], &values].concat()).expect_success();
        assert_eq!(states(&scene, &[]), ["probe user ready"], "{mode}");
        assert_eq!(call(&scene), value!({"args": ["/srv"], "token": "t", "mode": mode}));
    }
}

#[test]
fn a_bundle_that_needs_a_missing_node_says_how_to_get_it() {
    let mut scene = packed();
    scene.set_env("PATH", &scene.home().join("bin").display().to_string());
    let add = ["add", "probe.mcpb", "--scope", "user", "--yes"];
    let values = ["--config", "folders=/srv", "--config", "token=t", "--secrets", "file"];
    let added = scene.swb(&[&add[..], &values].concat());
    added.expect_success();
    assert!(
        added.to_snapshot().contains("`node` is not installed; install Node"),
        "{}",
        added.to_snapshot()
    );
    let doctor = scene.swb(&["doctor"]);
    assert!(doctor.stdout.contains("`node` was not found"), "{}", doctor.to_snapshot());
    let failed = scene.swb(&["call", "mcp__probe__show", "--mode", "bypass"]);
    assert_ne!(failed.code, 0);
    assert!(failed.to_snapshot().contains("node"), "{}", failed.to_snapshot());
}

#[test]
fn an_installation_that_is_killed_leaves_no_bundle_and_does_not_hinder_the_next_one() {
    let scene = packed();
    for number in 0..1500 {
        scene.write(&format!("source/data/{number}"), &format!("{number} ").repeat(2000));
    }
    pack(&scene, &manifest("1.0.0"), "large.mcpb");
    let folder = scene.home().join(".local/share/switchboard");
    let drafts = || -> Vec<PathBuf> {
        crate::plugin::walk(&folder)
            .into_iter()
            .filter(|it| it.contains("/.unpack-"))
            .map(PathBuf::from)
            .collect()
    };
    let mut command = scene.command(&scene.project(), &["bundle", "install", "large.mcpb"]);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().expect("it starts");
    wait_for(|| drafts().iter().any(|it| it.to_string_lossy().contains("/content/")));
    child.kill().expect("it runs");
    assert!(!child.wait().expect("it ends").success(), "it was interrupted");
    let left = drafts();
    assert!(!left.is_empty(), "it was interrupted while it unpacked");
    assert_eq!(installed(&scene), Vec::<Json>::new());
    // The next installation works, and removes what is old.
    let draft = left[0].ancestors().find(|it| {
        it.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".unpack-"))
    });
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    let draft = draft.expect("a draft");
    fs::File::open(draft).expect("a folder").set_modified(long_ago).expect("a time");
    scene.swb(&["bundle", "install", "large.mcpb"]).expect_success();
    assert_eq!(installed(&scene).len(), 1);
    assert_eq!(drafts(), Vec::<PathBuf>::new());
}

/// Serves a file once for each of `count` requests, at a URL that ends with `probe.mcpb`.
fn serve(bytes: Vec<u8>, count: usize) -> (String, std::thread::JoinHandle<()>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let serving = std::thread::spawn(move || {
        for _ in 0..count {
            let (mut stream, _) = listener.accept().expect("a request");
            let mut request = [0; 4096];
            let _count = stream.read(&mut request).expect("a request is sent");
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                bytes.len()
            );
            stream.write_all(head.as_bytes()).expect("a head is sent");
            stream.write_all(&bytes).expect("a body is sent");
        }
    });
    (format!("http://127.0.0.1:{port}/probe.mcpb"), serving)
}

#[test]
fn a_bundle_at_a_url_is_downloaded_and_only_encrypted_from_other_machines() {
    let scene = packed();
    let hash = json(&scene, &["bundle", "inspect", "probe.mcpb", "--json"])["hash"].clone();
    let (url, serving) = serve(fs::read(scene.path("probe.mcpb")).expect("the bundle"), 2);
    let verified = json(&scene, &["bundle", "verify", &url, "--json"]);
    assert_eq!(verified["hash"], hash);
    let added = json(&scene, &["add", &url, "--scope", "user", "--yes", "--json"]);
    assert_eq!((&added["added"], &added["bundle"]), (&value!("probe"), &hash));
    assert_eq!(
        (&added["state"], &added["signature"]["state"]),
        (&value!("needs-config"), &value!("unsigned"))
    );
    serving.join().expect("both were served");
    let refused = scene.swb(&["add", "http://example.com/probe.mcpb", "--yes"]);
    assert!(refused.expect_failure(2).contains("it is not encrypted"), "{}", refused.to_snapshot());
    let gone = scene.swb(&["bundle", "inspect", &url]);
    assert!(gone.expect_failure(10).contains("could not be downloaded"), "{}", gone.to_snapshot());
}

#[test]
fn unsetting_a_secret_deletes_it_from_the_store() {
    let scene = packed();
    let add = ["add", "probe.mcpb", "--scope", "user", "--yes", "--config", "token=hunter2"];
    scene.swb(&[&add[..], &FILE_SECRETS].concat()).expect_success();
    let secret = scene.home().join(".config/switchboard/secrets/probe.userConfig.token");
    assert!(secret.exists());
    scene.swb(&["bundle", "configure", "probe", "--unset", "token"]).expect_success();
    assert!(!secret.exists());
    // A secret that the user wrote stays.
    let own = "token=${file:~/mine}";
    scene.write("~/mine", "hunter2");
    scene.swb(&["bundle", "configure", "probe", own]).expect_success();
    scene.swb(&["bundle", "uninstall", "probe"]).expect_success();
    assert!(scene.path("~/mine").exists());
}
