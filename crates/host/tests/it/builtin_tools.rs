//! The built-in tools: what they list, what they hide, and what they cache.

use serde_json::{Value as Json, json};
use switchboard::CallContext;
use switchboard::config::permission::{
    PermissionEffect, PermissionMode, PermissionRules, ToolRule,
};
use switchboard::request::ServerRequest;
use switchboard::tool_result::{ContentBlock, OutputLimits, ToolOutput};
use switchboard::wire::jsonrpc::message::Payload;
use testkit::{Script, ScriptedProgram, ScriptedServer};

use crate::support::{TIMEOUT, TestHost, is_connected, remote};

const LIST: &str = "ListMcpResources";
const READ: &str = "ReadMcpResource";
const RESULT: &str = "ReadMcpResult";

async fn test_host(servers: &[(&str, String)]) -> (TestHost, CallContext) {
    let test_host = TestHost::without_retries();
    test_host.apply(servers).await;
    test_host.settled().await;
    test_host.host.settled_pool().await;
    // No prompt and no bypass: read-only tools are allowed anyway.
    let context = CallContext {
        mode: PermissionMode::DontAsk,
        ..test_host.permissive_context(test_host.host.watch_pool())
    };
    (test_host, context)
}

async fn call(
    test_host: &TestHost,
    context: &CallContext,
    tool: &str,
    arguments: Json,
) -> ToolOutput {
    test_host.call_exposed(context, tool, arguments).await.expect("a result")
}

/// All texts of a result, one per line.
fn text(output: &ToolOutput) -> String {
    let texts = output.blocks.iter().map(|part| match part {
        ContentBlock::Text { text, .. } => text.as_str(),
        ContentBlock::Image { .. }
        | ContentBlock::Saved { .. }
        | ContentBlock::NotSaved { .. }
        | ContentBlock::Link { .. }
        | ContentBlock::Unknown { .. } => panic!("only text: {part:?}"),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The contents of a read resource, which are the same in the text and in the structured content.
fn contents(output: &ToolOutput) -> Json {
    assert!(!output.is_error, "{}", text(output));
    let in_text: Json = serde_json::from_str(&text(output)).expect("JSON");
    let structured = output.structured.as_ref().map(|it| it.decode::<Json>().expect("JSON"));
    assert_eq!(structured.as_ref(), Some(&in_text));
    in_text["contents"].clone()
}

async fn error_text(
    test_host: &TestHost,
    context: &CallContext,
    tool: &str,
    arguments: Json,
) -> String {
    let output = call(test_host, context, tool, arguments).await;
    assert!(output.is_error, "{}", text(&output));
    text(&output)
}

#[tokio::test]
async fn resources_of_all_servers_or_of_one_are_listed() {
    let (test_host, context) = test_host(&[
        ("one", ScriptedProgram::config_entry(&Script::legacy().resources(2))),
        ("two", ScriptedProgram::config_entry(&Script::modern().resources(1))),
        ("none", ScriptedProgram::config_entry(&Script::legacy())),
        ("gone", r#"{"command": "/there/is/no/such/program"}"#.to_owned()),
    ])
    .await;
    let resource = |server: &str, number: usize| {
        json!({
            "uri": format!("scripted://resource/{number}"), "server": server,
            "name": format!("resource_{number}"), "mimeType": "text/plain",
        })
    };
    let all = text(&call(&test_host, &context, LIST, json!({})).await);
    let (listed, missing) = all.split_once('\n').expect("two lines");
    let listed: Json = serde_json::from_str(listed).expect("JSON");
    assert_eq!(listed, json!([resource("one", 0), resource("one", 1), resource("two", 0)]));
    assert!(missing.starts_with("not connected: `gone` ("), "{missing}");
    let two = text(&call(&test_host, &context, LIST, json!({"server": "two"})).await);
    assert_eq!(serde_json::from_str::<Json>(&two).expect("JSON"), json!([resource("two", 0)]));
    let listing =
        |server: &'static str| error_text(&test_host, &context, LIST, json!({"server": server}));
    assert_eq!(listing("none").await, "`none` has no resources");
    assert_eq!(listing("unknown").await, "there is no server `unknown`");
    assert!(listing("gone").await.starts_with("`gone` is not connected: "));
    test_host.stop().await;
}

#[tokio::test]
async fn a_resource_is_text_in_the_result_or_a_file() {
    let (test_host, context) = test_host(&[
        ("s", ScriptedProgram::config_entry(&Script::legacy().resources(2))),
        ("none", ScriptedProgram::config_entry(&Script::legacy())),
        ("gone", r#"{"command": "/there/is/no/such/program"}"#.to_owned()),
    ])
    .await;
    let of = |server: &str, uri: &str| json!({"server": server, "uri": uri});
    let read = call(&test_host, &context, READ, of("s", "scripted://resource/1")).await;
    let content = json!({
        "uri": "scripted://resource/1", "mimeType": "text/plain", "text": "the text of resource 1",
    });
    assert_eq!(contents(&read), json!([content]));
    let saved = contents(&call(&test_host, &context, READ, of("s", "scripted://blob")).await);
    let saved = &saved[0];
    assert_eq!((&saved["uri"], &saved["bytes"]), (&json!("scripted://blob"), &json!(4)));
    let path = saved["blobSavedTo"].as_str().expect("a path");
    assert_eq!(std::fs::read(path).expect("it is there"), [0, 1, 2, 3]);
    let reading = |server: &'static str| error_text(&test_host, &context, READ, of(server, "a:b"));
    assert_eq!(reading("none").await, "`none` has no resources");
    assert_eq!(reading("unknown").await, "there is no server `unknown`");
    assert!(reading("gone").await.starts_with("`gone` is not connected: "));
    let refused = test_host.call_exposed(&context, READ, of("s", "a:b")).await;
    assert!(refused.expect_err("there is none").to_string().contains("no resource `a:b`"));
    let unfit = test_host.call_exposed(&context, READ, json!({"uri": "a:b"})).await;
    assert!(unfit.expect_err("of which server?").to_string().contains("do not fit"));
    test_host.stop().await;
}

#[tokio::test]
async fn a_rule_that_denies_a_server_hides_its_resources_too() {
    let script = Script::legacy().resources(1);
    let (test_host, context) = test_host(&[
        ("open", ScriptedProgram::config_entry(&script)),
        ("closed", ScriptedProgram::config_entry(&script)),
        ("partly", ScriptedProgram::config_entry(&script)),
    ])
    .await;
    let mut rules = PermissionRules::default();
    for rule in ["mcp__closed", "mcp__partly__echo"] {
        rules.add_for_session(PermissionEffect::Deny, ToolRule::parse(rule).expect("a rule"));
    }
    context.rules.replace(rules);
    let listed = text(&call(&test_host, &context, LIST, json!({})).await);
    assert!(listed.contains("open") && listed.contains("partly"), "{listed}");
    assert!(!listed.contains("closed"), "{listed}");
    let no_such = "there is no server `closed`";
    assert_eq!(error_text(&test_host, &context, LIST, json!({"server": "closed"})).await, no_such);
    let uri = json!({"server": "closed", "uri": "scripted://resource/0"});
    assert_eq!(error_text(&test_host, &context, READ, uri).await, no_such);
    test_host.stop().await;
}

fn reads(server: &ScriptedServer) -> u64 {
    server.counts()["methods"]["resources/read"].as_u64().unwrap_or_default()
}

#[tokio::test]
async fn a_resource_is_cached_for_its_ttl() {
    let lasting = ScriptedServer::http(Script { ttl_ms: 600_000, ..Script::modern().resources(2) });
    let passing = ScriptedServer::http(Script { ttl_ms: 0, ..Script::modern().resources(2) });
    let silent = ScriptedServer::http(Script::legacy().resources(2));
    let (test_host, context) = test_host(&[
        ("lasting", remote("http", lasting.url())),
        ("passing", remote("http", passing.url())),
        ("silent", remote("http", silent.url())),
    ])
    .await;
    let read = async |server: &str, number: usize| {
        let uri = format!("scripted://resource/{number}");
        let read = call(&test_host, &context, READ, json!({"server": server, "uri": uri})).await;
        assert_eq!(contents(&read)[0]["text"], format!("the text of resource {number}"));
    };
    for server in ["lasting", "passing", "silent"] {
        read(server, 0).await;
        read(server, 0).await;
        read(server, 1).await;
    }
    assert_eq!((reads(&lasting), reads(&passing), reads(&silent)), (2, 3, 3));
    // A new connection invalidates the cache.
    let before = test_host.host.snapshot().servers["lasting"].clone();
    test_host.host.reconnect("lasting").await.expect("there is one");
    test_host
        .view_when("lasting", |it| {
            is_connected(it) && !std::sync::Arc::ptr_eq(&it.catalogue, &before.catalogue)
        })
        .await;
    read("lasting", 0).await;
    assert_eq!(reads(&lasting), 3);
    test_host.stop().await;
}

#[tokio::test]
async fn a_change_notification_invalidates_the_cache() {
    let server = ScriptedServer::ws(Script { ttl_ms: 600_000, ..Script::modern().resources(1) });
    let (test_host, context) = test_host(&[("s", remote("ws", server.url()))]).await;
    let uri = "scripted://resource/0";
    let read = async || call(&test_host, &context, READ, json!({"server": "s", "uri": uri})).await;
    read().await;
    read().await;
    assert_eq!(reads(&server), 1);
    let mut listen = ServerRequest::idempotent("subscriptions/listen", TIMEOUT);
    let params = json!({"notifications": {"resourceSubscriptions": [uri]}});
    listen.params = Some(Payload::encode(&params).expect("JSON"));
    let touch_until_read = async {
        while reads(&server) < 2 {
            test_host.call("s", "touch", json!({"uri": uri})).await.expect("a notification");
            read().await;
        }
    };
    tokio::select! {
        answer = test_host.host.request("s", listen) => panic!("the subscription never ends: {answer:?}"),
        done = tokio::time::timeout(TIMEOUT, touch_until_read) => done.expect("the resource is read again"),
    }
    test_host.stop().await;
}

#[tokio::test]
async fn a_truncated_result_is_read_to_its_end() {
    let (test_host, mut context) =
        test_host(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    context.mode = PermissionMode::Bypass;
    context.limits = OutputLimits { characters: 10_000, ..OutputLimits::default() };
    let big = call(&test_host, &context, "mcp__s__big", json!({"bytes": 50_000})).await;
    let note = big.notes.iter().map(ToString::to_string).collect::<String>();
    assert!(note.contains(RESULT), "{note}");
    let id = big.full_text.expect("it is saved").id.to_string();
    let (mut rest, mut first) = (String::new(), 1);
    loop {
        let page = call(&test_host, &context, RESULT, json!({"id": id, "firstLine": first})).await;
        assert!(page.full_text.is_none() && page.notes.is_empty(), "{:?}", page.notes);
        let page = text(&page);
        let Some((text, more)) = page.split_once('\n') else {
            rest.push_str(&page);
            break;
        };
        rest.push_str(text);
        let next: u64 = more.rsplit(' ').next().and_then(|it| it.parse().ok()).expect("a number");
        assert!(next > first, "{more}");
        first = next;
    }
    assert_eq!(rest, "x".repeat(50_000));
    let past = call(&test_host, &context, RESULT, json!({"id": id, "firstLine": 999})).await;
    assert!(text(&past).starts_with("the result ends with line "), "{}", text(&past));
    for id in ["../../etc/passwd", "0123456789abcdef01234567"] {
        error_text(&test_host, &context, RESULT, json!({"id": id})).await;
    }
    test_host.stop().await;
}
