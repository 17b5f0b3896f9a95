//! Who answers what: permission that holds for a session, and questions that a server takes back.

use std::sync::Arc;

use serde_json::json;
use switchboard::calling::{
    CallContext, DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt,
    PermissionRequest, ToolCallError,
};
use switchboard::config::permission::{PermissionMode, RuleCoverage};
use switchboard::inquiry::{ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor};
use testkit::{Script, ScriptedProgram};
use tokio::sync::mpsc;

use crate::support::{Bench, PATIENCE, is_connected};

/// Says yes in one way, and counts how often it was asked.
struct Says {
    holds: fn(&PermissionRequest<'_>) -> GrantScope,
    asked: mpsc::UnboundedSender<String>,
}

impl PermissionPrompt for Says {
    fn decide<'a>(&'a self, ask: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        let _nobody_counts = self.asked.send(ask.tool.name.clone());
        let holds = (self.holds)(ask);
        Box::pin(async {
            PermissionDecision::Allow { decided_by: "a test".to_owned(), scope: holds }
        })
    }
}

async fn asked_how_often(holds: fn(&PermissionRequest<'_>) -> GrantScope) -> usize {
    let bench = Bench::new();
    bench.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    bench.host.settled().await;
    let (asked, mut questions) = mpsc::unbounded_channel();
    let consent = Arc::new(Says { holds, asked });
    let desk = CallContext {
        mode: PermissionMode::Default,
        prompt: consent,
        ..bench.permissive_context(bench.host.watch_pool())
    };
    for _ in 0..3 {
        let said = bench.call_exposed(&desk, "mcp__s__echo", json!({"text": "x"})).await;
        assert_eq!(said.expect("allowed").text(), "x");
    }
    bench.stop().await;
    let mut count = 0;
    while questions.try_recv().is_ok() {
        count += 1;
    }
    count
}

#[tokio::test]
async fn a_yes_holds_for_as_long_as_it_was_said() {
    fn rule(ask: &PermissionRequest<'_>) -> switchboard::config::permission::ToolRule {
        let of_tool = ask.suggestions.iter().find(|it| it.coverage == RuleCoverage::Tool);
        of_tool.expect("a suggestion").rule.clone()
    }
    assert_eq!(asked_how_often(|_| GrantScope::Once).await, 3);
    assert_eq!(asked_how_often(|ask| GrantScope::Session(rule(ask))).await, 1);
    assert_eq!(asked_how_often(|ask| GrantScope::Always(rule(ask))).await, 1);
}

#[tokio::test]
async fn a_desk_without_anybody_refuses_what_nobody_trusts() {
    let bench = Bench::new();
    bench.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    bench.host.settled().await;
    let places = switchboard::places::Paths::in_dir(bench.folder.path());
    let desk = CallContext::new(&bench.host, &places).expect("a desk");
    let refused = bench.call_exposed(&desk, "mcp__s__echo", json!({"text": "x"})).await;
    assert!(matches!(refused, Err(ToolCallError::Denied { .. })), "{refused:?}");
    let desk = desk.with_trusted_server("s");
    let said = bench.call_exposed(&desk, "mcp__s__echo", json!({"text": "x"})).await;
    assert_eq!(said.expect("trusted").text(), "x");
    bench.stop().await;
}

/// Never answers, and tells when it is asked and when it is left in peace.
struct Thinks(mpsc::UnboundedSender<&'static str>);

struct Peace(mpsc::UnboundedSender<&'static str>);

impl Drop for Peace {
    fn drop(&mut self) {
        let _nobody_listens = self.0.send("left in peace");
    }
}

impl Elicitor for Thinks {
    fn elicit<'a>(&'a self, inquiry: &'a Elicitation) -> ElicitFuture<'a> {
        assert!(matches!(inquiry.kind, ElicitationKind::Form(_)));
        let _nobody_listens = self.0.send("asked");
        let peace = Peace(self.0.clone());
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(peace);
            ElicitResult::Cancel(String::new())
        })
    }
}

#[tokio::test]
async fn whoever_is_asked_is_left_in_peace_when_the_connection_ends() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let bench = Bench::with(|options| options.elicitor = Arc::new(Thinks(tell)));
    bench.apply(&[("s", ScriptedProgram::config_entry(&Script::legacy()))]).await;
    bench.view_when("s", is_connected).await;
    bench.host.settled().await;
    let desk = bench.permissive_context(bench.host.watch_pool());
    let call = bench.call_exposed(&desk, "mcp__s__ask", json!({}));
    tokio::select! {
        answer = call => panic!("nobody answered: {answer:?}"),
        asked = told.recv() => assert_eq!(asked, Some("asked")),
    }
    bench.stop().await;
    let peace = tokio::time::timeout(PATIENCE, told.recv()).await;
    assert_eq!(peace.expect("soon"), Some("left in peace"));
}
