//! Questions at the terminal.

use std::io::Write;

use crate::exit::Exit;
use crate::outcome::Failure;
use crate::prompt::secret_input::read_secret;

/// Whether the user is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AskMode {
    /// At the terminal.
    Terminal,
    /// Options say everything.
    Never,
}

/// Asks the user, and returns the answer as typed.
pub(super) fn ask_line(question: &str) -> Result<String, Failure> {
    print(question)?;
    let mut answer = String::new();
    let length = std::io::stdin().read_line(&mut answer).map_err(unreadable)?;
    match length {
        0 => Err(Failure::new(Exit::Usage, "nothing was written: there is no answer")),
        _ => Ok(answer.trim_end_matches(['\n', '\r']).to_owned()),
    }
}

/// Asks for a secret, which is not shown while it is typed.
pub(super) fn ask_secret(question: &str) -> Result<String, Failure> {
    read_secret(question).map_err(unreadable)
}

/// Prints a text at once.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(unreadable)
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::new(Exit::Failure, "your answer could not be read").caused_by(error)
}
