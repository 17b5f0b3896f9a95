//! The servers that a program defines itself, as entries of a configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use crate::connection::in_process::InProcessServer;

/// A local server: a command that speaks MCP on standard input and output.
#[derive(Clone)]
pub struct Stdio {
    command: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    timeout: Option<Duration>,
}

impl Stdio {
    /// A server that is started with this command. A command without a slash is looked for in the `PATH` of
    /// [`HostEnv::variables`](crate::HostEnv::variables).
    pub fn new(command: impl Into<String>) -> Stdio {
        Stdio {
            command: command.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            timeout: None,
        }
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

    /// Sets the timeout of a connection attempt.
    pub fn timeout(mut self, timeout: Duration) -> Stdio {
        self.timeout = Some(timeout);
        self
    }

    fn entry(&self) -> Json {
        let args: Vec<String> = self.args.iter().map(|it| literal(it)).collect();
        let mut entry =
            json!({"command": literal(&self.command), "args": args, "env": literals(&self.env)});
        if let Some(cwd) = &self.cwd {
            entry["cwd"] = literal(cwd).into();
        }
        with_timeout(entry, self.timeout)
    }
}

/// Prints no values: arguments and variables may hold secrets.
impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdio").finish_non_exhaustive()
    }
}

/// The options of a server at a URL.
#[derive(Clone)]
struct RemoteServer {
    url: String,
    headers: BTreeMap<String, String>,
    timeout: Option<Duration>,
    oauth: Option<OAuth>,
}

impl RemoteServer {
    fn entry(&self, transport: &str) -> Json {
        let mut entry = json!({
            "type": transport, "url": literal(&self.url), "headers": literals(&self.headers)
        });
        if let Some(oauth) = &self.oauth {
            entry["oauth"] = Json::Object(oauth.members.clone());
        }
        with_timeout(entry, self.timeout)
    }
}

/// Defines the type of a server at a URL.
macro_rules! remote_server {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name(RemoteServer);

        impl $name {
            /// A server at this URL.
            pub fn new(url: impl Into<String>) -> $name {
                let (url, headers) = (url.into(), BTreeMap::new());
                $name(RemoteServer { url, headers, timeout: None, oauth: None })
            }

            /// Sets a header of every request.
            pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> $name {
                self.0.headers.insert(name.into(), value.into());
                self
            }

            /// Sets the timeout of a connection attempt.
            pub fn timeout(mut self, timeout: Duration) -> $name {
                self.0.timeout = Some(timeout);
                self
            }

            /// Sets how to log in to the server. Without this, the host registers a client of its own.
            pub fn oauth(mut self, oauth: OAuth) -> $name {
                self.0.oauth = Some(oauth);
                self
            }
        }

        /// Prints no values: the URL and the headers may hold secrets.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }

        impl From<$name> for ServerSource {
            fn from(server: $name) -> ServerSource {
                ServerSource::$name(server)
            }
        }
    };
}

remote_server! {
    /// A remote server that speaks Streamable HTTP.
    Http
}
remote_server! {
    /// A remote server that speaks HTTP+SSE, the transport of protocol version 2024-11-05.
    Sse
}
remote_server! {
    /// A remote server that speaks MCP over a WebSocket. The URL begins with `ws://` or `wss://`.
    WebSocket
}

/// How to log in to a server with OAuth.
#[derive(Clone, Default)]
pub struct OAuth {
    members: Map<String, Json>,
}

impl OAuth {
    /// The defaults: the host registers a client, and requests the scopes that the server names.
    pub fn new() -> OAuth {
        OAuth::default()
    }

    /// Sets the client id that the authorization server issued.
    pub fn client_id(self, client_id: &str) -> OAuth {
        self.with("clientId", literal(client_id).into())
    }

    /// Sets the client secret that the authorization server issued.
    pub fn client_secret(self, client_secret: &str) -> OAuth {
        self.with("clientSecret", literal(client_secret).into())
    }

    /// Sets the scopes to request.
    pub fn scopes<T: Into<String>>(self, scopes: impl IntoIterator<Item = T>) -> OAuth {
        let scopes = scopes.into_iter().map(Into::into);
        self.with("scopes", scopes.collect::<Vec<String>>().into())
    }

    /// Sets the port that receives the authorization code; a free one by default.
    pub fn callback_port(self, port: u16) -> OAuth {
        self.with("callbackPort", port.into())
    }

    fn with(mut self, name: &str, value: Json) -> OAuth {
        self.members.insert(name.to_owned(), value);
        self
    }
}

/// Prints the names of the options, not their values.
impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.members.keys()).finish()
    }
}

/// A server that a program defines: a command, a URL, an in-process server, or an entry of a configuration file.
#[derive(Clone)]
#[non_exhaustive]
pub enum ServerSource {
    /// A local server.
    Stdio(Stdio),
    /// A remote server over Streamable HTTP.
    Http(Http),
    /// A remote server over HTTP+SSE.
    Sse(Sse),
    /// A remote server over a WebSocket.
    WebSocket(WebSocket),
    /// A server in this process.
    InProcess(InProcessServer),
    /// An entry of `mcpServers`, as in a configuration file. Its `${NAME}` variables are expanded from
    /// [`HostEnv::variables`](crate::HostEnv::variables).
    Json(Json),
}

impl ServerSource {
    /// Parses an entry of `mcpServers`, such as `{"command": "npx", "args": ["-y", "some-server"]}`.
    pub fn parse_json(text: &str) -> Result<ServerSource, serde_json::Error> {
        serde_json::from_str(text).map(ServerSource::Json)
    }

    /// The entry of the server, and the server itself if it runs in this process.
    pub(super) fn into_entry(self, name: &str) -> (Json, Option<InProcessServer>) {
        match self {
            ServerSource::Stdio(stdio) => (stdio.entry(), None),
            ServerSource::Http(Http(remote)) => (remote.entry("http"), None),
            ServerSource::Sse(Sse(remote)) => (remote.entry("sse"), None),
            ServerSource::WebSocket(WebSocket(remote)) => (remote.entry("ws"), None),
            ServerSource::InProcess(server) => (json!({"type": "sdk", "name": name}), Some(server)),
            ServerSource::Json(entry) => (entry, None),
        }
    }
}

/// Prints no values: an entry may hold secrets.
impl fmt::Debug for ServerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerSource::Stdio(stdio) => stdio.fmt(f),
            ServerSource::Http(http) => http.fmt(f),
            ServerSource::Sse(sse) => sse.fmt(f),
            ServerSource::WebSocket(websocket) => websocket.fmt(f),
            ServerSource::InProcess(server) => server.fmt(f),
            ServerSource::Json(_) => f.debug_struct("Json").finish_non_exhaustive(),
        }
    }
}

impl From<Stdio> for ServerSource {
    fn from(stdio: Stdio) -> ServerSource {
        ServerSource::Stdio(stdio)
    }
}

impl From<InProcessServer> for ServerSource {
    fn from(server: InProcessServer) -> ServerSource {
        ServerSource::InProcess(server)
    }
}

impl From<Json> for ServerSource {
    fn from(entry: Json) -> ServerSource {
        ServerSource::Json(entry)
    }
}

fn with_timeout(mut entry: Json, timeout: Option<Duration>) -> Json {
    if let Some(timeout) = timeout {
        // A value beyond the range of an entry is reported when the host starts.
        entry["timeout"] = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).into();
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
