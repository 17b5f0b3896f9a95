//! Starts a host with servers that the program defines itself, and with what calls need by default.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use switchboard_config::merge::{EffectiveConfig, ResolvedServer, ServerState};
use thiserror::Error;

use super::Host;
use super::server_source::ServerSource;
use crate::call::context::CallContext;
use crate::connection::status::Status;
use crate::elicitation::elicitor::{DeclineAll, Elicitor};
use crate::engine::options::HostOptions;
use crate::permission::prompt::PermissionPrompt;
use crate::sources::host_env::HostEnv;
use crate::sources::loader;
use crate::sources::paths::Paths;

/// Builds a [`Host`]. See [`Host::builder`].
#[must_use = "nothing runs before `start`"]
pub struct HostBuilder {
    options: HostOptions,
    servers: Map<String, Json>,
    trusted_servers: Vec<String>,
    prompt: Arc<dyn PermissionPrompt>,
}

/// Why a host was not started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The log, the audit log or the thread that writes state cannot be opened.
    #[error("the files of the host cannot be opened")]
    Files(#[from] io::Error),
    /// The definition of a server is not valid.
    #[error("the server `{name}` cannot be started: {reason}")]
    InvalidServer {
        /// The server.
        name: String,
        /// The reason.
        reason: String,
    },
}

impl Host {
    /// A builder of a host that keeps its files in these paths. Without [`HostBuilder::env`], servers get no variables
    /// and start in the current folder of the process.
    pub fn builder(paths: Paths) -> HostBuilder {
        let env = HostEnv { working_folder: PathBuf::from("."), ..HostEnv::default() };
        HostBuilder {
            options: HostOptions::new(paths, env),
            servers: Map::new(),
            trusted_servers: Vec::new(),
            prompt: Arc::new(DeclineAll::default()),
        }
    }
}

impl HostBuilder {
    /// Adds a server. Its tools are exposed as `mcp__<name>__<tool>`.
    pub fn server(mut self, name: &str, source: impl Into<ServerSource>) -> HostBuilder {
        let (entry, in_process) = source.into().into_entry(name);
        if let Some(server) = in_process {
            self.options.in_process.insert(name.to_owned(), server);
        }
        self.servers.insert(name.to_owned(), entry);
        self
    }

    /// Permits the tools of a server without asking.
    pub fn trust(mut self, server: &str) -> HostBuilder {
        self.trusted_servers.push(server.to_owned());
        self
    }

    /// Answers the elicitations of servers. Without one, they are declined.
    pub fn elicitor(mut self, elicitor: impl Elicitor + 'static) -> HostBuilder {
        self.options.elicitor = Arc::new(elicitor);
        self
    }

    /// Decides about calls of tools of servers that are not trusted. Without one, such calls are denied.
    pub fn permission(mut self, prompt: impl PermissionPrompt + 'static) -> HostBuilder {
        self.prompt = Arc::new(prompt);
        self
    }

    /// Sets home folder, working folder and variables.
    pub fn env(mut self, env: HostEnv) -> HostBuilder {
        self.options.env = env;
        self
    }

    /// Changes any other option.
    pub fn configure(mut self, change: impl FnOnce(&mut HostOptions)) -> HostBuilder {
        change(&mut self.options);
        self
    }

    /// Starts the host inside a Tokio runtime, and waits until each server is connected or its first attempt has
    /// failed. A server that is not connected is no error: [`Host::snapshot`] says why it is not.
    pub async fn start(self) -> Result<Host, StartError> {
        let effective = effective(&self.servers, &self.options.env)?;
        let (host, _ends_with_the_host) = Host::start(self.options)?;
        let context = CallContext {
            trusted_servers: self.trusted_servers.into_iter().collect(),
            prompt: self.prompt,
            ..host.call_context()?
        };
        let _is_new = host.default_context.set(context);
        host.apply(&effective).await;
        let mut watch = host.watch();
        let has_tried = |status: &Status| status.is_settled() || status.cause().is_some();
        let tried = watch.wait_for(|it| it.servers.values().all(|view| has_tried(&view.status)));
        let _engine_gone = tried.await;
        host.settled_pool().await;
        Ok(host)
    }
}

/// The servers as a configuration.
fn effective(servers: &Map<String, Json>, env: &HostEnv) -> Result<EffectiveConfig, StartError> {
    let text = json!({"mcpServers": servers}).to_string();
    let environment = env.variables.clone().into_iter().collect();
    let effective = loader::from_program_with_env("this program", &text, environment);
    match effective.servers.iter().find(|it| !it.is_ready()) {
        None => Ok(effective),
        Some(server) => {
            let (name, reason) = (server.name.clone(), not_ready_reason(server));
            Err(StartError::InvalidServer { name, reason })
        }
    }
}

fn not_ready_reason(server: &ResolvedServer) -> String {
    match &server.state {
        ServerState::Duplicate { of, .. } => format!("it is the same server as `{of}`"),
        ServerState::Ready
        | ServerState::Pending(_)
        | ServerState::Rejected
        | ServerState::Refused(_)
        | ServerState::Disabled(_)
        | ServerState::Shadowed { .. }
        | ServerState::Excluded(_)
        | ServerState::NeedsConfig(_)
        | ServerState::Invalid => {
            let texts: Vec<String> = server.problems.iter().map(|it| it.kind.to_string()).collect();
            texts.join("; ")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use switchboard_config::entry::server::{ServerSpec, TransportConfig};

    use super::*;
    use crate::host::server_source::{Http, OAuth, Sse, Stdio, WebSocket};

    fn env() -> HostEnv {
        let variables = [("TOKEN", "t-1"), ("TEAM", "core")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        HostEnv { variables: variables.into(), ..HostEnv::default() }
    }

    fn spec(source: impl Into<ServerSource>) -> Result<ServerSpec, StartError> {
        let builder = Host::builder(Paths::in_dir("/nowhere".as_ref())).server("s", source);
        let config = effective(&builder.servers, &env())?;
        Ok(config.servers[0].spec.clone().expect("a ready server has a spec"))
    }

    #[test]
    fn texts_of_a_program_are_literal_and_those_of_an_entry_are_expanded() {
        let stdio = |source| {
            let TransportConfig::Stdio(stdio) = spec(source).expect("a valid server").transport
            else {
                panic!("not a command");
            };
            stdio
        };
        let typed = stdio(Stdio::new("serve").args(["${TEAM}"]).env("A", "$1").into());
        assert_eq!(env().reveal(&typed.args[0]).expect("plain"), "${TEAM}");
        assert_eq!(env().reveal(&typed.env[0].1).expect("plain"), "$1");
        let entry = ServerSource::parse_json(r#"{"command": "serve", "args": ["${TEAM}"]}"#);
        let entry = stdio(entry.expect("JSON"));
        assert_eq!(env().reveal(&entry.args[0]).expect("plain"), "core");
    }

    #[test]
    fn an_invalid_server_is_an_error() {
        let error = |source: ServerSource| spec(source).expect_err("not valid").to_string();
        assert_eq!(
            error(Stdio::new("").into()),
            "the server `s` cannot be started: must not be empty"
        );
        let zero = Stdio::new("serve").timeout(Duration::ZERO);
        assert_eq!(
            error(zero.into()),
            "the server `s` cannot be started: must be a whole number of milliseconds, from 1 to 4294967295"
        );
        assert_eq!(
            error(json!({"url": "https://h/"}).into()),
            "the server `s` cannot be started: has a `url` but no `type`; the default type is `stdio`"
        );
    }

    #[test]
    fn remote_servers_have_a_transport_a_timeout_and_a_login() {
        let oauth = OAuth::new().client_id("c").client_secret("$s").scopes(["a", "b"]);
        let http = Http::new("https://h/").timeout(Duration::from_secs(5));
        let http = spec(http.oauth(oauth.callback_port(3118))).expect("a valid server");
        assert_eq!(http.common.timeout, Some(Duration::from_secs(5)));
        let TransportConfig::Http(remote) = &http.transport else { panic!("not HTTP") };
        let oauth = remote.oauth.as_ref().expect("OAuth options");
        assert_eq!(
            (&oauth.scopes[..], oauth.callback_port),
            (&["a".into(), "b".into()][..], Some(3118))
        );
        let secret = oauth.client_secret.as_ref().expect("a secret");
        assert_eq!(env().reveal(secret).expect("plain"), "$s");
        let sse = spec(Sse::new("https://h/").header("A", "b")).expect("a valid server");
        assert!(matches!(sse.transport, TransportConfig::Sse(_)));
        let websocket = spec(WebSocket::new("wss://h/")).expect("a valid server");
        assert!(matches!(websocket.transport, TransportConfig::Ws(_)));
    }

    #[test]
    fn debug_output_of_a_source_holds_no_value() {
        let oauth = OAuth::new().client_secret("hidden");
        let sources: [ServerSource; 3] = [
            Stdio::new("serve").env("A", "hidden").args(["hidden"]).into(),
            Http::new("https://h/?key=hidden").header("A", "hidden").oauth(oauth.clone()).into(),
            json!({"command": "serve", "env": {"A": "hidden"}}).into(),
        ];
        let printed = format!("{sources:?} {oauth:?}");
        assert!(!printed.contains("hidden"), "{printed}");
    }
}
