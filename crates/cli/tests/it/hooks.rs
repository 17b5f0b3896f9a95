//! Elicitation hooks that misbehave.

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::{Sandbox, Script};

use crate::fault_tolerance::{answer, scene_with_servers};
use crate::support::wait_for;

/// A sandbox in which a hook answers elicitations.
fn scene_with_hook(command: &str, timeout: f64) -> Sandbox {
    let hook = json!([{"hooks": [{"type": "command", "command": command, "timeout": timeout}]}]);
    let settings = json!({"permissions": {"allow": ["mcp__s"]}, "hooks": {"Elicitation": hook}});
    scene_with_servers(&[("s", &Script::legacy())], settings)
}

#[test]
fn misbehaving_hooks_do_no_harm() {
    for (command, timeout, said) in [
        ("yes '{\"action\":' | head -c 10000000", 20.0, "printed more than"),
        ("trap '' PIPE; yes | head -c 10000000; exit 0", 20.0, "printed more than"),
        ("exec <&-; sleep 600", 0.3, "took longer than 0.3 s"),
        ("while :; do :; done", 0.3, "took longer than 0.3 s"),
        ("printf '\\377\\376\\200'", 20.0, "its output is not a valid answer"),
        ("echo '{\"action\": \"accept\"'", 20.0, "its output is not a valid answer"),
        ("echo '[1]'", 20.0, "its output is not a valid answer"),
        ("kill -9 $$", 20.0, "signal: 9"),
        ("exit 77", 20.0, "exit status: 77"),
        ("not-a-program-that-is-there", 20.0, "127"),
    ] {
        let scene = scene_with_hook(command, timeout);
        let began = Instant::now();
        let ran = scene.swb(&["call", "mcp__s__ask", "kind=elicitation"]);
        assert_eq!(
            answer(&ran.stdout, "elicitation")["action"],
            "decline",
            "{}",
            ran.to_snapshot()
        );
        assert!(began.elapsed() < Duration::from_secs(15), "{command}");
        let logs = scene.swb(&["logs", "s"]);
        assert!(logs.expect_success().contains(said), "{command}\n{}", logs.stdout);
    }
}

#[test]
fn a_hook_that_exceeds_its_timeout_is_killed_with_its_children() {
    let command = "sh -c 'trap \"\" TERM INT HUP; echo $$ >> \"$HOME/pids\"; while :; do sleep 1; done' & echo $$ >> \"$HOME/pids\"; wait";
    let scene = scene_with_hook(command, 0.5);
    scene.swb(&["call", "mcp__s__ask", "kind=elicitation"]).expect_success();
    let numbers = scene.read("~/pids");
    assert_eq!(numbers.lines().count(), 2, "{numbers}");
    for number in numbers.lines() {
        wait_for(|| !std::path::Path::new(&format!("/proc/{number}")).exists());
    }
}
