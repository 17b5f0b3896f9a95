//! Servers of a registry as text and as JSON. Everything in them is untrusted, and escaped here.

use serde_json::{Value as Json, json};
use switchboard::config::display::{pluralize, printable, sanitize_line};
use switchboard::config::registry::input::InputFormat;
use switchboard::config::registry::{
    EntryDraft, InstallOption, ListingStatus, Question, RegistryServer,
};
use switchboard_packages::registry::{ListEnd, ServerList};

use crate::output::style::{TextStyle, paint};
use crate::output::table;
use crate::output::table::{Cell, Truncate};

/// The maximum length of a description in a list.
const MAX_DESCRIPTION: usize = 100;

/// Servers as a table.
pub fn table(servers: &[RegistryServer], width: usize) -> String {
    let rows: Vec<Vec<Cell>> = servers.iter().map(row).collect();
    let header = ["NAME", "VERSION", "FROM", "DESCRIPTION"];
    table::render(&header, &rows, width, &[Truncate::End(3), Truncate::End(2)])
}

fn row(server: &RegistryServer) -> Vec<Cell> {
    let mut labels: Vec<&str> = server
        .install_options()
        .iter()
        .filter(|it| it.check().is_ok())
        .map(|it| it.label())
        .collect();
    labels.dedup();
    let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
    let description: String =
        sanitize_line(&server.description).chars().take(MAX_DESCRIPTION).collect();
    let description = match server.status {
        ListingStatus::Active => Cell::plain(description),
        ListingStatus::Deprecated => {
            Cell::styled(TextStyle::Warning, format!("(deprecated) {description}"))
        }
        ListingStatus::Deleted => {
            Cell::styled(TextStyle::Error, format!("(deleted) {description}"))
        }
    };
    vec![
        Cell::plain(printable(&server.name)),
        Cell::plain(short_version(server)),
        Cell::plain(labels),
        description,
    ]
}

fn short_version(server: &RegistryServer) -> String {
    let version: String = server.version.chars().take(40).collect();
    if version.is_empty() { "–".to_owned() } else { printable(&version) }
}

/// What is said where no server matches.
pub fn no_match(text: &str) -> String {
    match text {
        "" => "The registry has no servers.\n".to_owned(),
        text => format!(
            "No server has `{}` in its name; descriptions are not searched.\n",
            printable(text)
        ),
    }
}

/// Notes on what is missing in a list.
pub fn list_notes(list: &ServerList) -> String {
    let mut notes = match &list.end {
        ListEnd::Complete => String::new(),
        ListEnd::Enough => "note: there may be more: -n COUNT shows more of them\n".to_owned(),
        ListEnd::TooLong => {
            "note: the registry has more pages than were read: search for a longer text\n"
                .to_owned()
        }
        ListEnd::BadCursor => {
            "warning: the list is not complete: the registry's pages do not end\n".to_owned()
        }
        ListEnd::Failed(error) => format!(
            "warning: the list is not complete: a later page failed: {}\n",
            printable(&error.kind.to_string())
        ),
    };
    if list.unreadable > 0 {
        let entries = pluralize(list.unreadable, "entry", "entries");
        notes.push_str(&format!("note: {entries} of the registry could not be read\n"));
    }
    notes
}

/// Name, version, status and description.
pub fn heading(server: &RegistryServer) -> String {
    let name = paint(TextStyle::Bold, printable(&server.name));
    let mut text = format!("{name} {}\n", short_version(server));
    if let Some(title) = server.title.as_deref().map(sanitize_line) {
        text.push_str(&format!("  {title}\n"));
    }
    if !server.description.is_empty() {
        text.push_str(&format!("  {}\n", sanitize_line(&server.description)));
    }
    if server.status != ListingStatus::Active {
        let status = paint(TextStyle::Warning, server.status.id());
        let why = server.status_message.as_deref().map(sanitize_line);
        let why = why.map(|it| format!(": {it}")).unwrap_or_default();
        text.push_str(&format!("  Status:       {status}{why}\n"));
    }
    text
}

/// Everything about a server.
pub fn details(server: &RegistryServer) -> String {
    let mut text = heading(server);
    for (label, value) in [
        ("Published:", &server.published_at),
        ("Website:", &server.website),
        ("Source:", &server.repository),
    ] {
        if let Some(value) = value {
            text.push_str(&format!("  {label:<13} {}\n", sanitize_line(value)));
        }
    }
    for option in server.install_options() {
        text.push_str(&format!("\n{}\n", option_text(option)));
        text.push_str(&option_details(option));
    }
    if !server.problems.is_empty() {
        text.push('\n');
    }
    for problem in &server.problems {
        let note = paint(TextStyle::Warning, "note:");
        text.push_str(&format!("{note} {}\n", printable(&sanitize_line(problem))));
    }
    if server.status != ListingStatus::Deleted {
        text.push_str(&format!("\nAdd it: swb registry add {}\n", printable(&server.name)));
    }
    text
}

fn option_details(option: InstallOption<'_>) -> String {
    let mut text = String::new();
    if let InstallOption::Package(package) = option
        && let Some(base) = &package.registry_base_url
    {
        text.push_str(&format!("  published at {}\n", sanitize_line(base)));
    }
    match EntryDraft::new(option) {
        Err(why) => {
            let why = sanitize_line(&why.to_string());
            text.push_str(&format!("  {} {why}\n", paint(TextStyle::Warning, "cannot be added:")));
        }
        Ok(draft) => {
            for warning in draft.warnings() {
                let label = paint(TextStyle::Warning, "warning:");
                text.push_str(&format!("  {label} {}\n", printable(&warning)));
            }
            text.extend(draft.questions().iter().map(question_line));
        }
    }
    text
}

/// A package or a URL in a few words.
pub fn option_text(option: InstallOption<'_>) -> String {
    match option {
        InstallOption::Package(package) => {
            format!("{} package {}", option.label(), printable(&package.pinned()))
        }
        InstallOption::Remote(remote) => {
            format!("{} server at {}", option.label(), printable(remote.url_text()))
        }
    }
}

/// A question on one line.
pub fn question_line(question: &Question) -> String {
    let description = sanitize_line(&question.description);
    let separator = if description.is_empty() { "" } else { ": " };
    format!(
        "  {} ({}){separator}{description}\n",
        printable(&sanitize_line(&question.key)),
        properties(question)
    )
}

/// A question at the terminal.
pub fn question_text(question: &Question) -> String {
    let mut text = format!("\n{}", question_line(question));
    if let Some(example) = &question.placeholder {
        text.push_str(&format!("    for example {}\n", sanitize_line(example)));
    }
    let empty = match (&question.default, question.is_required) {
        (Some(default), _) => format!(" [Enter: {}]", sanitize_line(default)),
        (None, true) => String::new(),
        (None, false) => " [Enter: leave it out]".to_owned(),
    };
    format!("{text}{}{empty}: ", printable(&sanitize_line(&question.key)))
}

fn properties(question: &Question) -> String {
    let mut words = vec![question.place.label().to_owned()];
    words.push(if question.is_required { "required" } else { "optional" }.to_owned());
    if question.is_secret {
        words.push("secret".to_owned());
    }
    if question.is_repeated {
        words.push("may be repeated".to_owned());
    }
    match question.format {
        InputFormat::Text => {}
        InputFormat::Number => words.push("a number".to_owned()),
        InputFormat::Boolean => words.push("true or false".to_owned()),
        InputFormat::Path => words.push("a path".to_owned()),
    }
    if !question.choices.is_empty() {
        words.push(format!("one of {}", sanitize_line(&question.choices.join(", "))));
    }
    if let Some(default) = &question.default {
        words.push(format!("default {}", sanitize_line(default)));
    }
    words.join(", ")
}

/// A server as JSON.
pub fn server_json(server: &RegistryServer) -> Json {
    let options: Vec<Json> = server.install_options().into_iter().map(option_json).collect();
    json!({
        "name": server.name,
        "title": server.title,
        "description": server.description,
        "version": server.version,
        "status": server.status.id(),
        "statusMessage": server.status_message,
        "isLatest": server.is_latest,
        "publishedAt": server.published_at,
        "website": server.website,
        "repository": server.repository,
        "options": options,
        "problems": server.problems,
    })
}

fn option_json(option: InstallOption<'_>) -> Json {
    let (kind, target) = match option {
        InstallOption::Package(package) => ("package", package.pinned()),
        InstallOption::Remote(remote) => ("remote", remote.url_text().to_owned()),
    };
    let draft = EntryDraft::new(option);
    let questions: Vec<Json> = match &draft {
        Ok(draft) => draft.questions().iter().map(question_json).collect(),
        Err(_) => Vec::new(),
    };
    json!({
        "kind": kind,
        "type": option.label(),
        "target": target,
        "problem": draft.as_ref().err().map(ToString::to_string),
        "warnings": draft.as_ref().map(EntryDraft::warnings).unwrap_or_default(),
        "inputs": questions,
    })
}

fn question_json(question: &Question) -> Json {
    json!({
        "key": question.key,
        "place": question.place.label(),
        "description": question.description,
        "required": question.is_required,
        "secret": question.is_secret,
        "repeated": question.is_repeated,
        "format": question.format.id(),
        "default": question.default,
        "choices": question.choices,
    })
}
