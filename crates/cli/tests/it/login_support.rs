//! Set-up of the login tests: a sandbox whose browser is a script that follows every redirect, and an authorization
//! server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value as Json;
use testkit::authorization_server::AuthorizationConfig;
use testkit::{AuthorizationServer, Sandbox};

use crate::support::{USER, json, scene};

/// The files in which the browser script stores its arguments and the last page.
const OPENED: &str = "~/browser/opened";
const PAGE: &str = "~/browser/page.html";

/// A sandbox with a browser.
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

/// The arguments of all browser starts, one per line after their count. Empty if the browser was never started.
pub fn browser_arguments(scene: &Sandbox) -> String {
    fs::read_to_string(scene.path(OPENED)).unwrap_or_default()
}

/// The number of times the browser was started.
pub fn times_opened(scene: &Sandbox) -> usize {
    browser_arguments(scene).lines().filter(|line| line.starts_with("http")).count()
}

/// The page on which the browser ended.
pub fn browser_page(scene: &Sandbox) -> String {
    let read = || fs::read_to_string(scene.path(PAGE)).unwrap_or_default();
    crate::support::wait_for(|| read().contains("</h1>"));
    read()
}

/// An authorization server, and a sandbox in which its server is configured as `web`.
pub fn setup(charter: AuthorizationConfig) -> (AuthorizationServer, Sandbox) {
    setup_with(charter, "{}")
}

/// Like [`setup`], with an `oauth` member in the server's entry.
pub fn setup_with(charter: AuthorizationConfig, oauth: &str) -> (AuthorizationServer, Sandbox) {
    let authority = AuthorizationServer::start(charter);
    let scene = scene_with_browser();
    configure(&scene, &authority, oauth);
    (authority, scene)
}

/// Configures the authorization server's MCP server as `web`.
pub fn configure(scene: &Sandbox, authority: &AuthorizationServer, oauth: &str) {
    let url = authority.url();
    let entry = format!(r#""web": {{"type": "http", "url": "{url}", "oauth": {oauth}}}"#);
    scene.write_servers(USER, &entry);
}

/// Logs in to `web`; the login must succeed.
#[track_caller]
pub fn log_in(scene: &Sandbox) -> Json {
    json(scene, &["login", "web", "--json"])
}

/// The state of `web` according to `swb status`.
#[track_caller]
pub fn state(scene: &Sandbox) -> String {
    let status = json(scene, &["status", "web", "--json"]);
    status["servers"][0]["state"].as_str().expect("a word").to_owned()
}

/// The folder of the login files.
pub fn logins(scene: &Sandbox) -> PathBuf {
    scene.path("~/.local/share/switchboard/logins")
}
