//! The key of a shared program: sessions with the same key use the same copy. It covers the entry, the folder where
//! that counts, and the variables that change what a program does. Not the whole environment: no two terminals have the
//! same one.

use std::ffi::OsStr;
use std::path::Path;

use switchboard_config::entry::server::{
    ServerSpec, StartFolder, StdioConfig, TransportConfig, sha256,
};
use switchboard_config::entry::sharing::SharingClass;
use switchboard_config::template::ExpandedText;
use switchboard_wire::process::child::Program;

use super::class::ServerSharing;
use crate::sources::desired_server::DesiredServer;

/// Variables that count.
const COUNTING: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "SHELL",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "KUBECONFIG",
    "GOPATH",
    "GOROOT",
    "GOBIN",
    "JAVA_HOME",
    "VIRTUAL_ENV",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CLASSPATH",
    "EDITOR",
    "BROWSER",
];

/// Prefixes of variables that count: locale, proxies, folders of the user, and language managers.
const COUNTING_PREFIXES: &[&str] = &[
    "LC_",
    "LD_",
    "DYLD_",
    "NODE_",
    "NPM_",
    "NVM_",
    "FNM_",
    "VOLTA_",
    "BUN_",
    "DENO_",
    "PYTHON",
    "PYENV_",
    "UV_",
    "PIP_",
    "CONDA_",
    "POETRY_",
    "CARGO_",
    "RUSTUP_",
    "GEM_",
    "RBENV_",
    "BUNDLE_",
    "ASDF_",
    "MISE_",
    "SDKMAN_",
    "DOTNET_",
    "DOCKER_",
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "CLOUDSDK_",
];

/// Folders of the user, such as `XDG_CONFIG_HOME`. Other `XDG_` variables belong to a session.
fn is_user_folder(name: &str) -> bool {
    name.starts_with("XDG_") && (name.ends_with("_HOME") || name.ends_with("_DIRS"))
}

/// Whether two sessions with different values of a variable need two copies.
fn counts(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    COUNTING.contains(&upper.as_str())
        || COUNTING_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        || upper.ends_with("_PROXY")
        || is_user_folder(&upper)
}

/// The part of an entry that describes a program. Only programs are shared.
fn stdio_config(spec: &ServerSpec) -> Option<&StdioConfig<ExpandedText>> {
    match &spec.transport {
        TransportConfig::Stdio(stdio) => Some(stdio),
        TransportConfig::Http(_)
        | TransportConfig::Sse(_)
        | TransportConfig::Ws(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::Sdk { .. }
        | TransportConfig::ConnectorProxy(_) => None,
    }
}

/// The program as it runs for all sessions of a class. One copy for the user starts in the home folder, unless its
/// entry or its file says where.
pub(super) fn program_of_class(
    program: &Program,
    class: SharingClass,
    spec: &ServerSpec,
    home: &Path,
) -> Program {
    let mut program = program.clone();
    let names_folder = stdio_config(spec).is_some_and(|it| it.cwd.is_some());
    if class == SharingClass::User
        && spec.start_folder == StartFolder::WorkingFolder
        && !names_folder
    {
        program.cwd = Some(home.to_owned());
    }
    program
}

/// The key of a program. It contains no secret, only a hash of them.
pub(super) fn sharing_key(
    desired: &DesiredServer,
    program: &Program,
    sharing: &ServerSharing,
) -> String {
    let configured: Vec<&str> = stdio_config(&desired.spec)
        .map(|stdio| stdio.env.iter().map(|it| it.0.as_str()).collect())
        .unwrap_or_default();
    let mut input = KeyInput(Vec::new());
    input.add(desired.name());
    input.add(desired.fingerprint.as_str());
    input.add(sharing.class.as_str());
    // A server whose class is configured is offered no roots.
    input.add(if sharing.is_configured() { "configured" } else { "default" });
    input.add(&program.command);
    for argument in &program.args {
        input.add(argument);
    }
    input.add(program.cwd.as_deref().unwrap_or(Path::new("")));
    for (name, value) in &program.env {
        let is_configured = |name: &str| configured.contains(&name);
        if name.to_str().is_some_and(|name| counts(name) || is_configured(name)) {
            input.add(name);
            input.add(value);
        }
    }
    sha256(&input.0)
}

/// The input of the hash: every text after its length, so that two lists never look the same.
struct KeyInput(Vec<u8>);

impl KeyInput {
    fn add(&mut self, text: impl AsRef<OsStr>) {
        let bytes = text.as_ref().as_encoded_bytes();
        self.0.extend_from_slice(&bytes.len().to_le_bytes());
        self.0.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::class::SharingReason;
    use crate::sources::desired_server::desired_servers;
    use crate::sources::loader;

    fn desired(entry: &str) -> DesiredServer {
        let servers = format!(r#"{{"mcpServers": {{"s": {entry}}}}}"#);
        let configuration = loader::from_program("test", &servers);
        desired_servers(&configuration).pop().expect("one server")
    }

    fn program(env: &[(&str, &str)], cwd: &str) -> Program {
        Program {
            command: "run".into(),
            args: Vec::new(),
            env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: Some(cwd.into()),
        }
    }

    fn workspace() -> ServerSharing {
        ServerSharing { class: SharingClass::Workspace, reason: SharingReason::Default }
    }

    #[test]
    fn terminals_share_a_copy_and_what_a_program_depends_on_separates() {
        let desired = desired(r#"{"command": "run", "env": {"MODE": "x"}}"#);
        let key = |env: &[(&str, &str)], cwd: &str| {
            sharing_key(&desired, &program(env, cwd), &workspace())
        };
        let base = key(&[("MODE", "x"), ("PATH", "/bin"), ("TERM", "xterm")], "/a");
        let other_terminal =
            [("MODE", "x"), ("PATH", "/bin"), ("TERM", "screen"), ("SHLVL", "2"), ("TMUX", "1")];
        assert_eq!(key(&other_terminal, "/a"), base);
        assert_ne!(key(&[("MODE", "x"), ("PATH", "/usr/bin")], "/a"), base);
        assert_ne!(key(&[("MODE", "y"), ("PATH", "/bin")], "/a"), base);
        assert_ne!(key(&[("MODE", "x"), ("PATH", "/bin")], "/b"), base);
        for name in ["https_proxy", "LC_ALL", "XDG_CONFIG_HOME", "NVM_DIR", "LD_PRELOAD"] {
            assert_ne!(key(&[("MODE", "x"), ("PATH", "/bin"), (name, "1")], "/a"), base, "{name}");
        }
        for name in ["XDG_SESSION_ID", "WINDOWID", "SSH_TTY", "PWD", "OLDPWD", "COLUMNS"] {
            assert_eq!(key(&[("MODE", "x"), ("PATH", "/bin"), (name, "1")], "/a"), base, "{name}");
        }
    }

    #[test]
    fn one_copy_for_the_user_runs_at_home_unless_its_entry_names_a_folder() {
        let home = Path::new("/users/ada");
        let folder = |entry: &str, class| {
            let desired = desired(entry);
            program_of_class(&program(&[], "/work"), class, &desired.spec, home).cwd
        };
        assert_eq!(folder(r#"{"command": "run"}"#, SharingClass::User), Some(home.to_owned()));
        let named = folder(r#"{"command": "run", "cwd": "/srv"}"#, SharingClass::User);
        assert_eq!(named, Some("/work".into()));
        let workspace = folder(r#"{"command": "run"}"#, SharingClass::Workspace);
        assert_eq!(workspace, Some("/work".into()));
    }
}
