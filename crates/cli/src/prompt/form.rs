//! Fills in an elicitation form at a plain terminal, field by field.

use std::fmt::Write;

use serde_json::{Map, Value as Json};
use switchboard::config::display::printable;
use switchboard::elicitation::{ElicitResult, FieldRequirement, Form, FormField};

use crate::output::report;
use crate::output::style::{TextStyle, paint};
use crate::prompt::keyboard::Keyboard;

/// Skips an optional field.
const SKIP: &str = ":none";
/// Declines the form.
const DECLINE: &str = ":no";
/// Cancels the form.
const CANCEL: &str = ":cancel";

/// Prompts for every field and for confirmation.
pub async fn fill(keyboard: &mut Keyboard, form: &Form, server: &str) -> ElicitResult {
    let mut text = String::new();
    for line in form.message.lines() {
        let _infallible = writeln!(text, "  {}", printable(line));
    }
    let help = format!("{DECLINE} declines, {CANCEL} cancels, {SKIP} skips a field");
    let _infallible = writeln!(text, "  {}", paint(TextStyle::Dim, help));
    report::print_stderr(&text);
    let mut answers = Map::new();
    for field in &form.fields {
        match prompt_field(keyboard, field).await {
            FieldInput::Value(value) => {
                answers.insert(field.name.clone(), value);
            }
            FieldInput::Skipped => {}
            FieldInput::Ended(reply) => return reply,
        }
    }
    report::print_stderr(&summary(form, &answers, server));
    match keyboard.next_line().await.as_deref().map(str::trim) {
        Some("" | "y" | "Y" | "yes") => ElicitResult::Accept(answers),
        Some(CANCEL) | None => cancelled(),
        Some(_) => declined(),
    }
}

enum FieldInput {
    Value(Json),
    Skipped,
    Ended(ElicitResult),
}

fn declined() -> ElicitResult {
    ElicitResult::Decline("the user declined".to_owned())
}

fn cancelled() -> ElicitResult {
    ElicitResult::Cancel("the user did not decide".to_owned())
}

async fn prompt_field(keyboard: &mut Keyboard, field: &FormField) -> FieldInput {
    report::print_stderr(&field_intro(field));
    loop {
        report::print_stderr(&field_prompt(field));
        let Some(line) = keyboard.next_line().await else { return FieldInput::Ended(cancelled()) };
        match (line.trim(), &field.default, field.requirement) {
            (DECLINE, _, _) => return FieldInput::Ended(declined()),
            (CANCEL, _, _) => return FieldInput::Ended(cancelled()),
            (SKIP, _, FieldRequirement::Optional) => return FieldInput::Skipped,
            ("", Some(default), _) => return FieldInput::Value(default.clone()),
            ("", None, FieldRequirement::Optional) => return FieldInput::Skipped,
            (_, _, _) => match field.parse(line.trim_end_matches(['\r', '\n'])) {
                Ok(value) => return FieldInput::Value(value),
                Err(error) => {
                    let error = printable(&error.to_string());
                    report::print_stderr(&format!("  {}\n", paint(TextStyle::Warning, error)));
                }
            },
        }
    }
}

/// The description and the choices of a field.
fn field_intro(field: &FormField) -> String {
    let mut text = String::new();
    if let Some(about) = &field.description {
        let _infallible = writeln!(text, "  {}", paint(TextStyle::Dim, printable(about)));
    }
    for (index, choice) in field.kind.choices().iter().enumerate() {
        let _infallible = writeln!(text, "    {}  {}", index + 1, printable(&choice.title));
    }
    text
}

fn field_prompt(field: &FormField) -> String {
    let star = if field.requirement == FieldRequirement::Required { "*" } else { "" };
    let expected = field.kind.expected_input();
    let expected = if expected.is_empty() { expected } else { format!(" ({expected})") };
    let default =
        field.default.as_ref().map(|it| format!(" [{}]", printable(&display_value(it, field))));
    let label = printable(field.label());
    format!("  {}{star}{expected}{}: ", paint(TextStyle::Bold, label), default.unwrap_or_default())
}

/// A value as the user would type it.
fn display_value(value: &Json, field: &FormField) -> String {
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
            let (label, value) =
                (printable(field.label()), printable(&display_value(value, field)));
            let _infallible = writeln!(text, "    {label}: {value}");
        }
    }
    text.push_str("  Send it? [Y/n] ");
    text
}
