//! `swb principals`: the clients of a running gateway, and the callers in the audit log.

use serde_json::json;
use testkit::{Script, ScriptedProgram};

use crate::http_gateway::{GatewayClient, HttpGateway, write_token_file};
use crate::support::{USER, json as json_of, scene};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn a_running_gateway_names_its_clients_with_their_calls_and_quotas() {
    let scene = scene();
    let entry = ScriptedProgram::config_entry(&Script::modern().name("one"));
    let quota = r#"{"calls": "mcp__one", "perDay": 2}"#;
    scene.write(USER, &format!("{{\"quotas\": [{quota}], \"mcpServers\": {{\"one\": {entry}}}}}"));
    let tokens = write_token_file(&scene, &[("ci", TOKEN)]);
    let gateway = HttpGateway::start_pool(&scene, &["--token-file", &tokens]);
    let client = GatewayClient::Modern { gateway: &gateway, token: Some(TOKEN) };
    let call = json!({"name": "mcp__one__echo", "arguments": {"text": "hi"}});
    for _ in 0..2 {
        client.call("mcp__one__echo", json!({"text": "hi"}));
    }
    let refused = gateway.request(Some(TOKEN), "tools/call", call);
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    assert!(refused.to_ascii_lowercase().contains("\r\nretry-after: "), "{refused}");
    let listed = json_of(&scene, &["principals", "--json"]);
    assert_eq!(listed["source"], "gateway");
    let ci = &listed["principals"][0];
    assert_eq!((&ci["name"], &ci["calls"], &ci["denied"]), (&json!("ci"), &json!(3), &json!(1)));
    assert_eq!(ci["quotas"][0]["perDay"], json!({"used": 2, "most": 2}));
    let table = scene.swb(&["principals"]);
    assert!(table.expect_success().contains("`mcp__one`: 2 of 2/day"), "{}", table.stdout);
    // A changed quota applies without a restart, and what was counted stays.
    let more = r#"{"calls": "mcp__one", "perDay": 3}"#;
    scene.write(USER, &format!("{{\"quotas\": [{more}], \"mcpServers\": {{\"one\": {entry}}}}}"));
    testkit::processes::wait_until(std::time::Duration::from_secs(20), "the quota is new", || {
        let listed = json_of(&scene, &["principals", "--json"]);
        (listed["principals"][0]["quotas"][0]["perDay"] == json!({"used": 2, "most": 3}))
            .then_some(())
    });
    gateway.terminate();
    let after = json_of(&scene, &["principals", "--json"]);
    assert_eq!(after["source"], "audit");
    assert_eq!(after["principals"][0]["name"], "ci");
    assert_eq!(
        (&after["principals"][0]["calls"], &after["principals"][0]["denied"]),
        (&json!(3), &json!(1))
    );
}

#[test]
fn without_any_calls_there_are_no_principals() {
    let scene = scene();
    let output = scene.swb(&["principals"]);
    assert_eq!(output.expect_success(), "No principals.\n");
    assert!(output.stderr.contains("no gateway runs"), "{}", output.stderr);
}

#[test]
fn a_revoked_principal_is_refused_at_once_until_it_is_restored() {
    const OTHER: &str = "fedcba9876543210fedcba9876543210";
    let scene = scene();
    let output = scene.swb(&["principals", "revoke", "ci"]);
    assert!(output.code == 1 && output.stderr.contains("no gateway runs"), "{}", output.stderr);
    let entry = ScriptedProgram::config_entry(&Script::modern().name("one"));
    scene.write(USER, &format!("{{\"mcpServers\": {{\"one\": {entry}}}}}"));
    let tokens = write_token_file(&scene, &[("ci", TOKEN), ("ada", OTHER)]);
    let gateway = HttpGateway::start_pool(&scene, &["--token-file", &tokens]);
    let status = |token: &str| {
        let response = gateway.request(Some(token), "tools/list", json!({}));
        response.split(' ').nth(1).expect("a status").to_owned()
    };
    let call = json!({"name": "mcp__one__echo", "arguments": {"text": "hi"}});
    gateway.request(Some(TOKEN), "tools/call", call);
    assert_eq!(status(TOKEN), "200");
    let output = scene.swb(&["principals", "revoke", "ci"]);
    assert_eq!(output.expect_success(), "Revoked `ci`.\n");
    assert!(output.stderr.contains("until the gateway stops"), "{}", output.stderr);
    assert_eq!((&*status(TOKEN), &*status(OTHER)), ("401", "200"));
    let table = scene.swb(&["principals"]);
    assert!(table.expect_success().contains("ci (revoked)"), "{}", table.stdout);
    let output = scene.swb(&["--json", "principals", "revoke", "--token-id", "1"]);
    let json: serde_json::Value = serde_json::from_str(output.expect_success()).expect("JSON");
    assert_eq!(json, json!({"changed": true, "shared": false, "gateways": 1}));
    assert_eq!(scene.swb(&["principals", "restore", "ci"]).expect_success(), "Restored `ci`.\n");
    assert_eq!(status(TOKEN), "200");
    let output = scene.swb(&["principals", "restore", "ci"]);
    assert_eq!(output.expect_success(), "`ci` was not revoked.\n");
    assert_eq!(scene.swb(&["principals", "revoke"]).code, 2);
    gateway.terminate();
}
