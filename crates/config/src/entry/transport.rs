//! How a server is reached: one configuration type for each transport.
//! `T` is [`Template`] as written in a file and [`ExpandedText`](crate::template::ExpandedText) after expansion.

use std::fmt;

use url::Url;

use crate::template::Template;

/// How a server is reached, with what each way needs. `T` is [`Template`] as written, [`Text`] once expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportConfig<T> {
    /// A program that we start and talk to over its standard streams.
    Stdio(StdioConfig<T>),
    /// The older HTTP transport with a separate event stream.
    Sse(RemoteConfig<T>),
    /// Streamable HTTP.
    Http(RemoteConfig<T>),
    /// WebSocket.
    Ws(RemoteConfig<T>),
    /// An IDE's event stream.
    SseIde(IdeConfig<T>),
    /// An IDE's WebSocket.
    WsIde(IdeConfig<T>),
    /// A server inside the program that embeds us.
    Sdk {
        /// The name it goes by there.
        name: String,
    },
    /// An account's connector, reached through a proxy.
    ConnectorProxy(RemoteConfig<T>),
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioConfig<T> {
    /// The program.
    pub command: T,
    /// Its arguments.
    pub args: Vec<T>,
    /// Variables it gets besides ours.
    pub env: Vec<(String, T)>,
    /// The folder it starts in.
    pub cwd: Option<T>,
}

/// A server at a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteConfig<T> {
    /// Where.
    pub url: T,
    /// Headers on every request.
    pub headers: Vec<(String, T)>,
    /// A command that prints more headers. Nothing is put into it, and it does not print.
    pub headers_helper: Option<Template>,
    /// How to sign in.
    pub oauth: Option<OAuthConfig<T>>,
    /// Which certificates are used with it.
    pub tls: Option<TlsConfig<T>>,
}

/// Certificates for one server, each a file in the PEM format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig<T> {
    /// Authorities to trust besides the system's.
    pub ca_file: Option<T>,
    /// Our own certificate, for servers that want one.
    pub client_certificate: Option<T>,
    /// Its key; absent where the certificate's file holds it.
    pub client_key: Option<T>,
}

/// A server inside an IDE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdeConfig<T> {
    /// Where.
    pub url: T,
    /// The IDE's name for people.
    pub ide_name: Option<String>,
    /// The token it wants.
    pub auth_token: Option<T>,
}

/// How to sign in to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthConfig<T> {
    /// A client that was registered beforehand.
    pub client_id: Option<T>,
    /// Its secret.
    pub client_secret: Option<T>,
    /// The port of the redirect address.
    pub callback_port: Option<u16>,
    /// Where the authorization server's metadata is, https only.
    pub auth_server_metadata_url: Option<T>,
    /// Scopes to ask for.
    pub scopes: Vec<String>,
    /// Sign in through the enterprise's identity provider.
    pub xaa: bool,
    /// In which way tokens are had.
    pub grant: OAuthGrant,
    /// What the client signs with instead of a secret, as PEM.
    pub private_key: Option<T>,
    /// A platform's token that vouches for this machine.
    pub workload_token: Option<T>,
}

/// In which way tokens are had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OAuthGrant {
    /// A person signs in.
    #[default]
    AuthorizationCode,
    /// The client is known by itself.
    ClientCredentials,
    /// A platform's token vouches for this machine.
    JwtBearer,
}

impl OAuthGrant {
    /// Every way, as it is written.
    pub const NAMES: [(&'static str, OAuthGrant); 3] = [
        ("authorization_code", OAuthGrant::AuthorizationCode),
        ("client_credentials", OAuthGrant::ClientCredentials),
        ("jwt_bearer", OAuthGrant::JwtBearer),
    ];
}

/// The word for a transport.
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

    /// The word in `type`.
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

    /// Reads `type`, other words for the same thing included.
    pub fn parse(text: &str) -> Option<TransportKind> {
        match text {
            "streamable-http" => Some(TransportKind::Http),
            "claudeai-proxy" => Some(TransportKind::ConnectorProxy),
            _ => TransportKind::ALL.into_iter().find(|kind| kind.id() == text),
        }
    }

    /// The schemes that its URL may have, or none where it has no URL.
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

    /// The same in words, for messages.
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
    /// Which of the transports it is.
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

    /// Its URL, where it has one.
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

    /// How to sign in, where that can be said.
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

    /// The same transport with every text changed by `transform`.
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

/// Is the text a URL with a host and a scheme that fits?
pub fn is_valid_url(kind: TransportKind, text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| url.has_host() && kind.schemes().contains(&url.scheme()))
}

/// Is the text an https URL with a host?
pub fn is_https_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| url.scheme() == "https" && url.has_host())
}
