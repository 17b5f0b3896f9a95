//! The only module that prints: outcomes, failures and problems, escaped and in one style.

use std::borrow::Cow;
use std::io::{self, Write};

use serde_json::{Map, Value as Json, json};
use switchboard::config::display::printable;
use switchboard::config::problem::{Problem, Severity};

use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::{json_line, json_text};
use crate::output::style::{TextStyle, paint};

/// Returns the cursor to the start of the line and clears the line.
pub const CLEAR_LINE: &str = "\r\x1b[K";

/// Where a failure is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureFormat {
    /// As text, on standard error.
    Text,
    /// As text on standard error, and as one JSON object on standard output.
    Json,
}

/// Prints the outcome of a command and returns the exit code.
pub fn print_outcome(outcome: Result<CommandOutput, Failure>, format: FailureFormat) -> Exit {
    match outcome {
        Ok(done) => {
            let text = stdout_text(&done);
            // A thread that writes frames to a parent which reads nothing holds the lock forever.
            let written = match text.is_empty() {
                true => Ok(()),
                false => write(&mut anstream::stdout().lock(), &text),
            };
            let _nowhere_to_say_it = write(&mut anstream::stderr().lock(), &done.notes);
            match written {
                Ok(()) => done.exit.unwrap_or(Exit::Success),
                // A reader that stops early, such as `head`, is not an error.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Success,
                Err(error) => {
                    let failure = Failure::new(Exit::Failure, "the output could not be written");
                    print_outcome(Err(failure.caused_by(error)), FailureFormat::Text)
                }
            }
        }
        Err(failure) => {
            if format == FailureFormat::Json {
                let _reader_left =
                    write(&mut anstream::stdout().lock(), &json_line(&failure_json(&failure)));
            }
            let _reader_left = write(&mut anstream::stderr().lock(), &failure_text(&failure));
            failure.exit
        }
    }
}

/// Prints a piece of output at once, and says whether standard output is still open.
pub fn print_stdout(text: &str) -> StdoutState {
    match write(&mut anstream::stdout().lock(), text) {
        Ok(()) => StdoutState::Open,
        Err(_) => StdoutState::Closed,
    }
}

/// Is standard output still open?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdoutState {
    /// It is open.
    Open,
    /// The reader closed it.
    Closed,
}

/// Prints a note to standard error.
pub fn print_stderr(text: &str) {
    let _reader_left = write(&mut anstream::stderr().lock(), text);
}

/// Replaces the last `lines` lines, for output that is redrawn.
pub fn redraw(lines: usize, text: &str) -> String {
    match lines {
        0 => text.to_owned(),
        lines => format!("\x1b[{lines}A\x1b[J{text}"),
    }
}

fn write(to: &mut impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// The text for standard output. The JSON of a command that failed has an `error` beside its own members.
fn stdout_text(done: &CommandOutput) -> Cow<'_, str> {
    let Some(json) = &done.json else { return Cow::Borrowed(&done.text) };
    let exit = done.exit.filter(|it| *it != Exit::Success);
    let Some(exit) = exit else { return Cow::Owned(json_text(json)) };
    let error = match &done.failure {
        Some(failure) => error_json(failure),
        None => error_json(&Failure::new(exit, exit.description())),
    };
    let mut json = match json.as_object() {
        Some(members) => members.clone(),
        None => Map::from_iter([("result".to_owned(), json.clone())]),
    };
    json.insert("error".to_owned(), error);
    Cow::Owned(json_text(&Json::Object(json)))
}

/// The JSON of a command that has no other output.
pub fn failure_json(failure: &Failure) -> Json {
    json!({"error": error_json(failure)})
}

/// A failure as JSON. Details are part of the cause.
pub fn error_json(failure: &Failure) -> Json {
    let detail = anstream::adapter::strip_str(&failure.detail).to_string();
    let detail = detail.lines().map(|line| line.trim().to_owned());
    let causes = Some(failure.causes.join(": ")).filter(|it| !it.is_empty());
    let causes: Vec<String> = causes.into_iter().chain(detail).collect();
    json!({
        "code": failure.exit.id(),
        "exit": failure.exit.code(),
        "message": failure.message,
        "cause": (!causes.is_empty()).then(|| causes.join("\n")),
        "hint": failure.hint,
    })
}

/// A failure as text.
pub fn failure_text(failure: &Failure) -> String {
    let mut text = format!("{} {}\n", paint(TextStyle::Error, "error:"), failure.message);
    for cause in &failure.causes {
        text.push_str(&format!("  caused by: {cause}\n"));
    }
    text.push_str(&failure.detail);
    if let Some(hint) = &failure.hint {
        text.push_str(&format!("\n{} {hint}\n", paint(TextStyle::Bold, "hint:")));
    }
    text
}

/// Problems as text, each with its position, excerpt and hint.
pub fn problems<'p>(env: &ProcessEnv, problems: impl Iterator<Item = &'p Problem>) -> String {
    const MAX_PROBLEMS: usize = 50;
    let mut text = String::new();
    let mut left_out = 0;
    for (index, it) in problems.enumerate() {
        if index < MAX_PROBLEMS {
            text.push_str(&problem_text(env, it));
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        text.push_str(&format!("… and {left_out} more: swb config check --json\n"));
    }
    text
}

fn problem_text(env: &ProcessEnv, problem: &Problem) -> String {
    let word = match problem.severity() {
        Severity::Error => paint(TextStyle::Error, "error:"),
        Severity::Warning => paint(TextStyle::Warning, "warning:"),
    };
    let subject = match (&problem.server, &problem.key) {
        (Some(server), Some(key)) => format!("`{}`, `{}`: ", printable(server), printable(key)),
        (Some(server), None) => format!("`{}`: ", printable(server)),
        (None, Some(key)) => format!("`{}`: ", printable(key)),
        (None, None) => String::new(),
    };
    let message = printable(&problem.kind.to_string());
    let mut text =
        format!("{word} {subject}{message}\n  {} {}\n", arrow(), problem_location(env, problem));
    if let (Some(excerpt), Some(position)) = (&problem.excerpt, problem.origin.position) {
        let number = position.line.to_string();
        let margin = " ".repeat(number.len());
        let before = " ".repeat(excerpt.column);
        let marks = paint(TextStyle::Error, "^".repeat(excerpt.width.min(60)));
        text.push_str(&format!("   {number} | {}\n", excerpt.line));
        text.push_str(&format!("   {margin} | {before}{marks}\n"));
    }
    if let Some(hint) = problem.hint() {
        text.push_str(&format!("  hint: {}\n", printable(&hint)));
    }
    text
}

fn arrow() -> String {
    paint(TextStyle::Dim, "-->")
}

fn problem_location(env: &ProcessEnv, problem: &Problem) -> String {
    let source = env.display_source(&problem.origin.source);
    match problem.origin.position {
        Some(position) => format!("{source}:{}:{}", position.line, position.column),
        None => source,
    }
}
