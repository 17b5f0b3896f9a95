//! Converts configuration files of other MCP hosts into entries of our format.
//! Pure: the caller finds and reads the files, checks the names, and writes the entries.

mod apps;
mod command_line;
mod editor_variables;
mod entry_builder;
mod error;
mod host_app;
mod note;
mod oauth;
mod outcome;
mod parse;
mod reference;
mod variable_syntax;
pub(crate) mod yaml_tree;

use std::path::Path;

use serde_json::{Map, Value};

pub(crate) use apps::claude::is_same_folder;
pub use error::{ImportError, ImportErrorKind};
pub use host_app::{
    ConfigDirs, FileFormat, FileScope, HostApp, HostAppFile, Platform, config_files,
};
pub use note::{ExpectedType, ImportNote, SkipReason};
pub use outcome::{ImportOutcome, ImportedScope, ImportedServer};

/// Reads the text of another host's file.
///
/// `project` is the current project: it selects the project's servers in a user's file, and it is the workspace
/// folder of a project's file.
pub fn read(file: &HostAppFile, text: &str, project: &Path) -> Result<ImportOutcome, ImportError> {
    let root = parse_file(file.app, text)?;
    Ok(match file.app {
        HostApp::ClaudeCode => apps::claude::read_code(root, project),
        HostApp::ClaudeDesktop => apps::claude::read_desktop(root),
        HostApp::Cursor => apps::cursor::read(root, file.scope, project),
        HostApp::VsCode => apps::vscode::read(root, file.scope, project),
        HostApp::Codex => apps::codex::read(root, file.scope),
        HostApp::Gemini => apps::gemini::read(root, file.scope),
        HostApp::Opencode => apps::opencode::read(root, file),
        HostApp::Zed => apps::zed::read(root, file.scope),
        HostApp::Windsurf => apps::windsurf::read(root, file.scope, project),
        HostApp::Goose => apps::goose::read(root, file.scope),
    })
}

/// Parses the text of an application's file.
pub(crate) fn parse_file(app: HostApp, text: &str) -> Result<Map<String, Value>, ImportError> {
    match app.format() {
        FileFormat::Json => parse::json(text),
        FileFormat::Toml => parse::toml(text),
        FileFormat::Yaml => parse::yaml(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: &str = "/w/app";

    fn config_dirs() -> ConfigDirs<'static> {
        ConfigDirs {
            home: Path::new("/h/ada"),
            config: Path::new("/h/ada/.xdg"),
            project: Path::new(PROJECT),
            platform: Platform::Linux,
        }
    }

    /// Reads a text as the first file of that scope and prints the result.
    pub(super) fn outcome(app: HostApp, scope: FileScope, text: &str) -> String {
        let files = config_files(app, &config_dirs());
        let file =
            files.iter().find(|file| file.scope == scope).expect("the application has such a file");
        match read(file, text, Path::new(PROJECT)) {
            Ok(found) => summary(&found),
            Err(error) => format!("{error}: {}\n", error.kind),
        }
    }

    fn summary(found: &ImportOutcome) -> String {
        let mut text = String::new();
        for ImportedServer { name, scope, entry, notes } in &found.servers {
            text += &format!("{name} ({scope:?}) {}\n", Value::Object(entry.clone()));
            text.extend(notes.iter().map(|note| format!("  {note}\n")));
        }
        text.extend(found.notes.iter().map(|note| format!("{note}\n")));
        text
    }

    /// Files with a secret in every place that may contain one. `%` stands for the secret.
    const FILES_WITH_SECRETS: [(HostApp, &str); 10] = [
        (
            HostApp::ClaudeCode,
            r#"{"mcpServers": {
                "a": {"command": "%", "args": ["--key=%", "$% ${%-% %}"], "env": {"K": "%$%"}, "x": "%"},
                "b": {"type": "http", "url": "https://u:%@h/?k=%", "headers": {"A": "${T:-%} $%"},
                      "headersHelper": "echo %", "oauth": {"clientSecret": "%", "x": "%"}},
                "c": {"type": "%"}, "d": "%", "e": {"command": "x", "env": {"K": ["%"]}}
            }, "projects": {"/other": {"mcpServers": {"%": {}}}}}"#,
        ),
        (
            HostApp::ClaudeDesktop,
            r#"{"mcpServers": {"a": {"command": "x", "args": ["$%"], "env": {"K": "${%}"}, "x": "%"},
                "b": {"url": "%://x"}}}"#,
        ),
        (
            HostApp::Cursor,
            r#"{"mcpServers": {"a": {"command": "x", "env": {"K": "${%}${env:%-%}"}, "envFile": "%"},
                "b": {"url": "https://h/%/sse?k=%", "headers": {"A": "%$"},
                      "auth": {"CLIENT_ID": "%", "CLIENT_SECRET": "${env:S}%", "scopes": ["%"]}}}}"#,
        ),
        (
            HostApp::VsCode,
            r#"{"inputs": [{"id": "k", "default": "%"}, {"id": "p", "password": true, "default": "%"}],
                "servers": {"a": {"command": "x", "env": {"K": "${input:k}%${input:p}", "N": null},
                      "dev": {"watch": "%"}},
                "b": {"type": "http", "url": "unix:///%"}, "c": {"url": "https://h/?%=$%"}},
                "sandbox": {"x": "%"}}"#,
        ),
        (
            HostApp::Codex,
            "[mcp_servers.a]\ncommand = 'x'\nargs = ['$%']\nenv = { K = '${%}' }\nenv_vars = ['T']\n\
             [mcp_servers.b]\nurl = 'https://u:%@h'\nbearer_token = '%'\nbearer_token_env_var = '%-%'\n\
             [mcp_servers.c]\nurl = 'https://h?k=%'\nbearer_token = '%'\nhttp_headers = { A = '$%' }\n\
             http_headers_helper = 'echo %'\nname = '%'\ntool_timeout_sec = 5\noauth_resource = '%'\n\
             [mcp_servers.d]\nurl = 'https://h'\ntool_timeout_sec = '%'\n",
        ),
        (
            HostApp::Gemini,
            r#"{"mcpServers": {"a": {"command": "x", "env": {"K": "%$%", "L": "${%-%}"}, "timeout": "%"},
                "b": {"httpUrl": "https://h?k=%", "headers": {"A": "$%"}, "url": "https://%",
                      "includeTools": ["t(%)"], "oauth": {"clientSecret": "%$", "tokenUrl": "%"}},
                "c": {"url": "https://h/sse?%", "trust": true, "description": "%"}}}"#,
        ),
        (
            HostApp::Opencode,
            r#"{"mcp": {"a": {"type": "local", "command": ["x", "$%"], "environment": {"K": "%{env:%-%}$"}},
                "b": {"type": "remote", "url": "https://h?k=%", "headers": {"A": "$% {env:T}"},
                      "oauth": {"clientSecret": "%", "redirectUri": "%"}, "timeout": "%"},
                "c": {"type": "remote", "url": "https://h?k=%", "oauth": {"clientSecret": "%", "x": "%"}}}}"#,
        ),
        (
            HostApp::Zed,
            r#"{"context_servers": {"a": {"command": {"path": "%", "args": ["$%"], "env": {"K": "%"}}, "x": "%"},
                "b": {"url": "https://h?k=%", "headers": {"A": "%"}, "timeout": "%"},
                "c": {"source": "extension", "settings": {"k": "%"}}}}"#,
        ),
        (
            HostApp::Windsurf,
            r#"{"mcpServers": {"a": {"command": "x", "env": {"K": "%${env:%-%}"}, "alwaysAllow": ["%"]},
                "b": {"serverUrl": "https://h?k=%", "headers": {"A": "%$"}}}}"#,
        ),
        (
            HostApp::Goose,
            "extensions:\n  a: {type: stdio, cmd: x, args: ['$%'], envs: {K: '%'}, x: '%'}\n  \
             b: {type: streamable_http, uri: 'https://h?k=%', headers: {A: '${%-%}'}, timeout: '%'}\n  \
             c: {type: '%'}\n  d: {type: stdio, cmd: x, env_keys: ['%']}\n",
        ),
    ];

    /// Invalid files with secrets.
    const INVALID_FILES_WITH_SECRETS: [(HostApp, &str); 3] = [
        (HostApp::Goose, "extensions:\n  a: {envs: {K: '%' '%'}}\n"),
        (HostApp::Gemini, r#"{"mcpServers": {"a": {"env": {"K": "%" "%"}}}}"#),
        (HostApp::Codex, "[mcp_servers.a]\nenv = { K = '%' '%' }\n"),
    ];

    #[test]
    fn notes_and_errors_contain_no_secrets() {
        const CANARY: &str = "c4naryHunter2";
        for (app, text) in FILES_WITH_SECRETS.into_iter().chain(INVALID_FILES_WITH_SECRETS) {
            for file in config_files(app, &config_dirs()) {
                let outcome = read(&file, &text.replace('%', CANARY), Path::new(PROJECT));
                let is_invalid = INVALID_FILES_WITH_SECRETS.contains(&(app, text));
                assert_eq!(outcome.is_err(), is_invalid, "{app:?}");
                let mut seen = format!("{outcome:?}");
                match outcome {
                    Ok(ImportOutcome { servers, notes }) => {
                        let notes = servers.iter().flat_map(|server| &server.notes).chain(&notes);
                        seen.extend(notes.map(|note| format!("\n{note}")));
                    }
                    Err(error) => seen += &format!("\n{error}: {}", error.kind),
                }
                assert!(!seen.contains(CANARY), "{app:?} shows a secret in {seen}");
            }
        }
    }

    #[test]
    fn an_invalid_file_is_an_error_with_its_position() {
        let invalid = "{\n  \"mcpServers\": {\n    \"a\": { \"command\" }\n  }\n}";
        for app in HostApp::ALL {
            let expected = match app {
                // In YAML it is valid: a key without a value.
                HostApp::Goose => "",
                HostApp::Codex => "cannot read line 1, column 1: it is not TOML\n",
                HostApp::ClaudeCode
                | HostApp::ClaudeDesktop
                | HostApp::Cursor
                | HostApp::VsCode
                | HostApp::Gemini
                | HostApp::Opencode
                | HostApp::Zed
                | HostApp::Windsurf => "cannot read line 3, column 22: it is not JSON\n",
            };
            assert_eq!(outcome(app, FileScope::User, invalid), expected);
        }
    }
}
