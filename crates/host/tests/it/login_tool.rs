//! The tool that stands for a server which wants a login: before, while and after somebody signs in.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use switchboard::call::pipeline::{CallContext, ToolCallError};
use switchboard::config::permission::{
    PermissionEffect, PermissionMode, PermissionRules, ToolRule,
};
use switchboard::config::scope::Scope;
use switchboard::connection::Status;
use switchboard::connection::state::RetryPolicy;
use switchboard::permission::active_rules::ActiveRules;
use switchboard::pool::Pool;
use switchboard::tool_result::{ContentBlock, ToolOutput};
use testkit::authorization_server::{AuthorizationConfig, AuthorizationServer, Consent};
use url::Url;

use crate::browser;
use crate::support::{TIMEOUT, TestHost, cause, is_connected, remote, with_member};

const TOOL: &str = "mcp__s__authenticate";

/// A host whose one server wants a login.
async fn auth_required_host(authority: &AuthorizationServer) -> TestHost {
    let test_host = TestHost::new();
    test_host.apply(&[("s", remote("http", &authority.url()))]).await;
    test_host.view_when("s", |it| matches!(it.status, Status::NeedsAuth(_))).await;
    test_host.host.settled_pool().await;
    test_host
}

fn server_tools(pool: &Pool) -> Vec<&str> {
    let all = pool.tools().iter().map(|it| it.exposed_name.as_str());
    all.filter(|it| it.starts_with("mcp__")).collect()
}

fn context(test_host: &TestHost) -> CallContext {
    // Nothing is allowed beforehand, and nobody is there to ask.
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
    test_host.call_exposed(&context(test_host), TOOL, arguments).await.expect("it answers")
}

/// The page in an answer.
fn page(answer: &ToolOutput) -> String {
    assert!(!answer.is_error, "{}", text(answer));
    let text = text(answer);
    let line = text.lines().find(|line| line.starts_with("http"));
    line.unwrap_or_else(|| panic!("a page is named: {text}")).to_owned()
}

/// Where the browser would come back to.
fn listener(page: &str) -> String {
    let url = Url::parse(page).expect("a URL");
    let (_, redirect) = url.query_pairs().find(|(name, _)| name == "redirect_uri").expect("named");
    redirect.into_owned()
}

#[tokio::test]
async fn one_tool_stands_for_the_server_until_somebody_signed_in() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = auth_required_host(&authority).await;
    let pool = test_host.host.pool();
    assert_eq!(server_tools(&pool), [TOOL]);
    let tool = pool.find(TOOL).expect("it is there");
    assert!(!tool.annotations.read_only && !tool.is_built_in());
    let mut watch = test_host.host.watch_pool_changes();
    let page = page(&call_login_tool(&test_host, json!({})).await);
    assert!(page.starts_with(&authority.issuer()), "{page}");
    assert_eq!(server_tools(&test_host.host.pool()), [TOOL]);
    let back = browser::open(&page).await;
    assert_eq!(back.status, 200, "{}", back.text);
    test_host.view_when("s", is_connected).await;
    let changes = tokio::time::timeout(TIMEOUT, watch.next()).await.expect("in time");
    let changes = changes.expect("the host is there");
    // In one step: at no time there was neither.
    assert!(changes.added.iter().any(|it| it.exposed_name == "mcp__s__echo"), "{changes:?}");
    assert_eq!(changes.removed.iter().map(|it| &*it.exposed_name).collect::<Vec<_>>(), [TOOL]);
    assert!(test_host.host.settled_pool().await.find(TOOL).is_none());
    test_host.stop().await;
}

#[tokio::test]
async fn two_calls_at_once_are_one_login_with_one_page() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = auth_required_host(&authority).await;
    let (one, other) = tokio::join!(
        call_login_tool(&test_host, json!({})),
        call_login_tool(&test_host, json!({}))
    );
    assert_eq!(page(&one), page(&other));
    assert_eq!(page(&call_login_tool(&test_host, json!({})).await), page(&one));
    assert_eq!(authority.counters().registrations, 1);
    test_host.stop().await;
}

#[tokio::test]
async fn what_a_browser_elsewhere_ended_at_is_pasted() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = auth_required_host(&authority).await;
    let unexpected =
        call_login_tool(&test_host, json!({"callback_url": "http://127.0.0.1:1/?code=a"})).await;
    assert!(unexpected.is_error, "{unexpected:?}");
    let page = page(&call_login_tool(&test_host, json!({})).await);
    let foreign = json!({"callback_url": "http://127.0.0.1:1/callback?code=a&state=another"});
    let refused = call_login_tool(&test_host, foreign).await;
    assert!(refused.is_error && text(&refused).contains(&page), "{}", text(&refused));
    let back = browser::sent_back(&page).await;
    let answer = call_login_tool(&test_host, json!({"callback_url": back})).await;
    assert!(!answer.is_error, "{}", text(&answer));
    assert!(text(&answer).contains("it is connected"), "{}", text(&answer));
    assert!(test_host.host.settled_pool().await.find("mcp__s__echo").is_some());
    test_host.stop().await;
}

#[tokio::test]
async fn somebody_who_says_no_is_told_of_with_the_next_page() {
    let authority = AuthorizationServer::start(AuthorizationConfig {
        consent: Consent::Denies,
        ..AuthorizationConfig::compliant()
    });
    let test_host = auth_required_host(&authority).await;
    let first = page(&call_login_tool(&test_host, json!({})).await);
    browser::open(&first).await;
    authority.reconfigure(|it| it.consent = Consent::Approves);
    let answer = call_login_tool(&test_host, json!({})).await;
    assert!(text(&answer).contains("came to nothing"), "{}", text(&answer));
    assert_ne!(page(&answer), first);
    assert_eq!(server_tools(&test_host.host.pool()), [TOOL]);
    browser::open(&page(&answer)).await;
    test_host.view_when("s", is_connected).await;
    test_host.stop().await;
}

#[tokio::test]
async fn stopping_while_somebody_is_waited_for_leaves_no_listener() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = auth_required_host(&authority).await;
    let listener = listener(&page(&call_login_tool(&test_host, json!({})).await));
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
async fn a_server_that_is_not_wanted_any_more_takes_its_login_along() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = auth_required_host(&authority).await;
    let listener = listener(&page(&call_login_tool(&test_host, json!({})).await));
    test_host.apply(&[]).await;
    tokio::time::timeout(TIMEOUT, async {
        while browser::get(&listener.replace("/callback", "/")).await.is_ok() {}
    })
    .await
    .expect("it closes");
    test_host.stop().await;
}

#[tokio::test]
async fn a_rule_against_the_server_hides_the_tool_and_refuses_it() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = auth_required_host(&authority).await;
    let mut rules = PermissionRules::default();
    rules.add_for_session(PermissionEffect::Deny, ToolRule::parse("mcp__s").expect("a rule"));
    let refusing = CallContext { rules: ActiveRules::new(rules.clone()), ..context(&test_host) };
    let refused = test_host.call_exposed(&refusing, TOOL, json!({})).await;
    assert!(matches!(refused, Err(ToolCallError::Denied { .. })), "{refused:?}");
    test_host.host.set_rules(rules).await;
    assert_eq!(server_tools(&*test_host.host.settled_pool().await), [""; 0]);
    assert_eq!(authority.counters().registrations, 0);
    test_host.stop().await;
}

#[tokio::test]
async fn what_nobody_can_sign_in_to_has_no_such_tool() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant());
    let url = authority.url();
    let http = remote("http", &url);
    let servers = [
        ("fixed", with_member(&http, "headers", json!({"Authorization": "Bearer wrong"}))),
        ("machine", with_member(&http, "oauth", json!({"grant": "client_credentials"}))),
        ("filtered", with_member(&http, "tools", json!({"allow": ["echo"]}))),
    ];
    let test_host = TestHost::new();
    test_host.apply(&servers).await;
    test_host.settled().await;
    // A filter is about the server's own tools.
    assert_eq!(
        server_tools(&*test_host.host.settled_pool().await),
        ["mcp__filtered__authenticate"]
    );
    test_host.stop().await;
    // Where nobody stays until the browser comes back, nobody is sent away.
    let test_host = TestHost::with(|options| options.retry_policy = RetryPolicy::NoRetry);
    test_host.apply(&servers).await;
    test_host.settled().await;
    assert_eq!(server_tools(&*test_host.host.settled_pool().await), [""; 0]);
    test_host.stop().await;
}

#[tokio::test]
async fn a_connector_is_left_to_its_account() {
    let authority = AuthorizationServer::start(AuthorizationConfig::compliant());
    let test_host = TestHost::new();
    let connector = remote("connector-proxy", &authority.url());
    test_host.apply_in(Scope::Connectors, &[("claude.ai A  b", connector)]).await;
    let view = test_host.view("claude.ai A  b").await;
    assert!(matches!(view.status, Status::NeedsAuth(_)), "{view:?}");
    assert!(cause(&view).evidence.iter().any(|it| it.text().contains("no connector account")));
    let pool: Arc<Pool> = test_host.host.settled_pool().await;
    assert_eq!(server_tools(&pool), ["mcp__claude_ai_A_b__authenticate"]);
    let tool = "mcp__claude_ai_A_b__authenticate";
    let answer =
        test_host.call_exposed(&context(&test_host), tool, json!({})).await.expect("it answers");
    assert!(text(&answer).contains("use `/mcp`"), "{}", text(&answer));
    test_host.stop().await;
}
