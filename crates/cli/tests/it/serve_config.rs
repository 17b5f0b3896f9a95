//! `swb serve --config FILE` and `--check`.

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
