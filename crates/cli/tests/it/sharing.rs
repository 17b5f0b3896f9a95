//! Sessions share server processes through the shared host: which do, which do not, and what happens when it ends.

use std::ops::{Deref, DerefMut};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::processes::{is_alive, processes_with_environment, wait_until};
use testkit::{Quirk, Sandbox, Script, ScriptedProgram, Size};

use crate::screen_start::screen;
use crate::serve::StdioClient;
use crate::support::{USER, json, scene};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A sandbox in which every run shares servers, even without a terminal. Ends its shared host.
pub struct SharingScene(Sandbox);

impl SharingScene {
    /// With these servers of the user, whose tools may be called.
    pub fn with(servers: &str) -> SharingScene {
        let mut scene = scene();
        scene.set_env("SWB_SHARE", "on");
        let settings = format!(
            r#"{{"permissions": {{"defaultMode": "bypass"}}, "mcpServers": {{{servers}}}}}"#
        );
        scene.write(USER, &settings);
        SharingScene(scene)
    }

    /// With one scripted server `s`.
    pub fn new() -> SharingScene {
        let entry = ScriptedProgram::config_entry(&Script::legacy());
        SharingScene::with(&format!("\"s\": {entry}"))
    }

    /// The process id of the server that answers a call from a folder.
    #[track_caller]
    pub fn pid_in(&self, folder: &Path) -> u64 {
        let ran = self.swb_in(folder, &["call", "mcp__s__whoami", "--json"]);
        pid_of(ran.expect_success())
    }

    #[track_caller]
    pub fn pid(&self) -> u64 {
        self.pid_in(&self.project())
    }

    #[track_caller]
    pub fn host(&self) -> Json {
        json(self, &["host", "--json"])
    }

    #[track_caller]
    pub fn running(&self) -> Vec<Json> {
        json(self, &["ps", "--json"])["servers"].as_array().expect("a list").clone()
    }
}

#[track_caller]
fn pid_of(output: &str) -> u64 {
    let result: Json = serde_json::from_str(output).expect("JSON");
    result["structuredContent"]["pid"].as_u64().unwrap_or_else(|| panic!("{result:#}"))
}

impl Deref for SharingScene {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.0
    }
}

impl DerefMut for SharingScene {
    fn deref_mut(&mut self) -> &mut Sandbox {
        &mut self.0
    }
}

impl Drop for SharingScene {
    fn drop(&mut self) {
        self.swb(&["host", "stop"]);
    }
}

/// A gateway over stdio that calls tools of the pool.
fn pool(scene: &SharingScene) -> StdioClient {
    StdioClient::legacy(scene, &["--pool"])
}

/// The process id of the server that answers a call of a gateway's client.
#[track_caller]
fn whoami(client: &mut StdioClient) -> u64 {
    try_whoami(client).expect("it answers")
}

fn try_whoami(client: &mut StdioClient) -> Option<u64> {
    call(client, "whoami", json!({}))["result"]["structuredContent"]["pid"].as_u64()
}

fn call(client: &mut StdioClient, tool: &str, arguments: Json) -> Json {
    let name = format!("mcp__s__{tool}");
    client.request_outcome("tools/call", json!({"name": name, "arguments": arguments}))
}

/// Starts a call that takes a while and waits until the server works on it.
fn slow_call(scene: &SharingScene, more: &[&str]) -> Child {
    let calls_before = scene.running()[0]["calls"].as_u64();
    let arguments = [&["call", "mcp__s__slow", "ms=60000"], more].concat();
    let mut command = scene.command(&scene.project(), &arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    wait_until(TIMEOUT, "the call runs", || {
        (scene.running()[0]["calls"].as_u64() > calls_before).then_some(())
    });
    child.expect("it can be started")
}

#[test]
fn sessions_with_different_terminals_use_one_process_and_other_folders_another() {
    let mut scene = SharingScene::new();
    let first = scene.pid();
    for (name, value) in
        [("TERM", "screen"), ("SHLVL", "3"), ("WINDOWID", "7"), ("TMUX", "x"), ("SSH_TTY", "y")]
    {
        scene.set_env(name, value);
        assert_eq!(scene.pid(), first, "{name}");
    }
    let mut pools = [pool(&scene), pool(&scene)];
    for pool in &mut pools {
        assert_eq!(whoami(pool), first, "a gateway over stdio shares it, too");
    }
    let running = scene.running();
    assert_eq!(running.len(), 1, "{running:?}");
    assert_eq!(running[0]["clients"].as_array().map(Vec::len), Some(2), "{running:?}");
    let other_folder = scene.pid_in(&scene.home());
    assert_ne!(other_folder, first);
    scene.set_env("LC_ALL", "C");
    let other_locale = scene.pid();
    assert!(other_locale != first && other_locale != other_folder);
    assert_eq!(scene.running().len(), 3);
}

#[test]
fn the_class_of_an_entry_decides_who_shares() {
    let mut entry: Json =
        serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy())).expect("JSON");
    entry["sharing"] = json!("user");
    let scene = SharingScene::with(&format!("\"s\": {entry}"));
    assert_eq!(scene.pid(), scene.pid_in(&scene.home()), "one copy whatever the folder");
    let shown = scene.swb(&["get", "s"]);
    let shown = shown.expect_success();
    assert!(shown.contains("user: `sharing` in its entry"), "{shown}");
    assert!(shown.contains("with the environment of `swb call`"), "{shown}");
    entry["sharing"] = json!("session");
    scene.write_servers(USER, &format!("\"s\": {entry}"));
    let settings = json!({"permissions": {"defaultMode": "bypass"}, "mcpServers": {"s": entry}});
    scene.write(USER, &settings.to_string());
    assert_ne!(scene.pid(), scene.pid(), "each session has its own");
    let managed = json!({"sharing": {"servers": {"s": "workspace"}}});
    scene.write("managed/managed-settings.json", &managed.to_string());
    assert_eq!(scene.pid(), scene.pid(), "the administrator decides");
    let shown = scene.swb(&["get", "s"]);
    assert!(shown.expect_success().contains("workspace: set by the administrator"));
}

#[test]
fn sharing_is_off_by_flag_by_variable_by_setting_and_without_a_user() {
    let mut scene = SharingScene::new();
    scene.swb(&["call", "mcp__s__whoami", "--no-share"]).expect_success();
    assert_eq!(scene.host()["running"], false);
    for value in ["off", "auto"] {
        scene.set_env("SWB_SHARE", value);
        scene.pid();
        assert_eq!(scene.host()["running"], false, "{value} starts none without a terminal");
    }
    scene.set_env("SWB_SHARE", "on");
    let entry = ScriptedProgram::config_entry(&Script::legacy());
    let settings = |more: &str| {
        format!(
            r#"{{{more} "permissions": {{"defaultMode": "bypass"}}, "mcpServers": {{"s": {entry}}}}}"#
        )
    };
    scene.write(USER, &settings("\"shareHost\": false,"));
    scene.pid();
    assert_eq!(scene.host()["running"], false);
    scene.write(USER, &settings(""));
    let shared = scene.pid();
    scene.set_env("SWB_SHARE", "auto");
    assert_eq!(scene.pid(), shared, "one that runs is used without a terminal");
    scene.set_env("SWB_SHARE", "maybe");
    let failed = scene.swb(&["call", "mcp__s__whoami"]);
    assert_eq!(failed.code, 2);
    assert!(failed.stderr.contains("SWB_SHARE is neither"), "{}", failed.stderr);
}

#[test]
fn a_hundred_starts_at_once_make_one_host() {
    let scene = SharingScene::new();
    let start = |_| {
        let mut command = scene.command(&scene.project(), &["call", "mcp__s__whoami", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it can be started")
    };
    let children: Vec<Child> = (0..100).map(start).collect();
    let output = |child: Child| child.wait_with_output().expect("it ends").stdout;
    let mut pids: Vec<u64> = children
        .into_iter()
        .map(|child| pid_of(&String::from_utf8_lossy(&output(child))))
        .collect();
    pids.dedup();
    assert_eq!(pids.len(), 1, "all used one server, so one host: {pids:?}");
    assert_eq!(scene.running().len(), 1);
}

#[test]
fn a_killed_host_costs_a_running_call_and_nothing_else() {
    let scene = SharingScene::new();
    let mut pool = pool(&scene);
    let before = whoami(&mut pool);
    let call = slow_call(&scene, &["--json"]);
    let host = u32::try_from(scene.host()["pid"].as_u64().expect("it runs")).expect("a pid");
    signal(host, "-KILL");
    let output = call.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && told.contains("may have"), "{told}");
    let old = u32::try_from(before).expect("a pid");
    wait_until(TIMEOUT, "no orphan is left", || (!is_alive(old)).then_some(()));
    assert_ne!(scene.pid(), before, "the next call starts a host and the server again");
    let again = wait_until(TIMEOUT, "the other session reconnects", || try_whoami(&mut pool));
    assert_eq!(again, scene.pid(), "and they share it again");
}

#[test]
fn a_stopped_host_and_a_stale_socket_are_not_in_the_way() {
    let scene = SharingScene::new();
    let first = scene.pid();
    let socket = scene.path("~/.local/state/switchboard/host/host.sock");
    assert!(socket.exists());
    scene.swb(&["host", "stop"]).expect_success();
    assert!(!socket.exists());
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("bound"));
    let second = scene.pid();
    assert_ne!(first, second);
    assert_eq!(scene.pid(), second);
}

#[test]
fn a_folder_that_others_may_enter_is_not_used() {
    let scene = SharingScene::new();
    let folder = scene.path("~/.local/state/switchboard/host");
    std::fs::create_dir_all(&folder).expect("created");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&folder, open).expect("changed");
    assert_ne!(scene.pid(), scene.pid(), "each session runs its own");
    let failed = scene.swb(&["host"]);
    assert_eq!(failed.code, 1);
    assert!(failed.stderr.contains("chmod 700"), "{}", failed.stderr);
}

#[test]
fn a_newer_build_replaces_the_host_and_old_sessions_keep_theirs() {
    let mut scene = SharingScene::new();
    scene.set_env("SWB_TESTBED_BUILD", "1000");
    let mut old_session = pool(&scene);
    let old = whoami(&mut old_session);
    let old_host = scene.host()["pid"].clone();
    scene.set_env("SWB_TESTBED_BUILD", "2000");
    let shown = scene.host();
    assert_eq!(
        (&shown["build"]["written"], &shown["ownBuild"]["written"]),
        (&json!(1000), &json!(2000))
    );
    let new = scene.pid();
    assert_ne!(new, old);
    assert_ne!(scene.host()["pid"], old_host);
    assert_eq!(scene.host()["build"]["written"], 2000);
    assert_eq!(whoami(&mut old_session), old, "the old host serves its session");
    scene.set_env("SWB_TESTBED_BUILD", "1000");
    assert_eq!(scene.pid(), new, "an older program uses the newer host");
    let old_host = u32::try_from(old_host.as_u64().expect("it ran")).expect("a pid");
    assert!(is_alive(old_host));
    old_session.input = None;
    assert_eq!(old_session.wait_exit().0, Some(0));
    wait_until(TIMEOUT, "the old host ends with its last client", || {
        (!is_alive(old_host)).then_some(())
    });
}

#[test]
fn a_server_that_asks_for_roots_belongs_to_one_session() {
    let scene = SharingScene::new();
    let mut first = pool(&scene);
    call(&mut first, "ask", json!({"kind": "roots"}));
    let mine = whoami(&mut first);
    let other = scene.pid_in(&scene.project());
    assert_ne!(other, mine, "a second session gets its own process");
    let shown = scene.swb(&["get", "s"]);
    let shown = shown.expect_success();
    assert!(shown.contains("session: it asks for the roots of its client"), "{shown}");
    assert_ne!(scene.pid(), scene.pid(), "and so do all later ones");
}

#[test]
fn a_question_while_two_sessions_call_is_refused_and_reaches_neither() {
    let scene = SharingScene::new();
    let mut first = pool(&scene);
    let pid = whoami(&mut first);
    let mut slow = slow_call(&scene, &[]);
    let answers = scene.path("answers.json");
    scene.write("answers.json", r#"{"name": "Ada"}"#);
    let answers = answers.display().to_string();
    let asked = scene.swb(&["call", "mcp__s__ask", "--answers", &answers]);
    let text = format!("{}{}", asked.stdout, asked.stderr);
    assert!(text.contains("several sessions share this server"), "{text}");
    slow.kill().expect("it is ours");
    slow.wait().expect("it ends");
    assert_eq!(whoami(&mut first), pid, "the server goes on for the others");
}

#[test]
fn an_idle_server_ends_and_a_reconnect_gets_a_fresh_one() {
    let scene = SharingScene::new();
    let mut session = pool(&scene);
    let first = whoami(&mut session);
    wait_for_age(&scene, 6);
    scene.swb(&["reconnect", "s"]).expect_success();
    let fresh = wait_until(TIMEOUT, "the session has a fresh process", || {
        try_whoami(&mut session).filter(|it| *it != first)
    });
    assert_eq!(scene.pid(), fresh);
    let old = u32::try_from(first).expect("a pid");
    wait_until(TIMEOUT, "the old one has no client and ends", || (!is_alive(old)).then_some(()));
}

/// Waits until the first server has run for so many seconds.
fn wait_for_age(scene: &SharingScene, seconds: u64) {
    wait_until(TIMEOUT, "the server is old enough", || {
        let since = scene.running()[0]["since"].as_u64()?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
        (now.as_secs() >= since + seconds).then_some(())
    });
}

#[test]
fn a_program_that_does_not_start_is_explained_as_without_sharing() {
    let scene = SharingScene::with(
        r#""gone": {"command": "no-such-program-here"},
           "exits": {"command": "sh", "args": ["-c", "echo cannot go on >&2; exit 3"]}"#,
    );
    for (server, expected) in [("gone", "no-such-program-here"), ("exits", "cannot go on")] {
        let shared = scene.swb(&["status", server]);
        let own = scene.swb(&["status", server, "--no-share"]);
        assert!(shared.stderr.contains(expected), "{}", shared.stderr);
        assert_eq!(
            (shared.code, &shared.stdout, &shared.stderr),
            (own.code, &own.stdout, &own.stderr)
        );
    }
}

#[test]
fn no_secret_is_in_the_log_or_the_arguments_of_the_host() {
    let mut entry: Json =
        serde_json::from_str(&ScriptedProgram::config_entry(&Script::legacy())).expect("JSON");
    entry["env"]["API_TOKEN"] = json!("canary-7f3a");
    let scene = SharingScene::with(&format!("\"s\": {entry}"));
    scene.pid();
    let host = scene.host()["pid"].as_u64().expect("it runs");
    for file in ["cmdline", "environ"] {
        let bytes = std::fs::read(format!("/proc/{host}/{file}")).expect("it is ours");
        assert!(!String::from_utf8_lossy(&bytes).contains("canary-7f3a"), "{file}");
    }
    for words in [&["host", "logs", "-n", "0"][..], &["ps", "--json"], &["host", "--json"]] {
        let shown = scene.swb(words);
        assert!(!shown.expect_success().contains("canary-7f3a"), "{words:?}");
    }
}

#[test]
fn a_host_leaves_no_process_behind() {
    let script = Script::legacy().quirk(Quirk::ForksGrandchildren { n: 2 });
    let scene = SharingScene::with(&format!("\"s\": {}", ScriptedProgram::config_entry(&script)));
    scene.pid();
    let host = scene.host()["pid"].as_u64().expect("it runs");
    let mark = format!("SWITCHBOARD_OWNER={host}.");
    assert!(processes_with_environment(&mark).len() >= 3);
    scene.swb(&["host", "stop"]).expect_success();
    wait_until(TIMEOUT, "all are gone", || {
        processes_with_environment(&mark).is_empty().then_some(())
    });
}

fn signal(pid: u32, signal: &str) {
    let sent = std::process::Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(sent.expect("`kill` is there").success());
}

#[test]
fn a_session_at_a_terminal_starts_a_host_and_its_panel_shows_the_shared_server() {
    let mut scene = SharingScene::new();
    scene.set_env("SWB_SHARE", "auto").set_env("LANG", "C.UTF-8");
    let mut terminal = screen(&scene, Size::STANDARD);
    terminal.wait_for_screen("1/1 server").send_keys("/mcp\r").wait_for_screen("1 connected");
    terminal.send_keys("\r").wait_for_screen("shared with other sessions");
    let running = scene.running();
    assert_eq!(running[0]["clients"].as_array().map(Vec::len), Some(1), "{running:?}");
    assert_eq!(running[0]["pid"].as_u64(), Some(scene.pid()), "a command uses the same process");
}
