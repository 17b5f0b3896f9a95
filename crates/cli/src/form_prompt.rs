//! A form, field by field, at a plain terminal: what is wanted, what it is by default, what is wrong with an answer.

use std::fmt::Write;

use serde_json::{Map, Value as Json};
use switchboard::config::shown::printable;
use switchboard::form::{Field, Form, Kind, Need, Whole};
use switchboard::inquiry::Reply;

use crate::keyboard::Keyboard;
use crate::report;
use crate::style::{Meaning, paint};

/// Leaves an optional field out.
const NOTHING: &str = ":none";
/// Says no to the whole form.
const DECLINE: &str = ":no";
/// Decides nothing.
const CANCEL: &str = ":cancel";

/// Has a form filled in.
pub async fn fill(keyboard: &mut Keyboard, form: &Form, server: &str) -> Reply {
    let mut text = String::new();
    for line in form.message.lines() {
        let _infallible = writeln!(text, "  {}", printable(line));
    }
    let help =
        format!("{DECLINE} declines, {CANCEL} decides nothing, {NOTHING} leaves a field out");
    let _infallible = writeln!(text, "  {}", paint(Meaning::Faint, help));
    report::aside(&text);
    let mut answers = Map::new();
    for field in &form.fields {
        match asked(keyboard, field).await {
            Said::Value(value) => {
                answers.insert(field.name.clone(), value);
            }
            Said::Nothing => {}
            Said::Over(reply) => return reply,
        }
    }
    report::aside(&summary(form, &answers, server));
    match keyboard.line().await.as_deref().map(str::trim) {
        Some("" | "y" | "Y" | "yes") => Reply::Accept(answers),
        Some(CANCEL) | None => cancelled(),
        Some(_) => declined(),
    }
}

enum Said {
    Value(Json),
    Nothing,
    Over(Reply),
}

fn declined() -> Reply {
    Reply::Decline("the person said no".to_owned())
}

fn cancelled() -> Reply {
    Reply::Cancel("the person did not decide".to_owned())
}

async fn asked(keyboard: &mut Keyboard, field: &Field) -> Said {
    report::aside(&introduced(field));
    loop {
        report::aside(&prompt(field));
        let Some(line) = keyboard.line().await else { return Said::Over(cancelled()) };
        match (line.trim(), &field.default, field.need) {
            (DECLINE, _, _) => return Said::Over(declined()),
            (CANCEL, _, _) => return Said::Over(cancelled()),
            (NOTHING, _, Need::Optional) => return Said::Nothing,
            ("", Some(default), _) => return Said::Value(default.clone()),
            ("", None, Need::Optional) => return Said::Nothing,
            (_, _, _) => match field.parse(line.trim_end_matches(['\r', '\n'])) {
                Ok(value) => return Said::Value(value),
                Err(unfit) => {
                    let unfit = printable(&unfit.to_string());
                    report::aside(&format!("  {}\n", paint(Meaning::Doubtful, unfit)));
                }
            },
        }
    }
}

/// What is said of a field before it is asked for.
fn introduced(field: &Field) -> String {
    let mut text = String::new();
    if let Some(about) = &field.description {
        let _infallible = writeln!(text, "  {}", paint(Meaning::Faint, printable(about)));
    }
    for (index, choice) in field.kind.choices().iter().enumerate() {
        let _infallible = writeln!(text, "    {}  {}", index + 1, printable(&choice.title));
    }
    text
}

fn prompt(field: &Field) -> String {
    let star = if field.need == Need::Required { "*" } else { "" };
    let wanted = wanted(&field.kind);
    let wanted = if wanted.is_empty() { wanted } else { format!(" ({wanted})") };
    let default = field.default.as_ref().map(|it| format!(" [{}]", printable(&shown(it, field))));
    let label = printable(field.label());
    format!("  {}{star}{wanted}{}: ", paint(Meaning::Strong, label), default.unwrap_or_default())
}

/// What belongs into a field, in few words.
pub fn wanted(kind: &Kind) -> String {
    let range = |least: Option<String>, most: Option<String>| match (least, most) {
        (Some(least), Some(most)) => format!(" {least} to {most}"),
        (Some(least), None) => format!(" from {least}"),
        (None, Some(most)) => format!(" up to {most}"),
        (None, None) => String::new(),
    };
    let text = |it: Option<f64>| it.map(|it| it.to_string());
    match kind {
        Kind::Text { format: Some(format), .. } => format.to_string(),
        Kind::Text { shortest, longest, format: None } => {
            let length = range(shortest.map(|it| it.to_string()), longest.map(|it| it.to_string()));
            if length.is_empty() { length } else { format!("{} characters", length.trim()) }
        }
        Kind::Number { whole: Whole::Only, least, most } => {
            format!("a whole number{}", range(text(*least), text(*most)))
        }
        Kind::Number { whole: Whole::Any, least, most } => {
            format!("a number{}", range(text(*least), text(*most)))
        }
        Kind::Truth => "yes or no".to_owned(),
        Kind::One(_) => "one of these".to_owned(),
        Kind::Some { .. } => "some of these, with commas".to_owned(),
    }
}

/// A value as it would be typed.
fn shown(value: &Json, field: &Field) -> String {
    let title = |value: &str| {
        let choice = field.kind.choices().iter().find(|it| it.value == value);
        choice.map_or_else(|| value.to_owned(), |it| it.title.clone())
    };
    match value {
        Json::String(text) => title(text),
        Json::Bool(true) => "yes".to_owned(),
        Json::Bool(false) => "no".to_owned(),
        Json::Array(values) => {
            values.iter().filter_map(Json::as_str).map(title).collect::<Vec<_>>().join(", ")
        }
        Json::Null | Json::Number(_) | Json::Object(_) => value.to_string(),
    }
}

fn summary(form: &Form, answers: &Map<String, Json>, server: &str) -> String {
    let mut text = format!("  This goes to {}:\n", printable(server));
    for field in &form.fields {
        if let Some(value) = answers.get(&field.name) {
            let (label, value) = (printable(field.label()), printable(&shown(value, field)));
            let _infallible = writeln!(text, "    {label}: {value}");
        }
    }
    text.push_str("  Send it? [Y/n] ");
    text
}
