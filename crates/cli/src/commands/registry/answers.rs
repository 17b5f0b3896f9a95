//! The answers to what a publisher leaves open: from `--set`, and from the terminal.

use switchboard::config::display::sanitize_line;
use switchboard::config::registry::{AnswerError, Answers, EntryDraft, Question};

use super::ask::{AskMode, ask_line, ask_secret, print};
use crate::exit::Exit;
use crate::outcome::Failure;
use crate::output::registry_text::question_text;

/// The answers of the command line.
pub(super) fn from_options(assignments: &[String]) -> Result<Answers, Failure> {
    let mut answers = Answers::default();
    for (index, assignment) in assignments.iter().enumerate() {
        // Not its text, which may be a secret.
        let (key, value) = assignment.split_once('=').ok_or_else(|| {
            Failure::new(Exit::Usage, &format!("--set number {} is not KEY=VALUE", index + 1))
        })?;
        answers.add(key.trim_start_matches('-'), value.to_owned());
    }
    Ok(answers)
}

/// Asks for everything that is not answered yet.
pub(super) fn complete(
    draft: &EntryDraft,
    answers: &mut Answers,
    mode: AskMode,
) -> Result<(), Failure> {
    let open = draft.questions().iter().filter(|it| !answers.contains(&it.key));
    let open: Vec<Question> = open.cloned().collect();
    if mode == AskMode::Never {
        return Ok(());
    }
    for question in &open {
        ask(question, answers)?;
    }
    Ok(())
}

fn ask(question: &Question, answers: &mut Answers) -> Result<(), Failure> {
    let mut text = question_text(question);
    loop {
        let is_open = !answers.contains(&question.key);
        let line = match question.is_secret {
            true => ask_secret(&text)?,
            false => ask_line(&text)?,
        };
        let value = line.trim();
        text = format!("{}: ", sanitize_line(&question.key));
        if value.is_empty() {
            if is_open && question.is_required && question.default.is_none() {
                print(&format!("{}\n", AnswerError::Missing { key: question.key.clone() }))?;
                continue;
            }
            return Ok(());
        }
        match question.check(value) {
            Ok(()) => answers.add(&question.key, value.to_owned()),
            Err(error) => {
                print(&format!("{}\n", sanitize_line(&error.to_string())))?;
                continue;
            }
        }
        if !question.is_repeated {
            return Ok(());
        }
        text = format!("{} (another one, or Enter): ", sanitize_line(&question.key));
    }
}
