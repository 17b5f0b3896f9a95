//! What the program reads from the system: variables, paths, terminal. Read once in `main`; no other module asks the
//! system.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use switchboard::config::display::printable;
use switchboard::config::entry::sha256;
use switchboard::config::import::Platform;
use switchboard::config::source::{Origin, Source, SourceKind};
use switchboard::config::template::Environment;
use switchboard::sharing::share::protocol::Build;
use switchboard::sources::Paths;
use switchboard::sources::loader::ConnectorUse;

use crate::exit::Exit;
use crate::outcome::Failure;

/// Moves all files of this program except the administrator's.
pub const CONFIG_DIR_VARIABLE: &str = "SWITCHBOARD_CONFIG_DIR";

/// The variables that disable connectors, ours first.
const CONNECTOR_VARIABLES: [&str; 2] = ["SWB_CONNECTORS", "ENABLE_CLAUDEAI_MCP_SERVERS"];

/// The environment of this process.
#[derive(Debug, Clone)]
pub struct ProcessEnv {
    /// The environment variables that are valid UTF-8.
    pub variables: Variables,
    /// The user's home folder.
    pub home: PathBuf,
    /// The working folder, with symbolic links resolved.
    pub working_folder: PathBuf,
    /// The program's own folders.
    pub paths: Paths,
    /// The build of this program.
    pub build: Build,
    /// The terminal at the standard streams.
    pub terminal: Terminal,
}

/// Environment variables. `Debug` shows only their number, because they may hold secrets.
#[derive(Clone, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Keeps only the variables with these names.
    pub fn restricted_to(&self, names: &[&str]) -> Variables {
        let matching = self.0.iter().filter(|(name, _)| names.contains(&name.as_str()));
        Variables(matching.map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

impl Variables {
    /// Whether the environment of this process allows connectors. Files of a project have no say in it.
    pub fn connector_use(&self) -> ConnectorUse {
        let disables = |name: &&str| {
            let value = self.get(*name).map(|it| it.trim().to_ascii_lowercase());
            value.is_some_and(|it| matches!(it.as_str(), "false" | "0" | "off" | "no"))
        };
        match CONNECTOR_VARIABLES.into_iter().find(disables) {
            Some(name) => ConnectorUse::DisabledBy(format!("the variable {name}")),
            None => ConnectorUse::Allowed,
        }
    }
}

impl std::ops::Deref for Variables {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Variables({})", self.0.len())
    }
}

/// The terminal at the standard streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    /// Are standard input and output a terminal?
    pub is_interactive: bool,
    /// Can the user be prompted while a command runs, even if its output is redirected?
    pub can_prompt: bool,
    /// The width of standard output; unlimited where it is not a terminal.
    pub width: usize,
    /// Is standard output a terminal?
    pub stdout_is_terminal: bool,
    /// Is standard error a terminal?
    pub stderr_is_terminal: bool,
    /// The width of standard error.
    pub stderr_width: usize,
}

impl ProcessEnv {
    /// Reads the environment. `managed` is the folder of the administrator's files.
    pub fn from_process(managed: PathBuf, build: Build) -> Result<ProcessEnv, Failure> {
        let variables: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        if std::env::var_os(CONFIG_DIR_VARIABLE).is_some_and(|folder| folder.to_str().is_none()) {
            return Err(Failure::new(Exit::Usage, &format!("{CONFIG_DIR_VARIABLE} is not text")));
        }
        let home = std::env::home_dir().filter(|home| home.is_absolute()).ok_or_else(|| {
            Failure::new(Exit::Failure, "your home folder is unknown").hint("set HOME")
        })?;
        let working_folder =
            std::env::current_dir().and_then(|folder| folder.canonicalize()).map_err(|error| {
                Failure::new(Exit::Failure, "the working folder cannot be read").caused_by(error)
            })?;
        let paths = default_paths(&variables, &home, managed)?;
        let variables = Variables(variables);
        let terminal = detect_terminal();
        Ok(ProcessEnv { variables, home, working_folder, paths, build, terminal })
    }

    /// The folder of the socket of the shared host: one for each folder of state, in the runtime folder of the user
    /// where there is one.
    pub fn shared_host_folder(&self) -> PathBuf {
        let runtime = self.variables.get("XDG_RUNTIME_DIR").map(PathBuf::from);
        let is_moved = self.variables.get(CONFIG_DIR_VARIABLE).is_some_and(|it| !it.is_empty());
        match runtime.filter(|it| it.is_absolute() && it.is_dir() && !is_moved) {
            Some(runtime) => {
                let hash = sha256(self.paths.state.as_os_str().as_encoded_bytes());
                runtime.join(format!("switchboard-{}", &hash[..12]))
            }
            None => self.paths.state.join("host"),
        }
    }

    /// The variables that configurations may refer to.
    pub fn template_environment(&self) -> Environment {
        self.variables.0.clone().into_iter().collect()
    }

    /// The folder where other programs keep their configuration.
    pub fn config_home(&self) -> PathBuf {
        config_home(&self.variables, &self.home)
    }

    /// A source, as a path relative to the working folder or home.
    pub fn display_source(&self, source: &Source) -> String {
        match source.path() {
            Some(path) => self.display_path(path),
            None => printable(&source.to_string()),
        }
    }

    /// A position in a file, written relative to the working folder or home.
    pub fn display_origin(&self, origin: &Origin) -> String {
        let source = self.display_source(&origin.source);
        match (&origin.source.kind, origin.position) {
            (
                SourceKind::File(_) | SourceKind::Inline(_) | SourceKind::InlineSettings,
                Some(position),
            ) => format!("{source}:{}", position.line),
            (SourceKind::Program(_), Some(_)) | (_, None) => source,
        }
    }

    /// A path, relative to the working folder or home.
    pub fn display_path(&self, path: &Path) -> String {
        let text = match (path.strip_prefix(&self.working_folder), path.strip_prefix(&self.home)) {
            (Ok(rest), _) if !rest.as_os_str().is_empty() => rest.display().to_string(),
            (_, Ok(rest)) if !rest.as_os_str().is_empty() => format!("~/{}", rest.display()),
            (Ok(_) | Err(_), Ok(_) | Err(_)) => path.display().to_string(),
        };
        printable(&text)
    }
}

/// The folder of the administrator's files. It depends on the platform alone.
pub fn managed_folder() -> PathBuf {
    match platform() {
        Platform::Linux => PathBuf::from("/etc/switchboard"),
        Platform::MacOs => PathBuf::from("/Library/Application Support/Switchboard"),
        Platform::Windows => PathBuf::from(r"C:\Program Files\Switchboard"),
    }
}

/// The platform this program was built for.
pub fn platform() -> Platform {
    if cfg!(target_os = "macos") {
        Platform::MacOs
    } else if cfg!(windows) {
        Platform::Windows
    } else {
        Platform::Linux
    }
}

fn default_paths(
    variables: &BTreeMap<String, String>,
    home: &Path,
    managed: PathBuf,
) -> Result<Paths, Failure> {
    if let Some(folder) = variables.get(CONFIG_DIR_VARIABLE).filter(|folder| !folder.is_empty()) {
        let folder = PathBuf::from(folder);
        if !folder.is_absolute() {
            let what = format!("{CONFIG_DIR_VARIABLE} must be an absolute path");
            return Err(Failure::new(Exit::Usage, &what)
                .hint("a relative one would mean another folder in every project"));
        }
        return Ok(Paths {
            data: folder.join("data"),
            state: folder.join("state"),
            config: folder,
            managed,
        });
    }
    Ok(Paths {
        config: config_home(variables, home).join("switchboard"),
        data: base_folder(variables, "XDG_DATA_HOME", home.join(".local/share"))
            .join("switchboard"),
        state: base_folder(variables, "XDG_STATE_HOME", home.join(".local/state"))
            .join("switchboard"),
        managed,
    })
}

fn config_home(variables: &BTreeMap<String, String>, home: &Path) -> PathBuf {
    match platform() {
        Platform::Windows => {
            base_folder(variables, "APPDATA", home.join("AppData").join("Roaming"))
        }
        Platform::Linux | Platform::MacOs => {
            base_folder(variables, "XDG_CONFIG_HOME", home.join(".config"))
        }
    }
}

/// A base folder. Relative values are ignored, as the XDG specification requires.
fn base_folder(variables: &BTreeMap<String, String>, name: &str, default: PathBuf) -> PathBuf {
    variables.get(name).map(PathBuf::from).filter(|path| path.is_absolute()).unwrap_or(default)
}

fn detect_terminal() -> Terminal {
    let stdout = std::io::stdout();
    let width = match terminal_size::terminal_size_of(&stdout) {
        Some((terminal_size::Width(columns), _)) if stdout.is_terminal() => usize::from(columns),
        Some(_) | None => usize::MAX,
    };
    let stdout_is_terminal = stdout.is_terminal();
    let stderr_width = match terminal_size::terminal_size_of(std::io::stderr()) {
        Some((terminal_size::Width(columns), _)) if columns > 0 => usize::from(columns),
        Some(_) | None => 80,
    };
    Terminal {
        is_interactive: std::io::stdin().is_terminal() && stdout_is_terminal,
        can_prompt: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
        width,
        stdout_is_terminal,
        stderr_is_terminal: std::io::stderr().is_terminal(),
        stderr_width,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn our_variable_moves_everything_but_the_administrators_folder() {
        let moved = variables(&[(CONFIG_DIR_VARIABLE, "/elsewhere"), ("XDG_CONFIG_HOME", "/x")]);
        let paths = default_paths(&moved, Path::new("/h"), "/m".into()).expect("it is absolute");
        assert_eq!(paths.user_settings(), Path::new("/elsewhere/settings.json"));
        assert_eq!(paths.approvals(), Path::new("/elsewhere/state/approvals.json"));
        assert_eq!(paths.plugins(), Path::new("/elsewhere/data/plugins"));
        assert_eq!(paths.managed_servers(), Path::new("/m/managed-mcp.json"));
    }

    #[test]
    fn a_relative_folder_is_refused_or_ignored() {
        let relative = variables(&[(CONFIG_DIR_VARIABLE, "here")]);
        assert!(default_paths(&relative, Path::new("/h"), "/m".into()).is_err());
        let relative = variables(&[("XDG_CONFIG_HOME", "here")]);
        let paths = default_paths(&relative, Path::new("/h"), "/m".into()).expect("it is ignored");
        assert_eq!(paths.config, Path::new("/h/.config/switchboard"));
    }
}
