//! Who answers what: permission that holds for a session, and questions that a server takes back.

use std::sync::Arc;

use serde_json::json;
use switchboard::call::pipeline::{
    CallContext, DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt,
    PermissionRequest, ToolCallError,
};
use switchboard::config::permission::{PermissionMode, RuleCoverage};
use switchboard::elicitation::elicitor::{
    ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor,
};
use testkit::{Script, ScriptedProgram};
use tokio::sync::mpsc;

use crate::support::{TIMEOUT, TestHost, is_connected};

/// Says yes in one way, and counts how often it was asked.
struct GrantingPrompt {
    scope: fn(&PermissionRequest<'_>) -> GrantScope,
    asked: mpsc::UnboundedSender<String>,
}

impl PermissionPrompt for GrantingPrompt {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        let _nobody_counts = self.asked.send(request.tool.name.clone());
        let scope = (self.scope)(request);
        Box::pin(async { PermissionDecision::Allow { decided_by: "a test".to_owned(), scope } })
    }
}

async fn prompt_count(scope: fn(&PermissionRequest<'_>) -> GrantScope) -> usize {
    let test_host = TestHost::new();
    test_host.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    test_host.host.settled().await;
    let (asked, mut questions) = mpsc::unbounded_channel();
    let consent = Arc::new(GrantingPrompt { scope, asked });
    let context = CallContext {
        mode: PermissionMode::Default,
        prompt: consent,
        ..test_host.permissive_context(test_host.host.watch_pool())
    };
    for _ in 0..3 {
        let said = test_host.call_exposed(&context, "mcp__s__echo", json!({"text": "x"})).await;
        assert_eq!(said.expect("allowed").text(), "x");
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
    let paths = switchboard::sources::paths::Paths::in_dir(test_host.folder.path());
    let context = CallContext::new(test_host.host.watch_pool(), &paths).expect("a call context");
    let refused = test_host.call_exposed(&context, "mcp__s__echo", json!({"text": "x"})).await;
    assert!(matches!(refused, Err(ToolCallError::Denied { .. })), "{refused:?}");
    let context = context.with_trusted_server("s");
    let said = test_host.call_exposed(&context, "mcp__s__echo", json!({"text": "x"})).await;
    assert_eq!(said.expect("trusted").text(), "x");
    test_host.stop().await;
}

/// Never answers, and tells when it is asked and when it is left in peace.
struct PendingElicitor(mpsc::UnboundedSender<&'static str>);

struct DropNotice(mpsc::UnboundedSender<&'static str>);

impl Drop for DropNotice {
    fn drop(&mut self) {
        let _nobody_listens = self.0.send("left in peace");
    }
}

impl Elicitor for PendingElicitor {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> ElicitFuture<'a> {
        assert!(matches!(elicitation.kind, ElicitationKind::Form(_)));
        let _nobody_listens = self.0.send("asked");
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
    let (tell, mut told) = mpsc::unbounded_channel();
    let test_host = TestHost::with(|options| options.elicitor = Arc::new(PendingElicitor(tell)));
    test_host.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    test_host.view_when("s", is_connected).await;
    test_host.host.settled().await;
    let context = test_host.permissive_context(test_host.host.watch_pool());
    let call = test_host.call_exposed(&context, "mcp__s__ask", json!({}));
    tokio::select! {
        answer = call => panic!("nobody answered: {answer:?}"),
        asked = told.recv() => assert_eq!(asked, Some("asked")),
    }
    test_host.stop().await;
    let drop_notice = tokio::time::timeout(TIMEOUT, told.recv()).await;
    assert_eq!(drop_notice.expect("soon"), Some("left in peace"));
}
