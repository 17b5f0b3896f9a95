//! Configuration files that cannot be used as a whole: unreadable, not JSON, or without an object of servers.

use switchboard::config::display::printable;
use switchboard::config::problem::{Problem, ProblemKind, Severity};
use switchboard::sources::loader::Configuration;

use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::outcome::{CommandOutput, Failure};
use crate::output::style::{TextStyle, paint};

/// One line for each file: where, what, and how to correct it.
pub fn as_text(env: &ProcessEnv, configuration: &Configuration) -> String {
    problems(configuration)
        .map(|problem| {
            let what = printable(&problem.kind.to_string());
            let fix = problem.hint().map_or_else(
                || "correct the file; `swb config check` shows the line".to_owned(),
                |hint| printable(&hint),
            );
            format!(
                "{} {}: {what}, so nothing in it is used; {fix}\n",
                paint(TextStyle::Error, "error:"),
                env.display_origin(&problem.origin),
            )
        })
        .collect()
}

/// Is there such a file?
pub fn is_any(configuration: &Configuration) -> bool {
    problems(configuration).next().is_some()
}

/// The failure of a command that is about all servers, which lacks those of such a file.
pub fn failure(configuration: &Configuration) -> Option<Failure> {
    let problem = problems(configuration).next()?;
    let failure = Failure::new(Exit::Configuration, "a configuration file cannot be used");
    let failure = Failure {
        causes: vec![printable(&format!("{}: {}", problem.origin, problem.kind))],
        ..failure
    };
    Some(failure.hint("correct the file; `swb config check` shows the line"))
}

/// The output of a command that is about all servers: it failed if a file cannot be used, because servers are missing.
pub fn incomplete(configuration: &Configuration, output: CommandOutput) -> CommandOutput {
    match (output.exit, failure(configuration)) {
        (None, Some(failure)) => output.failed(failure),
        (None, None) | (Some(_), _) => output,
    }
}

/// The failure of a command that misses something that may be defined in such a file.
pub fn or_not_found(configuration: &Configuration, failure: Failure) -> Failure {
    match is_any(configuration) && failure.exit == Exit::NotFound {
        true => Failure { exit: Exit::Configuration, ..failure }
            .hint("it may be defined in a file that cannot be used; `swb config check`"),
        false => failure,
    }
}

fn problems(configuration: &Configuration) -> impl Iterator<Item = &Problem> {
    let is_whole_file = |problem: &&Problem| {
        let is_unreadable =
            matches!(problem.kind, ProblemKind::Syntax(_) | ProblemKind::Unreadable(_));
        let is_other_type = matches!(problem.kind, ProblemKind::WrongType { .. })
            && problem.server.is_none()
            && problem.key.as_deref().is_none_or(|key| key == "mcpServers");
        problem.severity() == Severity::Error && (is_unreadable || is_other_type)
    };
    configuration.effective.problems.iter().filter(is_whole_file)
}
