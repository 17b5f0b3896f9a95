//! The host's pool: it follows servers, filters and rules, and reports changes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard::config::permission::{PermissionEffect, PermissionRules, ToolRule};
use switchboard::pool::{PoolDiff, PoolWatch, Tool};
use testkit::{Script, ScriptedProgram, ScriptedServer};

use crate::support::{TIMEOUT, TestHost, remote, with_member};

fn names(tools: &[Arc<Tool>]) -> Vec<&str> {
    tools.iter().map(|it| it.exposed_name.as_str()).collect()
}

async fn next(watch: &mut PoolWatch) -> PoolDiff {
    tokio::time::timeout(TIMEOUT, watch.next())
        .await
        .expect("a change is reported")
        .expect("the host is there")
}

/// A server with two tools.
fn two_tools() -> String {
    let entry = ScriptedProgram::config_entry(&Script::legacy());
    with_member(&entry, "tools", json!({"allow": ["add", "echo", "added_0"]}))
}

#[tokio::test]
async fn a_watcher_gets_added_and_removed_tools() {
    let test_host = TestHost::new();
    let mut watch = test_host.host.watch_pool_changes();
    test_host.apply(&[("s", two_tools())]).await;
    assert_eq!(names(&next(&mut watch).await.added), ["mcp__s__add", "mcp__s__echo"]);
    test_host.call("s", "change_tools", json!({})).await.expect("it changes");
    let changes = next(&mut watch).await;
    assert_eq!(names(&changes.added), ["mcp__s__added_0"]);
    assert!(changes.removed.is_empty() && changes.changed.is_empty());
    // Unchanged tools are reused.
    assert!(watch.pool().find("mcp__s__add").is_some());
    test_host.apply(&[]).await;
    let changes = next(&mut watch).await;
    assert_eq!(names(&changes.removed), ["mcp__s__add", "mcp__s__added_0", "mcp__s__echo"]);
    let built_in = names(test_host.host.settled_pool().await.tools()).join(" ");
    assert_eq!(built_in, "ListMcpResources ReadMcpResource ReadMcpResult");
    test_host.stop().await;
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn rules_hide_tools_from_the_moment_they_are_set() {
    let test_host = TestHost::new();
    test_host.apply(&[("s", two_tools())]).await;
    test_host.settled().await;
    let before = test_host.host.settled_pool().await;
    let echo = before.find("mcp__s__echo").expect("it is there").clone();
    let mut rules = PermissionRules::default();
    rules.add_for_session(PermissionEffect::Deny, ToolRule::parse("mcp__s__add").expect("a rule"));
    test_host.host.set_rules(rules).await;
    let after = test_host.host.settled_pool().await;
    assert!(after.find("mcp__s__add").is_none());
    assert!(Arc::ptr_eq(after.find("mcp__s__echo").expect("it is there"), &echo));
    test_host.host.set_rules(PermissionRules::default()).await;
    assert!(test_host.host.settled_pool().await.find("mcp__s__add").is_some());
    test_host.stop().await;
}

#[tokio::test]
async fn the_pool_is_rebuilt_only_if_tools_changed() {
    let server = ScriptedServer::http(Script::legacy().resources(1));
    let test_host = TestHost::new();
    test_host.apply(&[("s", remote("http", server.url()))]).await;
    test_host.settled().await;
    let before = test_host.host.settled_pool().await;
    // Snapshots change while this server fails; its name counts, and it has no tools.
    let missing_program = (r#"{"command": "/there/is/no/such/program"}"#).to_owned();
    test_host.apply(&[("s", remote("http", server.url())), ("t", missing_program)]).await;
    test_host.settled().await;
    let after = test_host.host.settled_pool().await;
    assert!(after.revision() <= before.revision() + 1, "{}", after.revision());
    test_host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn many_tools_do_not_block_the_host() {
    let test_host = TestHost::new();
    test_host
        .apply(&[
            ("large", ScriptedProgram::config_entry(&Script::legacy().tools(5000))),
            ("small", ScriptedProgram::config_entry(&Script::legacy())),
        ])
        .await;
    test_host.settled().await;
    let ping = test_host.host.ping("small", Duration::from_secs(5)).await;
    assert!(ping.is_ok(), "{ping:?}");
    let pool = test_host.host.settled_pool().await;
    assert!(pool.find("mcp__large__tool_4999").is_some());
    assert!(pool.is_deferred(pool.find("mcp__small__echo").expect("it is there")));
    test_host.stop().await;
}
