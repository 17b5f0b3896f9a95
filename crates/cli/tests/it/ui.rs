//! `swb ui`: login links of running gateways, and the dashboard of the user's own servers.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::processes::wait_until;
use testkit::{Sandbox, Script, ScriptedProgram};

use crate::http_gateway::HttpGateway;
use crate::support::{USER, json as json_of, scene};
use crate::ui_requests::DashboardScene;

const TIMEOUT: Duration = Duration::from_secs(20);

/// `swb ui`, which serves until it is terminated.
struct OwnDashboard {
    child: Child,
    address: String,
    secret: String,
}

impl OwnDashboard {
    fn start(scene: &Sandbox, arguments: &[&str]) -> OwnDashboard {
        let mut command = scene.command(&scene.project(), &[&["ui"], arguments].concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be started");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it says where it is");
        let link =
            line.trim().strip_prefix("dashboard http://").unwrap_or_else(|| panic!("{line}"));
        let (address, secret) = link.split_once("/ui/login?link=").expect("a login link");
        let (address, secret) = (address.to_owned(), secret.to_owned());
        OwnDashboard { child, address, secret }
    }

    fn terminate(mut self) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(sent.expect("kill can be run").success());
        let status = wait_until(TIMEOUT, "it ends", || self.child.try_wait().expect("it is ours"));
        assert_eq!(status.code(), Some(0));
    }
}

impl Drop for OwnDashboard {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

fn with_server() -> Sandbox {
    let scene = scene();
    let server = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(USER, &format!("\"canary\": {server}"));
    scene
}

#[test]
fn each_link_of_a_running_gateway_is_new_and_works() {
    let scene = DashboardScene::start();
    let (one, other) = (scene.secret(), scene.secret());
    assert_ne!(one, other);
    let printed = scene.sandbox.swb(&["ui", "--no-browser"]);
    let text = printed.expect_success();
    assert!(
        text.starts_with(&format!("http://{}/ui/login?link=", scene.gateway.address)),
        "{text}"
    );
    assert!(printed.stderr.contains("it can be used once"), "{}", printed.stderr);
    scene.sign_in();
    scene.gateway.terminate();
}

#[test]
fn a_process_without_a_dashboard_is_an_error() {
    let scene = with_server();
    let gateway = HttpGateway::start(&scene, &["--pool", "--no-auth"]);
    let output = scene.swb(&["ui", "--process", "1"]);
    assert!(output.stderr.contains("the process 1 has no dashboard"), "{}", output.stderr);
    assert_eq!(output.code, 5, "not found");
    gateway.terminate();
}

#[test]
fn without_a_gateway_the_users_own_servers_are_shown_and_nothing_else_is_served() {
    let scene = with_server();
    let own = OwnDashboard::start(&scene, &["--no-browser"]);
    let get = |path: &str| get_page(&own.address, path);
    assert!(get("/healthz").starts_with("HTTP/1.1 200 "));
    for path in ["/mcp", "/metrics", "/readyz"] {
        assert!(get(path).starts_with("HTTP/1.1 404 "), "{path}");
    }
    assert!(get("/ui/").starts_with("HTTP/1.1 401 "));
    assert!(get(&format!("/ui/login?link={}", own.secret)).contains("Sign in"));
    // Another call finds the running one.
    let found = json_of(&scene, &["ui", "--json"]);
    let process = found["dashboards"][0]["process"].as_u64();
    assert_eq!(process, Some(u64::from(own.child.id())));
    own.terminate();
}

fn get_page(address: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a deadline");
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in time");
    answer
}

#[test]
fn a_dashboard_at_an_address_that_others_reach_must_be_asked_for() {
    let scene = with_server();
    let file = crate::http_gateway::write_token_file(&scene, &[("ada", "a-token-of-ada-123")]);
    let at_all = ["serve", "--pool", "--http", "0.0.0.0:0", "--token-file", &file, "--ui"];
    let refused = scene.swb(&at_all);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("that address is not loopback"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--ui-remote"), "{}", refused.stderr);
    let no_http = scene.swb(&["serve", "--pool", "--ui"]);
    assert_eq!(no_http.code, 2, "{}", no_http.stderr);
}
