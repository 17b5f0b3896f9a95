//! What tests of signing in begin with: a machine whose browser is a script that follows every redirect, and an
//! authority to sign in at.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value as Json;
use testkit::authorization_server::AuthorizationConfig;
use testkit::{AuthorizationServer, Sandbox};

use crate::support::{USER, json, scene};

/// Where the browser writes down what it was started with, and the page that it ended at.
const OPENED: &str = "~/browser/opened";
const PAGE: &str = "~/browser/page.html";

/// A machine with a browser.
pub fn scene_with_browser() -> Sandbox {
    let mut scene = scene();
    let opened = scene.path(OPENED).display().to_string();
    let page = scene.path(PAGE).display().to_string();
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$#\" \"$@\" >>'{opened}'\nexec curl -sSL --max-time 20 --output '{page}' -- \"$1\"\n"
    );
    scene.write("~/browser/browse", &script);
    let program = scene.path("~/browser/browse");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    scene.set_env("BROWSER", &program.display().to_string());
    scene
}

/// The arguments that the browser was started with, a line each with their number before them; empty where it never
/// was.
pub fn browser_arguments(scene: &Sandbox) -> String {
    fs::read_to_string(scene.path(OPENED)).unwrap_or_default()
}

/// How often the browser was started.
pub fn times_opened(scene: &Sandbox) -> usize {
    browser_arguments(scene).lines().filter(|line| line.starts_with("http")).count()
}

/// The page that the browser ended at.
pub fn browser_page(scene: &Sandbox) -> String {
    let read = || fs::read_to_string(scene.path(PAGE)).unwrap_or_default();
    crate::support::wait_for(|| read().contains("</h1>"));
    read()
}

/// An authority, and a machine on which its server is configured as `web`.
pub fn setup(charter: AuthorizationConfig) -> (AuthorizationServer, Sandbox) {
    setup_with(charter, "{}")
}

/// The same with an `oauth` in the server's entry.
pub fn setup_with(charter: AuthorizationConfig, oauth: &str) -> (AuthorizationServer, Sandbox) {
    let authority = AuthorizationServer::start(charter);
    let scene = scene_with_browser();
    configure(&scene, &authority, oauth);
    (authority, scene)
}

/// Configures the authority's server as `web`.
pub fn configure(scene: &Sandbox, authority: &AuthorizationServer, oauth: &str) {
    let url = authority.url();
    let entry = format!(r#""web": {{"type": "http", "url": "{url}", "oauth": {oauth}}}"#);
    scene.write_servers(USER, &entry);
}

/// Signs in at `web`, and expects that to work.
#[track_caller]
pub fn log_in(scene: &Sandbox) -> Json {
    json(scene, &["login", "web", "--json"])
}

/// The state that `swb status` sees `web` in.
#[track_caller]
pub fn state(scene: &Sandbox) -> String {
    let status = json(scene, &["status", "web", "--json"]);
    status["servers"][0]["state"].as_str().expect("a word").to_owned()
}

/// The folder that logins are kept in.
pub fn logins(scene: &Sandbox) -> PathBuf {
    scene.path("~/.local/share/switchboard/logins")
}
