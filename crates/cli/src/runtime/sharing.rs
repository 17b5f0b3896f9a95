//! How this run uses the shared host: whether at all, and whether it may start one.

use std::ffi::OsString;
use std::path::PathBuf;

use switchboard::sharing::SharingOptions;
use switchboard::sharing::share::client::{ClientOptions, HostLauncher, SharedHostClient};
use switchboard::sharing::share::protocol::{Build, ClientInfo};
use switchboard::wire::process::child::OWNER_VARIABLE;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::runtime::subprocess;

/// The variable that turns sharing off or on: `off`, `on`, or `auto`.
pub const SHARE_VARIABLE: &str = "SWB_SHARE";
/// Set by continuous integration services: nothing may outlive the run.
const CI_VARIABLE: &str = "CI";

/// Variables that a shared host gets. Servers get those of the client that starts them.
const HOST_VARIABLES: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "LANG",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    crate::env::CONFIG_DIR_VARIABLE,
    "SWB_TESTBED_MANAGED",
    "SWB_TESTBED_BUILD",
];

/// Whether a run without a terminal starts a shared host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostStart {
    /// Only if a user is at a terminal.
    Interactive,
    /// Yes: it serves a program of the user.
    Always,
}

/// What the variable says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShareMode {
    Off,
    Auto,
    On,
}

fn share_mode(invocation: &Invocation) -> Result<ShareMode, Failure> {
    if invocation.global.no_share {
        return Ok(ShareMode::Off);
    }
    let value = invocation.env.variables.get(SHARE_VARIABLE).map(String::as_str);
    match value {
        None | Some("" | "auto") => Ok(ShareMode::Auto),
        Some("off" | "0" | "false") => Ok(ShareMode::Off),
        Some("on" | "1" | "true") => Ok(ShareMode::On),
        Some(_) => Err(Failure::new(
            Exit::Usage,
            &format!("{SHARE_VARIABLE} is neither `on`, `off` nor `auto`"),
        )),
    }
}

/// The sharing of a run; `None` where each session runs its own servers.
pub fn options(
    invocation: &Invocation,
    start: HostStart,
) -> Result<Option<SharingOptions>, Failure> {
    let mode = share_mode(invocation)?;
    let settings = invocation.providers().sharing.clone();
    if mode == ShareMode::Off || !settings.is_enabled() {
        return Ok(None);
    }
    let variables = &invocation.env.variables;
    // A command of a server or of the Bash tool ends with its descendants, so a host would end, too.
    let is_nested = variables.contains_key(OWNER_VARIABLE);
    let is_ci = variables.get(CI_VARIABLE).is_some_and(|it| !it.is_empty() && it != "false");
    let terminal = &invocation.env.terminal;
    let is_interactive = terminal.is_interactive || terminal.can_prompt;
    let may_start = !is_nested
        && match (mode, start) {
            (ShareMode::Off, _) => false,
            (ShareMode::On, _) => true,
            (ShareMode::Auto, HostStart::Always) => !is_ci,
            (ShareMode::Auto, HostStart::Interactive) => is_interactive && !is_ci,
        };
    let launcher = if may_start { launcher(invocation) } else { None };
    Ok(Some(SharingOptions {
        client: client_with(invocation, launcher),
        settings,
        client_info: ClientInfo {
            pid: std::process::id(),
            command: command_name(std::env::args_os().skip(1)),
            folder: invocation.env.working_folder.clone(),
        },
    }))
}

/// A client that starts no host.
pub fn client(invocation: &Invocation) -> SharedHostClient {
    client_with(invocation, None)
}

fn client_with(invocation: &Invocation, launcher: Option<HostLauncher>) -> SharedHostClient {
    SharedHostClient::new(ClientOptions {
        folder: invocation.env.shared_host_folder(),
        build: invocation.env.build.clone(),
        launcher,
    })
}

fn launcher(invocation: &Invocation) -> Option<HostLauncher> {
    let folder: PathBuf = invocation.env.shared_host_folder();
    let variables = invocation.env.variables.restricted_to(HOST_VARIABLES);
    let pair = |(name, value): (&String, &String)| (OsString::from(name), OsString::from(value));
    Some(HostLauncher {
        command: std::env::current_exe().ok()?,
        args: vec![subprocess::SHARED_HOST_ARGUMENT.into(), folder.into()],
        env: variables.iter().map(pair).collect(),
    })
}

/// The first words of the command line: enough to recognize it, without arguments, which may be secret.
fn command_name(words: impl Iterator<Item = OsString>) -> String {
    let is_word = |it: &String| it.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let words = words.map(|it| it.to_string_lossy().into_owned());
    let first = words.filter(|it| !it.starts_with('-')).take_while(is_word).take(1);
    std::iter::once("swb".to_owned()).chain(first).collect::<Vec<_>>().join(" ")
}

/// The build of this program: its version, and when its file was written.
pub fn current_build(written: Option<u64>) -> Build {
    let modified = || {
        let metadata = std::env::current_exe().and_then(std::fs::metadata).ok()?;
        let since = metadata.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_nanos()).ok()
    };
    Build {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        written: written.or_else(modified).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_named_without_its_arguments() {
        let name = |words: &[&str]| command_name(words.iter().map(OsString::from));
        assert_eq!(name(&["call", "mcp__db__query", "password=x"]), "swb call");
        assert_eq!(name(&["--json", "serve", "--pool"]), "swb serve");
        assert_eq!(name(&[]), "swb");
        assert_eq!(name(&["-p", "Tell me"]), "swb");
    }
}
