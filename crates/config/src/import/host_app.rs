//! The applications whose servers can be imported, and the paths of their files.

use std::path::{Path, PathBuf};

/// An MCP host whose servers can be imported.
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
    /// Zed.
    Zed,
    /// Windsurf.
    Windsurf,
    /// goose.
    Goose,
}

/// The format of an application's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// JSON with comments.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

impl HostApp {
    /// Every application, in the order in which they are listed to users.
    pub const ALL: [HostApp; 10] = [
        HostApp::ClaudeCode,
        HostApp::ClaudeDesktop,
        HostApp::Cursor,
        HostApp::VsCode,
        HostApp::Codex,
        HostApp::Gemini,
        HostApp::Opencode,
        HostApp::Zed,
        HostApp::Windsurf,
        HostApp::Goose,
    ];

    /// The name on the command line.
    pub fn id(self) -> &'static str {
        match self {
            HostApp::ClaudeCode => "claude-code",
            HostApp::ClaudeDesktop => "claude-desktop",
            HostApp::Cursor => "cursor",
            HostApp::VsCode => "vscode",
            HostApp::Codex => "codex",
            HostApp::Gemini => "gemini",
            HostApp::Opencode => "opencode",
            HostApp::Zed => "zed",
            HostApp::Windsurf => "windsurf",
            HostApp::Goose => "goose",
        }
    }

    /// The name for users.
    pub fn title(self) -> &'static str {
        match self {
            HostApp::ClaudeCode => "Claude Code",
            HostApp::ClaudeDesktop => "Claude Desktop",
            HostApp::Cursor => "Cursor",
            HostApp::VsCode => "VS Code",
            HostApp::Codex => "Codex CLI",
            HostApp::Gemini => "Gemini CLI",
            HostApp::Opencode => "opencode",
            HostApp::Zed => "Zed",
            HostApp::Windsurf => "Windsurf",
            HostApp::Goose => "goose",
        }
    }

    /// The format of its files.
    pub fn format(self) -> FileFormat {
        match self {
            HostApp::Codex => FileFormat::Toml,
            HostApp::Goose => FileFormat::Yaml,
            HostApp::ClaudeCode
            | HostApp::ClaudeDesktop
            | HostApp::Cursor
            | HostApp::VsCode
            | HostApp::Gemini
            | HostApp::Opencode
            | HostApp::Zed
            | HostApp::Windsurf => FileFormat::Json,
        }
    }

    /// Parses an id or a common alias, in any case.
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
            "zed" => Some(HostApp::Zed),
            "windsurf" | "codeium" => Some(HostApp::Windsurf),
            "goose" => Some(HostApp::Goose),
            _ => None,
        }
    }
}

/// The operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Linux and the other Unixes.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

/// The folders in which applications keep their files.
#[derive(Debug, Clone, Copy)]
pub struct ConfigDirs<'a> {
    /// The home folder of the user.
    pub home: &'a Path,
    /// The XDG configuration folder; on Windows the roaming application data. Not used on macOS.
    pub config: &'a Path,
    /// The current project.
    pub project: &'a Path,
    /// The operating system.
    pub platform: Platform,
}

/// The owner of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileScope {
    /// A user, for every project.
    User,
    /// A project: the file is in its tree, so the authors of the project wrote it.
    Project,
}

/// A file in which an application may keep servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAppFile {
    /// The application.
    pub app: HostApp,
    /// The path of the file.
    pub path: PathBuf,
    /// The owner of the file.
    pub scope: FileScope,
}

/// Returns the files of an application; a later one takes precedence.
///
/// Named VS Code profiles (`User/profiles/<id>/mcp.json`) are found only by listing a folder, and `CODEX_HOME`
/// or `CLAUDE_CONFIG_DIR` only in the environment; the caller builds a [`HostAppFile`] for them.
pub fn config_files(app: HostApp, config_dirs: &ConfigDirs<'_>) -> Vec<HostAppFile> {
    let ConfigDirs { home, config, project, platform } = *config_dirs;
    // Electron applications keep their data in one folder.
    let electron = match platform {
        Platform::Linux | Platform::Windows => config.to_owned(),
        Platform::MacOs => home.join("Library/Application Support"),
    };
    // opencode follows XDG on every system, Zed and goose everywhere but on Windows.
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
        HostApp::Zed => {
            let folder = match platform {
                Platform::Linux | Platform::MacOs => xdg.join("zed"),
                Platform::Windows => config.join("Zed"),
            };
            vec![user(folder.join("settings.json")), project(".zed/settings.json")]
        }
        HostApp::Windsurf => vec![user(home.join(".codeium/windsurf/mcp_config.json"))],
        HostApp::Goose => vec![user(match platform {
            Platform::Linux | Platform::MacOs => xdg.join("goose/config.yaml"),
            Platform::Windows => config.join("Block/goose/config/config.yaml"),
        })],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_dirs(platform: Platform) -> ConfigDirs<'static> {
        let (home, config) = match platform {
            Platform::Linux => ("/h/ada", "/h/ada/.xdg"),
            Platform::MacOs => ("/h/ada", "/unused"),
            Platform::Windows => ("C:/h/ada", "C:/h/ada/AppData/Roaming"),
        };
        ConfigDirs {
            home: Path::new(home),
            config: Path::new(config),
            project: Path::new("/w/app"),
            platform,
        }
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
    fn the_files_of_each_application_on_linux() {
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
        check(
            Zed,
            linux,
            &[("/h/ada/.xdg/zed/settings.json", User), ("/w/app/.zed/settings.json", Project)],
        );
        check(Windsurf, linux, &[("/h/ada/.codeium/windsurf/mcp_config.json", User)]);
        check(Goose, linux, &[("/h/ada/.xdg/goose/config.yaml", User)]);
    }

    #[test]
    fn desktop_applications_use_the_folder_of_the_system() {
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
    fn an_application_is_parsed_from_its_id_its_title_and_its_aliases() {
        for app in HostApp::ALL {
            assert_eq!(HostApp::parse(app.id()), Some(app));
            assert_eq!(HostApp::parse(app.title()), Some(app));
        }
        for (word, app) in [
            ("claude", Some(HostApp::ClaudeCode)),
            ("Code", Some(HostApp::VsCode)),
            ("vs-code", Some(HostApp::VsCode)),
            ("gemini_cli", Some(HostApp::Gemini)),
            ("zeta", None),
            ("", None),
        ] {
            assert_eq!(HostApp::parse(word), app);
        }
    }
}
