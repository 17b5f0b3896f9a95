//! From what a configuration says to where a server is: secrets in, folders absolute, variables handed down.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use http::{HeaderMap, HeaderName, HeaderValue};
use switchboard_config::entry::server::{
    IdeConfig, RemoteConfig, ServerSpec, StdioConfig, TransportConfig,
};
use switchboard_config::template::ExpandedText;
use switchboard_wire::connect::Address;
use switchboard_wire::http::client::Target;
use switchboard_wire::process::child::Program;
use url::Url;

use crate::connection::in_process::InProcessServer;
use crate::failure::{ConnectionFailure, Evidence, FailureKind};
use crate::sources::child_env;
use crate::sources::secrets;
use crate::sources::secrets::SecretError;

/// What an address depends on, besides the entry. It does not print: secrets are among the variables.
#[derive(Clone, Default)]
pub struct HostEnv {
    /// The person's home.
    pub home: PathBuf,
    /// The folder that somebody works in; servers start there.
    pub working_folder: PathBuf,
    /// Our environment.
    pub variables: BTreeMap<String, String>,
}

impl fmt::Debug for HostEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Around({})", self.working_folder.display())
    }
}

/// Certificates for one server, read from its files. They do not print: a key is among them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Certificates {
    /// Authorities to trust besides the system's.
    pub authorities: Option<Vec<u8>>,
    /// Our own certificate and its key.
    pub identity: Option<Vec<u8>>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates(…)")
    }
}

/// The certificates that an entry names, where it does. Reads files, and blocks meanwhile.
pub fn load_certificates(
    spec: &ServerSpec,
    host_env: &HostEnv,
) -> Result<Option<Certificates>, ConnectionFailure> {
    let tls = match &spec.transport {
        TransportConfig::Http(remote)
        | TransportConfig::Sse(remote)
        | TransportConfig::Ws(remote)
        | TransportConfig::ConnectorProxy(remote) => remote.tls.as_ref(),
        TransportConfig::Stdio(_)
        | TransportConfig::SseIde(_)
        | TransportConfig::WsIde(_)
        | TransportConfig::Sdk { .. } => None,
    };
    let Some(tls) = tls else { return Ok(None) };
    let file = |key: &str, path: &Option<ExpandedText>| match path {
        None => Ok(None),
        Some(path) => {
            let path = absolute_path(&reveal_text(path, host_env)?, host_env);
            std::fs::read(&path).map(Some).map_err(|error| {
                invalid_config(format!("`tls.{key}`: {} cannot be read: {error}", path.display()))
            })
        }
    };
    let certificate = file("clientCertificate", &tls.client_certificate)?;
    let key = file("clientKey", &tls.client_key)?;
    let identity = certificate.map(|mut pem| {
        pem.push(b'\n');
        pem.extend(key.unwrap_or_default());
        pem
    });
    Ok(Some(Certificates { authorities: file("caFile", &tls.ca_file)?, identity }))
}

/// The header that an IDE wants its token in.
const IDE_TOKEN: HeaderName = HeaderName::from_static("x-claude-code-ide-authorization");

/// Where a server is. Fetches the secrets that its entry names, and blocks meanwhile.
pub fn server_address(
    spec: &ServerSpec,
    host_env: &HostEnv,
    in_process: &BTreeMap<String, InProcessServer>,
) -> Result<Address, ConnectionFailure> {
    match &spec.transport {
        TransportConfig::Stdio(stdio) => program(stdio, host_env).map(Address::Stdio),
        TransportConfig::Http(remote) | TransportConfig::ConnectorProxy(remote) => {
            target(remote, host_env).map(Address::Http)
        }
        TransportConfig::Sse(remote) => target(remote, host_env).map(Address::Sse),
        TransportConfig::Ws(remote) => target(remote, host_env).map(Address::WebSocket),
        TransportConfig::SseIde(ide) => ide_target(ide, host_env).map(Address::Sse),
        TransportConfig::WsIde(ide) => ide_target(ide, host_env).map(Address::WebSocket),
        TransportConfig::Sdk { name } => match in_process.get(name) {
            Some(server) => Ok(server.address()),
            None => Err(ConnectionFailure::new(FailureKind::NotRegistered)),
        },
    }
}

fn reveal_text(text: &ExpandedText, host_env: &HostEnv) -> Result<String, ConnectionFailure> {
    let revealed =
        secrets::reveal_text(text, &host_env.home).map_err(|error| secret_failure(&error))?;
    Ok(revealed.reveal().to_owned())
}

fn secret_failure(error: &SecretError) -> ConnectionFailure {
    let detail = format!("{error}: {}", error.kind);
    ConnectionFailure::new(FailureKind::SecretUnavailable).with_evidence(Evidence::Detail(detail))
}

fn invalid_config(detail: String) -> ConnectionFailure {
    ConnectionFailure::new(FailureKind::InvalidConfig).with_evidence(Evidence::Detail(detail))
}

fn program(
    stdio: &StdioConfig<ExpandedText>,
    host_env: &HostEnv,
) -> Result<Program, ConnectionFailure> {
    let os = |it: &ExpandedText| reveal_text(it, host_env).map(OsString::from);
    let given: Result<Vec<_>, ConnectionFailure> = stdio
        .env
        .iter()
        .map(|(name, value)| Ok((name.clone(), reveal_text(value, host_env)?)))
        .collect();
    let env = child_env::child_environment(&host_env.variables, given?);
    let cwd = match &stdio.cwd {
        None => host_env.working_folder.clone(),
        Some(cwd) => absolute_path(&reveal_text(cwd, host_env)?, host_env),
    };
    if !cwd.is_dir() {
        let folder = cwd.display().to_string();
        return Err(ConnectionFailure::new(FailureKind::FolderNotFound { folder }));
    }
    Ok(Program {
        command: command(&reveal_text(&stdio.command, host_env)?, host_env),
        args: stdio.args.iter().map(os).collect::<Result<_, _>>()?,
        env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        cwd: Some(cwd),
    })
}

/// A command with a slash is a path, from where somebody works and not from where the program starts.
fn command(command: &str, host_env: &HostEnv) -> OsString {
    match command.contains('/') {
        true => absolute_path(command, host_env).into(),
        false => command.into(),
    }
}

fn absolute_path(path: &str, host_env: &HostEnv) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => host_env.home.join(rest),
        None => host_env.working_folder.join(Path::new(path)),
    }
}

fn target(
    remote: &RemoteConfig<ExpandedText>,
    host_env: &HostEnv,
) -> Result<Target, ConnectionFailure> {
    let mut headers = HeaderMap::new();
    for (name, value) in &remote.headers {
        add_header(&mut headers, name, &reveal_text(value, host_env)?)?;
    }
    new_target(&remote.url, headers, host_env)
}

fn ide_target(
    ide: &IdeConfig<ExpandedText>,
    host_env: &HostEnv,
) -> Result<Target, ConnectionFailure> {
    let mut headers = HeaderMap::new();
    if let Some(token) = &ide.auth_token {
        add_header(&mut headers, IDE_TOKEN.as_str(), &reveal_text(token, host_env)?)?;
    }
    new_target(&ide.url, headers, host_env)
}

fn new_target(
    url: &ExpandedText,
    headers: HeaderMap,
    host_env: &HostEnv,
) -> Result<Target, ConnectionFailure> {
    let url = Url::parse(&reveal_text(url, host_env)?)
        .map_err(|error| invalid_config(format!("its URL is no URL: {error}")))?;
    Ok(Target::new(url).headers(headers))
}

fn add_header(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), ConnectionFailure> {
    let no_header = || invalid_config(format!("`{name}` cannot be sent as a header"));
    let key = HeaderName::try_from(name).map_err(|_| no_header())?;
    let mut value = HeaderValue::try_from(value).map_err(|_| no_header())?;
    value.set_sensitive(true);
    headers.insert(key, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use switchboard_config::entry::name::{ReservedNames, ServerName};
    use switchboard_config::entry::server::ServerEntry;
    use switchboard_config::file::layer::{FileShape, Layer, Naming};
    use switchboard_config::scope::Scope;
    use switchboard_config::source::Source;

    use super::*;

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
    fn a_program_starts_where_somebody_works_and_without_our_credentials() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let spec = spec(r#"{"command": "./run", "args": ["a"], "env": {"B": "2"}}"#);
        let Ok(Address::Stdio(program)) =
            server_address(&spec, &host_env(folder.path()), &BTreeMap::new())
        else {
            panic!("it is a program");
        };
        assert_eq!(program.command, folder.path().join("./run"));
        assert_eq!(program.cwd.as_deref(), Some(folder.path()));
        let env: Vec<_> = program.env.iter().map(|(name, _)| name.to_str()).collect();
        assert_eq!(env, [Some("B"), Some("PATH")]);
    }

    #[test]
    fn a_folder_that_is_not_there_and_a_secret_that_is_not_there_are_told_apart() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let kind = |entry: &str| {
            server_address(&spec(entry), &host_env(folder.path()), &BTreeMap::new())
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
