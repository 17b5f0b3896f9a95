//! `swb completions`.

use std::io::Write;
use std::process::{Command, Stdio};

use testkit::{Sandbox, Script, ScriptedProgram};

use crate::support::{USER, scene};

/// The completions of the last word.
fn complete_words(scene: &Sandbox, words: &[&str]) -> Vec<String> {
    let ran = scene.swb(&[&["__complete", "words", "--"][..], words].concat());
    let value = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    ran.expect_success().lines().map(value).collect()
}

/// The completions that bash offers for a command line.
fn complete_in_bash(scene: &Sandbox, line: &str) -> Vec<String> {
    scene.write("swb.bash", scene.swb(&["completions", "bash"]).expect_success());
    let ours = scene.command(&scene.project(), &[]);
    let script = r#"source swb.bash; COMP_LINE=$1; COMP_POINT=${#1}; _swb "$2"; printf '%s\n' "${COMPREPLY[@]}""#;
    let mut command = Command::new("bash");
    command.env_clear();
    for (name, value) in ours.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let output = command
        .args(["--norc", "-c", script, "bash", line])
        .arg(crate::support::program())
        .current_dir(scene.project())
        .output()
        .expect("bash can be run");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// A server `far` whose catalogue is cached and which is not running.
fn scene_with_cache() -> Sandbox {
    let scene = scene();
    let entry = ScriptedProgram::config_entry(&Script::legacy().resources(2).prompts(2));
    let rules = r#""permissions": {"deny": ["mcp__far__crash", "mcp__far__add(a=1, b=2)"]}"#;
    scene.write(
        USER,
        &format!(r#"{{{rules}, "mcpServers": {{"far": {entry}, "near": {{"command": "x"}}}}}}"#),
    );
    scene.swb(&["ping", "far"]).expect_success();
    scene
}

#[test]
fn every_shell_gets_a_script() {
    for shell in ["powershell", "elvish"] {
        let ran = scene().swb(&["completions", shell]);
        for word in ["reset-project-choices", "add-json", "mcp-config"] {
            assert!(ran.expect_success().contains(word), "{shell} lacks {word}");
        }
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            scene().swb(&["completions", shell]).expect_success().contains("__complete"),
            "{shell}"
        );
    }
    scene().swb(&["completions", "tcsh"]).expect_failure(2);
}

#[test]
fn commands_flags_and_fixed_values_come_from_the_table() {
    let scene = scene();
    assert_eq!(complete_words(&scene, &["res"]), ["reset-project-choices", "resources", "result"]);
    assert_eq!(complete_words(&scene, &["mcp", "perm"]), ["permissions"]);
    assert_eq!(complete_words(&scene, &["permissions", "s"]), ["simulate"]);
    assert_eq!(complete_words(&scene, &["permissions", "add", "--scope", "l"]), ["local"]);
    assert_eq!(complete_words(&scene, &["permissions", "add", "--json", "d"]), ["deny"]);
    assert_eq!(
        complete_words(&scene, &["call", "x", "--mode=d"]),
        ["--mode=default", "--mode=dontAsk"]
    );
    assert_eq!(complete_words(&scene, &["call", "--mo"]), ["--mode"]);
    assert_eq!(complete_words(&scene, &["call", "--", "--mo"]), Vec::<String>::new());
    assert_eq!(complete_words(&scene, &["completions", "z"]), ["zsh"]);
    assert_eq!(complete_words(&scene, &["man", "comple"]), ["complete", "completions"]); // misspelt on purpose
}

#[test]
fn cached_names_are_offered_without_starting_servers() {
    let scene = scene_with_cache();
    let journal = scene.path("started");
    assert_eq!(complete_words(&scene, &["get", ""]), ["far", "near"]);
    assert_eq!(complete_words(&scene, &["status", "far", "n"]), ["near"]);
    assert_eq!(complete_words(&scene, &["audit", "--server", "f"]), ["far"]);
    assert_eq!(
        complete_words(&scene, &["call", "mcp__far__e"]),
        ["mcp__far__echo", "mcp__far__end_listening", "mcp__far__env", "mcp__far__explode"]
    );
    // A deny rule hides the tool.
    assert_eq!(complete_words(&scene, &["call", "mcp__far__cr"]), Vec::<String>::new());
    assert_eq!(complete_words(&scene, &["search", "ech"]), ["echo"]);
    assert_eq!(
        complete_words(&scene, &["read", "far", "s"]),
        ["scripted://resource/0", "scripted://resource/1"]
    );
    assert_eq!(complete_words(&scene, &["read", "near", "s"]), Vec::<String>::new());
    assert_eq!(complete_words(&scene, &["prompt", "far", "p"]), ["prompt_0", "prompt_1"]);
    assert_eq!(
        complete_words(&scene, &["complete", "far", "--prompt", ""]),
        ["prompt_0", "prompt_1"]
    );
    assert_eq!(
        complete_words(&scene, &["complete", "far", "--template", ""]),
        ["scripted://resource/{number}"]
    );
    assert_eq!(complete_words(&scene, &["permissions", "add", "deny", "mcp__n"]), ["mcp__near"]);
    assert_eq!(
        complete_words(&scene, &["permissions", "remove", "mcp__far__c"]),
        ["mcp__far__crash"]
    );
    assert_eq!(
        complete_words(&scene, &["permissions", "remove", "deny", "mcp__far__a"]),
        ["mcp__far__add(a=1,b=2)"]
    );
    // A changed definition has no cached catalogue, and completion does not start the server.
    let script = Script::legacy().resources(2).journal(&journal);
    scene.write_servers(USER, &format!("\"far\": {}", ScriptedProgram::config_entry(&script)));
    assert_eq!(complete_words(&scene, &["call", "mcp__far__e"]), Vec::<String>::new());
    assert!(!journal.exists());
}

#[test]
fn only_the_owner_can_read_the_completion_cache() {
    use std::os::unix::fs::PermissionsExt;
    let scene = scene_with_cache();
    let folder = scene.path("~/.local/share/switchboard/catalogues");
    let files: Vec<_> = folder.read_dir().expect("a folder").flatten().collect();
    assert_eq!(files.len(), 1);
    let mode = files[0].metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn a_name_that_moves_the_cursor_is_not_offered() {
    let scene = scene();
    scene
        .write_servers(USER, "\"a\\u001b[2J\": {\"command\": \"x\"}, \"ab\": {\"command\": \"x\"}");
    assert_eq!(complete_words(&scene, &["get", "a"]), ["ab"]);
    scene.write(USER, "{nonsense");
    assert_eq!(complete_words(&scene, &["get", "a"]), Vec::<String>::new());
    assert_eq!(complete_words(&scene, &["ge"]), ["get"]);
}

#[test]
fn bash_breaks_words_and_puts_them_together_again() {
    let scene = scene_with_cache();
    assert_eq!(complete_in_bash(&scene, "swb call mcp__far__ec"), ["mcp__far__echo"]);
    assert_eq!(
        complete_in_bash(&scene, "swb read far scripted://res"),
        ["//resource/0", "//resource/1"]
    );
    assert_eq!(complete_in_bash(&scene, "swb call t --mode=pl"), ["plan"]);
    assert_eq!(
        complete_in_bash(&scene, "swb permissions remove mcp__far__ad"),
        [r"mcp__far__add\(a=1,b=2\)"]
    );
    assert_eq!(complete_in_bash(&scene, "swb add x -- "), Vec::<String>::new());
}

#[test]
fn bash_completes_on_tab() {
    let scene = scene_with_cache();
    scene.write("swb.bash", scene.swb(&["completions", "bash"]).expect_success());
    let bin = scene.path("~/bin");
    std::fs::create_dir_all(&bin).expect("a folder");
    std::os::unix::fs::symlink(crate::support::program(), bin.join("swb")).expect("a link");
    let ours = scene.command(&scene.project(), &[]);
    let mut command = Command::new("script");
    command.env_clear();
    for (name, value) in ours.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut child = command
        .args(["-qec", "bash --norc --noprofile -i", "/dev/null"])
        .env("PATH", path)
        .env("TERM", "dumb")
        .current_dir(scene.project())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script can be run");
    let keys = "source swb.bash\nswb complete far --template scripted://re\t number apr\nswb get ne\t\nexit\n";
    let stdin = child.stdin.as_mut().expect("it is piped");
    stdin.write_all(keys.as_bytes()).and_then(|()| stdin.flush()).expect("keys can be pressed");
    let output = child.wait_with_output().expect("it ends");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("apricot"), "{shown}");
    assert!(shown.contains("near"), "{shown}");
}
