//! The connector account as notes and as JSON: whether it is signed in, and how old the list of its connectors is.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value as Json, json};
use switchboard::config::display;
use switchboard::config::display::{pluralize, printable};
use switchboard::login::ConnectorsError;
use switchboard::sources::{AccountSummary, ListFailureKind};
use switchboard::utc_timestamp;

use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::outcome::{CommandOutput, Failure};
use crate::output::age;
use crate::output::style::{TextStyle, paint};

const LOGIN: &str = "`swb login --account`";

/// What is known about the account without asking it.
#[derive(Debug, Clone, Copy)]
pub struct KnownAccount<'a> {
    /// For showing places.
    pub env: &'a ProcessEnv,
    /// What is known.
    pub summary: &'a AccountSummary,
    /// Where its token comes from.
    pub source: TokenSource,
}

/// Where the token of the account comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenSource {
    /// `swb login --account`.
    Login,
    /// The settings.
    Settings,
}

/// What users should know about the account; empty where all is well, or where there is no account.
pub fn note(known: Option<KnownAccount<'_>>) -> String {
    let Some(known) = known else { return String::new() };
    let KnownAccount { env, summary, .. } = known;
    let mut text = String::new();
    if let Some(origin) = &summary.disabled_by {
        let place = printable(&env.display_origin(origin));
        return format!("note: connectors are disabled by {place}\n");
    }
    if let Some(failure) = &summary.failure {
        text.push_str(&match failure.kind {
            ListFailureKind::SessionRefused => {
                let word = paint(TextStyle::Warning, "warning:");
                let fix = fix(Some(known), ListFailureKind::SessionRefused);
                format!("{word} your connector account refuses the session\n  hint: {fix}\n")
            }
            ListFailureKind::NotSignedIn => {
                let fix = fix(Some(known), ListFailureKind::NotSignedIn);
                format!("note: you are not signed in to your connector account: {fix}\n")
            }
            ListFailureKind::Unavailable => {
                let word = paint(TextStyle::Warning, "warning:");
                format!("{word} {}; {}\n", printable(&failure.reason), list_in_use(summary))
            }
        });
    }
    if summary.skipped > 0 {
        let count = pluralize(summary.skipped, "connector", "connectors");
        text.push_str(&format!("note: {count} of your account cannot be used\n"));
    }
    text
}

/// The note, after an empty line.
pub fn note_paragraph(known: Option<KnownAccount<'_>>) -> String {
    match note(known) {
        text if text.is_empty() => text,
        text => format!("\n{text}"),
    }
}

/// The warning of a run whose request for the list failed.
pub fn refresh_warning(known: Option<KnownAccount<'_>>, error: &ConnectorsError) -> String {
    let reason = Failure::new(Exit::Connection, "").caused_by(error).causes.join(": ");
    let word = paint(TextStyle::Warning, "warning:");
    let used = known.map_or_else(String::new, |it| list_in_use(it.summary));
    let hint = match error {
        ConnectorsError::NotSignedIn => fix(known, ListFailureKind::NotSignedIn),
        ConnectorsError::TokenRefused => fix(known, ListFailureKind::SessionRefused),
        ConnectorsError::NoAccount
        | ConnectorsError::Token(_)
        | ConnectorsError::TokenUnavailable(_)
        | ConnectorsError::Fetch(_)
        | ConnectorsError::Timeout(_)
        | ConnectorsError::InvalidResponse(_) => "`swb list` shows since when".to_owned(),
    };
    format!("{word} {reason}; {used}\n  hint: {hint}\n")
}

fn list_in_use(summary: &AccountSummary) -> String {
    match summary.listed_at {
        None => "no connector is used".to_owned(),
        Some(at) => {
            let count = pluralize(summary.connectors, "connector", "connectors");
            let age = age::short_age(AccountSummary::age_of(at));
            format!("{count} of {age} ago are used")
        }
    }
}

fn fix(known: Option<KnownAccount<'_>>, kind: ListFailureKind) -> String {
    let source = known.map_or(TokenSource::Login, |it| it.source);
    match (kind, source) {
        (ListFailureKind::Unavailable, _) => "try again later".to_owned(),
        (ListFailureKind::SessionRefused | ListFailureKind::NotSignedIn, TokenSource::Settings) => {
            "renew the token that `connectorAccount.token` in your settings names".to_owned()
        }
        (ListFailureKind::SessionRefused | ListFailureKind::NotSignedIn, TokenSource::Login) => {
            LOGIN.to_owned()
        }
    }
}

/// The account as JSON; `None` where there is no account.
pub fn as_json(known: Option<KnownAccount<'_>>) -> Option<Json> {
    let summary = known?.summary;
    let state = match (&summary.disabled_by, &summary.failure, summary.listed_at) {
        (Some(_), _, _) => "disabled",
        (None, Some(failure), _) => failure.kind.id(),
        (None, None, Some(_)) => "listed",
        (None, None, None) => "unknown",
    };
    let kind = summary.failure.as_ref().map(|it| it.kind);
    let listed_at = summary.listed_at.map(|it| utc_timestamp(UNIX_EPOCH + Duration::from_secs(it)));
    Some(json!({
        "apiUrl": display::masked_url(&summary.api_url),
        "state": state,
        "listedAt": listed_at,
        "connectors": summary.connectors,
        "skipped": summary.skipped,
        "reason": summary.failure.as_ref().map(|it| it.reason.clone()),
        "fix": kind.map(|it| fix(known, it).trim_matches('`').to_owned()),
        "disabledBy": summary.disabled_by.as_ref().map(ToString::to_string),
    }))
}

/// Adds the account to the JSON of a command, where there are both.
pub fn add_to_output(known: Option<KnownAccount<'_>>, output: CommandOutput) -> CommandOutput {
    let json = output.json.map(|it| add_to(known, it));
    CommandOutput { json, ..output }
}

/// Adds the account to an object, where there is one.
pub fn add_to(known: Option<KnownAccount<'_>>, mut object: Json) -> Json {
    if let Some(account) = as_json(known) {
        object["account"] = account;
    }
    object
}
