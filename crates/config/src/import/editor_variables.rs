//! Translates the variables of editors: folders and inputs.

use std::path::{Path, PathBuf};

use super::host_app::FileScope;
use super::reference::{TranslatedReference, TranslationNote, is_variable_name, variable};

/// Our spelling of the working folder.
const WORKING_FOLDER: &str = "${PWD:-.}";
/// Our spelling of the home folder, on every system.
const HOME_FOLDER: &str = "${HOME:-${USERPROFILE}}";

/// The values of an editor's variables.
#[derive(Debug)]
pub(super) struct EditorVariables {
    /// The workspace folder.
    pub workspace: Workspace,
    /// The values that the editor prompts for.
    pub inputs: Vec<Input>,
}

/// The workspace folder of an editor.
#[derive(Debug)]
pub(super) enum Workspace {
    /// The project that contains the file.
    Project(PathBuf),
    /// The current folder: the file applies to every project.
    CurrentFolder,
}

impl Workspace {
    /// Returns the workspace that a file refers to.
    pub(super) fn for_file(scope: FileScope, project: &Path) -> Workspace {
        match scope {
            FileScope::User => Workspace::CurrentFolder,
            FileScope::Project => Workspace::Project(project.to_owned()),
        }
    }
}

/// A value that an editor prompts for.
#[derive(Debug)]
pub(super) struct Input {
    /// The id in the editor's file.
    pub id: String,
    /// The environment variable that replaces it.
    pub variable: String,
    /// The default, unless it is secret.
    pub default: Option<String>,
}

impl EditorVariables {
    /// Translates the inside of a `${…}`.
    pub(super) fn translate(&self, inside: &str) -> Option<TranslatedReference> {
        if let Some(name) = inside.strip_prefix("env:") {
            return variable(name);
        }
        if let Some(id) = inside.strip_prefix("input:") {
            return Some(self.input(id));
        }
        let text = match (inside, &self.workspace) {
            ("userHome", _) => HOME_FOLDER.to_owned(),
            ("pathSeparator" | "/", _) => "/".to_owned(),
            // Also in a project's file: an absolute path would be wrong for other users.
            ("workspaceFolder" | "cwd", _) => WORKING_FOLDER.to_owned(),
            ("workspaceFolderBasename", Workspace::Project(folder)) => {
                folder.file_name()?.to_string_lossy().replace('$', "$$")
            }
            _ => return None,
        };
        let note = TranslationNote::Rewritten { from: format!("${{{inside}}}"), to: text.clone() };
        Some(TranslatedReference { text, notes: vec![note] })
    }

    fn input(&self, id: &str) -> TranslatedReference {
        let declared = self.inputs.iter().find(|input| input.id == id);
        let name = declared.map_or_else(|| variable_name_for(id), |input| input.variable.clone());
        let text = match declared.and_then(|input| input.default.as_deref()) {
            Some(default) => format!("${{{name}:-{default}}}"),
            None => format!("${{{name}}}"),
        };
        let note = TranslationNote::RequiresInput { input: id.to_owned(), variable: name };
        TranslatedReference { text, notes: vec![note] }
    }
}

/// Returns the name of the environment variable that replaces an input.
pub(super) fn variable_name_for(input: &str) -> String {
    let letter = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' => letter.to_ascii_uppercase(),
        _ => '_',
    };
    let name: String = input.chars().map(letter).collect();
    // Most systems set these variables with another meaning.
    let taken = ["HOME", "LANG", "PATH", "PWD", "SHELL", "TEMP", "TERM", "TMP", "USER", "USERNAME"];
    if is_variable_name(&name) && !taken.contains(&name.as_str()) {
        name
    } else {
        format!("INPUT_{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::variable_syntax::VariableSyntax;
    use super::*;

    fn editor(workspace: Workspace) -> VariableSyntax {
        let input = |id: &str, default: Option<&str>| Input {
            id: id.to_owned(),
            variable: variable_name_for(id),
            default: default.map(str::to_owned),
        };
        let inputs = vec![input("api-key", None), input("region", Some("eu"))];
        VariableSyntax::Editor(EditorVariables { workspace, inputs })
    }

    #[track_caller]
    fn check(syntax: &VariableSyntax, text: &str, expected: &str, notes: &str) {
        let translated = syntax.translate(text);
        assert_eq!(translated.text, expected);
        assert_eq!(format!("{:?}", translated.notes), notes);
    }

    #[test]
    fn environment_variables_and_inputs_are_translated() {
        let syntax = editor(Workspace::CurrentFolder);
        check(&syntax, "${env:TOKEN}", "${TOKEN}", "[RequiresVariable(\"TOKEN\")]");
        check(
            &syntax,
            "${input:api-key}@${input:region}",
            "${API_KEY}@${REGION:-eu}",
            "[RequiresInput { input: \"api-key\", variable: \"API_KEY\" }, \
             RequiresInput { input: \"region\", variable: \"REGION\" }]",
        );
        check(&syntax, "$TOKEN ${TOKEN}", "$$TOKEN $${TOKEN}", "[DollarEscaped, UnknownReference]");
        check(
            &syntax,
            "${command:x.y} ${file}",
            "$${command:x.y} $${file}",
            "[UnknownReference, UnknownReference]",
        );
    }

    #[test]
    fn folders_are_translated() {
        let project = editor(Workspace::Project(PathBuf::from("/src/a$b")));
        check(
            &project,
            "${workspaceFolder}${/}x",
            "${PWD:-.}/x",
            "[Rewritten { from: \"${workspaceFolder}\", to: \"${PWD:-.}\" }, \
             Rewritten { from: \"${/}\", to: \"/\" }]",
        );
        check(
            &project,
            "${workspaceFolderBasename}",
            "a$$b",
            "[Rewritten { from: \"${workspaceFolderBasename}\", to: \"a$$b\" }]",
        );
        let open = editor(Workspace::CurrentFolder);
        check(
            &open,
            "${workspaceFolder} ${userHome}",
            "${PWD:-.} ${HOME:-${USERPROFILE}}",
            "[Rewritten { from: \"${workspaceFolder}\", to: \"${PWD:-.}\" }, \
             Rewritten { from: \"${userHome}\", to: \"${HOME:-${USERPROFILE}}\" }]",
        );
        check(
            &open,
            "${workspaceFolderBasename}",
            "$${workspaceFolderBasename}",
            "[UnknownReference]",
        );
    }

    #[test]
    fn an_input_never_gets_the_name_of_a_common_variable() {
        for (input, expected) in [
            ("github_token", "GITHUB_TOKEN"),
            ("path", "INPUT_PATH"),
            ("2fa", "INPUT_2FA"),
            ("é", "_"),
        ] {
            assert_eq!(variable_name_for(input), expected);
        }
    }
}
