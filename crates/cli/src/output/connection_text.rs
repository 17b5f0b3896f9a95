//! Connections as text and tables, and the failures of commands that need one.

use switchboard::catalogue::ListKind;
use switchboard::config::display::printable;
use switchboard::config::merge::ResolvedServer;
use switchboard::connection::{ServerView, Status};
use switchboard::{ConnectionFailure, Evidence, FailureKind, Snapshot};

use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::outcome::Failure;
use crate::output::server_text;
use crate::output::style::{TextStyle, paint};
use crate::output::table;
use crate::output::table::{Cell, Truncate};

/// How many servers are named while they connect.
const MAX_NAMES: usize = 5;
/// How many lines of evidence are shown.
const MAX_EVIDENCE_LINES: usize = 12;

/// One line about servers that are still connecting.
pub fn connecting_text(snapshot: &Snapshot) -> String {
    let total = snapshot.servers.len();
    let waiting: Vec<&str> = snapshot
        .servers
        .values()
        .filter(|view| !view.status.is_settled())
        .map(|view| view.name.as_str())
        .collect();
    let mut names =
        waiting.iter().take(MAX_NAMES).map(|it| printable(it)).collect::<Vec<_>>().join(", ");
    if waiting.len() > MAX_NAMES {
        names.push_str(&format!(" and {} more", waiting.len() - MAX_NAMES));
    }
    let ready = total - waiting.len();
    format!(
        "{}\n",
        paint(TextStyle::Dim, format!("connecting: {ready} of {total}; waiting for {names}"))
    )
}

/// The colour of a status.
pub fn status_style(status: &Status) -> TextStyle {
    match status {
        Status::Connected => TextStyle::Success,
        Status::Pending { .. } | Status::NeedsAuth(_) | Status::SessionRefused(_) => {
            TextStyle::Warning
        }
        Status::Failed(_) => TextStyle::Error,
        Status::Disabled => TextStyle::Dim,
    }
}

/// The exit code of a command that needs this server.
pub fn exit_code(status: &Status) -> Exit {
    match status {
        Status::Connected => Exit::Success,
        Status::Pending { .. } | Status::Disabled => Exit::NotReady,
        Status::NeedsAuth(_) | Status::SessionRefused(_) => Exit::LoginRequired,
        Status::Failed(cause) => match &cause.kind {
            FailureKind::CommandNotFound { .. }
            | FailureKind::CommandNotRunnable { .. }
            | FailureKind::FolderNotFound { .. }
            | FailureKind::Exited { .. } => Exit::StartFailed,
            FailureKind::SecretUnavailable | FailureKind::InvalidConfig => Exit::Configuration,
            FailureKind::AuthRequired
            | FailureKind::HeaderRefused { .. }
            | FailureKind::SessionRefused(_)
            | FailureKind::ConnectorLoginRequired { .. } => Exit::LoginRequired,
            FailureKind::Timeout(_)
            | FailureKind::Unreachable(_)
            | FailureKind::Forbidden
            | FailureKind::NotFound
            | FailureKind::Overloaded
            | FailureKind::ServerError(_)
            | FailureKind::HttpStatus(_)
            | FailureKind::CrossOriginRedirect(_)
            | FailureKind::NotMcp
            | FailureKind::NoCommonVersion { .. }
            | FailureKind::ErrorResponse { .. }
            | FailureKind::InvalidResponse
            | FailureKind::Closed
            | FailureKind::SessionExpired
            | FailureKind::LoginNotRefreshed
            | FailureKind::MessageTooLarge(_)
            | FailureKind::NotRegistered
            | FailureKind::IdeTokenRefused => Exit::Connection,
        },
    }
}

/// One row for each server: the state of its connection, or why it is not started.
pub fn status_table(env: &ProcessEnv, servers: &[&ResolvedServer], snapshot: &Snapshot) -> String {
    let row = |server: &&ResolvedServer| match snapshot.servers.get(&server.name) {
        Some(view) => view_row(view),
        None => {
            let kind = server.entry.as_ref().map_or("-", |entry| entry.transport.kind().id());
            let mut row = vec![
                Cell::plain(printable(&server.name)),
                Cell::styled(
                    server_text::state_style(&server.state),
                    server_text::state_text(&server.state),
                ),
                Cell::plain("-"),
                Cell::plain(kind),
            ];
            row.extend((0..4).map(|_| Cell::plain("-")));
            row
        }
    };
    let rows: Vec<Vec<Cell>> = servers.iter().map(row).collect();
    let header =
        ["NAME", "STATE", "PROTOCOL", "TYPE", "TOOLS", "RESOURCES", "PROMPTS", "READY AFTER"];
    table::render(&header, &rows, env.terminal.width, &[Truncate::End(0), Truncate::End(1)])
}

fn view_row(view: &ServerView) -> Vec<Cell> {
    let server_info = view.server_info.as_ref();
    let capabilities = server_info.map(|it| &it.capabilities);
    let count = |list: ListKind| match capabilities.is_some_and(|it| list.is_declared(it)) {
        true => view.catalogue.items(list).len().to_string(),
        false => "-".to_owned(),
    };
    vec![
        Cell::plain(printable(&view.name)),
        Cell::styled(status_style(&view.status), view.status.label()),
        Cell::plain(server_info.map_or("-".to_owned(), |it| printable(&it.protocol_version))),
        Cell::plain(view.transport.id()),
        Cell::plain(count(ListKind::Tools)),
        Cell::plain(count(ListKind::Resources)),
        Cell::plain(count(ListKind::Prompts)),
        Cell::plain(
            view.time_to_ready.map_or("-".to_owned(), |it| format!("{} ms", it.as_millis())),
        ),
    ]
}

/// A server's problem and its remedy; empty where there is none.
pub fn problem_text(view: &ServerView) -> String {
    let mut text = String::new();
    let name = printable(&view.name);
    if let Some(cause) = view.status.cause() {
        let word = match &view.status {
            Status::Failed(_) => paint(TextStyle::Error, "error:"),
            Status::Pending { .. }
            | Status::NeedsAuth(_)
            | Status::SessionRefused(_)
            | Status::Connected
            | Status::Disabled => paint(TextStyle::Warning, "warning:"),
        };
        text.push_str(&format!("{word} `{name}`: {}\n", printable(&cause.to_string())));
        text.push_str(&evidence_text(cause));
        text.push_str(&format!("  hint: {}\n", printable(&cause.remedy(&view.name))));
    }
    for note in view.notes() {
        let word = paint(TextStyle::Warning, "warning:");
        text.push_str(&format!("{word} `{name}`: {}\n", printable(&note)));
    }
    text
}

/// The evidence of a failure, indented.
pub fn evidence_text(cause: &ConnectionFailure) -> String {
    let mut text = String::new();
    for piece in &cause.evidence {
        let lines: Vec<&str> = piece.text().lines().collect();
        let end = match piece {
            Evidence::Stderr(_) => &lines[lines.len().saturating_sub(MAX_EVIDENCE_LINES)..],
            Evidence::NotAMessage(_)
            | Evidence::SearchedPath(_)
            | Evidence::Body(_)
            | Evidence::Challenge(_)
            | Evidence::RetryAfter(_)
            | Evidence::Detail(_) => &lines[..lines.len().min(MAX_EVIDENCE_LINES)],
        };
        for line in end {
            let shown: String = printable(line).chars().take(300).collect();
            text.push_str(&format!("  {}: {shown}\n", paint(TextStyle::Dim, piece.label())));
        }
    }
    text
}

/// The failure of a command that needs a server that is not connected.
pub fn not_connected(view: &ServerView) -> Failure {
    let message = match &view.status {
        Status::Pending { .. } => format!("`{}` is still connecting", view.name),
        Status::Connected
        | Status::Failed(_)
        | Status::NeedsAuth(_)
        | Status::SessionRefused(_)
        | Status::Disabled => {
            format!("could not connect to `{}`", view.name)
        }
    };
    let failure = Failure::new(exit_code(&view.status), &message);
    match view.status.cause() {
        None => failure.hint(&format!("`swb status {}` waits for it", view.name)),
        Some(cause) => Failure { causes: vec![printable(&cause.to_string())], ..failure }
            .detail(evidence_text(cause))
            .hint(&cause.remedy(&view.name)),
    }
}
