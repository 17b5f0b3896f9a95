//! The guide to the shared host, run: the commands of its page, and clients and commands at once whose host is killed
//! during a call. Every test stops the hosts that it started; `sharing.rs` has the cases one by one.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::processes::{wait_until, wait_until_exited};
use testkit::{Script, scripted};

use crate::docs::{check_commands, docs, link_program};
use crate::serve::StdioClient;
use crate::serve_pool::{next_message, request};
use crate::sharing::SharingScene;
use crate::support::USER;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Stand-ins for what differs between runs: processes, memory, times and builds. A command may name a stand-in of a
/// process.
#[derive(Default)]
struct StandIns(BTreeMap<String, String>);

impl StandIns {
    const FIRST_PROCESS: usize = 4711;
    const MEMORY: &'static str = "7 MB";
    const HOST_MEMORY: &'static str = "70 MB";
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
        let listed = scene.swb(&["ps", "--json"]);
        let listed: Json = serde_json::from_str(&listed.stdout).ok()?;
        let is_left = |it: &Json| it["clients"].as_array().is_some_and(Vec::is_empty);
        listed["servers"].as_array()?.iter().all(is_left).then_some(())
    });
    let script = format!("exec 2>&1\n{}", stand_ins.resolve(command));
    let mut shell = Command::new("bash");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    shell.args(["-c", &script]).current_dir(scene.project()).env_clear().env("PATH", path);
    shell.env("HOME", scene.home()).env("SWB_SHARE", "on");
    shell.env("SWB_TESTBED_MANAGED", scene.managed());
    let output = shell.output().expect("bash can be run");
    let text = stand_ins.replace(&String::from_utf8_lossy(&output.stdout));
    let ran = scene.normalized_output(output.status.code(), text.as_bytes(), b"");
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
    let scene = SharingScene::with("");
    std::fs::remove_file(scene.path(USER)).expect("the page starts without servers");
    let bin = link_program(&scene);
    write_example_server(&bin);
    std::fs::create_dir(scene.path("~/other")).expect("a folder");
    let mut stand_ins = StandIns::default();
    check_commands(&docs().join("guide/shared-host.md"), |command| {
        run(&scene, &bin, &mut stand_ins, command)
    });
    let left: Vec<u32> = stand_ins.0.keys().filter_map(|it| it.parse().ok()).collect();
    assert!(left.len() >= 4, "the page shows too few processes: {left:?}");
    left.iter().for_each(|pid| wait_until_exited(*pid, TIMEOUT));
}

/// The process of the server that answers a call of a client.
fn whoami(client: &mut StdioClient) -> u64 {
    let answer = request(client, "tools/call", json!({"name": "mcp__s__whoami", "arguments": {}}));
    answer["structuredContent"]["pid"].as_u64().expect("it tells its process")
}

#[test]
fn clients_and_commands_use_one_process_and_go_on_after_the_host_is_killed_during_a_call() {
    let scene = SharingScene::new();
    let mut first = StdioClient::legacy(&scene, &["--pool"]);
    let mut second = StdioClient::legacy(&scene, &["--pool"]);
    let before = whoami(&mut first);
    assert_eq!((whoami(&mut second), scene.pid()), (before, before));
    let servers = wait_until(TIMEOUT, "the command has left", || {
        let servers = scene.running();
        let clients = servers[0]["clients"].as_array().map_or(0, Vec::len);
        (clients == 2).then_some(servers)
    });
    assert_eq!(servers.len(), 1, "{servers:?}");

    let host = scene.host()["pid"].clone();
    let slow = json!({"name": "mcp__s__slow", "arguments": {"ms": 60_000, "steps": 1}});
    first.send_request("tools/call", slow);
    wait_until(TIMEOUT, "the call has reached the server", || {
        (scene.running()[0]["calls"] == 4).then_some(())
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

    let after = whoami(&mut first);
    assert_ne!(after, before);
    assert_eq!((whoami(&mut second), scene.pid()), (after, after));
    assert_ne!(scene.host()["pid"], host);
    for mut client in [first, second] {
        client.input = None;
        assert_eq!(client.wait_exit().0, Some(0));
    }
    assert_eq!(
        scene.swb(&["host", "stop"]).expect_success(),
        "Stopped the shared host and 1 server.\n"
    );
    for pid in [before, after] {
        wait_until_exited(u32::try_from(pid).expect("a process id"), TIMEOUT);
    }
}
