//! Words and JSON for connections.

use serde_json::{Value as Json, json};
use switchboard::catalogue::List;
use switchboard::cause::{Cause, CauseKind, Evidence};
use switchboard::config::cascade::Server;
use switchboard::config::shown::printable;
use switchboard::connection::{Status, View};
use switchboard::engine::Snapshot;
use switchboard::wire::dial::Detour;
use switchboard::wire::introduction::{Capabilities, Listing};

use crate::describe;
use crate::exit::Exit;
use crate::session::Session;
use crate::style::{Meaning, paint};
use crate::table::{self, Cell, Yielding};

/// How many servers are named while they start.
const NAMED: usize = 5;
/// How much of a program's last words is shown.
const LAST_WORDS: usize = 12;

/// What is going on while servers start, in a line or two.
pub fn progress(snapshot: &Snapshot) -> String {
    let total = snapshot.servers.len();
    let waiting: Vec<&str> = snapshot
        .servers
        .values()
        .filter(|view| !view.status.is_settled())
        .map(|view| view.name.as_str())
        .collect();
    let mut names =
        waiting.iter().take(NAMED).map(|it| printable(it)).collect::<Vec<_>>().join(", ");
    if waiting.len() > NAMED {
        names.push_str(&format!(" and {} more", waiting.len() - NAMED));
    }
    let ready = total - waiting.len();
    format!(
        "{}\n",
        paint(Meaning::Faint, format!("connecting: {ready} of {total}; waiting for {names}"))
    )
}

/// The colour of a status.
pub fn meaning(status: &Status) -> Meaning {
    match status {
        Status::Connected => Meaning::Good,
        Status::Pending { .. } | Status::NeedsAuth(_) => Meaning::Doubtful,
        Status::Failed(_) => Meaning::Bad,
        Status::Disabled => Meaning::Faint,
    }
}

/// How a process ends that needed this server.
pub fn exit(status: &Status) -> Exit {
    match status {
        Status::Connected => Exit::Success,
        Status::Pending { .. } | Status::Disabled => Exit::NotReady,
        Status::NeedsAuth(_) => Exit::Login,
        Status::Failed(cause) => match &cause.kind {
            CauseKind::NoProgram { .. }
            | CauseKind::NotRunnable { .. }
            | CauseKind::NoFolder { .. }
            | CauseKind::Exited { .. } => Exit::Start,
            CauseKind::NoSecret | CauseKind::Unusable => Exit::Configuration,
            CauseKind::WantsLogin => Exit::Login,
            CauseKind::Silent(_)
            | CauseKind::Unreachable(_)
            | CauseKind::Forbidden
            | CauseKind::NotThere
            | CauseKind::Overloaded
            | CauseKind::ServerError(_)
            | CauseKind::Status(_)
            | CauseKind::RedirectedAway(_)
            | CauseKind::NotMcp
            | CauseKind::NoCommonVersion { .. }
            | CauseKind::Refused { .. }
            | CauseKind::Senseless
            | CauseKind::Closed
            | CauseKind::SessionGone
            | CauseKind::NotRenewed
            | CauseKind::TooLarge(_)
            | CauseKind::NotHere => Exit::Connection,
        },
    }
}

/// One row a server: how it is doing, or why it is not even tried.
pub fn table(session: &Session, servers: &[&Server], snapshot: &Snapshot) -> String {
    let row = |server: &&Server| match snapshot.servers.get(&server.name) {
        Some(view) => view_row(view),
        None => {
            let kind = server.entry.as_ref().map_or("-", |entry| entry.transport.kind().id());
            let mut row = vec![
                Cell::plain(printable(&server.name)),
                Cell::meaning(
                    describe::state_meaning(&server.state),
                    describe::state_text(&server.state),
                ),
                Cell::plain("-"),
                Cell::plain(kind),
            ];
            row.extend((0..4).map(|_| Cell::plain("-")));
            row
        }
    };
    let rows: Vec<Vec<Cell>> = servers.iter().map(row).collect();
    let header = ["NAME", "STATE", "ERA", "TYPE", "TOOLS", "RESOURCES", "PROMPTS", "READY AFTER"];
    table::render(
        &header,
        &rows,
        session.machine.terminal.width,
        &[Yielding::Back(0), Yielding::Back(1)],
    )
}

fn view_row(view: &View) -> Vec<Cell> {
    let state = match &view.status {
        Status::Pending { attempt, most, .. } => format!("pending ({attempt}/{most})"),
        Status::Connected | Status::Failed(_) | Status::NeedsAuth(_) | Status::Disabled => {
            view.status.id().to_owned()
        }
    };
    let introduction = view.introduction.as_ref();
    let capabilities = introduction.map(|it| &it.capabilities);
    let count = |list: List| match capabilities.is_some_and(|it| list.is_declared(it)) {
        true => view.catalogue.items(list).len().to_string(),
        false => "-".to_owned(),
    };
    vec![
        Cell::plain(printable(&view.name)),
        Cell::meaning(meaning(&view.status), state),
        Cell::plain(introduction.map_or("-", |it| it.era.id())),
        Cell::plain(view.transport.id()),
        Cell::plain(count(List::Tools)),
        Cell::plain(count(List::Resources)),
        Cell::plain(count(List::Prompts)),
        Cell::plain(view.ready_after.map_or("-".to_owned(), |it| format!("{} ms", it.as_millis()))),
    ]
}

/// What is wrong with a server and how to mend it, in a few lines; nothing where all is well.
pub fn trouble(view: &View) -> String {
    let mut text = String::new();
    let name = printable(&view.name);
    if let Some(cause) = view.status.cause() {
        let word = match &view.status {
            Status::Failed(_) => paint(Meaning::Bad, "error:"),
            Status::Pending { .. }
            | Status::NeedsAuth(_)
            | Status::Connected
            | Status::Disabled => paint(Meaning::Doubtful, "warning:"),
        };
        text.push_str(&format!("{word} `{name}`: {}\n", printable(&cause.to_string())));
        text.push_str(&evidence(cause));
        text.push_str(&format!("  hint: {}\n", printable(&cause.remedy(&view.name))));
    }
    for note in view.catalogue.notes() {
        let word = paint(Meaning::Doubtful, "warning:");
        text.push_str(&format!("{word} `{name}`: {}\n", printable(&note.to_string())));
    }
    text
}

/// What shows a cause, indented.
pub fn evidence(cause: &Cause) -> String {
    let mut text = String::new();
    for piece in &cause.evidence {
        let lines: Vec<&str> = piece.text().lines().collect();
        let end = match piece {
            Evidence::Stderr(_) => &lines[lines.len().saturating_sub(LAST_WORDS)..],
            Evidence::Searched(_)
            | Evidence::Body(_)
            | Evidence::Challenge(_)
            | Evidence::RetryAfter(_)
            | Evidence::Detail(_) => &lines[..lines.len().min(LAST_WORDS)],
        };
        for line in end {
            let shown: String = printable(line).chars().take(300).collect();
            text.push_str(&format!("  {}: {shown}\n", paint(Meaning::Faint, piece.label())));
        }
    }
    text
}

/// A server's connection, for programs.
pub fn view_json(view: &View) -> Json {
    let introduction = view.introduction.as_ref();
    let counts = |list: List| view.catalogue.items(list).len();
    let attempt = match &view.status {
        Status::Pending { attempt, most, .. } => json!({"attempt": attempt, "of": most}),
        Status::Connected | Status::Failed(_) | Status::NeedsAuth(_) | Status::Disabled => {
            Json::Null
        }
    };
    json!({
        "name": view.name,
        "scope": view.scope.id(),
        "type": view.transport.id(),
        "state": view.status.id(),
        "attempt": attempt,
        "cause": view.status.cause().map(|cause| cause_json(cause, &view.name)),
        "era": introduction.map(|it| it.era.id()),
        "protocolVersion": introduction.map(|it| it.version.clone()),
        "server": introduction.map(|it| json!({
            "name": it.name, "version": it.server_version, "title": it.title,
        })),
        "capabilities": introduction.map(|it| capabilities_json(&it.capabilities)),
        "counts": introduction.map(|_| json!({
            "tools": counts(List::Tools),
            "resources": counts(List::Resources),
            "resourceTemplates": counts(List::Templates),
            "prompts": counts(List::Prompts),
        })),
        "readyAfterMs": view.ready_after.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
        "process": view.process,
        "detour": view.detour.map(detour_id),
        "notes": view.catalogue.notes().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn detour_id(detour: Detour) -> &'static str {
    match detour {
        Detour::StartedAgain => "started-again",
        Detour::OlderTransport => "older-transport",
    }
}

/// A cause, for programs.
pub fn cause_json(cause: &Cause, name: &str) -> Json {
    let piece = |it: &Evidence| json!({"kind": it.label(), "text": it.text()});
    json!({
        "id": cause.id(),
        "message": cause.to_string(),
        "evidence": cause.evidence.iter().map(piece).collect::<Vec<_>>(),
        "fix": cause.remedy(name),
    })
}

fn capabilities_json(capabilities: &Capabilities) -> Json {
    let listing = |it: Option<Listing>| {
        it.map(
            |it| json!({"listChanged": it.announces_changes, "subscribe": it.takes_subscriptions}),
        )
    };
    json!({
        "tools": listing(capabilities.tools),
        "resources": listing(capabilities.resources),
        "prompts": listing(capabilities.prompts),
        "others": capabilities.others,
    })
}

/// A server that is not tried, for programs.
pub fn idle_json(session: &Session, server: &Server) -> Json {
    json!({
        "name": server.name,
        "scope": server.scope().id(),
        "type": server.entry.as_ref().map(|entry| entry.transport.kind().id()),
        "state": describe::state_word(&server.state),
        "reason": describe::state_reason(session, server),
    })
}
