//! What the user selects and mentions in the IDE, as texts for the model and for the input. Pure.

use std::path::{Path, PathBuf};

/// A selection of the user in a file that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveSelection {
    /// The file, absolute.
    pub path: PathBuf,
    /// The selected text.
    pub text: String,
    /// The first and the last line, from 1.
    pub lines: (u32, u32),
}

impl ActiveSelection {
    /// How many lines are selected.
    pub fn line_count(&self) -> u32 {
        self.lines.1.saturating_sub(self.lines.0) + 1
    }

    /// The name of the file. Not escaped.
    pub fn file_name(&self) -> String {
        match self.path.file_name() {
            Some(name) => name.to_string_lossy().into_owned(),
            None => self.path.display().to_string(),
        }
    }

    /// The text for the model.
    pub(super) fn prompt_text(&self) -> String {
        let (path, lines) = (self.path.display(), lines_text(self.lines));
        format!(
            "In the editor, the user has selected {lines} of {path}:\n{}\n\
             The selection may have nothing to do with the task.",
            self.text
        )
    }
}

/// A mention of a file that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveMention {
    /// The file, absolute.
    pub path: PathBuf,
    /// The first and the last line, from 1.
    pub lines: Option<(u32, u32)>,
    /// What is typed into the input: `@b.py#L1-3`.
    pub typed: String,
}

impl ActiveMention {
    /// The mention of a file, typed with a path below the working folder where it is there.
    pub(super) fn new(path: &Path, lines: Option<(u32, u32)>, working_folder: &Path) -> Self {
        let shown = path.strip_prefix(working_folder).unwrap_or(path);
        let mut typed = format!("@{}", shown.display());
        match lines {
            Some((first, last)) if first == last => typed.push_str(&format!("#L{first}")),
            Some((first, last)) => typed.push_str(&format!("#L{first}-{last}")),
            None => {}
        }
        ActiveMention { path: path.to_owned(), lines, typed }
    }

    /// The text for the model.
    pub(super) fn prompt_text(&self) -> String {
        let path = self.path.display();
        match self.lines {
            Some(lines) => {
                format!("From the editor, the user refers to {} of {path}.", lines_text(lines))
            }
            None => format!("From the editor, the user refers to the file {path}."),
        }
    }
}

fn lines_text((first, last): (u32, u32)) -> String {
    match first == last {
        true => format!("line {first}"),
        false => format!("the lines {first} to {last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mention_is_typed_with_lines_from_one_and_a_short_path() {
        let typed =
            |path: &str, lines| ActiveMention::new(Path::new(path), lines, Path::new("/w")).typed;
        assert_eq!(typed("/w/a/b.py", Some((1, 3))), "@a/b.py#L1-3");
        assert_eq!(typed("/w/b.py", Some((4, 4))), "@b.py#L4");
        assert_eq!(typed("/other/b.py", None), "@/other/b.py");
    }

    #[test]
    fn a_selection_is_described_with_its_lines_and_its_text() {
        let selection =
            ActiveSelection { path: "/w/b.py".into(), text: "x = 1".to_owned(), lines: (2, 2) };
        assert_eq!(
            selection.prompt_text(),
            "In the editor, the user has selected line 2 of /w/b.py:\nx = 1\n\
             The selection may have nothing to do with the task."
        );
        assert_eq!((selection.line_count(), selection.file_name()), (1, "b.py".to_owned()));
    }
}
