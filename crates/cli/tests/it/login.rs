//! `swb login`.

use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::authorization_server::{
    AuthorizationConfig, Consent, DeviceOutcome, DevicePolling, Endpoint, IssuerParameter,
    ResponseFault,
};
use testkit::{AuthorizationServer, Sandbox, Script, ScriptedProgram, ScriptedServer, Terminal};

use crate::login_support::{
    browser_arguments, browser_page, log_in, setup, setup_with, state, times_opened,
};
use crate::support::{USER, scene, wait_for};

#[test]
fn one_command_signs_in_and_the_next_ones_stay_signed_in() {
    let (authority, scene) = setup(AuthorizationConfig::compliant());
    assert_eq!(state(&scene), "needs-auth");
    let ran = scene.swb(&["login", "web"]);
    let text = ran.expect_success();
    assert!(text.starts_with("Signed in to `web`.\n"), "{}", ran.to_snapshot());
    assert!(text.contains(&authority.issuer()) && text.contains("renewed automatically"), "{text}");
    assert!(text.contains("tool"), "{text}");
    assert_eq!(browser_arguments(&scene).lines().next(), Some("1"), "the address is one argument");
    assert!(
        ran.stderr.contains(browser_arguments(&scene).lines().last().expect("an address")),
        "{}",
        ran.to_snapshot()
    );
    assert!(browser_page(&scene).contains("web"));
    let before = authority.counters();
    assert_eq!(state(&scene), "connected");
    let after = authority.counters();
    for endpoint in [Endpoint::ResourceMetadata, Endpoint::IssuerMetadata, Endpoint::Token] {
        assert_eq!(before.requests.get(&endpoint), after.requests.get(&endpoint), "{endpoint:?}");
    }
    assert_eq!((after.logins, times_opened(&scene)), (1, 1));
}

#[test]
fn an_existing_login_is_reported_and_can_be_renewed() {
    let (authority, scene) = setup(AuthorizationConfig::compliant());
    log_in(&scene);
    let ran = scene.swb(&["login", "web"]);
    assert!(
        ran.expect_success().starts_with("Already signed in to `web`"),
        "{}",
        ran.to_snapshot()
    );
    assert_eq!(authority.counters().logins, 1);
    assert!(
        scene.swb(&["login", "web", "--again"]).expect_success().starts_with("Signed in to `web`")
    );
    assert_eq!(authority.counters().logins, 2);
}

#[test]
fn servers_without_a_login_are_reported() {
    let scene = scene();
    let open = ScriptedServer::http(Script::modern());
    let program = ScriptedProgram::config_entry(&Script::modern());
    scene.write_servers(
        USER,
        &format!(
            r#""open": {{"type": "http", "url": "{0}"}}, "program": {program},
               "fixed": {{"type": "http", "url": "{0}", "headers": {{"Authorization": "Bearer x"}}}}"#,
            open.url()
        ),
    );
    insta::assert_snapshot!("wants_none", scene.swb(&["login", "open"]).expect_failure(2));
    insta::assert_snapshot!("is_a_program", scene.swb(&["login", "program"]).expect_failure(2));
    insta::assert_snapshot!("has_a_header", scene.swb(&["login", "fixed"]).expect_failure(2));
    insta::assert_snapshot!("is_not_there", scene.swb(&["login", "opened"]).expect_failure(5));
}

#[test]
fn a_login_without_a_browser_and_a_terminal_fails_at_once() {
    let (_authority, scene) = setup(AuthorizationConfig::compliant());
    insta::assert_snapshot!(scene.swb(&["login", "web", "--no-browser"]).expect_failure(8));
    assert_eq!(times_opened(&scene), 0);
}

#[test]
fn a_declined_login_stores_nothing() {
    let (_authority, scene) =
        setup(AuthorizationConfig { consent: Consent::Denies, ..AuthorizationConfig::compliant() });
    let ran = scene.swb(&["login", "web"]);
    assert!(ran.expect_failure(8).contains("access was denied"), "{}", ran.to_snapshot());
    assert!(browser_page(&scene).contains("Signing in failed"));
}

/// A login at a terminal, without a browser on this machine.
fn at_terminal(scene: &Sandbox, arguments: &[&str]) -> Terminal {
    let mut command = scene.command(&scene.project(), arguments);
    command
        .env("BROWSER", "")
        .env("SSH_CONNECTION", "192.0.2.1 5 192.0.2.2 22")
        .env("TERM", "xterm");
    Terminal::start(&command)
}

/// Reads the URL off the screen, opens it with curl, and returns the final redirect.
fn open_in_other_browser(terminal: &mut Terminal, authority: &AuthorizationServer) -> String {
    let start = format!("{}/authorize", authority.issuer());
    terminal.wait_for_output(&start);
    let rest = terminal.read_until("\n");
    let url = format!("{start}{}", rest.trim());
    let output = Command::new("curl")
        .args(["-sS", "-o", "/dev/null", "-w", "%{redirect_url}", "--", &url])
        .output()
        .expect("curl can be run");
    String::from_utf8(output.stdout).expect("an address")
}

#[test]
fn over_ssh_the_pasted_address_signs_in() {
    let (authority, scene) = setup(AuthorizationConfig::compliant());
    let mut terminal = at_terminal(&scene, &["login", "web"]);
    let back = open_in_other_browser(&mut terminal, &authority);
    assert!(back.starts_with("http://127.0.0.1:"), "{back}");
    terminal.wait_for_output("paste that page's URL").send_keys("nonsense that is no address\n");
    terminal.wait_for_output("Not accepted").wait_for_output("> ").send_keys(&format!("{back}\n"));
    terminal.wait_for_output("Signed in to `web`");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{shown}");
    assert_eq!((authority.counters().logins, times_opened(&scene)), (1, 0));
    assert_eq!(state(&scene), "connected");
}

#[test]
fn over_ssh_the_pasted_code_signs_in() {
    let charter = AuthorizationConfig {
        issuer_parameter: IssuerParameter::Absent,
        ..AuthorizationConfig::compliant()
    };
    let (authority, scene) = setup(charter);
    let mut terminal = at_terminal(&scene, &["login", "web"]);
    let back = open_in_other_browser(&mut terminal, &authority);
    let query = back.split_once('?').expect("a query").1;
    let code = query.split('&').find_map(|it| it.strip_prefix("code=")).expect("a code");
    terminal.wait_for_output("q cancels").send_keys(&format!("{code}\n"));
    terminal.wait_for_output("Signed in to `web`");
    let (exit, shown) = terminal.wait_for_exit();
    assert_eq!((exit, authority.counters().logins), (0, 1), "{shown}");
}

#[test]
fn q_cancels_the_login() {
    let (_authority, scene) = setup(AuthorizationConfig::compliant());
    let mut terminal = at_terminal(&scene, &["login", "web", "--no-browser"]);
    terminal.wait_for_output("q cancels").send_keys("q\n");
    let (code, shown) = terminal.wait_for_exit();
    assert!(code == 8 && shown.contains("the login was cancelled"), "{shown}");
}

#[test]
fn a_code_on_another_device_signs_in_without_a_browser_here() {
    let course = DevicePolling { pending: 1, slow_down: 0, outcome: DeviceOutcome::Approved };
    let charter = AuthorizationConfig {
        device: Some(course),
        ..AuthorizationConfig::compliant().client("tv", None)
    };
    let (authority, scene) = setup_with(charter, r#"{"clientId": "tv"}"#);
    let ran = scene.swb(&["login", "web", "--device"]);
    assert!(ran.expect_success().starts_with("Signed in to `web`"), "{}", ran.to_snapshot());
    assert!(ran.stderr.contains("type the code"), "{}", ran.stderr);
    assert_eq!((times_opened(&scene), authority.counters().logins), (0, 1));
    let charter = AuthorizationConfig::compliant().client("tv", None);
    let (_none, scene) = setup_with(charter, r#"{"clientId": "tv"}"#);
    let ran = scene.swb(&["login", "web", "--device"]);
    assert!(
        ran.expect_failure(8).contains("does not support signing in on another device"),
        "{}",
        ran.to_snapshot()
    );
}

#[test]
fn a_second_login_waits_and_uses_the_first_ones_result() {
    for more in [&[][..], &["--callback-port", "0"][..]] {
        let (authority, scene) = setup(AuthorizationConfig {
            consent: Consent::ShowsPage,
            ..AuthorizationConfig::compliant()
        });
        // The test opens the link on this page itself, below.
        let port = free_port().to_string();
        let more: Vec<&str> =
            more.iter().map(|it| if *it == "0" { port.as_str() } else { it }).collect();
        let arguments: Vec<&str> = ["login", "web"].into_iter().chain(more).collect();
        let start = || {
            let mut command = scene.command(&scene.project(), &arguments);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
        };
        let first = start();
        wait_for(|| scene.path("~/browser/page.html").exists());
        let second = start();
        // Both processes have been rejected by the server; the first one's login is pending.
        authority.wait_for(|seen| seen.iter().filter(|it| it.status == Some(401)).count() >= 2);
        approve(&scene, &authority);
        for child in [first, second] {
            let output = child.wait_with_output().expect("it ends");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("igned in to `web`"), "{text}{said}");
        }
        assert_eq!((authority.counters().logins, times_opened(&scene)), (1, 1));
    }
}

/// Follows the link on the page on which the browser ended.
fn approve(scene: &Sandbox, authority: &AuthorizationServer) {
    let page = browser_page(scene);
    let link = page.split("href=\"").nth(1).and_then(|it| it.split('"').next()).expect("a link");
    let url = format!("{}{}", authority.issuer(), link.replace("&amp;", "&"));
    let status = Command::new("curl").args(["-sSL", "-o", "/dev/null", "--", &url]).status();
    assert!(status.expect("curl can be run").success());
}

pub fn free_port() -> u16 {
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    socket.local_addr().expect("an address").port()
}

#[test]
fn the_users_time_does_not_count_against_the_connect_timeout() {
    let charter = AuthorizationConfig::compliant()
        .fault(Endpoint::Authorize, ResponseFault::Delayed(Duration::from_millis(1500)));
    let (_authority, mut scene) = setup(charter);
    scene.set_env("MCP_TIMEOUT", "1000");
    assert!(scene.swb(&["login", "web"]).expect_success().starts_with("Signed in to `web`"));
}

#[test]
fn an_occupied_callback_port_is_named() {
    let (_authority, scene) = setup(AuthorizationConfig::compliant());
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let ran = scene.swb(&["login", "web", "--callback-port", &port]);
    assert!(ran.expect_failure(1).contains(&format!("port {port}")), "{}", ran.to_snapshot());
    assert_eq!(times_opened(&scene), 0);
}

#[test]
fn the_requested_scopes_are_sent() {
    let charter = AuthorizationConfig {
        resource_scopes: vec!["read".to_owned()],
        ..AuthorizationConfig::compliant()
    };
    let (_authority, scene) = setup(charter);
    assert_eq!(log_in(&scene)["login"]["scopes"], serde_json::json!(["read"]));
    let more = scene.swb(&["login", "web", "--scopes", "read,write", "--json"]);
    let more: serde_json::Value = serde_json::from_str(more.expect_success()).expect("it is JSON");
    assert_eq!(more["login"]["scopes"], serde_json::json!(["read", "write"]));
}
