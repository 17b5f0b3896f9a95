//! Lets the user edit a text in their own editor.

use std::io::{self, Write};
use std::process::Command;

use thiserror::Error;

use crate::slash_command::split_words;

/// The editor where none is configured.
const DEFAULT_EDITOR: &str = "vi";

/// Why a text was not edited.
#[derive(Debug, Error)]
pub(crate) enum EditorError {
    #[error("EDITOR names no program")]
    NoProgram,
    #[error("no temporary file can be created for the text")]
    NoFile(#[source] io::Error),
    #[error("the editor `{program}` cannot be started")]
    NotStarted {
        program: String,
        #[source]
        error: io::Error,
    },
    #[error("the editor `{program}` failed, so the text is as it was")]
    Failed { program: String },
    #[error("the edited text cannot be read")]
    Unreadable(#[source] io::Error),
}

impl EditorError {
    /// What the user can do about it.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            EditorError::NotStarted { .. } => Some("set VISUAL or EDITOR"),
            EditorError::NoProgram
            | EditorError::NoFile(_)
            | EditorError::Failed { .. }
            | EditorError::Unreadable(_) => None,
        }
    }
}

/// Opens the editor with a text and returns the edited text. Blocks until the editor is closed. `editor` is a command
/// line; it may have arguments.
pub(crate) fn edit_text(editor: Option<&str>, text: &str) -> Result<String, EditorError> {
    let command = split_words(editor.unwrap_or(DEFAULT_EDITOR));
    let Some((program, arguments)) = command.split_first() else {
        return Err(EditorError::NoProgram);
    };
    // Only its owner can read the file.
    let file = tempfile::Builder::new().prefix("message-").suffix(".md").tempfile();
    let mut file = file.map_err(EditorError::NoFile)?;
    file.write_all(text.as_bytes()).map_err(EditorError::NoFile)?;
    let path = file.into_temp_path();
    let status = Command::new(program).args(arguments).arg(&path).status();
    let status =
        status.map_err(|error| EditorError::NotStarted { program: program.clone(), error })?;
    if !status.success() {
        return Err(EditorError::Failed { program: program.clone() });
    }
    let edited = std::fs::read_to_string(&path).map_err(EditorError::Unreadable)?;
    Ok(edited.strip_suffix('\n').unwrap_or(&edited).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(editor: &str) -> Result<String, String> {
        edit_text(Some(editor), "old\n").map_err(|error| error.to_string())
    }

    #[test]
    fn the_text_is_what_the_editor_leaves() {
        assert_eq!(edited("sed -i s/old/new/"), Ok("new".to_owned()));
    }

    #[test]
    fn an_editor_that_fails_changes_nothing() {
        assert!(edited("false").is_err_and(|it| it.contains("`false` failed")));
        assert!(edited("no-such-editor").is_err_and(|it| it.contains("cannot be started")));
    }
}
