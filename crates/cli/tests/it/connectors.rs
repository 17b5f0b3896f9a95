//! The connectors of an account: signing in, a refused session, the list and its refresh, the rules of an organisation,
//! switches, and copies of connectors among the user's own servers.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use testkit::connector_account::{Connector, ListFault, ListShape};
use testkit::{ConnectorService, Sandbox, Script, ScriptedServer, Size, Terminal};

use crate::login_support::{scene_with_browser, times_opened};
use crate::support::{USER, json, local_settings, scene, states};

/// A service with these connectors, listed two at a time.
fn service(connectors: &[Connector]) -> ConnectorService {
    ConnectorService::start_with(connectors, 2, ListShape::Pages).expect("it starts")
}

fn connectors(names: &[&str]) -> Vec<Connector> {
    names.iter().map(|it| Connector::new(it)).collect()
}

/// Settings with the account, and more members.
fn settings(service: &ConnectorService, more: &Json) -> String {
    let mut settings = json!({"connectorAccount": {"apiUrl": service.url()}});
    for (key, value) in more.as_object().into_iter().flatten() {
        settings[key] = value.clone();
    }
    settings.to_string()
}

/// A sandbox with a browser whose user is signed in to the account.
fn signed_in(service: &ConnectorService, more: &Json) -> Sandbox {
    let scene = scene_with_browser();
    scene.write(USER, &settings(service, more));
    scene.swb(&["login", "--account"]).expect_success();
    scene
}

/// Name and state of every server according to `swb status`.
#[track_caller]
fn statuses(scene: &Sandbox) -> (Vec<String>, Json) {
    let status: Json =
        serde_json::from_str(&scene.swb(&["status", "--json"]).stdout).expect("it is JSON");
    let servers = status["servers"].as_array().expect("a list");
    let word = |it: &Json, key: &str| it[key].as_str().unwrap_or("-").to_owned();
    let lines = servers.iter().map(|it| format!("{}: {}", word(it, "name"), word(it, "state")));
    (lines.collect(), status)
}

fn list_requests(service: &ConnectorService) -> usize {
    service.requests().iter().filter(|it| it.path.starts_with("/v1/")).count()
}

#[test]
fn one_login_at_the_account_is_enough_for_every_connector() {
    let service = service(&connectors(&["Slack", "My Files", "Slack"]));
    let scene = scene_with_browser();
    scene.write(USER, &settings(&service, &json!({})));
    let before = scene.swb(&["status"]);
    assert!(before.stderr.contains("`swb login --account`"), "{}", before.to_snapshot());
    let ran = scene.swb(&["login", "--account"]);
    let text = ran.expect_success();
    assert!(text.starts_with("Signed in to your connector account.\n"), "{}", ran.to_snapshot());
    assert!(text.contains("it has 3 connectors"), "{text}");
    assert_eq!((times_opened(&scene), service.logins_and_refreshes()), (1, (1, 0)));
    let expected = ["claude.ai My Files", "claude.ai Slack", "claude.ai Slack 2"];
    let (shown, status) = statuses(&scene);
    assert_eq!(shown, expected.map(|it| format!("{it}: connected")));
    assert_eq!(status["account"]["state"], "listed");
    assert_eq!(status["account"]["connectors"], 3);
    let again = scene.swb(&["login", "--account"]);
    assert!(again.expect_success().starts_with("Already signed in"), "{}", again.to_snapshot());
    let renewed = json(&scene, &["login", "--account", "--again", "--json"]);
    assert_eq!((&renewed["isNew"], &renewed["signedIn"]), (&json!(true), &json!(true)));
    assert_eq!(service.logins_and_refreshes().0, 2);
    let token = service.bearer_token();
    for command in
        [&["list", "--json"][..], &["status"], &["doctor"], &["auth", "status", "--json"]]
    {
        let ran = scene.swb(command);
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(&token), "{command:?}");
    }
    let stored = std::fs::read_dir(scene.path("~/.local/share/switchboard/connectors"));
    for file in stored.expect("the folder is there").flatten() {
        let text = std::fs::read_to_string(file.path()).expect("text");
        assert!(!text.contains(&token), "{text}");
    }
}

#[test]
fn the_base_of_an_api_is_enough_and_its_version_is_named() {
    let service = service(&connectors(&["Slack"]));
    let scene = scene_with_browser();
    scene.write(USER, &json!({"connectorAccount": {"apiUrl": service.origin()}}).to_string());
    scene.swb(&["login", "--account"]).expect_success();
    let requests = service.requests();
    let list = requests.iter().find(|it| it.path.starts_with("/v1/")).expect("a list");
    assert_eq!(list.path, "/v1/mcp_servers?limit=1000");
    assert_eq!(list.header("anthropic-beta"), Some("mcp-servers-2025-12-04"));
    assert_eq!(statuses(&scene).0, ["claude.ai Slack: connected"]);
}

#[test]
fn a_code_on_another_device_signs_in_to_the_account() {
    let service = service(&connectors(&["Slack"]));
    let scene = scene_with_browser();
    scene.write(USER, &settings(&service, &json!({})));
    let ran = scene.swb(&["login", "--account", "--device"]);
    assert!(ran.expect_success().starts_with("Signed in"), "{}", ran.to_snapshot());
    assert!(ran.stderr.contains("ABCD-EFGH"), "{}", ran.to_snapshot());
    assert_eq!((times_opened(&scene), service.logins_and_refreshes().0), (0, 1));
}

#[test]
fn the_pasted_address_signs_in_to_the_account() {
    let service = service(&connectors(&["Slack"]));
    let scene = scene_with_browser();
    scene.write(USER, &settings(&service, &json!({})));
    let command = scene.command(&scene.project(), &["login", "--account", "--no-browser"]);
    let mut terminal = Terminal::start(&command);
    let start = format!("{}/authorize", service.origin());
    terminal.wait_for_output(&start);
    let url = format!("{start}{}", terminal.read_until("\n").trim());
    let curl = ["-sS", "-o", "/dev/null", "-w", "%{redirect_url}", "--", &url];
    let output = Command::new("curl").args(curl).output().expect("curl can be run");
    let back = String::from_utf8(output.stdout).expect("an address");
    terminal.wait_for_output("q cancels").send_keys(&format!("{back}\n"));
    terminal.wait_for_output("Signed in to your connector account");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!((code, service.logins_and_refreshes().0), (0, 1), "{shown}");
}

#[test]
fn a_refused_session_is_a_state_of_its_own_with_one_command() {
    let service = service(&connectors(&["Mail", "Slack"]));
    let other = ScriptedServer::http(Script::modern().tools(1));
    let own = json!({"mcpServers": {"own": {"type": "http", "url": other.url()}}});
    let scene = signed_in(&service, &own);
    service.end_session();
    let (shown, status) = statuses(&scene);
    assert_eq!(
        shown,
        ["claude.ai Mail: session-refused", "claude.ai Slack: session-refused", "own: connected"]
    );
    let cause = &status["servers"][0]["cause"];
    assert_eq!(cause["id"], "session-refused");
    assert_eq!(cause["fix"], "`swb login --account`");
    for command in [&["list"][..], &["status"], &["doctor"]] {
        let ran = scene.swb(command);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(all.contains("your connector account refuses the session"), "{command:?}: {all}");
        assert!(all.contains("swb login --account"), "{command:?}: {all}");
    }
    for command in ["list", "status", "doctor"] {
        let shown: Json =
            serde_json::from_str(&scene.swb(&[command, "--json"]).stdout).expect("it is JSON");
        assert_eq!(shown["account"]["state"], "session-refused", "{command}");
        assert_eq!(shown["account"]["fix"], "swb login --account", "{command}");
    }
    // No connector pretends that a login of its own would help.
    let tools = scene.swb(&["tools"]);
    assert!(!tools.stdout.contains("authenticate"), "{}", tools.to_snapshot());
    let named = scene.swb(&["login", "claude.ai Mail"]);
    assert!(named.expect_failure(8).contains("swb login --account"), "{}", named.to_snapshot());
    assert_eq!(times_opened(&scene), 1, "nobody is sent to a browser");
    scene.swb(&["login", "--account"]).expect_success();
    let (shown, status) = statuses(&scene);
    assert!(shown.iter().all(|it| it.ends_with(": connected")), "{shown:?}");
    assert_eq!(status["account"]["state"], "listed");
}

#[test]
fn many_connectors_that_refuse_a_token_cause_one_refresh_and_one_retry_each() {
    let names: Vec<String> = (0..8).map(|number| format!("C{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let service = service(&connectors(&names));
    let scene = signed_in(&service, &json!({}));
    let old = service.bearer_token();
    service.rotate_token();
    let before = service.requests().len();
    let (shown, _) = statuses(&scene);
    assert!(shown.len() == 8 && shown.iter().all(|it| it.ends_with(": connected")), "{shown:?}");
    assert_eq!(service.logins_and_refreshes(), (1, 1));
    let requests = service.requests();
    let old = format!("Bearer {old}");
    for number in 0..8 {
        let path = format!("/proxy/{number}/");
        let refused = requests[before..]
            .iter()
            .filter(|it| it.path.starts_with(&path) && it.header("authorization") == Some(&old));
        assert!(
            refused.count() <= 1,
            "connector {number} was asked more than once with the old token"
        );
    }
}

#[test]
fn a_connector_that_refuses_every_token_is_asked_twice() {
    let service = service(&[Connector::new("Own").with_own_login()]);
    let scene = signed_in(&service, &json!({}));
    let before = service.requests().len();
    statuses(&scene);
    let requests = service.requests();
    let asked = requests[before..].iter().filter(|it| it.path.starts_with("/proxy/0/")).count();
    assert_eq!(asked, 2, "one request, and one retry with a refreshed token");
}

#[test]
fn a_connector_with_a_login_of_its_own_says_where_that_is() {
    let service = service(&[Connector::new("Own").with_own_login(), Connector::new("Slack")]);
    let scene = signed_in(&service, &json!({}));
    let with_page = json!({"connectorAccount": {
        "apiUrl": service.url(), "manageUrl": "https://account.example/connectors",
    }});
    scene.write(USER, &with_page.to_string());
    let (shown, status) = statuses(&scene);
    assert_eq!(shown, ["claude.ai Own: needs-auth", "claude.ai Slack: connected"]);
    assert_eq!(status["servers"][0]["cause"]["id"], "connector-needs-login");
    assert_eq!(status["account"]["state"], "listed", "the session is good");
    let ran = scene.swb(&["login", "claude.ai Own"]);
    let text = ran.expect_failure(8);
    assert!(text.contains("https://account.example/connectors"), "{}", ran.to_snapshot());
    assert!(text.contains("swb reconnect 'claude.ai Own'"), "{}", ran.to_snapshot());
    let other = scene.swb(&["login", "claude.ai Slack"]);
    assert!(
        other.expect_failure(2).contains("needs no login of its own"),
        "{}",
        other.to_snapshot()
    );
    assert_eq!(times_opened(&scene), 1);
    // The panel of the screen says the same.
    let mut command = scene.command(&scene.project(), &[]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut terminal = Terminal::with_size(&command, Size::STANDARD);
    terminal.wait_for_screen("1/2 servers").send_keys("/mcp\r");
    terminal.wait_for_screen("claude.ai Own").wait_for_screen("needs login").send_keys("\r");
    terminal.wait_for_screen("https://account.example/connectors");
}

#[test]
fn a_logout_revokes_the_login_and_forgets_the_connectors() {
    let service = service(&connectors(&["Slack"]));
    let scene = signed_in(&service, &json!({}));
    let ran = scene.swb(&["logout", "--account"]);
    assert!(
        ran.expect_success().contains("the login was revoked and deleted"),
        "{}",
        ran.to_snapshot()
    );
    assert!(service.requests().iter().any(|it| it.path == "/revoke"));
    assert_eq!(states(&scene, &[]).iter().filter(|it| it.contains("claude.ai")).count(), 0);
    let again = json(&scene, &["logout", "--account", "--json"]);
    assert_eq!(again["outcome"], "nothing");
    let logins = json(&scene, &["auth", "status", "--json"])["logins"].clone();
    assert_eq!(logins, json!([]));
}

#[test]
fn an_account_that_cannot_be_signed_in_to_is_explained() {
    let scene = scene();
    let ran = scene.swb(&["login", "--account"]);
    assert!(ran.expect_failure(3).contains("connectorAccount"), "{}", ran.to_snapshot());
    let service = service(&[]);
    let token = json!({"connectorAccount": {"apiUrl": service.url(), "token": "canary"}});
    scene.write(USER, &token.to_string());
    for command in ["login", "logout"] {
        let ran = scene.swb(&[command, "--account"]);
        let text = ran.expect_failure(2);
        assert!(text.contains("connectorAccount.token"), "{}", ran.to_snapshot());
        assert!(!text.contains("canary"));
    }
    assert_eq!(service.requests().len(), 0);
    let ran = scene.swb(&["login", "--account", "name"]);
    assert_eq!(ran.code, 2, "{}", ran.to_snapshot());
    let unreachable = json!({"connectorAccount": {"apiUrl": "http://127.0.0.1:9/"}});
    scene.write(USER, &unreachable.to_string());
    let ran = scene.swb(&["login", "--account"]);
    assert!(ran.expect_failure(10).contains("could not be reached"), "{}", ran.to_snapshot());
}

#[test]
fn an_account_that_never_answers_holds_nobody_up_and_warns_once() {
    let service = service(&connectors(&["Slack"]));
    let other = ScriptedServer::http(Script::modern().tools(1));
    let own = json!({"mcpServers": {"own": {"type": "http", "url": other.url()}}});
    let scene = signed_in(&service, &own);
    service.set_fault(Some(ListFault::Silence));
    let started = Instant::now();
    let (shown, _) = statuses(&scene);
    assert_eq!(shown, ["claude.ai Slack: connected", "own: connected"], "the cached list is used");
    scene.swb(&["list"]).expect_success();
    scene.swb(&["tools"]).expect_success();
    assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
    // Without a list, the first run waits a little, says why there is none, and the others do not wait.
    std::fs::remove_dir_all(scene.path("~/.local/share/switchboard/connectors")).expect("ours");
    let first = scene.swb(&["status"]);
    assert!(
        first.stderr.contains("did not list its connectors within 3 s"),
        "{}",
        first.to_snapshot()
    );
    assert!(first.stdout.contains("own"), "{}", first.to_snapshot());
    let started = Instant::now();
    let second = scene.swb(&["tools"]);
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(!second.stderr.contains("did not list"), "warned twice: {}", second.to_snapshot());
    let account = json(&scene, &["list", "--json"])["account"].clone();
    assert_eq!(account["state"], "unavailable");
}

#[test]
fn hostile_lists_are_bounded_and_escaped_and_cost_only_the_connectors() {
    let service = service(&connectors(&["Slack"]));
    let other = ScriptedServer::http(Script::modern().tools(1));
    let own = json!({"mcpServers": {"own": {"type": "http", "url": other.url()}}});
    let scene = signed_in(&service, &own);
    let origin = service.origin();
    let escape = "\u{1b}]0;pwned\u{7}\u{202e}";
    let item = |name: &str, url: &str| json!({"id": escape, "display_name": name, "url": url});
    let good = |number: usize| item(&format!("N{number}"), &format!("{origin}/proxy/0/mcp"));
    let many: Vec<Json> = (0..4000).map(good).collect();
    let bodies = [
        (200, "[".repeat(100_000)),
        (200, "{\"data\": ".repeat(500)),
        (200, "null".to_owned()),
        (200, json!({"data": "x"}).to_string()),
        (500, format!("{escape}error")),
        (302, String::new()),
        (200, json!({"data": [1, null, [], {}, {"name": 3}, {"name": "a", "url": 4}]}).to_string()),
        (200, json!({"data": [item(escape, &format!("{origin}/proxy/0/mcp")), item(&"x".repeat(5000), &format!("{origin}/a"))]}).to_string()),
        (200, json!({"data": [item("Away", "https://elsewhere.example/p"), item("File", "file:///etc/passwd")]}).to_string()),
        (200, json!({"data": many}).to_string()),
    ];
    for (status, body) in bodies {
        service.set_fault(Some(ListFault::Body(status, body.clone())));
        std::fs::remove_dir_all(scene.path("~/.local/share/switchboard/connectors"))
            .expect("it is ours");
        for command in [&["ping", "own"][..], &["list", "--all"], &["list", "--all", "--json"]] {
            let ran = scene.swb(command);
            assert_eq!(ran.code, 0, "{}", ran.to_snapshot());
            let all = format!("{}{}", ran.stdout, ran.stderr);
            assert!(!all.contains('\u{1b}') && !all.contains('\u{202e}'), "{all:?}");
            assert!(!all.contains("elsewhere.example") && !all.contains("/etc/passwd"), "{all}");
        }
        let listed = states(&scene, &["--scope", "connectors"]).len();
        assert!(listed <= 500, "{listed}");
    }
    service.set_fault(Some(ListFault::EndlessPages));
    std::fs::remove_dir_all(scene.path("~/.local/share/switchboard/connectors")).expect("ours");
    let before = list_requests(&service);
    scene.swb(&["ping", "own"]).expect_success();
    assert!(list_requests(&service) - before <= 50);
}

#[test]
fn the_organisation_blocks_tools_and_asks_for_others_in_every_mode() {
    let policies = json!({"tool_policies": {"tool_0": "blocked", "echo": "ask"}});
    let mail = Connector::new("Mail").with_members(policies);
    let mail = Connector { script: Script::both().tools(1), ..mail };
    let service = service(&[mail, Connector::new("Chat")]);
    let allow = json!({"permissions": {"allow": ["mcp__claude_ai_Mail", "mcp__claude_ai_Chat"]}});
    let scene = signed_in(&service, &allow);
    let shown = scene.swb(&["tools"]);
    let tools = shown.expect_success();
    assert!(tools.contains("mcp__claude_ai_Mail__echo"), "{tools}");
    assert!(!tools.contains("mcp__claude_ai_Mail__tool_0"), "{tools}");
    let all = scene.swb(&["tools", "--all"]);
    let all = all.expect_success();
    assert!(all.contains("claude_ai_Mail__tool_0"), "{all}");
    assert!(all.contains("left out (the organisation of your connector account)"), "{all}");
    assert!(all.contains("mcp__claude_ai_Mail__echo: always asks"), "{all}");
    let restricted = json(&scene, &["tools", "--all", "--json"])["restricted"].clone();
    assert_eq!(restricted[0]["rule"], "mcp__claude_ai_Mail__tool_0", "{restricted}");
    let call =
        |tool: &str, mode: &str| scene.swb(&["call", tool, "text=a", "--permission-mode", mode]);
    for mode in ["bypass", "dontAsk", "default"] {
        let ran = call("mcp__claude_ai_Mail__echo", mode);
        assert_ne!(ran.code, 0, "{mode}: {}", ran.to_snapshot());
        assert!(ran.stderr.contains("organisation"), "{mode}: {}", ran.to_snapshot());
        call("mcp__claude_ai_Chat__echo", mode).expect_success();
    }
    let explained = scene.swb(&["permissions", "explain", "mcp__claude_ai_Mail__echo"]);
    assert!(
        explained.stdout.contains("the organisation of your connector account"),
        "{}",
        explained.to_snapshot()
    );
    let explained = scene.swb(&["permissions", "explain", "mcp__claude_ai_Mail__tool_0"]);
    let text = format!("{}{}", explained.stdout, explained.stderr);
    assert!(text.contains("deny") && text.contains("organisation"), "{text}");
}

#[test]
fn no_name_of_a_tool_escapes_the_rules_of_an_organisation() {
    // Names that are shortened, changed, or told apart by a suffix where they are exposed.
    let long = "x".repeat(300);
    let names = [long.as_str(), "send.mail", "drop_all", "drop_one"];
    let policies =
        json!({"tool_policies": {&long: "blocked", "send.mail": "blocked", "drop_*": "blocked"}});
    let script = names.iter().fold(Script::both(), |script, name| script.tool(name));
    let mail = Connector { script, ..Connector::new("Mail").with_members(policies) };
    let everything = Connector::new("Closed").with_members(json!({"tool_policies": "blocked"}));
    let service = service(&[mail, everything]);
    let scene = signed_in(&service, &json!({"permissions": {"allow": ["mcp__claude_ai_Mail"]}}));
    let shown = json(&scene, &["tools", "--json"])["tools"].clone();
    let of = |server: &str| -> Vec<String> {
        let tools = shown.as_array().expect("a list").iter();
        let own = tools.filter(|it| it["server"] == server);
        own.filter_map(|it| it["tool"].as_str()).map(str::to_owned).collect()
    };
    let mail = of("claude.ai Mail");
    assert!(mail.contains(&"echo".to_owned()), "{mail:?}");
    assert!(!mail.iter().any(|it| names.contains(&it.as_str())), "{mail:?}");
    assert_eq!(of("claude.ai Closed"), [""; 0]);
    // Without the rules they are there, so the names above are those of tools.
    service.set_fault(Some(ListFault::Body(
        200,
        json!({"data": [{"id": "0", "display_name": "Mail", "url": format!("{}/proxy/0/mcp", service.origin())}]}).to_string(),
    )));
    scene.swb(&["login", "--account", "--again"]).expect_success();
    let shown = json(&scene, &["tools", "--json"]).to_string();
    assert!(names.iter().all(|it| shown.contains(&format!("\"tool\":\"{it}\""))), "{shown}");
}

#[test]
fn a_redirect_does_not_carry_the_accounts_token_away() {
    let elsewhere = ScriptedServer::http(Script::both());
    let service = service(&connectors(&["Slack"]));
    let scene = signed_in(&service, &json!({}));
    let away = format!("{}/redirect?to={}", service.origin(), elsewhere.url());
    let expect_kept = |place: &str| {
        let token = service.bearer_token();
        let was_sent = service.requests().iter().any(|it| {
            let sent = it.header("authorization").map(str::to_owned);
            it.path.starts_with("/redirect") && sent == Some(format!("Bearer {token}"))
        });
        assert!(was_sent, "{place}: the account itself gets its token");
        let carried = elsewhere.requests();
        assert!(carried.iter().all(|it| it.header("authorization").is_none()), "{carried:?}");
    };
    let listed = json!({"data": [{"id": "a", "display_name": "Away", "url": away}]});
    service.set_fault(Some(ListFault::Body(200, listed.to_string())));
    scene.swb(&["login", "--account", "--again"]).expect_success();
    let (shown, _) = statuses(&scene);
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_ne!(shown, ["claude.ai Away: connected"]);
    expect_kept("a connector");
    service.set_fault(None);
    let before = service.requests().len();
    let account = json!({"connectorAccount": {"apiUrl": away, "token": service.bearer_token()}});
    scene.write(USER, &account.to_string());
    let (shown, _) = statuses(&scene);
    assert!(!shown.iter().any(|it| it.starts_with("claude.ai")), "{shown:?}");
    assert!(service.requests().len() > before, "the list was requested");
    expect_kept("the list");
}

#[test]
fn connectors_are_disabled_by_any_source_and_by_the_environment() {
    let service = service(&connectors(&["Slack"]));
    let mut scene = signed_in(&service, &json!({}));
    let disabled = |scene: &Sandbox, place: &str| {
        let all = states(scene, &[]);
        assert!(
            all.contains(&"claude.ai Slack connectors disabled".to_owned()),
            "{place}: {all:?}"
        );
        let ran = scene.swb(&["status"]);
        assert!(!ran.stdout.contains("connected"), "{place}: {}", ran.to_snapshot());
        assert!(
            ran.stderr.contains("connectors are disabled by"),
            "{place}: {}",
            ran.to_snapshot()
        );
        assert_eq!(json(scene, &["list", "--json"])["account"]["state"], "disabled", "{place}");
    };
    // A source of lower rank wins over one that wants them.
    let user = settings(&service, &json!({"disableConnectors": false}));
    let local = local_settings(&scene);
    let local = local.to_str().expect("text").to_owned();
    scene.write(USER, &user);
    scene.write(".mcp.json", r#"{"mcpServers": {}, "disableConnectors": true}"#);
    disabled(&scene, "project");
    scene.write(".mcp.json", r#"{"mcpServers": {}, "disableConnectors": false}"#);
    scene.write(&local, r#"{"disableClaudeAiConnectors": true}"#);
    disabled(&scene, "local");
    scene.write(&local, "{}");
    let managed = scene.managed().join("managed-settings.json");
    let managed = managed.to_str().expect("text").to_owned();
    scene.write(&managed, r#"{"disableConnectors": true}"#);
    disabled(&scene, "managed");
    scene.write(&managed, "{}");
    scene.write(USER, &settings(&service, &json!({"disableClaudeAiConnectors": true})));
    disabled(&scene, "user");
    scene.write(USER, &user);
    // A project's file of variables has no say, and `true` enables nothing that is disabled.
    scene.write(".env", "ENABLE_CLAUDEAI_MCP_SERVERS=false\n");
    assert_eq!(statuses(&scene).0, ["claude.ai Slack: connected"]);
    let asked = list_requests(&service);
    for (name, value) in [("ENABLE_CLAUDEAI_MCP_SERVERS", "false"), ("SWB_CONNECTORS", "off")] {
        scene.set_env(name, value);
        disabled(&scene, name);
        let ran = scene.swb(&["login", "--account"]);
        assert!(ran.expect_failure(2).contains(name), "{}", ran.to_snapshot());
        scene.set_env(name, "true");
    }
    assert_eq!(list_requests(&service), asked, "the account was asked although connectors are off");
    assert_eq!(statuses(&scene).0, ["claude.ai Slack: connected"]);
}

#[test]
fn an_enabled_server_of_the_user_hides_the_connector_of_the_same_vendor() {
    let service = service(&connectors(&["Slack"]));
    let vendor =
        json!({"mcpServers": {"mine": {"type": "http", "url": "https://mcp.slack.example/"}}});
    let scene = signed_in(&service, &vendor);
    let all = states(&scene, &[]);
    assert_eq!(all, ["claude.ai Slack connectors duplicate", "mine user ready"]);
    let text = scene.swb(&["list", "--all"]).stdout;
    assert!(text.contains("mine"), "{text}");
    assert!(!scene.swb(&["list"]).stdout.contains("claude.ai Slack"));
    let disabled = json!({"mcpServers": {"mine": {
        "type": "http", "url": "https://mcp.slack.example/", "disabled": true,
    }}});
    scene.write(USER, &settings(&service, &disabled));
    assert_eq!(states(&scene, &[]), ["claude.ai Slack connectors ready", "mine user disabled"]);
}

#[test]
fn the_accounts_token_goes_to_the_account_and_to_nobody_else() {
    let elsewhere = ScriptedServer::http(Script::both());
    let away = json!({"url": elsewhere.url()});
    let service = service(&[Connector::new("Away").with_members(away), Connector::new("Slack")]);
    let manual = json!({"mcpServers": {"own": {"type": "http", "url": elsewhere.url()}}});
    let scene = signed_in(&service, &manual);
    let (shown, status) = statuses(&scene);
    assert_eq!(shown, ["claude.ai Slack: connected", "own: connected"]);
    assert_eq!(status["account"]["skipped"], 1);
    let requests = elsewhere.requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|it| it.header("authorization").is_none()));
    // With a proxy of its own, the API may list the URLs of vendors; they get nothing either.
    let before = requests.len();
    let proxy = format!("{}/proxy/1/mcp?id={{id}}", service.origin());
    let account = json!({"connectorAccount": {"apiUrl": service.url(), "proxyUrl": proxy}});
    scene.write(USER, &account.to_string());
    scene.swb(&["login", "--account"]).expect_success();
    let (shown, _) = statuses(&scene);
    assert_eq!(shown, ["claude.ai Away: connected", "claude.ai Slack: connected"]);
    assert_eq!(elsewhere.requests().len(), before);
}
