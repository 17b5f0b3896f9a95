//! `swb serve --config FILE` and `--check`.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use testkit::{Script, ScriptedProgram};

use crate::http_gateway::{GatewayClient, HttpGateway, write_token_file};
use crate::support::{USER, scene};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn the_options_of_a_file_are_those_of_the_command_line_which_takes_precedence() {
    let scene = scene();
    let entry = ScriptedProgram::config_entry(&Script::modern().name("one"));
    scene.write(USER, &format!("{{\"mcpServers\": {{\"one\": {entry}}}}}"));
    write_token_file(&scene, &[("ci", TOKEN)]);
    // The file of tokens is beside the file of options, which is not in the working folder.
    let file = scene.path("gateway.jsonc");
    let text = r#"{
        // One gateway for the team.
        "http": "192.0.2.1:1",
        "pool": true,
        "permissionMode": "bypass",
        "names": "plain",
        "tokenFile": "tokens",
    }"#;
    std::fs::write(&file, text).expect("it can be written");
    let gateway = HttpGateway::start(&scene, &["--config", file.to_str().expect("UTF-8")]);
    let client = GatewayClient::Modern { gateway: &gateway, token: Some(TOKEN) };
    let tools = client.list_member("tools/list", "tools", "name");
    assert!(tools.contains(&"echo".to_owned()), "{tools:?}");
    assert!(gateway.request(None, "tools/list", json!({})).starts_with("HTTP/1.1 401 "));
    gateway.terminate();
}

#[test]
fn a_file_with_errors_is_refused_with_all_of_them() {
    let scene = scene();
    let text = "{\n  \"htpp\": \"127.0.0.1:0\",\n  \"names\": \"plain\",\n  \"approvalTimeout\": \"soon\"\n}";
    std::fs::write(scene.project().join("gw.jsonc"), text).expect("it can be written");
    let output = scene.swb(&["serve", "--config", "gw.jsonc", "--check"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    for line in [
        "gw.jsonc:2:3: `htpp`: unknown key; did you mean `http`?",
        "gw.jsonc:3:12: `names`: needs `--pool`",
        "gw.jsonc:4:22: `approvalTimeout`: invalid value 'soon'",
    ] {
        assert!(output.stderr.contains(line), "{line} is missing: {}", output.stderr);
    }
    let output = scene.swb(&["--json", "serve", "--config", "gw.jsonc"]);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(json["error"]["exit"], 3);
    let output = scene.swb(&["serve", "--config", "none.jsonc"]);
    assert!(output.stderr.contains("`none.jsonc` cannot be read"), "{}", output.stderr);
}

#[test]
fn a_check_finds_what_only_the_files_show_and_serves_nothing() {
    let scene = scene();
    let http = ["serve", "--check", "--pool", "--http", "127.0.0.1:9"];
    let check = |more: &[&str]| scene.swb(&[&http, more].concat());
    let output = check(&["--no-auth"]);
    assert_eq!(output.expect_success(), "ok: it would serve at http://127.0.0.1:9/mcp\n");
    assert_eq!(check(&["--token-file", "none"]).code, 2);
    assert_eq!(check(&["--no-auth", "--allow-origin", "*"]).code, 2);
    assert_eq!(check(&["--oauth", "not a URL"]).code, 2);
    let output = check(&["--no-auth", "--tls-cert", "none.pem", "--tls-key", "none.pem"]);
    assert!(output.stderr.contains("none.pem` cannot be used"), "{}", output.stderr);
    scene.write(USER, r#"{"gatewayLimits": {"sessions": 0}}"#);
    let output = check(&["--no-auth"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert!(output.stderr.contains("gatewayLimits.sessions"), "{}", output.stderr);
}

#[test]
fn a_check_opens_what_the_options_for_replicas_name() {
    let scene = scene();
    let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
    let write = |name: &str, text: &str| {
        let path = scene.project().join(name);
        std::fs::write(&path, text).expect("it can be written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("ours");
    };
    write("seal.key", key);
    write("short.key", "0001\n");
    write("not.pem", "text");
    let used_port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let in_use = used_port.local_addr().expect("an address").to_string();
    let check = |http: &str, more: &[&str]| {
        let auth = ["serve", "--check", "--pool", "--http", http, "--oauth", "https://idp.example"];
        let output = scene.swb(&[&auth, more].concat());
        (output.code, output.stderr)
    };
    let local = "127.0.0.1:9";
    let store = "redis://store.example";
    let sealed = ["--seal-key", "seal.key"];
    let with = |more: &[&str]| check(local, &[&sealed, more].concat());
    // Nothing connects to the store, and a replica that runs may have the port.
    assert_eq!(with(&["--store", store, "--replica-address", &in_use]), (0, String::new()));
    let elsewhere = ["--replica-address", "far.example:1", "--replica-listen", "0.0.0.0:1"];
    assert_eq!(with(&elsewhere), (0, String::new()), "the address is that of a proxy");
    for (found, expected) in [
        (check(local, &["--seal-key", "none.key"]), "--seal-key"),
        (check(local, &["--seal-key", "short.key"]), "--seal-key"),
        (check("0.0.0.0:9", &sealed), "--replica-address is missing"),
        (with(&["--replica-address", "0.0.0.0:1"]), "--replica-address is missing"),
        (with(&["--replica-address", "192.0.2.1:1"]), "cannot listen at 192.0.2.1:1"),
        (
            with(&["--replica-address", "far.example:1", "--replica-listen", "192.0.2.1:1"]),
            "cannot listen at 192.0.2.1:1",
        ),
        (with(&["--replica-address", "nowhere"]), "cannot listen at nowhere"),
        (with(&["--store", "http://store.example"]), "--store"),
        (with(&["--store", "redis://:${UNSET}@h"]), "the variable UNSET is not set"),
        (with(&["--store", "redis://:${file:/none}@h"]), "--store"),
        (with(&["--store", store, "--store-ca", "none.pem"]), "--store-ca"),
        (with(&["--store", "rediss://h", "--store-ca", "not.pem"]), "--store"),
    ] {
        assert!(found.0 != 0 && found.1.contains(expected), "{expected}: {found:?}");
    }
}
