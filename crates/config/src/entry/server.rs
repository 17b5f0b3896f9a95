//! A server entry: what people write (`ServerEntry`), and what we run once its variables are in (`ServerSpec`).

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::entry::name::ServerName;
use crate::template::{Environment, ExpandedText, SecretReference, Template, TextSegment};

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

/// Which of a server's tools come into the pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Only these; all where absent.
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
}

/// What every server has, whatever its transport.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommonOptions {
    /// Tools run without asking, where the scope may say so.
    pub trust: bool,
    /// How long a call may take.
    pub timeout: Option<Duration>,
    /// Which tools are wanted.
    pub tools: ToolFilter,
    /// Keys that nobody knows, kept.
    pub unknown_keys: Vec<String>,
    /// The whole entry as it stands in the file, what people may change freely left out.
    pub raw: RawEntry,
}

/// An entry's JSON. It prints nothing of itself: secrets are in it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RawEntry(pub Json);

impl fmt::Debug for RawEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Written(…)")
    }
}

/// An entry as written, checked for shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEntry {
    /// How the server is reached.
    pub transport: TransportConfig<Template>,
    /// The rest.
    pub common: CommonOptions,
    /// Switched off in the entry itself.
    pub disabled: bool,
    /// A note for people.
    pub description: Option<String>,
}

/// An entry ready to run: variables are in, the name is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// The server's name.
    pub name: ServerName,
    /// How it is reached.
    pub transport: TransportConfig<ExpandedText>,
    /// The rest.
    pub common: CommonOptions,
}

impl ServerEntry {
    /// Puts the variables in. The names of missing ones are added to `missing`.
    pub fn expand(
        &self,
        name: ServerName,
        environment: &Environment,
        missing: &mut BTreeSet<String>,
    ) -> ServerSpec {
        let transport = self.transport.map(&mut |text| text.expand(environment, missing));
        ServerSpec { name, transport, common: self.common.clone() }
    }

    /// Every text of the entry that variables are put into.
    pub fn templates(&self) -> Vec<&Template> {
        let mut texts: Vec<&Template> = Vec::new();
        match &self.transport {
            TransportConfig::Stdio(it) => {
                texts.push(&it.command);
                texts.extend(&it.args);
                texts.extend(it.env.iter().map(|(_, value)| value));
                texts.extend(&it.cwd);
            }
            TransportConfig::Sse(it)
            | TransportConfig::Http(it)
            | TransportConfig::Ws(it)
            | TransportConfig::ConnectorProxy(it) => {
                texts.push(&it.url);
                texts.extend(it.headers.iter().map(|(_, value)| value));
                if let Some(oauth) = &it.oauth {
                    texts.extend(&oauth.client_id);
                    texts.extend(&oauth.client_secret);
                    texts.extend(&oauth.auth_server_metadata_url);
                    texts.extend(&oauth.private_key);
                    texts.extend(&oauth.workload_token);
                }
                if let Some(tls) = &it.tls {
                    texts.extend(&tls.ca_file);
                    texts.extend(&tls.client_certificate);
                    texts.extend(&tls.client_key);
                }
            }
            TransportConfig::SseIde(it) | TransportConfig::WsIde(it) => {
                texts.push(&it.url);
                texts.extend(&it.auth_token);
            }
            TransportConfig::Sdk { .. } => {}
        }
        texts
    }
}

/// A hash over the whole of what a server would run or reach; one changed byte changes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Takes a fingerprint that was stored.
    pub fn from_stored(text: &str) -> Fingerprint {
        Fingerprint(text.to_owned())
    }

    /// As text, `sha256:` and 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Lower-case hexadecimal SHA-256.
pub fn sha256(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

impl ServerSpec {
    /// The secrets that the entry names, now that its variables are in.
    pub fn secret_references(&self) -> Vec<SecretReference> {
        let mut found = Vec::new();
        self.transport
            .map(&mut |text: &ExpandedText| found.extend(text.secrets().into_iter().cloned()));
        found
    }

    /// The hash that approvals and live reloads go by: everything that is written, and what it comes to.
    /// Keys without effect count: they may mean something tomorrow.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hasher = FingerprintHasher(Sha256::new());
        hasher.write_str(&self.common.raw.0.to_string());
        hasher.write_transport(&self.transport);
        Fingerprint(format!("sha256:{}", to_hex(&hasher.0.finalize())))
    }
}

/// Feeds a hash in such a way that two different servers never feed it alike: every text behind its length.
struct FingerprintHasher(Sha256);

impl FingerprintHasher {
    fn write_str(&mut self, text: &str) {
        self.0.update(text.len().to_le_bytes());
        self.0.update(text.as_bytes());
    }

    fn write_count(&mut self, count: usize) {
        self.0.update(count.to_le_bytes());
    }

    /// A reference and a text that only looks like one must not hash alike.
    fn write_expanded(&mut self, text: &ExpandedText) {
        self.write_count(text.segments().len());
        for piece in text.segments() {
            match piece {
                TextSegment::Plain(text) => {
                    self.write_str("plain");
                    self.write_str(text);
                }
                TextSegment::Secret(reference) => {
                    self.write_str("secret");
                    self.write_str(&reference.to_string());
                }
            }
        }
    }

    fn write_optional(&mut self, text: Option<&ExpandedText>) {
        self.write_count(usize::from(text.is_some()));
        if let Some(text) = text {
            self.write_expanded(text);
        }
    }

    fn write_pairs(&mut self, pairs: &[(String, ExpandedText)]) {
        self.write_count(pairs.len());
        for (key, value) in pairs {
            self.write_str(key);
            self.write_expanded(value);
        }
    }

    /// What variables are put into; the rest is covered by what is written.
    fn write_transport(&mut self, transport: &TransportConfig<ExpandedText>) {
        self.write_str(transport.kind().id());
        match transport {
            TransportConfig::Stdio(it) => {
                self.write_expanded(&it.command);
                self.write_count(it.args.len());
                it.args.iter().for_each(|text| self.write_expanded(text));
                self.write_pairs(&it.env);
                self.write_optional(it.cwd.as_ref());
            }
            TransportConfig::Sse(it)
            | TransportConfig::Http(it)
            | TransportConfig::Ws(it)
            | TransportConfig::ConnectorProxy(it) => {
                self.write_expanded(&it.url);
                self.write_pairs(&it.headers);
                let oauth = it.oauth.as_ref();
                self.write_optional(oauth.and_then(|oauth| oauth.client_id.as_ref()));
                self.write_optional(oauth.and_then(|oauth| oauth.client_secret.as_ref()));
                self.write_optional(
                    oauth.and_then(|oauth| oauth.auth_server_metadata_url.as_ref()),
                );
                // Later keys count only where they are there, so that what was approved before them still is.
                for text in
                    oauth.iter().flat_map(|it| it.private_key.iter().chain(&it.workload_token))
                {
                    self.write_expanded(text);
                }
                if let Some(tls) = &it.tls {
                    self.write_optional(tls.ca_file.as_ref());
                    self.write_optional(tls.client_certificate.as_ref());
                    self.write_optional(tls.client_key.as_ref());
                }
            }
            TransportConfig::SseIde(it) | TransportConfig::WsIde(it) => {
                self.write_expanded(&it.url);
                self.write_optional(it.auth_token.as_ref());
            }
            TransportConfig::Sdk { name } => self.write_str(name),
        }
    }
}
