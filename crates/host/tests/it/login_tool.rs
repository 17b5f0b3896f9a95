//! The placeholder tool of a server that requires a login: before, during and after the login.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use switchboard::config::permission::{
    PermissionEffect, PermissionMode, PermissionRules, ToolRule,
};
use switchboard::config::scope::Scope;
use switchboard::connection::{RetryPolicy, Status};
use switchboard::permission::ActiveRules;
use switchboard::pool::Pool;
use switchboard::tool_result::{ContentBlock, ToolOutput};
use switchboard::{CallContext, ToolCallError};
use testkit::authorization_server::{AuthorizationConfig, AuthorizationServer, Consent};
use url::Url;

use crate::browser;
use crate::support::{TIMEOUT, TestHost, cause, is_connected, remote, with_member};

const TOOL: &str = "mcp__s__authenticate";

/// A host whose only server requires a login.
async fn auth_required_host(authorization_server: &AuthorizationServer) -> TestHost {
    let test_host = TestHost::new();
    test_host.apply(&[("s", remote("http", &authorization_server.url()))]).await;
    test_host.view_when("s", |it| matches!(it.status, Status::NeedsAuth(_))).await;
    test_host.host.settled_pool().await;
    test_host
}

fn server_tools(pool: &Pool) -> Vec<&str> {
    let all = pool.tools().iter().map(|it| it.exposed_name.as_str());
    all.filter(|it| it.starts_with("mcp__")).collect()
}

fn context(test_host: &TestHost) -> CallContext {
    // No rule allows anything, and no user is present.
    CallContext {
        mode: PermissionMode::Default,
        ..test_host.permissive_context(test_host.host.watch_pool())
    }
}

fn text(output: &ToolOutput) -> String {
    let texts = output.blocks.iter().filter_map(|part| match part {
        ContentBlock::Text { text, .. } => Some(text.as_str()),
        ContentBlock::Image { .. }
        | ContentBlock::Saved { .. }
        | ContentBlock::NotSaved { .. }
        | ContentBlock::Link { .. }
        | ContentBlock::Unknown { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

async fn call_login_tool(test_host: &TestHost, arguments: Json) -> ToolOutput {
    test_host.call_exposed(&context(test_host), TOOL, arguments).await.expect("a result")
}

/// The login URL in a result.
fn login_url(answer: &ToolOutput) -> String {
    assert!(!answer.is_error, "{}", text(answer));
    let text = text(answer);
    let line = text.lines().find(|line| line.starts_with("http"));
    let url = line.unwrap_or_else(|| panic!("the result has a URL: {text}")).to_owned();
    let structured = answer.structured.as_ref().and_then(|it| it.decode::<Json>().ok());
    assert_eq!(structured, Some(json!({"status": "auth_url", "authUrl": url})));
    url
}

/// The address of the host's callback listener.
fn listener(login_url: &str) -> String {
    let url = Url::parse(login_url).expect("a URL");
    let (_, redirect) = url.query_pairs().find(|(name, _)| name == "redirect_uri").expect("named");
    redirect.into_owned()
}

#[tokio::test]
async fn a_placeholder_replaces_the_servers_tools_until_the_login() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = auth_required_host(&authorization_server).await;
    let pool = test_host.host.pool();
    assert_eq!(server_tools(&pool), [TOOL]);
    let tool = pool.find(TOOL).expect("it is there");
    assert!(!tool.annotations.read_only && !tool.is_built_in());
    let mut watch = test_host.host.watch_pool_changes();
    let login_url = login_url(&call_login_tool(&test_host, json!({})).await);
    assert!(login_url.starts_with(&authorization_server.issuer()), "{login_url}");
    assert_eq!(server_tools(&test_host.host.pool()), [TOOL]);
    let back = browser::open(&login_url).await;
    assert_eq!(back.status, 200, "{}", back.text);
    test_host.view_when("s", is_connected).await;
    let changes = tokio::time::timeout(TIMEOUT, watch.next()).await.expect("in time");
    let changes = changes.expect("the host is there");
    // In one step: the pool always has either the placeholder or the server's tools.
    assert!(changes.added.iter().any(|it| it.exposed_name == "mcp__s__echo"), "{changes:?}");
    assert_eq!(changes.removed.iter().map(|it| &*it.exposed_name).collect::<Vec<_>>(), [TOOL]);
    assert!(test_host.host.settled_pool().await.find(TOOL).is_none());
    test_host.stop().await;
}

#[tokio::test]
async fn concurrent_calls_share_one_login() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = auth_required_host(&authorization_server).await;
    let (one, other) = tokio::join!(
        call_login_tool(&test_host, json!({})),
        call_login_tool(&test_host, json!({}))
    );
    assert_eq!(login_url(&one), login_url(&other));
    assert_eq!(login_url(&call_login_tool(&test_host, json!({})).await), login_url(&one));
    assert_eq!(authorization_server.counters().registrations, 1);
    test_host.stop().await;
}

#[tokio::test]
async fn the_callback_of_a_remote_browser_can_be_pasted() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = auth_required_host(&authorization_server).await;
    let unexpected =
        call_login_tool(&test_host, json!({"callback_url": "http://127.0.0.1:1/?code=a"})).await;
    assert!(unexpected.is_error, "{unexpected:?}");
    let login_url = login_url(&call_login_tool(&test_host, json!({})).await);
    let foreign = json!({"callback_url": "http://127.0.0.1:1/callback?code=a&state=another"});
    let refused = call_login_tool(&test_host, foreign).await;
    assert!(refused.is_error && text(&refused).contains(&login_url), "{}", text(&refused));
    let back = browser::redirect_target(&login_url).await;
    let answer = call_login_tool(&test_host, json!({"callback_url": back})).await;
    assert!(!answer.is_error, "{}", text(&answer));
    assert!(text(&answer).contains("It is connected"), "{}", text(&answer));
    assert!(test_host.host.settled_pool().await.find("mcp__s__echo").is_some());
    test_host.stop().await;
}

#[tokio::test]
async fn a_denied_login_is_reported_with_the_next_url() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig {
        consent: Consent::Denies,
        ..AuthorizationConfig::compliant()
    });
    let test_host = auth_required_host(&authorization_server).await;
    let first = login_url(&call_login_tool(&test_host, json!({})).await);
    browser::open(&first).await;
    authorization_server.reconfigure(|it| it.consent = Consent::Approves);
    let answer = call_login_tool(&test_host, json!({})).await;
    assert!(text(&answer).contains("The previous login failed"), "{}", text(&answer));
    assert_ne!(login_url(&answer), first);
    assert_eq!(server_tools(&test_host.host.pool()), [TOOL]);
    browser::open(&login_url(&answer)).await;
    test_host.view_when("s", is_connected).await;
    test_host.stop().await;
}

#[tokio::test]
async fn stopping_during_a_login_leaves_no_listener() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = auth_required_host(&authorization_server).await;
    let listener = listener(&login_url(&call_login_tool(&test_host, json!({})).await));
    assert_eq!(
        browser::get(&listener.replace("/callback", "/")).await.expect("it is there").status,
        404
    );
    let tasks = tokio::runtime::Handle::current();
    test_host.stop().await;
    assert!(browser::get(&listener).await.is_err());
    assert_eq!(tasks.metrics().num_alive_tasks(), 0);
}

#[tokio::test]
async fn removing_a_server_ends_its_login() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = auth_required_host(&authorization_server).await;
    let listener = listener(&login_url(&call_login_tool(&test_host, json!({})).await));
    test_host.apply(&[]).await;
    tokio::time::timeout(TIMEOUT, async {
        while browser::get(&listener.replace("/callback", "/")).await.is_ok() {}
    })
    .await
    .expect("it closes");
    test_host.stop().await;
}

#[tokio::test]
async fn a_deny_rule_hides_the_placeholder_and_denies_it() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = auth_required_host(&authorization_server).await;
    let mut rules = PermissionRules::default();
    rules.add_for_session(PermissionEffect::Deny, ToolRule::parse("mcp__s").expect("a rule"));
    let refusing = CallContext { rules: ActiveRules::new(rules.clone()), ..context(&test_host) };
    let refused = test_host.call_exposed(&refusing, TOOL, json!({})).await;
    assert!(matches!(refused, Err(ToolCallError::Denied { .. })), "{refused:?}");
    test_host.host.set_rules(rules).await;
    assert_eq!(server_tools(&*test_host.host.settled_pool().await), [""; 0]);
    assert_eq!(authorization_server.counters().registrations, 0);
    test_host.stop().await;
}

#[tokio::test]
async fn servers_without_a_login_have_no_placeholder() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let url = authorization_server.url();
    let http = remote("http", &url);
    let servers = [
        ("fixed", with_member(&http, "headers", json!({"Authorization": "Bearer wrong"}))),
        ("machine", with_member(&http, "oauth", json!({"grant": "client_credentials"}))),
        ("filtered", with_member(&http, "tools", json!({"allow": ["echo"]}))),
    ];
    let test_host = TestHost::new();
    test_host.apply(&servers).await;
    test_host.settled().await;
    // The filter applies only to the server's own tools.
    assert_eq!(
        server_tools(&*test_host.host.settled_pool().await),
        ["mcp__filtered__authenticate"]
    );
    test_host.stop().await;
    // A short-lived host offers no login, because it would not be running when the browser returns.
    let test_host = TestHost::with(|options| options.retry_policy = RetryPolicy::NoRetry);
    test_host.apply(&servers).await;
    test_host.settled().await;
    assert_eq!(server_tools(&*test_host.host.settled_pool().await), [""; 0]);
    test_host.stop().await;
}

#[tokio::test]
async fn a_connector_refers_to_its_account() {
    let authorization_server = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = TestHost::new();
    let connector = remote("connector-proxy", &authorization_server.url());
    test_host.apply_in(Scope::Connectors, &[("claude.ai A  b", connector)]).await;
    let view = test_host.view("claude.ai A  b").await;
    assert!(matches!(view.status, Status::NeedsAuth(_)), "{view:?}");
    assert!(cause(&view).evidence.iter().any(|it| it.text().contains("no connector account")));
    let pool: Arc<Pool> = test_host.host.settled_pool().await;
    assert_eq!(server_tools(&pool), ["mcp__claude_ai_A_b__authenticate"]);
    let tool = "mcp__claude_ai_A_b__authenticate";
    let answer =
        test_host.call_exposed(&context(&test_host), tool, json!({})).await.expect("a result");
    assert!(text(&answer).contains("use `/mcp`"), "{}", text(&answer));
    test_host.stop().await;
}
