//! Translates the variables of other hosts into ours: `${NAME}`, `${NAME:-default}`, `${file:PATH}`.
//! Nothing is expanded here. A dollar sign that the other host takes literally is doubled; otherwise an
//! imported `${cmd:…}` would run a command.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::editor_variables::EditorVariables;
use super::reference::{
    TranslatedReference, TranslatedText, TranslationNote, is_variable_name, variable,
};
use crate::template::closing_braces;

/// How deep defaults with variables may nest; the limit of our own templates is higher.
const MAX_DEFAULT_DEPTH: usize = 8;

/// How another host writes variables.
#[derive(Debug)]
pub(super) enum VariableSyntax {
    /// No variables.
    None,
    /// `${NAME}` and `${NAME:-default}`.
    Braces,
    /// `${NAME}`, `${NAME:-default}` and `$NAME`.
    Shell,
    /// `${env:NAME}`, `${workspaceFolder}`, `${input:id}` and others.
    Editor(EditorVariables),
    /// `{env:NAME}` and `{file:path}`.
    Substitution {
        /// The folder of relative paths.
        folder: PathBuf,
    },
}

impl VariableSyntax {
    /// Translates a text into our syntax.
    pub(super) fn translate(&self, text: &str) -> TranslatedText {
        self.translate_at(text, 0)
    }

    fn translate_at(&self, text: &str, depth: usize) -> TranslatedText {
        let closings = closing_braces(text);
        let mut out = TranslatedText::default();
        let mut at = 0;
        while let Some(distance) = text[at..].find(self.start_chars()) {
            let start = at + distance;
            out.text.push_str(&text[at..start]);
            let opening = ReferenceStart::at(text, start, &closings);
            let written = match self.reference(&opening, depth) {
                Reference::Translated { written, text, notes } => {
                    out.text.push_str(&text);
                    out.notes.extend(notes);
                    written
                }
                Reference::Unknown { written } => {
                    out.text.push_str(&written.replace('$', "$$"));
                    out.notes.push(TranslationNote::UnknownReference);
                    written
                }
                Reference::Literal if opening.rest.starts_with('$') => {
                    out.text.push_str("$$");
                    out.notes.push(TranslationNote::DollarEscaped);
                    "$"
                }
                Reference::Literal => {
                    out.text.push('{');
                    "{"
                }
            };
            at = start + written.len();
        }
        out.text.push_str(&text[at..]);
        out
    }

    /// The characters that may start a reference.
    fn start_chars(&self) -> &'static [char] {
        match self {
            VariableSyntax::None
            | VariableSyntax::Braces
            | VariableSyntax::Shell
            | VariableSyntax::Editor(_) => &['$'],
            VariableSyntax::Substitution { .. } => &['$', '{'],
        }
    }

    /// Reads the reference that starts there.
    fn reference<'t>(&self, opening: &ReferenceStart<'t>, depth: usize) -> Reference<'t> {
        let braced = opening.braced.filter(|_| opening.rest.starts_with('$'));
        match (self, braced) {
            (VariableSyntax::None, _) => Reference::Literal,
            (VariableSyntax::Shell, None) => bare_variable(opening.rest),
            (
                VariableSyntax::Braces | VariableSyntax::Shell,
                Some(BracedReference { written, inside }),
            ) => Reference::from_translation(written, self.with_default(inside, depth)),
            (VariableSyntax::Editor(editor), Some(BracedReference { written, inside })) => {
                Reference::from_translation(written, editor.translate(inside))
            }
            (VariableSyntax::Braces | VariableSyntax::Editor(_), None) => Reference::Literal,
            (VariableSyntax::Substitution { folder }, None) => substitution(folder, opening),
            (VariableSyntax::Substitution { .. }, Some(_)) => Reference::Literal,
        }
    }

    fn with_default(&self, inside: &str, depth: usize) -> Option<TranslatedReference> {
        let Some((name, default)) = inside.split_once(":-") else {
            return variable(inside);
        };
        if !is_variable_name(name) || depth == MAX_DEFAULT_DEPTH {
            return None;
        }
        let default = self.translate_at(default, depth + 1);
        Some(TranslatedReference {
            text: format!("${{{name}:-{}}}", default.text),
            notes: default.notes,
        })
    }
}

/// A position in a text where a reference may start.
struct ReferenceStart<'t> {
    rest: &'t str,
    braced: Option<BracedReference<'t>>,
}

/// A `${…}` or `{…}`.
#[derive(Clone, Copy)]
struct BracedReference<'t> {
    written: &'t str,
    inside: &'t str,
}

impl<'t> ReferenceStart<'t> {
    fn at(text: &'t str, start: usize, closings: &HashMap<usize, usize>) -> ReferenceStart<'t> {
        let rest = &text[start..];
        let brace = if rest.starts_with('$') { start + 1 } else { start };
        let braced = closings.get(&brace).map(|close| BracedReference {
            written: &text[start..=*close],
            inside: &text[brace + 1..*close],
        });
        ReferenceStart { rest, braced }
    }
}

enum Reference<'t> {
    /// Not a reference.
    Literal,
    /// A reference without equivalent in our syntax.
    Unknown { written: &'t str },
    /// A translated reference.
    Translated { written: &'t str, text: String, notes: Vec<TranslationNote> },
}

impl<'t> Reference<'t> {
    fn from_translation(written: &'t str, known: Option<TranslatedReference>) -> Reference<'t> {
        match known {
            Some(TranslatedReference { text, notes }) => {
                Reference::Translated { written, text, notes }
            }
            None => Reference::Unknown { written },
        }
    }
}

/// Translates `{env:NAME}` or `{file:path}`.
fn substitution<'t>(folder: &Path, opening: &ReferenceStart<'t>) -> Reference<'t> {
    let Some(BracedReference { written, inside }) = opening.braced else {
        return Reference::Literal;
    };
    match inside.split_once(':') {
        Some(("env", name)) => Reference::from_translation(written, variable(name)),
        Some(("file", path)) => Reference::from_translation(written, file(folder, path)),
        Some(_) | None => Reference::Literal,
    }
}

fn file(folder: &Path, path: &str) -> Option<TranslatedReference> {
    let path = if path.starts_with('~') || Path::new(path).is_absolute() {
        path.to_owned()
    } else {
        folder.join(path.strip_prefix("./").unwrap_or(path)).display().to_string()
    };
    // A brace would end our reference early.
    (!path.contains(['{', '}'])).then(|| TranslatedReference {
        text: format!("${{file:{path}}}"),
        notes: vec![TranslationNote::ReadsFile(path)],
    })
}

/// Translates a `$NAME`. Passwords may contain a dollar sign too, so only a name that is clearly a variable is
/// put into a note.
fn bare_variable(text: &str) -> Reference<'_> {
    let in_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let end = text[1..].find(|letter| !in_name(letter)).map_or(text.len(), |length| length + 1);
    let (written, name) = (&text[..end], &text[1..end]);
    if !is_variable_name(name) {
        return Reference::Literal;
    }
    let is_clearly_a_variable =
        name.len() > 2 && !name.contains(|letter: char| letter.is_ascii_lowercase());
    let notes = if is_clearly_a_variable {
        vec![TranslationNote::RequiresVariable(name.to_owned())]
    } else {
        Vec::new()
    };
    Reference::Translated { written, text: written.to_owned(), notes }
}

#[cfg(test)]
mod tests {
    use super::super::editor_variables::Workspace;
    use super::*;

    fn editor() -> VariableSyntax {
        VariableSyntax::Editor(EditorVariables {
            workspace: Workspace::CurrentFolder,
            inputs: Vec::new(),
        })
    }

    fn substitution() -> VariableSyntax {
        VariableSyntax::Substitution { folder: PathBuf::from("/h/ada/.config/opencode") }
    }

    #[track_caller]
    fn check(syntax: &VariableSyntax, text: &str, expected: &str, notes: &str) {
        let translated = syntax.translate(text);
        assert_eq!(translated.text, expected);
        assert_eq!(format!("{:?}", translated.notes), notes);
    }

    #[test]
    fn a_host_without_variables_keeps_its_dollars() {
        check(
            &VariableSyntax::None,
            "pa$$ ${HOME} $1",
            "pa$$$$ $${HOME} $$1",
            "[DollarEscaped, DollarEscaped, DollarEscaped, DollarEscaped]",
        );
        check(&VariableSyntax::None, "{env:X}", "{env:X}", "[]");
    }

    #[test]
    fn braces_pass_and_bare_names_do_not() {
        check(
            &VariableSyntax::Braces,
            "${A}/${B:-b:-c}",
            "${A}/${B:-b:-c}",
            "[RequiresVariable(\"A\")]",
        );
        check(
            &VariableSyntax::Braces,
            "$A ${open",
            "$$A $${open",
            "[DollarEscaped, DollarEscaped]",
        );
        check(&VariableSyntax::Braces, "${A:-${B}}", "${A:-${B}}", "[RequiresVariable(\"B\")]");
        check(&VariableSyntax::Braces, "${A:-{\"k\": 1}}", "${A:-{\"k\": 1}}", "[]");
        check(&VariableSyntax::Braces, "${A:-$5}", "${A:-$$5}", "[DollarEscaped]");
    }

    #[test]
    fn our_secret_references_are_plain_text_in_files_of_other_hosts() {
        for syntax in [VariableSyntax::Braces, VariableSyntax::Shell, editor()] {
            check(&syntax, "${cmd:rm -rf x}", "$${cmd:rm -rf x}", "[UnknownReference]");
            check(&syntax, "${keychain:bank}", "$${keychain:bank}", "[UnknownReference]");
            check(&syntax, "${file:/etc/passwd}", "$${file:/etc/passwd}", "[UnknownReference]");
        }
        check(&VariableSyntax::None, "${cmd:x}", "$${cmd:x}", "[DollarEscaped]");
        check(&substitution(), "${cmd:x}", "$${cmd:x}", "[DollarEscaped]");
        check(&VariableSyntax::Braces, "${A:-${cmd:x}}", "${A:-$${cmd:x}}", "[UnknownReference]");
        check(&editor(), "${env:cmd:x}", "$${env:cmd:x}", "[UnknownReference]");
        check(&substitution(), "{env:cmd:x}", "{env:cmd:x}", "[UnknownReference]");
    }

    #[test]
    fn a_shell_like_host_passes_bare_names_too() {
        check(
            &VariableSyntax::Shell,
            "Bearer $API_TOKEN",
            "Bearer $API_TOKEN",
            "[RequiresVariable(\"API_TOKEN\")]",
        );
        check(
            &VariableSyntax::Shell,
            "${A:-x}$$A_B",
            "${A:-x}$$$A_B",
            "[DollarEscaped, RequiresVariable(\"A_B\")]",
        );
        check(&VariableSyntax::Shell, "$1 5$", "$$1 5$$", "[DollarEscaped, DollarEscaped]");
        check(&VariableSyntax::Shell, "pa$word", "pa$word", "[]");
    }

    #[test]
    fn substitutions_become_variables_and_files() {
        check(&substitution(), "Bearer {env:T}", "Bearer ${T}", "[RequiresVariable(\"T\")]");
        check(&substitution(), "{file:/run/t}", "${file:/run/t}", "[ReadsFile(\"/run/t\")]");
        check(&substitution(), "{file:~/t}", "${file:~/t}", "[ReadsFile(\"~/t\")]");
        check(
            &substitution(),
            "{file:./t}",
            "${file:/h/ada/.config/opencode/t}",
            "[ReadsFile(\"/h/ada/.config/opencode/t\")]",
        );
        check(&substitution(), "{\"a\": \"$T\"}{env:", "{\"a\": \"$$T\"}{env:", "[DollarEscaped]");
    }

    #[test]
    fn deeply_nested_defaults_are_literal() {
        let open = "${A:-".repeat(50_000);
        for tower in [open.clone() + &"}".repeat(50_000), open] {
            assert!(VariableSyntax::Braces.translate(&tower).text.contains("$${A:-"));
        }
        let open = "{env:".repeat(50_000);
        assert_eq!(substitution().translate(&open).text, open);
    }
}
