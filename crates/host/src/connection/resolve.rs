//! Resolves a server's entry to an address: fetches secrets, makes folders absolute and chooses the variables that a
//! process gets.

use std::ffi::OsString;
use std::path::PathBuf;

use http::{HeaderMap, HeaderName, HeaderValue};
use switchboard_config::entry::server::{
    IdeConfig, ProgramBinding, RemoteConfig, ServerSpec, StdioConfig, TransportConfig,
};
use switchboard_config::template::ExpandedText;
use switchboard_wire::connect::Address;
use switchboard_wire::http::client::Target;
use switchboard_wire::process::child::Program;
use url::Url;

use crate::connection::in_process::InProcessServers;
use crate::failure::{ConnectionFailure, FailureKind};
use crate::sources::child_env;

pub(crate) use crate::sources::host_env::HostEnv;

/// The header of the token of an IDE.
const IDE_TOKEN: HeaderName = HeaderName::from_static("x-claude-code-ide-authorization");

/// The address of a server. Fetches the secrets that its entry names, and blocks meanwhile.
pub(crate) fn server_address(
    spec: &ServerSpec,
    env: &HostEnv,
    in_process: &InProcessServers,
) -> Result<Address, ConnectionFailure> {
    let start_folder = env.start_folder(spec);
    let env = &*env.of_server(spec);
    match &spec.transport {
        TransportConfig::Stdio(stdio) => {
            program(stdio, &spec.program, start_folder, env).map(Address::Stdio)
        }
        TransportConfig::Http(remote) | TransportConfig::ConnectorProxy(remote) => {
            target(remote, env).map(Address::Http)
        }
        TransportConfig::Sse(remote) => target(remote, env).map(Address::Sse),
        TransportConfig::Ws(remote) => target(remote, env).map(Address::WebSocket),
        TransportConfig::SseIde(ide) => ide_target(ide, env).map(Address::Sse),
        TransportConfig::WsIde(ide) => ide_target(ide, env).map(Address::WebSocket),
        TransportConfig::Sdk { name } => match in_process.find(name) {
            Some(server) => Ok(server.address()),
            None => Err(ConnectionFailure::new(FailureKind::NotRegistered)),
        },
    }
}

/// The process of a server. A program that was approved or allowed starts as the file that was checked.
fn program(
    stdio: &StdioConfig<ExpandedText>,
    binding: &ProgramBinding,
    start_folder: PathBuf,
    env: &HostEnv,
) -> Result<Program, ConnectionFailure> {
    let os = |it: &ExpandedText| env.reveal(it).map(OsString::from);
    let given: Result<Vec<_>, ConnectionFailure> =
        stdio.env.iter().map(|(name, value)| Ok((name.clone(), env.reveal(value)?))).collect();
    let variables = child_env::child_environment(&env.variables, given?);
    let cwd = match &stdio.cwd {
        None => start_folder,
        Some(cwd) => env.absolute_path(&env.reveal(cwd)?),
    };
    if !cwd.is_dir() {
        let folder = cwd.display().to_string();
        return Err(ConnectionFailure::new(FailureKind::FolderNotFound { folder }));
    }
    Ok(Program {
        command: match binding {
            ProgramBinding::Unbound => command(&env.reveal(&stdio.command)?, env),
            ProgramBinding::File(file) => file.into(),
            // One that appeared since has not been checked.
            ProgramBinding::NotFound => {
                let command = env.reveal(&stdio.command)?;
                return Err(ConnectionFailure::new(FailureKind::CommandNotFound { command }));
            }
        },
        args: stdio.args.iter().map(os).collect::<Result<_, _>>()?,
        env: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        cwd: Some(cwd),
    })
}

/// A command with a slash is a path relative to the folder of its definition, not to the process's `cwd`.
fn command(command: &str, env: &HostEnv) -> OsString {
    match command.contains('/') {
        true => env.absolute_path(command).into(),
        false => command.into(),
    }
}

fn target(remote: &RemoteConfig<ExpandedText>, env: &HostEnv) -> Result<Target, ConnectionFailure> {
    let mut headers = HeaderMap::new();
    for (name, value) in &remote.headers {
        add_header(&mut headers, name, &env.reveal(value)?)?;
    }
    new_target(&remote.url, headers, env)
}

fn ide_target(ide: &IdeConfig<ExpandedText>, env: &HostEnv) -> Result<Target, ConnectionFailure> {
    let mut headers = HeaderMap::new();
    if let Some(token) = &ide.auth_token {
        add_header(&mut headers, IDE_TOKEN.as_str(), &env.reveal(token)?)?;
    }
    new_target(&ide.url, headers, env)
}

fn new_target(
    url: &ExpandedText,
    headers: HeaderMap,
    env: &HostEnv,
) -> Result<Target, ConnectionFailure> {
    let url = Url::parse(&env.reveal(url)?).map_err(|error| {
        ConnectionFailure::invalid_config(format!("its URL is not valid: {error}"))
    })?;
    Ok(Target::new(url).headers(headers))
}

fn add_header(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), ConnectionFailure> {
    let invalid =
        || ConnectionFailure::invalid_config(format!("`{name}` cannot be sent as a header"));
    let key = HeaderName::try_from(name).map_err(|_| invalid())?;
    let mut value = HeaderValue::try_from(value).map_err(|_| invalid())?;
    value.set_sensitive(true);
    headers.insert(key, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use switchboard_config::entry::name::{ReservedNames, ServerName};
    use switchboard_config::entry::server::{ServerEntry, StartFolder};
    use switchboard_config::file::layer::{FileShape, Layer, Naming};
    use switchboard_config::scope::Scope;
    use switchboard_config::source::Source;

    use super::*;
    use crate::sources::network::{Certificates, load_certificates};

    fn spec(entry: &str) -> ServerSpec {
        let text = format!(r#"{{"mcpServers": {{"s": {entry}}}}}"#);
        let source = Source::file(Scope::User, "/x");
        let layer = Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped);
        let entry: ServerEntry = layer.definitions[0].entry.clone().expect("a good entry");
        let name = ServerName::parse("s", ReservedNames::Refused).expect("a good name");
        entry.expand(name, &BTreeMap::new().into_iter().collect(), &mut BTreeSet::new())
    }

    fn host_env(folder: &Path) -> HostEnv {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        HostEnv {
            home: folder.to_owned(),
            working_folder: folder.to_owned(),
            variables: BTreeMap::from([pair("PATH", "/bin"), pair("X_TOKEN", "secret")]),
        }
    }

    #[test]
    fn a_program_starts_in_the_working_folder_and_without_our_credentials() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let spec = spec(r#"{"command": "./run", "args": ["a"], "env": {"B": "2"}}"#);
        let Ok(Address::Stdio(program)) =
            server_address(&spec, &host_env(folder.path()), &InProcessServers::default())
        else {
            panic!("it is a program");
        };
        assert_eq!(program.command, folder.path().join("./run"));
        assert_eq!(program.cwd.as_deref(), Some(folder.path()));
        let env: Vec<_> = program.env.iter().map(|(name, _)| name.to_str()).collect();
        assert_eq!(env, [Some("B"), Some("PATH")]);
    }

    #[test]
    fn a_project_s_program_starts_in_the_folder_of_its_file_as_the_approved_file() {
        let folder = tempfile::tempdir().expect("a temp folder");
        std::fs::create_dir_all(folder.path().join("project/sub")).expect("created");
        let project = folder.path().join("project");
        let spec = ServerSpec {
            base_folder: Some(project.clone()),
            start_folder: StartFolder::BaseFolder,
            program: ProgramBinding::File("/usr/bin/npx".into()),
            ..spec(r#"{"command": "npx", "cwd": "sub"}"#)
        };
        let Ok(Address::Stdio(program)) =
            server_address(&spec, &host_env(folder.path()), &InProcessServers::default())
        else {
            panic!("it is a program");
        };
        assert_eq!(program.command, "/usr/bin/npx");
        assert_eq!(program.cwd, Some(project.join("sub")));
    }

    #[test]
    fn paths_of_a_definition_do_not_move_the_working_folder_of_its_program() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let spec = ServerSpec {
            base_folder: Some("/etc/switchboard".into()),
            ..spec(r#"{"command": "./run"}"#)
        };
        let Ok(Address::Stdio(program)) =
            server_address(&spec, &host_env(folder.path()), &InProcessServers::default())
        else {
            panic!("it is a program");
        };
        assert_eq!(program.command, "/etc/switchboard/./run");
        assert_eq!(program.cwd.as_deref(), Some(folder.path()));
    }

    #[test]
    fn a_program_that_was_not_there_when_it_was_checked_does_not_start() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let spec = ServerSpec { program: ProgramBinding::NotFound, ..spec(r#"{"command": "sh"}"#) };
        let failure = server_address(&spec, &host_env(folder.path()), &InProcessServers::default())
            .expect_err("`sh` has not been checked");
        assert_eq!(failure.kind, FailureKind::CommandNotFound { command: "sh".to_owned() });
    }

    #[test]
    fn a_missing_folder_and_a_missing_secret_are_different_failures() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let kind = |entry: &str| {
            server_address(&spec(entry), &host_env(folder.path()), &InProcessServers::default())
                .expect_err("it fails")
                .kind
        };
        let missing = folder.path().join("gone").display().to_string();
        assert_eq!(
            kind(r#"{"command": "x", "cwd": "gone"}"#),
            FailureKind::FolderNotFound { folder: missing }
        );
        assert_eq!(
            kind(r#"{"command": "x", "env": {"A": "${file:~/gone}"}}"#),
            FailureKind::SecretUnavailable
        );
    }

    #[test]
    fn certificates_are_read_for_the_server_that_names_them() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let entry = r#"{"type": "http", "url": "https://h/",
            "tls": {"caFile": "~/ca.pem", "clientCertificate": "~/me.pem", "clientKey": "~/key.pem"}}"#;
        let read = || load_certificates(&spec(entry), &host_env(folder.path()));
        let cause = read().expect_err("nothing is there");
        let path = folder.path().join("me.pem");
        let detail = format!("`tls.clientCertificate`: {} cannot be read", path.display());
        assert_eq!(cause.kind, FailureKind::InvalidConfig);
        assert!(cause.evidence[0].text().starts_with(&detail), "{cause:?}");
        for name in ["ca", "me", "key"] {
            std::fs::write(folder.path().join(format!("{name}.pem")), name).expect("written");
        }
        let expected =
            Certificates { authorities: Some(b"ca".to_vec()), identity: Some(b"me\nkey".to_vec()) };
        assert_eq!(read().expect("all is there"), Some(expected));
        let plain = load_certificates(&spec(r#"{"command": "x"}"#), &host_env(folder.path()));
        assert_eq!(plain.expect("nothing is named"), None);
    }
}
