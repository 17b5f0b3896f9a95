//! What tests of signing in begin with: a machine whose browser is a script that follows every redirect, and an
//! authority to sign in at.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value as Json;
use testkit::authority::Charter;
use testkit::{Authority, Scene};

use crate::support::{USER, json, scene};

/// Where the browser writes down what it was started with, and the page that it ended at.
const OPENED: &str = "~/browser/opened";
const PAGE: &str = "~/browser/page.html";

/// A machine with a browser.
pub fn scene_with_browser() -> Scene {
    let mut scene = scene();
    let opened = scene.path(OPENED).display().to_string();
    let page = scene.path(PAGE).display().to_string();
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$#\" \"$@\" >>'{opened}'\nexec curl -sSL --max-time 20 --output '{page}' -- \"$1\"\n"
    );
    scene.write("~/browser/browse", &script);
    let program = scene.path("~/browser/browse");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    scene.set("BROWSER", &program.display().to_string());
    scene
}

/// The arguments that the browser was started with, a line each with their number before them; empty where it never
/// was.
pub fn opened(scene: &Scene) -> String {
    fs::read_to_string(scene.path(OPENED)).unwrap_or_default()
}

/// How often the browser was started.
pub fn times_opened(scene: &Scene) -> usize {
    opened(scene).lines().filter(|line| line.starts_with("http")).count()
}

/// The page that the browser ended at.
pub fn page(scene: &Scene) -> String {
    let read = || fs::read_to_string(scene.path(PAGE)).unwrap_or_default();
    crate::support::until(|| read().contains("</h1>"));
    read()
}

/// An authority, and a machine on which its server is configured as `web`.
pub fn stage(charter: Charter) -> (Authority, Scene) {
    stage_with(charter, "{}")
}

/// The same with an `oauth` in the server's entry.
pub fn stage_with(charter: Charter, oauth: &str) -> (Authority, Scene) {
    let authority = Authority::start(charter);
    let scene = scene_with_browser();
    configure(&scene, &authority, oauth);
    (authority, scene)
}

/// Configures the authority's server as `web`.
pub fn configure(scene: &Scene, authority: &Authority, oauth: &str) {
    let url = authority.url();
    let entry = format!(r#""web": {{"type": "http", "url": "{url}", "oauth": {oauth}}}"#);
    scene.servers(USER, &entry);
}

/// Signs in at `web`, and expects that to work.
#[track_caller]
pub fn log_in(scene: &Scene) -> Json {
    json(scene, &["login", "web", "--json"])
}

/// The state that `swb status` sees `web` in.
#[track_caller]
pub fn state(scene: &Scene) -> String {
    let status = json(scene, &["status", "web", "--json"]);
    status["servers"][0]["state"].as_str().expect("a word").to_owned()
}

/// The folder that logins are kept in.
pub fn logins(scene: &Scene) -> PathBuf {
    scene.path("~/.local/share/switchboard/logins")
}
