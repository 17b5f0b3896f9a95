//! `swb status`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::connector_account::Connector;
use testkit::processes::wait_until;
use testkit::{ConnectorService, Quirk, Sandbox, Script, ScriptedProgram, ScriptedServer};

use crate::support::{USER, json, scene};

/// The output with times replaced.
fn without_times(text: &str) -> String {
    let mut settled = String::new();
    for line in text.lines() {
        let mut words: Vec<&str> = line.split(' ').collect();
        if let [.., number, "ms"] = words[..]
            && number.parse::<u64>().is_ok()
        {
            let count = words.len();
            words[count - 2] = "[TIME]";
        }
        settled.push_str(&words.join(" "));
        settled.push('\n');
    }
    settled
}

fn mixed_servers() -> (Sandbox, ScriptedServer) {
    let scene = scene();
    let modern = ScriptedServer::http(Script::modern().tools(2).resources(3));
    let files = ScriptedProgram::config_entry(&Script::legacy().name("files").tools(1).prompts(2));
    let members = format!(
        r#""files": {files},
        "search": {{"type": "http", "url": "{}"}},
        "off": {{"command": "x", "disabled": true}},
        "gone": {{"command": "no-such-program-anywhere"}}"#,
        modern.url()
    );
    scene.write_servers(USER, &members);
    scene.write_servers(".mcp.json", r#""theirs": {"command": "touch", "args": ["ran"]}"#);
    (scene, modern)
}

#[test]
fn every_server_is_shown_with_its_status_or_its_failure() {
    let (mut scene, _modern) = mixed_servers();
    scene.set_env("PATH", "/usr/bin:/bin");
    let ran = scene.swb(&["status"]);
    assert_eq!(ran.code, 0, "{}", ran.to_snapshot());
    insta::assert_snapshot!(without_times(&ran.to_snapshot()));
    assert!(!scene.path("ran").exists(), "a project's server ran before anybody approved it");
}

#[test]
fn json_output_has_all_details() {
    let (scene, _modern) = mixed_servers();
    let mut status = json(&scene, &["status", "files", "search", "gone", "--json"]);
    let servers = status["servers"].as_array_mut().expect("a list");
    let by_name = |name: &str| servers.iter().find(|it| it["name"] == name).expect("it is there");
    let files = by_name("files");
    assert!(files["process"].is_u64() && files["readyAfterMs"].is_u64(), "{files}");
    assert_eq!((&files["era"], &files["state"]), (&json!("legacy"), &json!("connected")));
    assert_eq!(files["server"]["name"], "files");
    assert_eq!(files["counts"]["prompts"], 2);
    let search = by_name("search");
    assert_eq!(
        (&search["era"], &search["protocolVersion"]),
        (&json!("modern"), &json!("2026-07-28"))
    );
    assert_eq!(search["counts"]["resources"], 3);
    let gone = by_name("gone");
    assert_eq!(
        (&gone["state"], &gone["cause"]["id"]),
        (&json!("failed"), &json!("command-not-found"))
    );
    assert!(gone["cause"]["evidence"].to_string().contains("searched"), "{gone}");
    assert!(gone["cause"]["fix"].as_str().is_some_and(|fix| fix.contains("install")), "{gone}");
}

#[test]
fn a_required_server_decides_the_exit_code() {
    let (scene, _modern) = mixed_servers();
    let wall = ScriptedServer::http(
        Script::legacy().quirk(Quirk::RequiresBearer { token: "t".to_owned() }),
    );
    let scene_servers = scene.read(USER).replace(
        "\"mcpServers\": {",
        &format!(r#""mcpServers": {{ "walled": {{"type": "http", "url": "{}"}}, "refused": {{"type": "http", "url": "http://127.0.0.1:9/"}}, "bad": {{"command": 5}}, "#, wall.url()),
    );
    scene.write(USER, &scene_servers);
    scene.write(
        "managed/managed-settings.json",
        r#"{"deniedMcpServers": [{"serverName": "search"}]}"#,
    );
    for (name, code) in [
        ("files", 0),
        ("bad", 3),
        ("search", 4),
        ("nobody", 5),
        ("off", 7),
        ("theirs", 7),
        ("walled", 8),
        ("gone", 9),
        ("refused", 10),
    ] {
        let ran = scene.swb(&["status", "--require", name]);
        assert_eq!(ran.code, code, "{name}: {}", ran.to_snapshot());
    }
}

#[test]
fn optional_servers_are_not_waited_for_and_waiting_has_a_limit() {
    let scene = scene();
    let mute = ScriptedProgram::config_entry(&Script::legacy().quirk(Quirk::NeverAnswers));
    let good = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(USER, &format!("\"mute\": {mute}, \"good\": {good}"));
    let status = json(&scene, &["status", "--require", "good", "--json"]);
    let state = |name: &str| {
        let servers = status["servers"].as_array().expect("a list");
        servers.iter().find(|it| it["name"] == name).expect("it is there")["state"].clone()
    };
    assert_eq!((state("mute"), state("good")), (json!("pending"), json!("connected")));
    let ran = scene.swb(&["status", "--ready-timeout", "0.5", "--require", "mute"]);
    assert_eq!(ran.code, 7, "{}", ran.to_snapshot());
}

#[test]
fn a_connect_timeout_is_a_variable_or_a_key() {
    let mut scene = scene();
    let mute = ScriptedProgram::config_entry(&Script::legacy().quirk(Quirk::NeverAnswers));
    scene.write_servers(USER, &format!("\"mute\": {mute}"));
    scene.set_env("MCP_TIMEOUT", "300");
    let status = json(&scene, &["status", "--json"]);
    assert_eq!(status["servers"][0]["cause"]["message"], "no response within 0.3 s");
    scene.set_env("MCP_TIMEOUT", "soon");
    insta::assert_snapshot!(scene.swb(&["status"]).expect_failure(2), @"error: MCP_TIMEOUT must be a whole number above zero");
}

#[test]
fn a_server_that_is_not_configured_is_named() {
    let scene = scene();
    insta::assert_snapshot!(scene.swb(&["status", "x"]).expect_failure(5), @r"
    error: there is no server `x`

    hint: no servers are configured yet; `swb add` adds a server
    ");
    insta::assert_snapshot!(scene.swb(&["status", "--strict-mcp-config"]).expect_success(), @"No MCP servers to connect to: `swb list` shows which files were read.");
}

/// A running `swb status --watch --json`.
pub struct Watch {
    child: std::process::Child,
    lines: std::sync::mpsc::Receiver<Json>,
    seen: std::cell::RefCell<Vec<Json>>,
}

impl Watch {
    pub fn start(scene: &Sandbox) -> Watch {
        let mut command = scene.command(&scene.project(), &["status", "--watch", "--json"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it can be started");
        let stdout = child.stdout.take().expect("it is piped");
        let (tell, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let json = serde_json::from_str(&line).expect("every line is JSON");
                if tell.send(json).is_err() {
                    return;
                }
            }
        });
        Watch { child, lines, seen: std::cell::RefCell::default() }
    }

    /// Waits for a line that meets the condition; lines that were read earlier count too.
    #[track_caller]
    pub fn wait_for(&self, what: &str, condition: impl Fn(&Json) -> bool) -> Json {
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(line) = self.seen.borrow().iter().find(|line| condition(line)) {
                return line.clone();
            }
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.seen.borrow_mut().push(line),
                Err(_) => panic!("timed out waiting until {what}: {:#?}", self.seen.borrow()),
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub fn interrupt(mut self) -> Option<i32> {
        let status = std::process::Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status()
            .expect("kill can be run");
        assert!(status.success());
        self.child.wait().expect("it ends").code()
    }
}

#[test]
fn a_watch_follows_the_configuration_and_touches_only_what_changed() {
    let scene = scene();
    let one = ScriptedProgram::config_entry(&Script::legacy().name("one"));
    let two = ScriptedProgram::config_entry(&Script::legacy().name("two").tools(1));
    scene.write_servers(USER, &format!("\"one\": {one}, \"two\": {two}"));
    let watch = Watch::start(&scene);
    let connected = |name: &'static str| {
        move |line: &Json| line["name"] == name && line["state"] == "connected"
    };
    let first = watch.wait_for("one is connected", connected("one"));
    let old_two = watch.wait_for("two is connected", connected("two"));
    let more = ScriptedProgram::config_entry(&Script::legacy().name("two").tools(5));
    scene.write_servers(USER, &format!("\"one\": {one}, \"two\": {more}"));
    let new_two = watch.wait_for("two has more tools", |line| {
        connected("two")(line) && line["counts"]["tools"] != old_two["counts"]["tools"]
    });
    assert_ne!(new_two["process"], old_two["process"]);
    scene.write_servers(USER, &format!("\"one\": {one}"));
    watch.wait_for("two is gone", |line| line["name"] == "two" && line["state"] == "removed");
    let process = u32::try_from(first["process"].as_u64().expect("a number")).expect("it fits");
    assert!(
        testkit::processes::is_alive(process),
        "the server that did not change was not touched"
    );
    assert_eq!(watch.interrupt(), Some(0));
    testkit::processes::wait_until_exited(process, Duration::from_secs(5));
}

#[test]
fn a_watch_shows_a_server_exit_and_reconnect() {
    let scene = scene();
    scene.write_servers(
        USER,
        &format!("\"one\": {}", ScriptedProgram::config_entry(&Script::legacy())),
    );
    let watch = Watch::start(&scene);
    let first = watch.wait_for("it is connected", |line| line["state"] == "connected");
    let process = first["process"].as_u64().expect("a number");
    std::process::Command::new("kill").args(["-9", &process.to_string()]).status().expect("kill");
    let resting =
        watch.wait_for("it is lost", |line| line["state"] == "pending" && !line["cause"].is_null());
    assert_eq!(resting["cause"]["id"], "exited");
    watch.wait_for("it is back", |line| {
        line["state"] == "connected" && line["process"] != first["process"]
    });
    watch.interrupt();
    wait_until(Duration::from_secs(5), "its socket is gone", || {
        let folder = scene.path("~/.local/state/switchboard/running");
        (std::fs::read_dir(folder).map_or(0, Iterator::count) == 0).then_some(())
    });
}

#[test]
fn an_accounts_connectors_are_listed_beside_the_first_command_and_connected_to_by_the_next() {
    let account = ConnectorService::start(&[Connector::new("Slack")], 5).expect("it starts");
    let scene = scene();
    scene.write("~/token", &account.bearer_token());
    let token = scene.path("~/token");
    let named = format!("${{file:{}}}", token.display());
    let settings = json!({"connectorAccount": {"apiUrl": account.url(), "token": named}});
    scene.write(USER, &settings.to_string());
    scene.swb(&["status"]);
    let status: Json = json(&scene, &["status", "--json"]);
    let shown = status.to_string();
    assert!(shown.contains("claude.ai Slack") && shown.contains("\"connected\""), "{shown}");
    assert!(!shown.contains(&account.bearer_token()));
}
