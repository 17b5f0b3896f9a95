//! Set-up that all tests of this crate share.

use std::path::{Path, PathBuf};

use testkit::Sandbox;
use testkit::real_servers::RealServer;

/// The program with another managed folder. It is an example, so that cargo builds it with the tests.
pub fn program() -> PathBuf {
    let swb = Path::new(env!("CARGO_BIN_EXE_swb"));
    let folder = swb.parent().expect("the program is in a folder");
    folder.join("examples").join("swb-testbed")
}

/// An empty sandbox.
pub fn scene() -> Sandbox {
    Sandbox::new(program())
}

/// The path of the user settings.
pub const USER: &str = "~/.config/switchboard/settings.json";

/// The path of the project's local settings, according to `swb paths`.
pub fn local_settings(scene: &Sandbox) -> PathBuf {
    let output = scene
        .command(&scene.project(), &["paths", "--json"])
        .output()
        .expect("the program can be run");
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    PathBuf::from(json["localSettings"].as_str().expect("it is a path"))
}

/// The JSON output of a command that must succeed.
#[track_caller]
pub fn json(scene: &Sandbox, arguments: &[&str]) -> serde_json::Value {
    let ran = scene.swb(arguments);
    serde_json::from_str(ran.expect_success()).expect("it is JSON")
}

/// The configuration entry of a real server, with its environment variables.
pub fn real_entry(server: &RealServer) -> serde_json::Value {
    let text = |it: &std::ffi::OsString| it.to_string_lossy().into_owned();
    let env: serde_json::Map<String, serde_json::Value> =
        server.env.iter().map(|(name, value)| (text(name), text(value).into())).collect();
    serde_json::json!({
        "command": text(&server.command),
        "args": server.args.iter().map(text).collect::<Vec<_>>(),
        "env": env,
    })
}

/// Name, scope and state of every server that `list --all` shows.
#[track_caller]
pub fn states(scene: &Sandbox, more: &[&str]) -> Vec<String> {
    let arguments: Vec<&str> =
        ["list", "--all", "--json"].into_iter().chain(more.iter().copied()).collect();
    let json = json(scene, &arguments);
    let servers = json["servers"].as_array().expect("a list");
    let word =
        |server: &serde_json::Value, key: &str| server[key].as_str().unwrap_or("-").to_owned();
    servers
        .iter()
        .map(|it| format!("{} {} {}", word(it, "name"), word(it, "scope"), word(it, "state")))
        .collect()
}

/// Polls until the condition is true.
#[track_caller]
pub fn wait_for(mut condition: impl FnMut() -> bool) {
    for _ in 0..400 {
        if condition() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(25)); // waits for another process
    }
    panic!("timed out waiting for the condition");
}
