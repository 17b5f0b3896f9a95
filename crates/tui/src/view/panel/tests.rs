//! Tests of the panel: what it shows, what keys do, and that hostile texts and small sizes do no harm.

use std::collections::BTreeMap;
use std::time::Duration;

use crossterm::event::KeyCode::{
    Backspace, Char, Down, End, Enter, Esc, Left, Right, Tab as TabKey, Up,
};

use super::server_catalogue::{CatalogueEntry, ToolEntry, ToolExposure};
use super::server_details::{FailureDetails, NegotiatedServer};
use super::*;
use crate::configured_servers::ConfiguredServer;
use crate::view::test_support::{
    HOSTILE_TEXTS, press, render_at_small_sizes, render_overlay, type_text,
};

fn configured_server(
    name: &str,
    eligibility: Eligibility,
    state: (Tone, &str),
) -> ConfiguredServer {
    ConfiguredServer {
        name: name.to_owned(),
        scope: "project",
        transport: "stdio",
        origin: ".mcp.json:7".to_owned(),
        entry: "  Type:         stdio\n  Command:      npx -y server --root /srv\n  Environment:  TOKEN=•••\n".to_owned(),
        fingerprint: Some("sha256:0123456789abcdef".to_owned()),
        eligibility,
        state: (state.0, state.1.to_owned()),
        reason: None,
        problems: Vec::new(),
        is_trusted: false,
        is_remote: false,
    }
}

fn connected(name: &str, transport: &'static str) -> ServerDetails {
    ServerDetails {
        is_shared: false,
        channel: String::new(),
        name: name.to_owned(),
        scope: "user",
        transport,
        health: ServerHealth::Connected,
        state: "connected".to_owned(),
        failure: None,
        description: Some(NegotiatedServer {
            protocol_version: "2025-06-18".to_owned(),
            title: "Files 1.2.0".to_owned(),
            capabilities: vec!["tools (change notifications)".to_owned(), "logging".to_owned()],
            instructions: Some("Ask for folders first.".to_owned()),
        }),
        counts: [Some(12), Some(3), None],
        ready_after: Some(Duration::from_millis(812)),
        process: Some(4711),
        notes: Vec::new(),
        eligibility: Eligibility::Runnable,
        is_remote: transport == "http",
    }
}

fn in_trouble(name: &str, health: ServerHealth, state: &str, what: &str) -> ServerDetails {
    ServerDetails {
        health,
        state: state.to_owned(),
        failure: Some(FailureDetails {
            summary: what.to_owned(),
            evidence: vec![("stderr", "Error: cannot find module\n    at main".to_owned())],
            remedy: Some(format!("`swb logs {name}` shows its output")),
        }),
        description: None,
        counts: [None; 3],
        ready_after: None,
        process: None,
        ..connected(name, "http")
    }
}

fn catalogue() -> ServerCatalogue {
    let tool = |name: &str, annotations: &[&'static str], offer| ToolEntry {
        name: name.to_owned(),
        title: Some("A title".to_owned()),
        description: "Does something.\nAnd more of it.".to_owned(),
        annotations: annotations.to_vec(),
        tokens: 120,
        exposure: offer,
    };
    let thing = |name: &str, more: &str| CatalogueEntry {
        name: name.to_owned(),
        title: None,
        description: "Of use.".to_owned(),
        details: more.to_owned(),
    };
    ServerCatalogue {
        tools: vec![
            tool(
                "read_file",
                &["read-only"],
                ToolExposure::ExposedAs("mcp__files__read_file".to_owned()),
            ),
            tool(
                "delete",
                &["destructive"],
                ToolExposure::Hidden("a rule leaves it out".to_owned()),
            ),
        ],
        resources: vec![thing("file:///srv/a.txt", "text/plain")],
        prompts: vec![thing("review", "takes file*")],
    }
}

fn configured_servers() -> ConfiguredServers {
    let pending = configured_server(
        "project-tools",
        Eligibility::PendingApproval,
        (Tone::Warning, "pending approval"),
    );
    let off = configured_server("old", Eligibility::Disabled, (Tone::Muted, "disabled"));
    let runs = configured_server("files", Eligibility::Runnable, (Tone::Success, "ready to start"));
    ConfiguredServers { servers: vec![runs, off, pending] }
}

fn panel() -> ServerPanel {
    let measurements = Measurements {
        memory: BTreeMap::from([(4711, 83_886_080)]),
        log: Some(("files".to_owned(), (0..50).map(|it| format!("line {it}")).collect())),
    };
    let monitor = Monitor::fixed(measurements);
    let mut panel = ServerPanel::with_monitor(
        Arc::new(configured_servers()),
        Arc::default(),
        Arc::default(),
        monitor,
    );
    panel.servers[0] = connected("files", "stdio");
    panel.servers.insert(0, connected("docs", "http"));
    panel.servers.push(in_trouble(
        "tracker",
        ServerHealth::NeedsLogin,
        "needs login",
        "the server needs a login",
    ));
    panel.servers.push(in_trouble(
        "wiki",
        ServerHealth::Failed,
        "failed",
        "the program ended with status 1",
    ));
    panel
}

/// A panel with the page of a server that has a catalogue.
fn page() -> ServerPanel {
    let mut panel = panel().opened_at("files", Tab::Overview);
    if let Some(page) = &mut panel.page {
        page.1 = catalogue();
    }
    panel
}

#[test]
fn it_looks_like_this() {
    let mut panel = panel();
    insta::assert_snapshot!("panel_80", render_overlay(&mut panel, (80, 24)));
    insta::assert_snapshot!("panel_120", render_overlay(&mut panel, (120, 40)));
    insta::assert_snapshot!("panel_20", render_overlay(&mut panel, (20, 5)));
    press(&mut panel, &[Char('s')]);
    insta::assert_snapshot!("panel_failing_first", render_overlay(&mut panel, (80, 24)));
}

#[test]
fn a_server_is_shown_in_full() {
    let mut panel = page();
    insta::assert_snapshot!("server_page_overview_80", render_overlay(&mut panel, (80, 24)));
    insta::assert_snapshot!("server_page_overview_120", render_overlay(&mut panel, (120, 40)));
    press(&mut panel, &[Right]);
    insta::assert_snapshot!("server_page_tools_80", render_overlay(&mut panel, (80, 24)));
    press(&mut panel, &[Enter]);
    assert!(render_overlay(&mut panel, (80, 24)).contains("And more of it."));
    press(&mut panel, &[Char('3')]);
    assert!(render_overlay(&mut panel, (80, 24)).contains("file:///srv/a.txt  text/plain"));
    press(&mut panel, &[TabKey]);
    assert!(render_overlay(&mut panel, (80, 24)).contains("review  takes file*"));
    press(&mut panel, &[Right]);
    insta::assert_snapshot!("server_page_log_80", render_overlay(&mut panel, (80, 24)));
    let mut failing = self::panel().opened_at("wiki", Tab::Overview);
    insta::assert_snapshot!("server_page_failed_80", render_overlay(&mut failing, (80, 24)));
}

#[test]
fn a_log_follows_until_the_user_scrolls_up() {
    let mut panel = page();
    press(&mut panel, &[Char('5')]);
    assert!(render_overlay(&mut panel, (80, 24)).contains("line 49"));
    let longer = |last: usize| Measurements {
        log: Some(("files".to_owned(), (0..=last).map(|it| format!("line {it}")).collect())),
        ..Measurements::default()
    };
    panel.measurements = Arc::new(longer(60));
    panel.refresh_page();
    assert!(render_overlay(&mut panel, (80, 24)).contains("line 60"));
    press(&mut panel, &[Up, Up]);
    panel.measurements = Arc::new(longer(90));
    panel.refresh_page();
    assert!(!render_overlay(&mut panel, (80, 24)).contains("line 90"));
    press(&mut panel, &[End]);
    assert!(render_overlay(&mut panel, (80, 24)).contains("line 90"));
    assert_eq!(panel.page.as_ref().map(|it| it.0.tab()), Some(Tab::Log));
}

#[track_caller]
fn check(server: &str, keys: &[KeyCode], expected: &str) {
    let mut panel = panel();
    panel.list.select(server);
    let done = match press(&mut panel, keys) {
        OverlayOutcome::Run(effect) => format!("{effect:?}"),
        OverlayOutcome::Stay => format!("says {}", panel.message.unwrap_or_default()),
        OverlayOutcome::Close => "closes".to_owned(),
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
    check("docs", &[Char('c')], "says press c again to delete the login of `docs`");
    check("docs", &[Char('c'), Char('c')], "SignOut(\"docs\")");
    check("docs", &[Char('c'), Char('l')], "ShowLog(\"docs\")");
    check("docs", &[Char('l')], "ShowLog(\"docs\")");
    check("files", &[Char('a')], "says `files` is a local server without a login");
    check("old", &[Char('r')], "says `old` is not running, so it cannot be reconnected");
    check("files", &[Char('p')], "says `files` needs no approval");
    check("files", &[Esc], "closes");
    check("files", &[Char('q')], "closes");
}

#[test]
fn nothing_is_approved_unseen() {
    let asks = "says press p again to approve `project-tools` as shown here";
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
        "says press x again to reject `project-tools` as shown here",
    );
    let mut panel = panel();
    panel.list.select("project-tools");
    press(&mut panel, &[Char('p')]);
    insta::assert_snapshot!("server_page_pending_80", render_overlay(&mut panel, (80, 24)));
}

#[test]
fn servers_are_found_by_typing() {
    let mut panel = panel();
    press(&mut panel, &[Char('/')]);
    type_text(&mut panel, "wi");
    let text = render_overlay(&mut panel, (80, 24));
    assert!(text.contains("wiki") && !text.contains("tracker"), "{text}");
    // While the filter is typed, letters are no commands.
    type_text(&mut panel, "r");
    assert!(render_overlay(&mut panel, (80, 24)).contains("no server matches"));
    press(&mut panel, &[Backspace, Enter]);
    assert!(
        matches!(press(&mut panel, &[Char('r')]), OverlayOutcome::Run(ServerAction::Reconnect(name)) if name == "wiki")
    );
    assert!(matches!(press(&mut panel, &[Esc]), OverlayOutcome::Stay));
    assert!(render_overlay(&mut panel, (80, 24)).contains("tracker"));
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
        press(&mut panel, keys);
        assert_eq!(panel.selected_server().map(|it| it.name.as_str()), Some(expected), "{keys:?}");
    }
}

#[test]
fn news_are_shown_and_a_server_that_is_gone_closes_its_sheet() {
    let mut panel = page();
    assert_eq!(
        panel.on_notice(&Notice::ActionDone("`files` is switched off".to_owned())),
        Redraw::Yes
    );
    assert!(render_overlay(&mut panel, (80, 24)).contains("is switched off"));
    assert_eq!(panel.on_notice(&Notice::Tick), Redraw::No);
    let off = configured_server("files", Eligibility::Disabled, (Tone::Muted, "disabled"));
    panel.on_notice(&Notice::Configured(Arc::new(ConfiguredServers { servers: vec![off] })));
    assert!(render_overlay(&mut panel, (80, 24)).contains("disabled"));
    panel.on_notice(&Notice::Configured(Arc::default()));
    assert!(render_overlay(&mut panel, (80, 24)).contains("no servers are configured"));
    panel.on_notice(&Notice::Servers(Arc::default()));
    panel.on_notice(&Notice::Pool(Arc::default()));
}

#[test]
fn hostile_texts_and_small_screens_do_no_harm() {
    for text in HOSTILE_TEXTS {
        let mut panel = panel();
        let mut hostile = in_trouble(text, ServerHealth::Failed, text, text);
        hostile.description = Some(NegotiatedServer {
            protocol_version: text.to_owned(),
            title: text.to_owned(),
            capabilities: vec![text.to_owned()],
            instructions: Some(text.to_owned()),
        });
        panel.servers = vec![hostile; 40];
        render_at_small_sizes(&mut panel);
        press(&mut panel, &[Down; 39]);
        render_at_small_sizes(&mut panel);
        let mut panel = panel.opened_at(text, Tab::Overview);
        if let Some(page) = &mut panel.page {
            let mut catalogue = catalogue();
            catalogue.tools[0].name = text.to_owned();
            catalogue.tools[0].description = text.to_owned();
            catalogue.resources[0].name = text.to_owned();
            page.1 = catalogue;
        }
        panel.measurements = Arc::new(Measurements {
            log: Some((text.to_owned(), vec![text.to_owned(); 100])),
            ..Measurements::default()
        });
        for _ in 0..5 {
            render_at_small_sizes(&mut panel);
            press(&mut panel, &[Left]);
            render_overlay(&mut panel, (120, 40));
        }
    }
}
