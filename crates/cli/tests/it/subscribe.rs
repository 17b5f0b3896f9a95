//! `swb subscribe`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::Value as Json;
use testkit::{Sandbox, Script, ScriptedProgram, ScriptedServer, processes};

use crate::support::{USER, scene};

const URI: &str = "scripted://resource/0";
const TIMEOUT: Duration = Duration::from_secs(20);

/// A running `swb subscribe`.
struct RunningSubscribe {
    child: Child,
    lines: BufReader<ChildStdout>,
}

fn start(scene: &Sandbox, more: &[&str]) -> RunningSubscribe {
    let arguments = [&["subscribe", "s", URI][..], more].concat();
    let mut command = scene.command(&scene.project(), &arguments);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("it is piped"));
    RunningSubscribe { child, lines }
}

impl RunningSubscribe {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line
    }

    fn event(&mut self) -> Json {
        serde_json::from_str(&self.line()).expect("a line is JSON")
    }

    /// The exit code and standard error.
    fn wait_exit(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("text");
        (self.child.wait().expect("it ends").code(), said)
    }
}

fn scene_with_server(served: &ScriptedServer, kind: &str) -> Sandbox {
    let scene = scene();
    scene.write_servers(USER, &format!(r#""s": {{"type": "{kind}", "url": "{}"}}"#, served.url()));
    scene
}

fn request_count(served: &ScriptedServer, method: &str) -> u64 {
    served.counts()["methods"][method].as_u64().unwrap_or(0)
}

fn interrupt(child: &Child) {
    let number = child.id().to_string();
    let sent = std::process::Command::new("kill").args(["-INT", &number]).status();
    assert!(sent.expect("kill can be run").success());
}

#[test]
fn every_change_is_a_line_in_both_eras_and_the_limit_ends_the_command() {
    for (script, method) in
        [(Script::legacy(), "resources/subscribe"), (Script::modern(), "subscriptions/listen")]
    {
        let served = ScriptedServer::ws(script.resources(2));
        let scene = scene_with_server(&served, "ws");
        let mut running = start(&scene, &["--count", "2", "--read", "--json"]);
        assert_eq!(running.event()["event"], "subscribed");
        assert!(request_count(&served, method) >= 1);
        served.notify_resource_updated("scripted://resource/1");
        for _ in 0..2 {
            served.notify_resource_updated(URI);
            let event = running.event();
            assert_eq!((&event["event"], &event["uri"]), (&"updated".into(), &URI.into()));
            assert_eq!(event["result"]["content"][0]["text"], "the text of resource 0");
        }
        assert_eq!(running.wait_exit().0, Some(0));
    }
}

#[test]
fn events_are_plain_lines_and_the_server_gets_an_unsubscribe_at_the_end() {
    let served = ScriptedServer::ws(Script::legacy().resources(1));
    let scene = scene_with_server(&served, "ws");
    let mut running = start(&scene, &["--once"]);
    let is_asked = || (request_count(&served, "resources/subscribe") == 1).then_some(());
    processes::wait_until(TIMEOUT, "it subscribes", is_asked);
    served.notify_resource_updated(URI);
    assert_eq!(running.line(), "updated scripted://resource/0\n");
    let (code, said) = running.wait_exit();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("subscribed to scripted://resource/0"), "{said}");
    assert_eq!(request_count(&served, "resources/unsubscribe"), 1);
}

#[test]
fn an_interrupt_unsubscribes_and_exits() {
    let served = ScriptedServer::ws(Script::legacy().resources(1));
    let scene = scene_with_server(&served, "ws");
    let mut running = start(&scene, &["--json"]);
    assert_eq!(running.event()["event"], "subscribed");
    interrupt(&running.child);
    let (code, said) = running.wait_exit();
    assert_eq!((code, said.as_str()), (Some(130), ""));
    assert_eq!(request_count(&served, "resources/unsubscribe"), 1);
}

#[test]
fn a_lost_connection_is_restored_with_its_subscription() {
    let served = ScriptedServer::ws(Script::legacy().resources(1));
    let scene = scene_with_server(&served, "ws");
    let mut running = start(&scene, &["--once", "--json"]);
    assert_eq!(running.event()["event"], "subscribed");
    let served = served.restart(Script::legacy().resources(1));
    assert_eq!(running.event()["event"], "resubscribed");
    served.notify_resource_updated(URI);
    assert_eq!(running.event()["event"], "updated");
    assert_eq!(running.wait_exit().0, Some(0));
}

#[test]
fn a_server_without_resources_and_an_unknown_server_are_errors() {
    let scene = scene();
    scene.write_servers(
        USER,
        &format!("\"s\": {}", ScriptedProgram::config_entry(&Script::legacy())),
    );
    insta::assert_snapshot!("unable", scene.swb(&["subscribe", "s", URI]).expect_failure(5));
    scene.swb(&["subscribe", "nobody", URI]).expect_failure(5);
    scene.swb(&["subscribe", "s"]).expect_failure(2);
    scene.swb(&["subscribe", "s", URI, "--count", "0"]).expect_failure(2);
}
