//! Turns other hosts' configuration text into server entries of our own shape.
//! Pure: the caller finds and reads the files, checks the names, and writes the entries.

pub mod apps;
mod editor_variables;
mod entry_builder;
mod note;
mod oauth;
mod parse;
mod variable_syntax;

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use entry_builder::ConvertedEntry;
pub use note::{ExpectedType, ImportError, ImportErrorKind, ImportNote, SkipReason};

/// A host whose servers can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostApp {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
}

impl HostApp {
    /// Every host, in the order they are listed to people.
    pub const ALL: [HostApp; 7] = [
        HostApp::ClaudeCode,
        HostApp::ClaudeDesktop,
        HostApp::Cursor,
        HostApp::VsCode,
        HostApp::Codex,
        HostApp::Gemini,
        HostApp::Opencode,
    ];

    /// The word that names it on a command line.
    pub fn id(self) -> &'static str {
        match self {
            HostApp::ClaudeCode => "claude-code",
            HostApp::ClaudeDesktop => "claude-desktop",
            HostApp::Cursor => "cursor",
            HostApp::VsCode => "vscode",
            HostApp::Codex => "codex",
            HostApp::Gemini => "gemini",
            HostApp::Opencode => "opencode",
        }
    }

    /// Its name as people know it.
    pub fn title(self) -> &'static str {
        match self {
            HostApp::ClaudeCode => "Claude Code",
            HostApp::ClaudeDesktop => "Claude Desktop",
            HostApp::Cursor => "Cursor",
            HostApp::VsCode => "VS Code",
            HostApp::Codex => "Codex CLI",
            HostApp::Gemini => "Gemini CLI",
            HostApp::Opencode => "opencode",
        }
    }

    /// Reads an id or a usual other spelling of it, in any case.
    pub fn parse(word: &str) -> Option<HostApp> {
        let word = word.trim().to_lowercase().replace([' ', '_'], "-");
        match word.as_str() {
            "claude-code" | "claude" | "claudecode" => Some(HostApp::ClaudeCode),
            "claude-desktop" | "claudedesktop" | "desktop" => Some(HostApp::ClaudeDesktop),
            "cursor" => Some(HostApp::Cursor),
            "vscode" | "vs-code" | "code" | "visual-studio-code" => Some(HostApp::VsCode),
            "codex" | "codex-cli" => Some(HostApp::Codex),
            "gemini" | "gemini-cli" => Some(HostApp::Gemini),
            "opencode" | "open-code" => Some(HostApp::Opencode),
            _ => None,
        }
    }
}

/// The system whose folders are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Linux and the other Unixes.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

/// The folders that peers keep their files in.
#[derive(Debug, Clone, Copy)]
pub struct ConfigDirs<'a> {
    /// The person's home.
    pub home: &'a Path,
    /// The XDG configuration folder; on Windows the roaming application data. Not used on macOS.
    pub config: &'a Path,
    /// The project at hand.
    pub project: &'a Path,
    /// The system.
    pub platform: Platform,
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileScope {
    /// One person's, for every project.
    User,
    /// A project's: it lies in the tree, so whoever wrote the tree wrote it.
    Project,
}

/// A file in which a peer may keep servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAppFile {
    /// The host.
    pub app: HostApp,
    /// Where the file would be.
    pub path: PathBuf,
    /// Whose it is.
    pub scope: FileScope,
}

/// The files to look for, in the order in which the host lets a later one win.
///
/// Named VS Code profiles (`User/profiles/<id>/mcp.json`) cannot be known without listing a folder,
/// and `CODEX_HOME` or `CLAUDE_CONFIG_DIR` not without the environment; make a [`PeerFile`] of them.
pub fn config_files(app: HostApp, config_dirs: &ConfigDirs<'_>) -> Vec<HostAppFile> {
    let ConfigDirs { home, config, project, platform } = *config_dirs;
    // Electron applications share one rule for where their data lies.
    let electron = match platform {
        Platform::Linux | Platform::Windows => config.to_owned(),
        Platform::MacOs => home.join("Library/Application Support"),
    };
    // opencode follows XDG on every system.
    let xdg = match platform {
        Platform::Linux => config.to_owned(),
        Platform::MacOs | Platform::Windows => home.join(".config"),
    };
    let user = |path: PathBuf| HostAppFile { app, path, scope: FileScope::User };
    let project =
        |path: &str| HostAppFile { app, path: project.join(path), scope: FileScope::Project };
    match app {
        HostApp::ClaudeCode => vec![user(home.join(".claude.json"))],
        HostApp::ClaudeDesktop => vec![user(electron.join("Claude/claude_desktop_config.json"))],
        HostApp::Cursor => vec![user(home.join(".cursor/mcp.json")), project(".cursor/mcp.json")],
        HostApp::VsCode => vec![
            user(electron.join("Code/User/mcp.json")),
            user(electron.join("Code - Insiders/User/mcp.json")),
            project(".vscode/mcp.json"),
        ],
        HostApp::Codex => {
            vec![user(home.join(".codex/config.toml")), project(".codex/config.toml")]
        }
        HostApp::Gemini => {
            vec![user(home.join(".gemini/settings.json")), project(".gemini/settings.json")]
        }
        HostApp::Opencode => vec![
            user(xdg.join("opencode/opencode.json")),
            user(xdg.join("opencode/opencode.jsonc")),
            project("opencode.json"),
            project("opencode.jsonc"),
            project(".opencode/opencode.json"),
            project(".opencode/opencode.jsonc"),
        ],
    }
}

/// Whom an imported server was set up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportedScope {
    /// One person, every project.
    User,
    /// Everyone who works on the project.
    Project,
    /// One person, in this project only.
    Local,
}

impl From<FileScope> for ImportedScope {
    fn from(scope: FileScope) -> ImportedScope {
        match scope {
            FileScope::User => ImportedScope::User,
            FileScope::Project => ImportedScope::Project,
        }
    }
}

/// A server that was found and could be turned into an entry.
#[derive(Clone, PartialEq)]
pub struct ImportedServer {
    /// Its name as the peer has it; not checked against our rules.
    pub name: String,
    /// Whom it was for.
    pub scope: ImportedScope,
    /// The entry, in the shape of `mcpServers.<name>`.
    pub entry: Map<String, Value>,
    /// What changed on the way.
    pub notes: Vec<ImportNote>,
}

/// Prints the entry's keys but none of its values: they may be secrets.
impl fmt::Debug for ImportedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Imported")
            .field("name", &self.name)
            .field("reach", &self.scope)
            .field("entry", &self.entry.keys().collect::<Vec<_>>())
            .field("notes", &self.notes)
            .finish()
    }
}

/// What a file held.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportOutcome {
    /// The servers, in the order of the file.
    pub servers: Vec<ImportedServer>,
    /// What concerns the whole file, and the servers that could not be taken.
    pub notes: Vec<ImportNote>,
}

impl ImportOutcome {
    /// Converts each server of a section; one that fails is noted and the rest go on.
    fn add_servers(
        &mut self,
        section: &str,
        servers: Option<Value>,
        scope: ImportedScope,
        convert: impl Fn(&str, Value) -> Result<ConvertedEntry, SkipReason>,
    ) {
        let servers = match servers {
            None | Some(Value::Null) => return,
            Some(Value::Object(servers)) => servers,
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                self.notes.push(ImportNote::KeyNotRead { key: section.to_owned() });
                return;
            }
        };
        for (name, server) in servers {
            match convert(&name, server) {
                Ok(ConvertedEntry { entry, notes }) => {
                    self.servers.push(ImportedServer { name, scope, entry, notes });
                }
                Err(reason) => self.notes.push(ImportNote::ServerSkipped { server: name, reason }),
            }
        }
    }
}

/// Reads the text of a peer's file.
///
/// `project` is the folder at hand: it picks the project's own servers out of a person's file, and
/// it is what a project file means by its workspace folder.
pub fn read(file: &HostAppFile, text: &str, project: &Path) -> Result<ImportOutcome, ImportError> {
    match file.app {
        HostApp::ClaudeCode => Ok(apps::claude::read_code(parse::json(text)?, project)),
        HostApp::ClaudeDesktop => Ok(apps::claude::read_desktop(parse::json(text)?)),
        HostApp::Cursor => Ok(apps::cursor::read(parse::json(text)?, file.scope, project)),
        HostApp::VsCode => Ok(apps::vscode::read(parse::json(text)?, file.scope, project)),
        HostApp::Codex => Ok(apps::codex::read(parse::toml(text)?, file.scope)),
        HostApp::Gemini => Ok(apps::gemini::read(parse::json(text)?, file.scope)),
        HostApp::Opencode => Ok(apps::opencode::read(parse::json(text)?, file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: &str = "/w/app";

    fn config_dirs(platform: Platform) -> ConfigDirs<'static> {
        let (home, config) = match platform {
            Platform::Linux => ("/h/ada", "/h/ada/.xdg"),
            Platform::MacOs => ("/h/ada", "/unused"),
            Platform::Windows => ("C:/h/ada", "C:/h/ada/AppData/Roaming"),
        };
        ConfigDirs {
            home: Path::new(home),
            config: Path::new(config),
            project: Path::new(PROJECT),
            platform,
        }
    }

    /// Reads a text as the first file of that reach, and writes down all that comes of it.
    pub(super) fn outcome(app: HostApp, scope: FileScope, text: &str) -> String {
        let files = config_files(app, &config_dirs(Platform::Linux));
        let file = files.iter().find(|file| file.scope == scope).expect("the peer has such a file");
        match read(file, text, Path::new(PROJECT)) {
            Ok(found) => written(&found),
            Err(error) => format!("{error}: {}\n", error.kind),
        }
    }

    fn written(found: &ImportOutcome) -> String {
        let mut text = String::new();
        for ImportedServer { name, scope, entry, notes } in &found.servers {
            text += &format!("{name} ({scope:?}) {}\n", Value::Object(entry.clone()));
            text.extend(notes.iter().map(|note| format!("  {note}\n")));
        }
        text.extend(found.notes.iter().map(|note| format!("{note}\n")));
        text
    }

    #[track_caller]
    fn check(app: HostApp, platform: Platform, expected: &[(&str, FileScope)]) {
        let found = config_files(app, &config_dirs(platform));
        let found: Vec<(&str, FileScope)> = found
            .iter()
            .map(|file| (file.path.to_str().expect("these paths are text"), file.scope))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn each_host_keeps_its_files_where_it_does_on_linux() {
        use FileScope::*;
        use HostApp::*;
        let linux = Platform::Linux;
        check(ClaudeCode, linux, &[("/h/ada/.claude.json", User)]);
        check(ClaudeDesktop, linux, &[("/h/ada/.xdg/Claude/claude_desktop_config.json", User)]);
        check(
            Cursor,
            linux,
            &[("/h/ada/.cursor/mcp.json", User), ("/w/app/.cursor/mcp.json", Project)],
        );
        check(
            VsCode,
            linux,
            &[
                ("/h/ada/.xdg/Code/User/mcp.json", User),
                ("/h/ada/.xdg/Code - Insiders/User/mcp.json", User),
                ("/w/app/.vscode/mcp.json", Project),
            ],
        );
        check(
            Codex,
            linux,
            &[("/h/ada/.codex/config.toml", User), ("/w/app/.codex/config.toml", Project)],
        );
        check(
            Gemini,
            linux,
            &[("/h/ada/.gemini/settings.json", User), ("/w/app/.gemini/settings.json", Project)],
        );
        check(
            Opencode,
            linux,
            &[
                ("/h/ada/.xdg/opencode/opencode.json", User),
                ("/h/ada/.xdg/opencode/opencode.jsonc", User),
                ("/w/app/opencode.json", Project),
                ("/w/app/opencode.jsonc", Project),
                ("/w/app/.opencode/opencode.json", Project),
                ("/w/app/.opencode/opencode.jsonc", Project),
            ],
        );
    }

    #[test]
    fn desktop_applications_have_a_folder_of_their_own_on_each_system() {
        use FileScope::User;
        let desktop = "Claude/claude_desktop_config.json";
        check(
            HostApp::ClaudeDesktop,
            Platform::MacOs,
            &[(&format!("/h/ada/Library/Application Support/{desktop}"), User)],
        );
        check(
            HostApp::ClaudeDesktop,
            Platform::Windows,
            &[(&format!("C:/h/ada/AppData/Roaming/{desktop}"), User)],
        );
        for (platform, expected) in [
            (Platform::MacOs, "/h/ada/.config/opencode/opencode.json"),
            (Platform::Windows, "C:/h/ada/.config/opencode/opencode.json"),
        ] {
            assert_eq!(
                config_files(HostApp::Opencode, &config_dirs(platform))[0].path,
                Path::new(expected)
            );
        }
    }

    #[test]
    fn a_host_answers_to_its_id_and_to_what_people_call_it() {
        for app in HostApp::ALL {
            assert_eq!(HostApp::parse(app.id()), Some(app));
            assert_eq!(HostApp::parse(app.title()), Some(app));
        }
        for (word, app) in [
            ("claude", Some(HostApp::ClaudeCode)),
            ("Code", Some(HostApp::VsCode)),
            ("vs-code", Some(HostApp::VsCode)),
            ("gemini_cli", Some(HostApp::Gemini)),
            ("zed", None),
            ("", None),
        ] {
            assert_eq!(HostApp::parse(word), app);
        }
    }

    /// Every place of every host that may hold a secret, holding one. `%` stands for the secret.
    const FILES_WITH_SECRETS: [(HostApp, &str); 7] = [
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
    ];

    /// The same in files that do not parse.
    const INVALID_FILES_WITH_SECRETS: [(HostApp, &str); 2] = [
        (HostApp::Gemini, r#"{"mcpServers": {"a": {"env": {"K": "%" "%"}}}}"#),
        (HostApp::Codex, "[mcp_servers.a]\nenv = { K = '%' '%' }\n"),
    ];

    #[test]
    fn nothing_that_people_see_holds_a_secret() {
        const CANARY: &str = "c4naryHunter2";
        for (app, text) in FILES_WITH_SECRETS.into_iter().chain(INVALID_FILES_WITH_SECRETS) {
            for file in config_files(app, &config_dirs(Platform::Linux)) {
                let outcome = read(&file, &text.replace('%', CANARY), Path::new(PROJECT));
                let is_broken = INVALID_FILES_WITH_SECRETS.contains(&(app, text));
                assert_eq!(outcome.is_err(), is_broken, "{app:?}");
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
    fn a_file_that_does_not_parse_says_where() {
        let broken = "{\n  \"mcpServers\": {\n    \"a\": { \"command\" }\n  }\n}";
        for app in HostApp::ALL {
            let expected = match app {
                HostApp::Codex => "cannot read line 1, column 1: it is not TOML\n",
                HostApp::ClaudeCode
                | HostApp::ClaudeDesktop
                | HostApp::Cursor
                | HostApp::VsCode
                | HostApp::Gemini
                | HostApp::Opencode => "cannot read line 3, column 22: it is not JSON\n",
            };
            assert_eq!(outcome(app, FileScope::User, broken), expected);
        }
    }

    #[test]
    fn importing_touches_nothing_outside_its_arguments() {
        const SOURCES: [(&str, &str); 13] = [
            ("import.rs", include_str!("import.rs")),
            ("apps/claude.rs", include_str!("import/apps/claude.rs")),
            ("apps/codex.rs", include_str!("import/apps/codex.rs")),
            ("apps/cursor.rs", include_str!("import/apps/cursor.rs")),
            ("entry_builder.rs", include_str!("import/entry_builder.rs")),
            ("editor_variables.rs", include_str!("import/editor_variables.rs")),
            ("apps/gemini.rs", include_str!("import/apps/gemini.rs")),
            ("note.rs", include_str!("import/note.rs")),
            ("oauth.rs", include_str!("import/oauth.rs")),
            ("apps/opencode.rs", include_str!("import/apps/opencode.rs")),
            ("variable_syntax.rs", include_str!("import/variable_syntax.rs")),
            ("parse.rs", include_str!("import/parse.rs")),
            ("apps/vscode.rs", include_str!("import/apps/vscode.rs")),
        ];
        // Methods of `Path` that look at the disk are as forbidden as the modules.
        let impure = [
            "::fs",
            "::env",
            "::net",
            "::process",
            "::io",
            "::time",
            "::thread",
            "env!",
            "print",
            "async ",
            ".exists()",
            ".is_file()",
            ".is_dir()",
            ".canonicalize()",
            ".metadata()",
            ".read_dir()",
            ".read_link()",
        ];
        for (name, source) in SOURCES {
            let code = source.split("#[cfg(test)]").next().unwrap_or_default();
            let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            for (word, line) in
                impure.iter().flat_map(|word| code.clone().map(move |line| (word, line)))
            {
                assert!(!line.contains(word), "{name} has {word:?} in {line:?}");
            }
        }
    }
}
