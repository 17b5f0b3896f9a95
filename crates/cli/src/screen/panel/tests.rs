//! Tests of the panel: what it shows, what keys do, and that nothing breaks it.

use std::collections::BTreeMap;
use std::time::Duration;

use crossterm::event::KeyCode::{
    Backspace, Char, Down, End, Enter, Esc, Left, Right, Tab as TabKey, Up,
};

use super::inventory::{Offer, Thing, ToolCard};
use super::portrait::{Introduced, Reason};
use super::roster::Enrolled;
use super::*;
use crate::screen::dialog::stage::{HOSTILE, drawn, play, squeeze, write};

fn enrolled(name: &str, footing: Footing, state: (Tone, &str)) -> Enrolled {
    Enrolled {
        name: name.to_owned(),
        scope: "project",
        transport: "stdio",
        origin: ".mcp.json:7".to_owned(),
        entry: "  Type:         stdio\n  Command:      npx -y server --root /srv\n  Environment:  TOKEN=•••\n".to_owned(),
        fingerprint: Some("sha256:0123456789abcdef".to_owned()),
        footing,
        state: (state.0, state.1.to_owned()),
        reason: None,
        problems: Vec::new(),
        is_trusted: false,
        is_remote: false,
    }
}

fn connected(name: &str, transport: &'static str) -> Portrait {
    Portrait {
        name: name.to_owned(),
        scope: "user",
        transport,
        mood: Mood::Connected,
        state: "connected".to_owned(),
        cause: None,
        introduced: Some(Introduced {
            era: "legacy",
            version: "2025-06-18".to_owned(),
            title: "Files 1.2.0".to_owned(),
            capabilities: vec!["tools (says when they change)".to_owned(), "logging".to_owned()],
            instructions: Some("Ask for folders first.".to_owned()),
        }),
        counts: [Some(12), Some(3), None],
        ready_after: Some(Duration::from_millis(812)),
        process: Some(4711),
        notes: Vec::new(),
        footing: Footing::Runs,
        is_remote: transport == "http",
    }
}

fn in_trouble(name: &str, mood: Mood, state: &str, what: &str) -> Portrait {
    Portrait {
        mood,
        state: state.to_owned(),
        cause: Some(Reason {
            what: what.to_owned(),
            evidence: vec![("stderr", "Error: cannot find module\n    at main".to_owned())],
            remedy: Some(format!("`swb logs {name}` shows what it said")),
        }),
        introduced: None,
        counts: [None; 3],
        ready_after: None,
        process: None,
        ..connected(name, "http")
    }
}

fn inventory() -> Inventory {
    let tool = |name: &str, annotations: &[&'static str], offer| ToolCard {
        name: name.to_owned(),
        title: Some("A title".to_owned()),
        description: "Does something.\nAnd more of it.".to_owned(),
        annotations: annotations.to_vec(),
        tokens: 120,
        offer,
    };
    let thing = |name: &str, more: &str| Thing {
        name: name.to_owned(),
        title: None,
        description: "Of use.".to_owned(),
        more: more.to_owned(),
    };
    Inventory {
        tools: vec![
            tool("read_file", &["read-only"], Offer::As("mcp__files__read_file".to_owned())),
            tool("delete", &["destructive"], Offer::Not("a rule leaves it out".to_owned())),
        ],
        resources: vec![thing("file:///srv/a.txt", "text/plain")],
        prompts: vec![thing("review", "takes file*")],
    }
}

fn roster() -> Roster {
    let pending =
        enrolled("project-tools", Footing::Undecided, (Tone::Doubtful, "pending approval"));
    let off = enrolled("old", Footing::Off, (Tone::Faint, "disabled"));
    let runs = enrolled("files", Footing::Runs, (Tone::Good, "ready to start"));
    Roster { servers: vec![runs, off, pending] }
}

fn panel() -> Panel {
    let observed = Observed {
        resident: BTreeMap::from([(4711, 83_886_080)]),
        log: Some(("files".to_owned(), (0..50).map(|it| format!("line {it}")).collect())),
    };
    let observer = Observer::told(observed);
    let mut panel = Panel::of(Arc::new(roster()), Arc::default(), Arc::default(), observer);
    panel.portraits[0] = connected("files", "stdio");
    panel.portraits.insert(0, connected("docs", "http"));
    panel.portraits.push(in_trouble(
        "tracker",
        Mood::WantsLogin,
        "needs login",
        "the server wants a login",
    ));
    panel.portraits.push(in_trouble(
        "wiki",
        Mood::Failed,
        "failed",
        "the program ended with status 1",
    ));
    panel
}

/// A panel with a sheet open whose server has something.
fn sheet() -> Panel {
    let mut panel = panel().at("files", Tab::Overview);
    if let Some(sheet) = &mut panel.sheet {
        sheet.1 = inventory();
    }
    panel
}

#[test]
fn it_looks_like_this() {
    let mut panel = panel();
    insta::assert_snapshot!("panel_80", drawn(&mut panel, (80, 24)));
    insta::assert_snapshot!("panel_120", drawn(&mut panel, (120, 40)));
    insta::assert_snapshot!("panel_20", drawn(&mut panel, (20, 5)));
    play(&mut panel, &[Char('s')]);
    insta::assert_snapshot!("panel_failing_first", drawn(&mut panel, (80, 24)));
}

#[test]
fn a_server_is_shown_in_full() {
    let mut panel = sheet();
    insta::assert_snapshot!("sheet_overview_80", drawn(&mut panel, (80, 24)));
    insta::assert_snapshot!("sheet_overview_120", drawn(&mut panel, (120, 40)));
    play(&mut panel, &[Right]);
    insta::assert_snapshot!("sheet_tools_80", drawn(&mut panel, (80, 24)));
    play(&mut panel, &[Enter]);
    assert!(drawn(&mut panel, (80, 24)).contains("And more of it."));
    play(&mut panel, &[Char('3')]);
    assert!(drawn(&mut panel, (80, 24)).contains("file:///srv/a.txt  text/plain"));
    play(&mut panel, &[TabKey]);
    assert!(drawn(&mut panel, (80, 24)).contains("review  takes file*"));
    play(&mut panel, &[Right]);
    insta::assert_snapshot!("sheet_log_80", drawn(&mut panel, (80, 24)));
    let mut failing = self::panel().at("wiki", Tab::Overview);
    insta::assert_snapshot!("sheet_failed_80", drawn(&mut failing, (80, 24)));
}

#[test]
fn a_log_follows_until_somebody_reads_further_up() {
    let mut panel = sheet();
    play(&mut panel, &[Char('5')]);
    assert!(drawn(&mut panel, (80, 24)).contains("line 49"));
    let longer = |last: usize| Observed {
        log: Some(("files".to_owned(), (0..=last).map(|it| format!("line {it}")).collect())),
        ..Observed::default()
    };
    panel.observed = Arc::new(longer(60));
    panel.renew();
    assert!(drawn(&mut panel, (80, 24)).contains("line 60"));
    play(&mut panel, &[Up, Up]);
    panel.observed = Arc::new(longer(90));
    panel.renew();
    assert!(!drawn(&mut panel, (80, 24)).contains("line 90"));
    play(&mut panel, &[End]);
    assert!(drawn(&mut panel, (80, 24)).contains("line 90"));
    assert_eq!(panel.sheet.as_ref().map(|it| it.0.tab()), Some(Tab::Log));
}

#[track_caller]
fn check(server: &str, keys: &[KeyCode], expected: &str) {
    let mut panel = panel();
    panel.list.choose(server);
    let done = match play(&mut panel, keys) {
        Reaction::Do(deed) => format!("{deed:?}"),
        Reaction::Stay => format!("says {}", panel.said.unwrap_or_default()),
        Reaction::Close => "closes".to_owned(),
    };
    assert_eq!(done, expected, "{server} {keys:?}");
}

#[test]
fn single_keys_do_something_about_a_server() {
    check("files", &[Char('r')], "Reconnect(\"files\")");
    check("files", &[Enter, Char('r')], "Reconnect(\"files\")");
    check("files", &[Char('e')], "Disable(\"files\")");
    check("old", &[Char('e')], "Enable(\"old\")");
    check("docs", &[Char('a')], "SignIn(\"docs\")");
    check("docs", &[Char('c')], "says c once more forgets the login of `docs`");
    check("docs", &[Char('c'), Char('c')], "SignOut(\"docs\")");
    check("docs", &[Char('c'), Char('l')], "ShowLog(\"docs\")");
    check("docs", &[Char('l')], "ShowLog(\"docs\")");
    check("files", &[Char('a')], "says `files` is no server that one signs in to");
    check("old", &[Char('r')], "says `old` does not run, so there is nothing to reconnect");
    check("files", &[Char('p')], "says `files` needs no approval");
    check("files", &[Esc], "closes");
    check("files", &[Char('q')], "closes");
}

#[test]
fn nothing_is_approved_unseen() {
    let asks = "says p once more approves `project-tools` as it is shown here";
    check("project-tools", &[Char('p')], asks);
    check(
        "project-tools",
        &[Char('p'), Char('p')],
        "ApproveShown { name: \"project-tools\", fingerprint: \"sha256:0123456789abcdef\" }",
    );
    check("project-tools", &[Char('x'), Char('x')], "Reject(\"project-tools\")");
    check(
        "project-tools",
        &[Char('p'), Char('x')],
        "says x once more rejects `project-tools` as it is shown here",
    );
    let mut panel = panel();
    panel.list.choose("project-tools");
    play(&mut panel, &[Char('p')]);
    insta::assert_snapshot!("sheet_pending_80", drawn(&mut panel, (80, 24)));
}

#[test]
fn servers_are_found_by_typing() {
    let mut panel = panel();
    play(&mut panel, &[Char('/')]);
    write(&mut panel, "wi");
    let text = drawn(&mut panel, (80, 24));
    assert!(text.contains("wiki") && !text.contains("tracker"), "{text}");
    // Letters are letters here.
    write(&mut panel, "r");
    assert!(drawn(&mut panel, (80, 24)).contains("none is like that"));
    play(&mut panel, &[Backspace, Enter]);
    assert!(
        matches!(play(&mut panel, &[Char('r')]), Reaction::Do(Deed::Reconnect(name)) if name == "wiki")
    );
    assert!(matches!(play(&mut panel, &[Esc]), Reaction::Stay));
    assert!(drawn(&mut panel, (80, 24)).contains("tracker"));
}

#[test]
fn the_keys_move_through_the_list_and_stay_on_a_server() {
    let mut panel = panel();
    for (keys, expected) in [
        (&[Down, Down][..], "old"),
        (&[Up], "files"),
        (&[End], "wiki"),
        (&[Char('s')], "wiki"),
        (&[Up], "wiki"),
        (&[Down], "tracker"),
    ] {
        play(&mut panel, keys);
        assert_eq!(panel.subject().map(|it| it.name.as_str()), Some(expected), "{keys:?}");
    }
}

#[test]
fn news_are_shown_and_a_server_that_is_gone_closes_its_sheet() {
    let mut panel = sheet();
    assert_eq!(panel.hear(&News::Done("`files` is switched off".to_owned())), Redraw::Yes);
    assert!(drawn(&mut panel, (80, 24)).contains("is switched off"));
    assert_eq!(panel.hear(&News::Tick), Redraw::No);
    let off = enrolled("files", Footing::Off, (Tone::Faint, "disabled"));
    panel.hear(&News::Configured(Arc::new(Roster { servers: vec![off] })));
    assert!(drawn(&mut panel, (80, 24)).contains("disabled"));
    panel.hear(&News::Configured(Arc::default()));
    assert!(drawn(&mut panel, (80, 24)).contains("no servers are configured"));
    panel.hear(&News::Servers(Arc::default()));
    panel.hear(&News::Pool(Arc::default()));
}

#[test]
fn hostile_texts_and_small_screens_do_no_harm() {
    for text in HOSTILE {
        let mut panel = panel();
        let mut hostile = in_trouble(text, Mood::Failed, text, text);
        hostile.introduced = connected(text, "stdio").introduced.map(|it| Introduced {
            version: text.to_owned(),
            title: text.to_owned(),
            capabilities: vec![text.to_owned()],
            instructions: Some(text.to_owned()),
            ..it
        });
        panel.portraits = vec![hostile; 40];
        squeeze(&mut panel);
        play(&mut panel, &[Down; 39]);
        squeeze(&mut panel);
        let mut panel = panel.at(text, Tab::Overview);
        if let Some(sheet) = &mut panel.sheet {
            let mut inventory = inventory();
            inventory.tools[0].name = text.to_owned();
            inventory.tools[0].description = text.to_owned();
            inventory.resources[0].name = text.to_owned();
            sheet.1 = inventory;
        }
        panel.observed = Arc::new(Observed {
            log: Some((text.to_owned(), vec![text.to_owned(); 100])),
            ..Observed::default()
        });
        for _ in 0..5 {
            squeeze(&mut panel);
            play(&mut panel, &[Left]);
            drawn(&mut panel, (120, 40));
        }
    }
}
