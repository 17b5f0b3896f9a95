//! The guide to the shared host, run: the commands of its page, two clients at once, the host killed during a call, and
//! an upgrade. Every test stops the hosts that it started.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::processes::{wait_until, wait_until_exited};
use testkit::{Sandbox, Script, ScriptedProgram, scripted};

use crate::docs::{check_commands, docs, link_program};
use crate::serve::StdioClient;
use crate::serve_pool::{next_message, request};
use crate::support::{USER, scene};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A sandbox in which servers are shared. Its host ends with it.
struct SharingScene(Sandbox);

impl SharingScene {
    fn new() -> SharingScene {
        let mut scene = scene();
        scene.set_env("SWB_SHARE", "on");
        SharingScene(scene)
    }

    /// With a user's server `example`.
    fn with_server() -> SharingScene {
        let scene = SharingScene::new();
        let entry = ScriptedProgram::config_entry(&Script::legacy());
        scene.0.write_servers(USER, &format!("\"example\": {entry}"));
        scene
    }

    fn json(&self, arguments: &[&str]) -> Json {
        crate::support::json(&self.0, arguments)
    }

    /// The process of the host that listens.
    fn host(&self) -> Option<u32> {
        self.json(&["host", "status", "--json"])["pid"].as_u64().map(process_id)
    }

    /// The shared servers that run.
    fn servers(&self) -> Vec<Json> {
        let listed = self.json(&["ps", "--json"]);
        listed["servers"].as_array().expect("a list").clone()
    }

    /// The process of `example` that answers a call of a command in a folder.
    fn called_pid(&self, folder: &Path) -> u64 {
        let arguments = ["call", "mcp__example__whoami", "--mode", "bypass"];
        let ran = self.0.swb_in(folder, &arguments);
        let answer: Json = serde_json::from_str(ran.expect_success()).expect("it is JSON");
        answer["pid"].as_u64().expect("it tells its process")
    }
}

impl Drop for SharingScene {
    fn drop(&mut self) {
        let mut stop = self.0.command(&self.0.project(), &["host", "stop"]);
        let _none_runs = stop.output();
    }
}

/// Stand-ins for what differs between runs: processes, memory, times and builds. A command may name a stand-in of a
/// process.
#[derive(Default)]
struct StandIns(BTreeMap<String, String>);

impl StandIns {
    const FIRST_PROCESS: usize = 4711;
    const MEMORY: &'static str = "7 MB";
    const HOST_MEMORY: &'static str = "28 MB";
    const AGE: &'static str = "1 s";
    const BUILD: &'static str = "efbd94e6";
    const TIME: &'static str = "2026-11-18T17:39:10.882Z";

    fn process(&mut self, pid: &str) -> String {
        let next = (StandIns::FIRST_PROCESS + self.0.len()).to_string();
        self.0.entry(pid.to_owned()).or_insert(next).clone()
    }

    /// The command with the processes themselves.
    fn resolve(&self, command: &str) -> String {
        let replaced = |text: String, (pid, stand_in): (&String, &String)| {
            text.replace(&format!("kill -9 {stand_in}"), &format!("kill -9 {pid}"))
        };
        self.0.iter().fold(command.to_owned(), replaced)
    }

    /// Rows of `swb ps` are in the order of their stand-ins, because process ids start again at some point.
    fn replace(&mut self, output: &str) -> String {
        let mut lines = output.lines();
        let mut text = String::new();
        for line in lines.by_ref() {
            text.push_str(&format!("{}\n", self.replace_line(line)));
            if line.starts_with("SERVER  ") {
                break;
            }
        }
        let mut rows: Vec<String> = lines.map(|row| self.replace_row(row)).collect();
        rows.sort();
        rows.iter().for_each(|row| text.push_str(&format!("{row}\n")));
        text
    }

    /// A row of `swb ps`.
    fn replace_row(&mut self, row: &str) -> String {
        let cells = row.split("  ").map(str::trim).filter(|it| !it.is_empty());
        let cells: Vec<String> = cells
            .enumerate()
            .map(|(column, cell)| match column {
                1 => self.process(cell),
                2 => StandIns::MEMORY.to_owned(),
                3 | 6 if cell != "-" => StandIns::AGE.to_owned(),
                _ => cell.to_owned(),
            })
            .collect();
        cells.join("  ")
    }

    fn replace_line(&mut self, line: &str) -> String {
        let mut line = line.to_owned();
        for before in ["(process ", "process ", "pid="] {
            if let Some(pid) = digits_after(&line, before) {
                line = line
                    .replace(&format!("{before}{pid}"), &format!("{before}{}", self.process(&pid)));
            }
        }
        if let Some((front, _)) = line.split_once("running for ") {
            line = format!("{front}running for {}", StandIns::AGE);
        }
        if let Some((front, rest)) = line.split_once("(build ") {
            let after = rest.split_once(')').map_or("", |it| it.1);
            line = format!("{front}(build {}){after}", StandIns::BUILD);
        }
        if let Some((front, _)) = line.split_once(" with its servers") {
            let label = front.split_once(':').map_or("", |it| it.0);
            line = format!("{label}:      {} with its servers", StandIns::HOST_MEMORY);
        }
        match line.split_once("Z INFO ") {
            Some((_, event)) => format!("{}Z INFO {event}", StandIns::TIME.trim_end_matches('Z')),
            None => line,
        }
    }
}

fn digits_after(line: &str, before: &str) -> Option<String> {
    let rest = line.split_once(before)?.1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then_some(digits)
}

/// Runs a command of the page in bash, after earlier sessions have left the host. A host that was just killed may still
/// accept a client, which then gets no answer.
fn run(scene: &SharingScene, bin: &Path, stand_ins: &mut StandIns, command: &str) -> String {
    wait_until(TIMEOUT, "no session is attached", || {
        let listed = scene.0.swb(&["ps", "--json"]);
        let listed: Json = serde_json::from_str(&listed.stdout).ok()?;
        let is_left = |it: &Json| it["clients"].as_array().is_some_and(Vec::is_empty);
        listed["servers"].as_array()?.iter().all(is_left).then_some(())
    });
    let script = format!("exec 2>&1\n{}", stand_ins.resolve(command));
    let mut shell = Command::new("bash");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    shell.args(["-c", &script]).current_dir(scene.0.project()).env_clear().env("PATH", path);
    shell.env("HOME", scene.0.home()).env("SWB_SHARE", "on");
    shell.env("SWB_TESTBED_MANAGED", scene.0.managed());
    let output = shell.output().expect("bash can be run");
    let text = stand_ins.replace(&String::from_utf8_lossy(&output.stdout));
    let ran = scene.0.normalized_output(output.status.code(), text.as_bytes(), b"");
    let mut text = ran.stdout.replace("[ROOT]/person", "~");
    if ran.code != 0 {
        text.push_str(&format!("[exit code {}]\n", ran.code));
    }
    text
}

/// The server of the page.
fn write_example_server(bin: &Path) {
    let path: PathBuf = bin.join("example-server");
    let (program, script) = (scripted::program(), Script::legacy().to_json());
    let text = format!("#!/bin/sh\nexec '{}' '{script}'\n", program.display());
    std::fs::write(&path, text).expect("it can be written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
}

#[test]
fn docs_shared_host_examples_match_the_program() {
    let scene = SharingScene::new();
    let bin = link_program(&scene.0);
    write_example_server(&bin);
    std::fs::create_dir(scene.0.path("~/other")).expect("a folder");
    let mut stand_ins = StandIns::default();
    check_commands(&docs().join("guide/shared-host.md"), |command| {
        run(&scene, &bin, &mut stand_ins, command)
    });
    let left: Vec<u32> = stand_ins.0.keys().filter_map(|it| it.parse().ok()).collect();
    assert!(left.len() >= 4, "the page shows too few processes: {left:?}");
    left.iter().for_each(|pid| wait_until_exited(*pid, TIMEOUT));
}

fn process_id(number: u64) -> u32 {
    u32::try_from(number).expect("it is a process id")
}

/// The process of `example` that answers a call of a client.
fn whoami(client: &mut StdioClient) -> u64 {
    let called = json!({"name": "mcp__example__whoami", "arguments": {}});
    let answer = request(client, "tools/call", called);
    let text = answer["content"][0]["text"].as_str().expect("it is text");
    let answer: Json = serde_json::from_str(text).expect("it is JSON");
    answer["pid"].as_u64().expect("it tells its process")
}

fn close(mut client: StdioClient) {
    client.input = None;
    assert_eq!(client.wait_exit().0, Some(0));
}

#[test]
fn two_clients_use_one_process_and_go_on_after_the_host_is_killed_during_a_call() {
    let scene = SharingScene::with_server();
    let pool = ["--pool", "--mode", "bypass"];
    let mut first = StdioClient::legacy(&scene.0, &pool);
    let mut second = StdioClient::legacy(&scene.0, &pool);
    let before = whoami(&mut first);
    assert_eq!(whoami(&mut second), before);
    let servers = scene.servers();
    assert_eq!(servers.len(), 1, "{servers:?}");
    assert_eq!(servers[0]["clients"].as_array().map(Vec::len), Some(2), "{servers:?}");
    let host = scene.host().expect("a host runs");

    let slow = json!({"name": "mcp__example__slow", "arguments": {"ms": 60_000, "steps": 1}});
    first.send_request("tools/call", slow);
    wait_until(TIMEOUT, "the call has reached the server", || {
        (scene.servers()[0]["calls"] == 3).then_some(())
    });
    let killed = Command::new("kill").args(["-9", &host.to_string()]).status();
    assert!(killed.expect("kill can be run").success());
    let lost = loop {
        let message = next_message(&mut first);
        if message["id"] == first.last_id {
            break message;
        }
    };
    assert!(lost.to_string().contains("may have been executed"), "{lost}");
    wait_until_exited(process_id(before), TIMEOUT);

    let after = whoami(&mut first);
    assert_ne!(after, before);
    assert_eq!(whoami(&mut second), after);
    assert_ne!(scene.host(), Some(host));
    close(first);
    close(second);
    assert!(scene.0.swb(&["host", "stop"]).expect_success().starts_with("Stopped"));
    wait_until_exited(process_id(after), TIMEOUT);
}

#[test]
fn commands_in_one_folder_use_one_process_and_another_folder_has_another() {
    let scene = SharingScene::with_server();
    let other = scene.0.path("~/other");
    std::fs::create_dir(&other).expect("a folder");
    let first = scene.called_pid(&scene.0.project());
    assert_eq!(scene.called_pid(&scene.0.project()), first);
    let second = scene.called_pid(&other);
    assert_ne!(second, first);
    assert_eq!(scene.servers().len(), 2);
    scene.0.swb(&["host", "stop"]).expect_success();
    for pid in [first, second] {
        wait_until_exited(process_id(pid), TIMEOUT);
    }
    assert_eq!(scene.servers(), Vec::<Json>::new());
}

#[test]
fn a_newer_build_replaces_the_host_and_sessions_of_the_older_one_keep_theirs() {
    let mut scene = SharingScene::with_server();
    scene.0.set_env("SWB_TESTBED_BUILD", "1000000");
    let mut older = StdioClient::legacy(&scene.0, &["--pool", "--mode", "bypass"]);
    let before = whoami(&mut older);
    let old_host = scene.host().expect("a host runs");

    scene.0.set_env("SWB_TESTBED_BUILD", "2000000");
    assert_ne!(scene.called_pid(&scene.0.project()), before);
    let new_host = scene.host().expect("a host runs");
    assert_ne!(new_host, old_host);
    assert_eq!(whoami(&mut older), before);

    scene.0.set_env("SWB_TESTBED_BUILD", "1000000");
    let status = scene.0.swb(&["host", "status"]);
    let status = status.expect_success();
    assert!(status.contains("Build:       0.1.0 (build 00000002)"), "{status}");
    assert!(status.contains("This build:  0.1.0 (build 00000001)"), "{status}");
    close(older);
    wait_until_exited(old_host, TIMEOUT);
    assert_eq!(scene.host(), Some(new_host));
}
