//! Starts a host with servers that the program defines itself, and with what calls need by default.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use switchboard_config::merge::{EffectiveConfig, ResolvedServer, ServerState};
use thiserror::Error;

use super::Host;
use crate::call::context::CallContext;
use crate::connection::in_process::InProcessServer;
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
pub enum StartError {
    /// The log, the audit log or the thread that writes state cannot be opened.
    #[error("the files of the host cannot be opened")]
    Files(#[from] io::Error),
    /// The definition of a server is not valid.
    #[error("the server `{name}` cannot be started: {reason}")]
    InvalidServer {
        /// The server.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A local server: a command that speaks MCP on standard input and output.
#[derive(Debug, Clone)]
pub struct Stdio {
    command: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
}

impl Stdio {
    /// A server that is started with this command. A command without a slash is looked for in the `PATH` of
    /// [`HostEnv::variables`].
    pub fn new(command: impl Into<String>) -> Stdio {
        Stdio { command: command.into(), args: Vec::new(), env: BTreeMap::new(), cwd: None }
    }

    /// Adds arguments.
    pub fn args<T: Into<String>>(mut self, args: impl IntoIterator<Item = T>) -> Stdio {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable of the server.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Stdio {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets the folder that the server starts in; the working folder by default.
    pub fn cwd(mut self, folder: impl Into<String>) -> Stdio {
        self.cwd = Some(folder.into());
        self
    }
}

/// A remote server that speaks Streamable HTTP.
#[derive(Debug, Clone)]
pub struct Http {
    url: String,
    headers: BTreeMap<String, String>,
}

impl Http {
    /// A server at this URL.
    pub fn new(url: impl Into<String>) -> Http {
        Http { url: url.into(), headers: BTreeMap::new() }
    }

    /// Sets a header of every request.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Http {
        self.headers.insert(name.into(), value.into());
        self
    }
}

/// What a server is: a command, a URL or a part of this program.
#[derive(Debug, Clone)]
pub enum ServerSource {
    /// A local server.
    Stdio(Stdio),
    /// A remote server.
    Http(Http),
    /// A server in this process.
    InProcess(InProcessServer),
}

impl From<Stdio> for ServerSource {
    fn from(stdio: Stdio) -> ServerSource {
        ServerSource::Stdio(stdio)
    }
}

impl From<Http> for ServerSource {
    fn from(http: Http) -> ServerSource {
        ServerSource::Http(http)
    }
}

impl From<InProcessServer> for ServerSource {
    fn from(server: InProcessServer) -> ServerSource {
        ServerSource::InProcess(server)
    }
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
        let entry = match source.into() {
            ServerSource::Stdio(stdio) => stdio_entry(&stdio),
            ServerSource::Http(http) => {
                json!({"type": "http", "url": literal(&http.url), "headers": literals(&http.headers)})
            }
            ServerSource::InProcess(server) => {
                self.options.in_process.insert(name.to_owned(), server);
                json!({"type": "sdk", "name": name})
            }
        };
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

    /// Decides about calls of tools that are not trusted. Without one, they are denied.
    pub fn permission_prompt(mut self, prompt: impl PermissionPrompt + 'static) -> HostBuilder {
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
        let effective = effective(&self.servers)?;
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
fn effective(servers: &Map<String, Json>) -> Result<EffectiveConfig, StartError> {
    let text = json!({"mcpServers": servers}).to_string();
    let effective = loader::from_program("this program", &text);
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
        | ServerState::Invalid => {
            let texts: Vec<String> = server.problems.iter().map(|it| it.kind.to_string()).collect();
            texts.join("; ")
        }
    }
}

fn stdio_entry(stdio: &Stdio) -> Json {
    let args: Vec<String> = stdio.args.iter().map(|it| literal(it)).collect();
    let mut entry =
        json!({"command": literal(&stdio.command), "args": args, "env": literals(&stdio.env)});
    if let Some(cwd) = &stdio.cwd {
        entry["cwd"] = literal(cwd).into();
    }
    entry
}

/// A text in which no variable is expanded.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

fn literals(texts: &BTreeMap<String, String>) -> BTreeMap<&str, String> {
    texts.iter().map(|(name, value)| (name.as_str(), literal(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_program_are_literal_and_an_invalid_server_is_an_error() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let builder = Host::builder(Paths::in_dir(folder.path()));
        let builder = builder.server("files", Stdio::new("serve").args(["${HOME}"]).env("A", "$1"));
        let config = effective(&builder.servers).expect("it is valid");
        let spec = config.servers[0].spec.clone().expect("it is ready");
        let env = HostEnv::default();
        let switchboard_config::entry::server::TransportConfig::Stdio(stdio) = &spec.transport
        else {
            panic!("it is a command");
        };
        assert_eq!(env.reveal(&stdio.args[0]).expect("plain"), "${HOME}");
        assert_eq!(env.reveal(&stdio.env[0].1).expect("plain"), "$1");
        let builder = builder.server("bad", Stdio::new(""));
        let error = effective(&builder.servers).expect_err("it has no command");
        assert_eq!(error.to_string(), "the server `bad` cannot be started: must not be empty");
    }
}
