//! Who answers what: permission that holds for a session, and questions that a server takes back.

use std::sync::Arc;

use serde_json::json;
use switchboard::calling::{
    CallFailure, Consent, Consented, Consenting, Desk, Holds, PermissionQuestion,
};
use switchboard::config::permission::{Breadth, Mode};
use switchboard::inquiry::{Ask, Asking, Inquiry, Reply, Subject};
use testkit::{Script, Scripted};
use tokio::sync::mpsc;

use crate::support::{Bench, PATIENCE, is_connected};

/// Says yes in one way, and counts how often it was asked.
struct Says {
    holds: fn(&PermissionQuestion<'_>) -> Holds,
    asked: mpsc::UnboundedSender<String>,
}

impl Consent for Says {
    fn consent<'a>(&'a self, ask: &'a PermissionQuestion<'a>) -> Consenting<'a> {
        let _nobody_counts = self.asked.send(ask.tool.name.clone());
        let holds = (self.holds)(ask);
        Box::pin(async { Consented::Yes { who: "a test".to_owned(), holds } })
    }
}

async fn asked_how_often(holds: fn(&PermissionQuestion<'_>) -> Holds) -> usize {
    let bench = Bench::new();
    bench.apply(&[("s", Scripted::entry(&Script::legacy()))]).await;
    bench.host.settled().await;
    let (asked, mut questions) = mpsc::unbounded_channel();
    let consent = Arc::new(Says { holds, asked });
    let desk = Desk { mode: Mode::Default, consent, ..bench.desk(bench.host.watch_pool()) };
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
    fn rule(ask: &PermissionQuestion<'_>) -> switchboard::config::permission::ToolRule {
        let of_tool = ask.suggestions.iter().find(|it| it.breadth == Breadth::Tool);
        of_tool.expect("a suggestion").rule.clone()
    }
    assert_eq!(asked_how_often(|_| Holds::Once).await, 3);
    assert_eq!(asked_how_often(|ask| Holds::Session(rule(ask))).await, 1);
    assert_eq!(asked_how_often(|ask| Holds::Always(rule(ask))).await, 1);
}

#[tokio::test]
async fn a_desk_without_anybody_refuses_what_nobody_trusts() {
    let bench = Bench::new();
    bench.apply(&[("s", Scripted::entry(&Script::legacy()))]).await;
    bench.host.settled().await;
    let places = switchboard::places::Places::below(bench.folder.path());
    let desk = Desk::new(&bench.host, &places).expect("a desk");
    let refused = bench.call_exposed(&desk, "mcp__s__echo", json!({"text": "x"})).await;
    assert!(matches!(refused, Err(CallFailure::Denied { .. })), "{refused:?}");
    let desk = desk.trusting("s");
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

impl Ask for Thinks {
    fn ask<'a>(&'a self, inquiry: &'a Inquiry) -> Asking<'a> {
        assert!(matches!(inquiry.subject, Subject::Form(_)));
        let _nobody_listens = self.0.send("asked");
        let peace = Peace(self.0.clone());
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(peace);
            Reply::Cancel(String::new())
        })
    }
}

#[tokio::test]
async fn whoever_is_asked_is_left_in_peace_when_the_connection_ends() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let bench = Bench::with(|options| options.asker = Arc::new(Thinks(tell)));
    bench.apply(&[("s", Scripted::entry(&Script::legacy()))]).await;
    bench.view_when("s", is_connected).await;
    bench.host.settled().await;
    let desk = bench.desk(bench.host.watch_pool());
    let call = bench.call_exposed(&desk, "mcp__s__ask", json!({}));
    tokio::select! {
        answer = call => panic!("nobody answered: {answer:?}"),
        asked = told.recv() => assert_eq!(asked, Some("asked")),
    }
    bench.stop().await;
    let peace = tokio::time::timeout(PATIENCE, told.recv()).await;
    assert_eq!(peace.expect("soon"), Some("left in peace"));
}
