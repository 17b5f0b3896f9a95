//! Prompts: grants that last for a session, and elicitations that a server withdraws.

use std::sync::Arc;

use serde_json::json;
use switchboard::config::permission::{PermissionMode, RuleCoverage};
use switchboard::elicitation::{
    ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor,
};
use switchboard::permission::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use switchboard::{CallContext, ToolCallError};
use testkit::{Script, ScriptedProgram};
use tokio::sync::mpsc;

use crate::support::{TIMEOUT, TestHost, is_connected};

/// Grants every request with one scope, and counts the requests.
struct GrantingPrompt {
    scope: fn(&PermissionRequest<'_>) -> GrantScope,
    requests: mpsc::UnboundedSender<String>,
}

impl PermissionPrompt for GrantingPrompt {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        let _receiver_dropped = self.requests.send(request.tool.name.clone());
        let scope = (self.scope)(request);
        Box::pin(async { PermissionDecision::Allow { decided_by: "a test".to_owned(), scope } })
    }
}

async fn prompt_count(scope: fn(&PermissionRequest<'_>) -> GrantScope) -> usize {
    let test_host = TestHost::new();
    test_host.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    test_host.host.settled().await;
    let (requests, mut questions) = mpsc::unbounded_channel();
    let prompt = Arc::new(GrantingPrompt { scope, requests });
    let context = CallContext {
        mode: PermissionMode::Default,
        prompt,
        ..test_host.permissive_context(test_host.host.watch_pool())
    };
    for _ in 0..3 {
        let result = test_host.call_exposed(&context, "mcp__s__echo", json!({"text": "x"})).await;
        assert_eq!(result.expect("allowed").text(), "x");
    }
    test_host.stop().await;
    let mut count = 0;
    while questions.try_recv().is_ok() {
        count += 1;
    }
    count
}

#[tokio::test]
async fn a_grant_lasts_for_its_scope() {
    fn rule(request: &PermissionRequest<'_>) -> switchboard::config::permission::ToolRule {
        let of_tool = request.suggestions.iter().find(|it| it.coverage == RuleCoverage::Tool);
        of_tool.expect("a suggestion").rule.clone()
    }
    assert_eq!(prompt_count(|_| GrantScope::Once).await, 3);
    assert_eq!(prompt_count(|request| GrantScope::Session(rule(request))).await, 1);
    assert_eq!(prompt_count(|request| GrantScope::Always(rule(request))).await, 1);
}

#[tokio::test]
async fn a_context_without_a_prompt_denies_untrusted_servers() {
    let test_host = TestHost::new();
    test_host.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    test_host.host.settled().await;
    let paths = switchboard::sources::Paths::in_dir(test_host.folder.path());
    let context = CallContext::new(test_host.host.watch_pool(), &paths).expect("a call context");
    let refused = test_host.call_exposed(&context, "mcp__s__echo", json!({"text": "x"})).await;
    assert!(matches!(refused, Err(ToolCallError::Denied { .. })), "{refused:?}");
    let context = context.with_trusted_server("s");
    let result = test_host.call_exposed(&context, "mcp__s__echo", json!({"text": "x"})).await;
    assert_eq!(result.expect("trusted").text(), "x");
    test_host.stop().await;
}

/// Never answers, and reports when it is asked and when the elicitation is dropped.
struct PendingElicitor(mpsc::UnboundedSender<&'static str>);

struct DropNotice(mpsc::UnboundedSender<&'static str>);

impl Drop for DropNotice {
    fn drop(&mut self) {
        let _receiver_dropped = self.0.send("dropped");
    }
}

impl Elicitor for PendingElicitor {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> ElicitFuture<'a> {
        assert!(matches!(elicitation.kind, ElicitationKind::Form(_)));
        let _receiver_dropped = self.0.send("asked");
        let drop_notice = DropNotice(self.0.clone());
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(drop_notice);
            ElicitResult::Cancel(String::new())
        })
    }
}

#[tokio::test]
async fn an_elicitation_is_dropped_when_the_connection_ends() {
    let (sender, mut events) = mpsc::unbounded_channel();
    let test_host = TestHost::with(|options| options.elicitor = Arc::new(PendingElicitor(sender)));
    test_host.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    test_host.view_when("s", is_connected).await;
    test_host.host.settled().await;
    let context = test_host.permissive_context(test_host.host.watch_pool());
    let call = test_host.call_exposed(&context, "mcp__s__ask", json!({}));
    tokio::select! {
        answer = call => panic!("no answer is expected: {answer:?}"),
        requests = events.recv() => assert_eq!(requests, Some("asked")),
    }
    test_host.stop().await;
    let drop_notice = tokio::time::timeout(TIMEOUT, events.recv()).await;
    assert_eq!(drop_notice.expect("soon"), Some("dropped"));
}
