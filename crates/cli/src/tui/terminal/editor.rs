//! Lets the person's own editor have a text.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;

use crate::exit::Exit;
use crate::outcome::Failure;
use crate::tui::slash_command::split_words;

/// What is used where nothing is set.
const DEFAULT_EDITOR: &str = "vi";

/// Opens the editor with a text; gives what the text is when it is closed. Blocks until then.
pub fn edit_text(variables: &BTreeMap<String, String>, text: &str) -> Result<String, Failure> {
    let named = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| variables.get(name).filter(|it| !it.trim().is_empty()));
    let command = split_words(named.map_or(DEFAULT_EDITOR, String::as_str));
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::new(Exit::Usage, "EDITOR names no program"));
    };
    let no_file = |error| {
        Failure::new(Exit::Failure, "there is no place for the text to be edited").caused_by(error)
    };
    // Only its owner can read it.
    let mut file =
        tempfile::Builder::new().prefix("message-").suffix(".md").tempfile().map_err(no_file)?;
    file.write_all(text.as_bytes()).map_err(no_file)?;
    let path = file.into_temp_path();
    let status = Command::new(program).args(arguments).arg(&path).status().map_err(|error| {
        Failure::new(Exit::Failure, &format!("the editor `{program}` cannot be started"))
            .caused_by(error)
            .hint("set VISUAL or EDITOR")
    })?;
    if !status.success() {
        let message = format!("the editor `{program}` failed, so the text is as it was");
        return Err(Failure::new(Exit::Failure, &message));
    }
    let edited = std::fs::read_to_string(&path).map_err(|error| {
        Failure::new(Exit::Failure, "what was edited cannot be read").caused_by(error)
    })?;
    Ok(edited.strip_suffix('\n').unwrap_or(&edited).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(editor: &str) -> Result<String, String> {
        let variables = BTreeMap::from([("EDITOR".to_owned(), editor.to_owned())]);
        edit_text(&variables, "old\n").map_err(|failure| failure.message)
    }

    #[test]
    fn what_the_editor_leaves_is_the_text() {
        assert_eq!(edited("sed -i s/old/new/"), Ok("new".to_owned()));
    }

    #[test]
    fn an_editor_that_fails_changes_nothing() {
        assert!(edited("false").is_err_and(|it| it.contains("`false` failed")));
        assert!(edited("no-such-editor").is_err_and(|it| it.contains("cannot be started")));
    }
}
