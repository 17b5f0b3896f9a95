//! Tests of the dialog.

use crossterm::event::KeyCode::{Char, Down, Enter, Esc, Left, Right};

use super::*;
use crate::view::test_support::{HOSTILE_TEXTS, press, render_at_small_sizes, render_overlay};

fn server(name: &str, entry: &str) -> ProjectServer {
    ProjectServer {
        name: name.to_owned(),
        origin: ".mcp.json:3".to_owned(),
        fingerprint: "sha256:0".to_owned(),
        entry: entry.to_owned(),
        pending: PendingReason::New,
        wants_trust: false,
        definer: ServerDefiner::Project,
    }
}

fn servers() -> Vec<ProjectServer> {
    let changed = ProjectServer {
        pending: PendingReason::Changed,
        wants_trust: true,
        ..server("docs", "  Type:         http\n  URL:          https://docs.example.com/mcp\n")
    };
    let files = "  Type:         stdio\n  Command:      npx -y server-filesystem /srv\n  Environment:  TOKEN=•••\n";
    vec![server("files", files), changed]
}

fn dialog(
    servers: Vec<ProjectServer>,
) -> (ProjectServersDialog, oneshot::Receiver<Vec<ApprovalChoice>>) {
    let (reply, answer) = oneshot::channel();
    (ProjectServersDialog::new(servers, reply), answer)
}

#[track_caller]
fn check(keys: &[KeyCode], expected: [ApprovalChoice; 2]) {
    let (mut dialog, mut answer) = dialog(servers());
    assert!(matches!(press(&mut dialog, keys), OverlayOutcome::Close), "{keys:?}");
    assert_eq!(answer.try_recv(), Ok(expected.to_vec()), "{keys:?}");
}

#[test]
fn each_server_is_decided_on_by_itself_or_all_at_once() {
    use ApprovalChoice::{Approve, Later, Reject};
    check(&[Right, Down, Char('r'), Down, Enter], [Approve, Reject]);
    check(&[Left, Down, Char('a'), Char('l'), Down, Enter], [Reject, Later]);
    check(&[Down, Down, Right, Enter], [Approve, Approve]);
    check(&[Down, Down, Char('3'), Enter], [Reject, Reject]);
}

#[test]
fn nothing_is_approved_without_a_decision() {
    use ApprovalChoice::Later;
    check(&[Char('a'), Esc], [Later, Later]);
    check(&[Enter, Enter, Enter], [Later, Later]);
}

#[test]
fn it_looks_like_this() {
    let (mut dialog, _answer) = dialog(servers());
    insta::assert_snapshot!("project_80", render_overlay(&mut dialog, (80, 24)));
    press(&mut dialog, &[Char('a'), Down, Down]);
    insta::assert_snapshot!("project_120", render_overlay(&mut dialog, (120, 40)));
    insta::assert_snapshot!("project_20", render_overlay(&mut dialog, (20, 5)));
}

#[test]
fn servers_of_plugins_are_not_called_the_projects() {
    let of_plugin = ProjectServer {
        definer: ServerDefiner::Plugin,
        origin: "plugin notes@lab".to_owned(),
        ..server("plugin:notes:search", "  Type:         stdio\n")
    };
    let (mut alone, _answer) = dialog(vec![of_plugin.clone()]);
    let shown = render_overlay(&mut alone, (100, 24));
    assert!(shown.contains("A plugin defines a server."), "{shown}");
    assert!(shown.contains("Approve all") && !shown.contains("this project"), "{shown}");
    let (mut both, _answer) = dialog([servers(), vec![of_plugin]].concat());
    let shown = render_overlay(&mut both, (120, 40));
    assert!(shown.contains("This project and plugins define 3 servers."), "{shown}");
}

#[test]
fn hostile_texts_and_small_screens_do_no_harm() {
    for text in HOSTILE_TEXTS {
        let (mut dialog, _answer) = dialog(vec![server(text, text); 30]);
        render_at_small_sizes(&mut dialog);
        press(&mut dialog, &[Down; 29]);
        render_at_small_sizes(&mut dialog);
    }
}
