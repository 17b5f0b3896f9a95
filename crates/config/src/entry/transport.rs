//! How a server is reached: one configuration type for each transport.
//! `T` is [`Template`] as written in a file and [`ExpandedText`](crate::template::ExpandedText) after expansion.

use std::fmt;

use url::Url;

use crate::display::changes_loading;
use crate::template::Template;

/// How to reach a server, with the settings of each transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportConfig<T> {
    /// A program that we start and talk to over its standard streams.
    Stdio(StdioConfig<T>),
    /// HTTP with a separate event stream (HTTP+SSE).
    Sse(RemoteConfig<T>),
    /// Streamable HTTP.
    Http(RemoteConfig<T>),
    /// WebSocket.
    Ws(RemoteConfig<T>),
    /// The event stream of an IDE.
    SseIde(IdeConfig<T>),
    /// The WebSocket of an IDE.
    WsIde(IdeConfig<T>),
    /// A server inside the embedding program.
    Sdk {
        /// Its name in that program.
        name: String,
    },
    /// A connector of an account, reached through a proxy.
    ConnectorProxy(RemoteConfig<T>),
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioConfig<T> {
    /// The program.
    pub command: T,
    /// Its arguments.
    pub args: Vec<T>,
    /// Environment variables that it gets in addition to ours.
    pub env: Vec<(String, T)>,
    /// Its working folder.
    pub cwd: Option<T>,
}

/// A server at a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteConfig<T> {
    /// The URL.
    pub url: T,
    /// Headers of every request.
    pub headers: Vec<(String, T)>,
    /// A command that prints more headers. Variables in it are not expanded, and it has no `Debug` output.
    pub headers_helper: Option<Template>,
    /// The OAuth settings.
    pub oauth: Option<OAuthConfig<T>>,
    /// The certificates for this server.
    pub tls: Option<TlsConfig<T>>,
}

/// The certificates for one server, each a PEM file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig<T> {
    /// Certificate authorities to trust in addition to those of the system.
    pub ca_file: Option<T>,
    /// Our client certificate, for servers that require one.
    pub client_certificate: Option<T>,
    /// Its key; absent if the file of the certificate contains it.
    pub client_key: Option<T>,
}

/// A server inside an IDE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdeConfig<T> {
    /// The URL.
    pub url: T,
    /// The name of the IDE, for users.
    pub ide_name: Option<String>,
    /// The token that the IDE requires.
    pub auth_token: Option<T>,
}

/// How to log in to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthConfig<T> {
    /// The id of a pre-registered client.
    pub client_id: Option<T>,
    /// The secret of the client.
    pub client_secret: Option<T>,
    /// The port of the redirect URL.
    pub callback_port: Option<u16>,
    /// The URL of the authorization server's metadata; https only.
    pub auth_server_metadata_url: Option<T>,
    /// The URL of our client metadata document, which is then our client id; https only.
    pub client_metadata_url: Option<T>,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// Log in through the identity provider of the enterprise.
    pub xaa: bool,
    /// The OAuth grant.
    pub grant: OAuthGrant,
    /// The PEM key that the client signs with instead of a secret.
    pub private_key: Option<T>,
    /// The token of the platform that identifies this machine, for `jwt_bearer`.
    pub workload_token: Option<T>,
}

/// How tokens are obtained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OAuthGrant {
    /// The user logs in.
    #[default]
    AuthorizationCode,
    /// The client authenticates itself.
    ClientCredentials,
    /// A token of the platform identifies this machine.
    JwtBearer,
}

impl OAuthGrant {
    /// Every grant and its name in `grant`.
    pub const NAMES: [(&'static str, OAuthGrant); 3] = [
        ("authorization_code", OAuthGrant::AuthorizationCode),
        ("client_credentials", OAuthGrant::ClientCredentials),
        ("jwt_bearer", OAuthGrant::JwtBearer),
    ];
}

/// The name of a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the transport of the same name")]
pub enum TransportKind {
    Stdio,
    Sse,
    Http,
    Ws,
    SseIde,
    WsIde,
    Sdk,
    ConnectorProxy,
}

impl TransportKind {
    /// Every kind.
    pub const ALL: [TransportKind; 8] = [
        TransportKind::Stdio,
        TransportKind::Sse,
        TransportKind::Http,
        TransportKind::Ws,
        TransportKind::SseIde,
        TransportKind::WsIde,
        TransportKind::Sdk,
        TransportKind::ConnectorProxy,
    ];

    /// The value of `type`.
    pub fn id(self) -> &'static str {
        match self {
            TransportKind::Stdio => "stdio",
            TransportKind::Sse => "sse",
            TransportKind::Http => "http",
            TransportKind::Ws => "ws",
            TransportKind::SseIde => "sse-ide",
            TransportKind::WsIde => "ws-ide",
            TransportKind::Sdk => "sdk",
            TransportKind::ConnectorProxy => "connector-proxy",
        }
    }

    /// Parses `type`, including its aliases.
    pub fn parse(text: &str) -> Option<TransportKind> {
        match text {
            "streamable-http" => Some(TransportKind::Http),
            "claudeai-proxy" => Some(TransportKind::ConnectorProxy),
            _ => TransportKind::ALL.into_iter().find(|kind| kind.id() == text),
        }
    }

    /// The URL schemes of the transport; empty if it has no URL.
    pub fn schemes(self) -> &'static [&'static str] {
        match self {
            TransportKind::Stdio | TransportKind::Sdk => &[],
            TransportKind::Sse
            | TransportKind::Http
            | TransportKind::SseIde
            | TransportKind::ConnectorProxy => &["http", "https"],
            TransportKind::Ws | TransportKind::WsIde => &["ws", "wss"],
        }
    }

    /// The same as text, for messages.
    pub fn schemes_text(self) -> &'static str {
        match self {
            TransportKind::Ws | TransportKind::WsIde => "`ws://` or `wss://`",
            TransportKind::Stdio
            | TransportKind::Sdk
            | TransportKind::Sse
            | TransportKind::Http
            | TransportKind::SseIde
            | TransportKind::ConnectorProxy => "`http://` or `https://`",
        }
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

impl<T> TransportConfig<T> {
    /// Returns the kind of transport.
    pub fn kind(&self) -> TransportKind {
        match self {
            TransportConfig::Stdio(_) => TransportKind::Stdio,
            TransportConfig::Sse(_) => TransportKind::Sse,
            TransportConfig::Http(_) => TransportKind::Http,
            TransportConfig::Ws(_) => TransportKind::Ws,
            TransportConfig::SseIde(_) => TransportKind::SseIde,
            TransportConfig::WsIde(_) => TransportKind::WsIde,
            TransportConfig::Sdk { .. } => TransportKind::Sdk,
            TransportConfig::ConnectorProxy(_) => TransportKind::ConnectorProxy,
        }
    }

    /// Returns the URL, if the transport has one.
    pub fn url(&self) -> Option<&T> {
        match self {
            TransportConfig::Sse(remote)
            | TransportConfig::Http(remote)
            | TransportConfig::Ws(remote)
            | TransportConfig::ConnectorProxy(remote) => Some(&remote.url),
            TransportConfig::SseIde(ide) | TransportConfig::WsIde(ide) => Some(&ide.url),
            TransportConfig::Stdio(_) | TransportConfig::Sdk { .. } => None,
        }
    }

    /// Returns the OAuth settings, if the transport has any.
    pub fn oauth(&self) -> Option<&OAuthConfig<T>> {
        match self {
            TransportConfig::Sse(remote)
            | TransportConfig::Http(remote)
            | TransportConfig::Ws(remote)
            | TransportConfig::ConnectorProxy(remote) => remote.oauth.as_ref(),
            TransportConfig::SseIde(_)
            | TransportConfig::WsIde(_)
            | TransportConfig::Stdio(_)
            | TransportConfig::Sdk { .. } => None,
        }
    }

    /// Returns the variables of the entry that change what its program loads or runs.
    pub fn loading_variables(&self) -> Vec<&str> {
        match self {
            TransportConfig::Stdio(stdio) => {
                let names = stdio.env.iter().map(|(name, _)| name.as_str());
                names.filter(|name| changes_loading(name)).collect()
            }
            TransportConfig::Sse(_)
            | TransportConfig::Http(_)
            | TransportConfig::Ws(_)
            | TransportConfig::SseIde(_)
            | TransportConfig::WsIde(_)
            | TransportConfig::Sdk { .. }
            | TransportConfig::ConnectorProxy(_) => Vec::new(),
        }
    }

    /// Returns the same transport with every text transformed.
    pub fn map<U>(&self, transform: &mut impl FnMut(&T) -> U) -> TransportConfig<U> {
        match self {
            TransportConfig::Stdio(it) => TransportConfig::Stdio(StdioConfig {
                command: transform(&it.command),
                args: it.args.iter().map(&mut *transform).collect(),
                env: map_values(&it.env, transform),
                cwd: it.cwd.as_ref().map(&mut *transform),
            }),
            TransportConfig::Sse(it) => TransportConfig::Sse(it.map(transform)),
            TransportConfig::Http(it) => TransportConfig::Http(it.map(transform)),
            TransportConfig::Ws(it) => TransportConfig::Ws(it.map(transform)),
            TransportConfig::ConnectorProxy(it) => {
                TransportConfig::ConnectorProxy(it.map(transform))
            }
            TransportConfig::SseIde(it) => TransportConfig::SseIde(it.map(transform)),
            TransportConfig::WsIde(it) => TransportConfig::WsIde(it.map(transform)),
            TransportConfig::Sdk { name } => TransportConfig::Sdk { name: name.clone() },
        }
    }
}

impl<T> RemoteConfig<T> {
    fn map<U>(&self, transform: &mut impl FnMut(&T) -> U) -> RemoteConfig<U> {
        RemoteConfig {
            url: transform(&self.url),
            headers: map_values(&self.headers, transform),
            headers_helper: self.headers_helper.clone(),
            oauth: self.oauth.as_ref().map(|oauth| OAuthConfig {
                client_id: oauth.client_id.as_ref().map(&mut *transform),
                client_secret: oauth.client_secret.as_ref().map(&mut *transform),
                callback_port: oauth.callback_port,
                auth_server_metadata_url: oauth
                    .auth_server_metadata_url
                    .as_ref()
                    .map(&mut *transform),
                client_metadata_url: oauth.client_metadata_url.as_ref().map(&mut *transform),
                scopes: oauth.scopes.clone(),
                xaa: oauth.xaa,
                grant: oauth.grant,
                private_key: oauth.private_key.as_ref().map(&mut *transform),
                workload_token: oauth.workload_token.as_ref().map(&mut *transform),
            }),
            tls: self.tls.as_ref().map(|tls| TlsConfig {
                ca_file: tls.ca_file.as_ref().map(&mut *transform),
                client_certificate: tls.client_certificate.as_ref().map(&mut *transform),
                client_key: tls.client_key.as_ref().map(&mut *transform),
            }),
        }
    }
}

impl<T> IdeConfig<T> {
    fn map<U>(&self, transform: &mut impl FnMut(&T) -> U) -> IdeConfig<U> {
        IdeConfig {
            url: transform(&self.url),
            ide_name: self.ide_name.clone(),
            auth_token: self.auth_token.as_ref().map(&mut *transform),
        }
    }
}

fn map_values<T, U>(
    pairs: &[(String, T)],
    transform: &mut impl FnMut(&T) -> U,
) -> Vec<(String, U)> {
    pairs.iter().map(|(key, value)| (key.clone(), transform(value))).collect()
}

/// Is the text a URL with a host and a scheme of this transport?
pub fn is_valid_url(kind: TransportKind, text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| url.has_host() && kind.schemes().contains(&url.scheme()))
}

/// Is the text a URL that a client metadata document can have? Its form is that of the draft for client ID metadata
/// documents: https, with a path, and without user name, password or fragment.
pub fn is_client_metadata_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        url.scheme() == "https"
            && url.has_host()
            && url.path() != "/"
            && url.username().is_empty()
            && url.password().is_none()
            && url.fragment().is_none()
    })
}

/// Is the text an https URL with a host?
pub fn is_https_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| url.scheme() == "https" && url.has_host())
}
