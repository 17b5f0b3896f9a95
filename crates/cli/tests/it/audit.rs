//! `swb audit`.

use crate::support::scene;

#[test]
fn calls_are_shown_the_last_ones_and_by_server_or_outcome() {
    let scene = scene();
    assert_eq!(scene.swb(&["audit"]).expect_success(), "No calls.\n");
    let line = |server: &str, outcome: &str| {
        format!(
            r#"{{"time":"2026-11-16T00:00:00Z","caller":"cli","server":"{server}","tool":"t\u001b[2J","exposed":"mcp__{server}__t","arguments":"sha256:0","decision":"allow","because":"a rule","durationMs":5,"outcome":"{outcome}"}}"#
        )
    };
    let log = [line("a", "ok"), line("b", "tool-error"), "damaged".to_owned(), line("b", "ok")]
        .join("\n");
    scene.write("~/.local/state/switchboard/audit.jsonl", &log);
    insta::assert_snapshot!(scene.swb(&["audit"]).expect_success());
    assert_eq!(
        scene.swb(&["audit", "--server", "b", "--outcome", "ok"]).expect_success().lines().count(),
        2
    );
    assert_eq!(scene.swb(&["audit", "--caller", "cli"]).expect_success().lines().count(), 4);
    assert_eq!(scene.swb(&["audit", "--caller", "ada"]).expect_success(), "No calls.\n");
    assert_eq!(scene.swb(&["audit", "-n", "1"]).expect_success().lines().count(), 2);
    assert!(!scene.swb(&["audit", "--json"]).expect_success().contains('\u{1b}'));
}
