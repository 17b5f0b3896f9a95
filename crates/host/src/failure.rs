//! Why a server is not connected: the kind of failure, the evidence, and a remedy for the user.

use std::fmt;
use std::time::Duration;

use switchboard_config::runtime_programs::installation_hint;
use switchboard_wire::client::handshake::{HandshakeError, HandshakeErrorKind};
use switchboard_wire::connect::{ConnectError, ConnectErrorKind};
use switchboard_wire::peer::CallError;
use switchboard_wire::transport::CloseReason;
use switchboard_wire::transport_error::{TlsProblem, TransportError, UnreachableReason};

/// How much stderr output is shown as evidence.
const MAX_STDERR_BYTES: usize = 4096;

/// Why a server is not connected.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionFailure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// Evidence of the failure.
    pub evidence: Vec<Evidence>,
}

/// The kinds of failure.
#[derive(Debug, Clone, PartialEq)]
pub enum FailureKind {
    /// The program does not exist.
    CommandNotFound {
        /// The command.
        command: String,
    },
    /// The program exists but cannot be run.
    CommandNotRunnable {
        /// The command.
        command: String,
        /// The I/O error.
        why: std::io::ErrorKind,
    },
    /// The working folder does not exist.
    FolderNotFound {
        /// The folder.
        folder: String,
    },
    /// The program exited before it responded.
    Exited {
        /// The exit code, if it exited normally.
        code: Option<i32>,
        /// The signal that killed it, if any.
        signal: Option<i32>,
    },
    /// No response came in time.
    Timeout(Duration),
    /// The server could not be reached.
    Unreachable(UnreachableReason),
    /// The stored login cannot be refreshed at the moment.
    LoginNotRefreshed,
    /// The server requires a login.
    AuthRequired,
    /// The server refuses the headers of the entry (HTTP 401), and no login is possible beside them.
    HeaderRefused {
        /// The names of the headers.
        headers: Vec<String>,
    },
    /// The server denies access (HTTP 403).
    Forbidden,
    /// The URL does not exist (HTTP 404).
    NotFound,
    /// The server is overloaded (HTTP 429).
    Overloaded,
    /// The server failed (HTTP 5xx).
    ServerError(u16),
    /// The server sent another error status.
    HttpStatus(u16),
    /// The server redirects to another origin.
    CrossOriginRedirect(String),
    /// The URL is not an MCP server.
    NotMcp,
    /// The server supports none of our protocol versions.
    NoCommonVersion {
        /// The versions that the server supports.
        theirs: Vec<String>,
    },
    /// The server responded with a JSON-RPC error.
    ErrorResponse {
        /// The error code.
        code: i64,
        /// The error message.
        message: String,
    },
    /// The server's responses are invalid.
    InvalidResponse,
    /// The server closed the connection.
    Closed,
    /// The session has expired on the server.
    SessionExpired,
    /// A message exceeded the size limit.
    MessageTooLarge(usize),
    /// A referenced secret could not be fetched.
    SecretUnavailable,
    /// The URL, a header or a certificate is invalid.
    InvalidConfig,
    /// No in-process server of this name is registered.
    NotRegistered,
    /// An IDE does not accept the token of its lock file.
    IdeTokenRefused,
    /// The session that many servers share is refused. No login at this server helps.
    SessionRefused(RefusedSession),
    /// The account accepts its session, and the connector needs a login of its own there.
    ConnectorLoginRequired {
        /// The page for that, if the settings name one.
        manage_url: Option<String>,
    },
}

/// The sessions that several servers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedSession {
    /// The login at the connector account.
    AccountLogin,
    /// The token that the settings name for the connector account.
    AccountToken,
    /// The session that this program runs in.
    Ingress,
}

/// A detail that shows a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// The end of the program's stderr output.
    Stderr(String),
    /// The start of the first output of the server that is not a message.
    NotAMessage(String),
    /// The folders that were searched for the program.
    SearchedPath(String),
    /// The beginning of the response body.
    Body(String),
    /// The server's authentication challenge.
    Challenge(String),
    /// The server's `Retry-After` value.
    RetryAfter(String),
    /// A message of the system or of a library.
    Detail(String),
}

/// The class of a failure, which decides on retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureClass {
    /// May pass by itself.
    Transient,
    /// Stays until the user changes something.
    Permanent,
    /// Needs a login.
    AuthRequired,
}

impl ConnectionFailure {
    /// A failure without evidence.
    pub fn new(kind: FailureKind) -> ConnectionFailure {
        ConnectionFailure { kind, evidence: Vec::new() }
    }

    /// A failure of the kind [`FailureKind::InvalidConfig`] with a detail.
    pub fn invalid_config(detail: impl Into<String>) -> ConnectionFailure {
        ConnectionFailure::new(FailureKind::InvalidConfig)
            .with_evidence(Evidence::Detail(detail.into()))
    }

    /// The same with one more piece of evidence; empty ones do not count.
    pub fn with_evidence(mut self, evidence: Evidence) -> ConnectionFailure {
        if !evidence.text().trim().is_empty() {
            self.evidence.push(evidence);
        }
        self
    }

    /// The failure for a client of a gateway: without the operator's commands and folders.
    pub fn without_paths(&self) -> String {
        match &self.kind {
            FailureKind::CommandNotFound { .. } => "its program was not found".to_owned(),
            FailureKind::CommandNotRunnable { why, .. } => {
                format!("its program could not be run: {why}")
            }
            FailureKind::FolderNotFound { .. } => "its working folder does not exist".to_owned(),
            FailureKind::CrossOriginRedirect(_) => {
                "the server redirects to another origin".to_owned()
            }
            FailureKind::Exited { .. }
            | FailureKind::Timeout(_)
            | FailureKind::Unreachable(_)
            | FailureKind::LoginNotRefreshed
            | FailureKind::AuthRequired
            | FailureKind::HeaderRefused { .. }
            | FailureKind::Forbidden
            | FailureKind::NotFound
            | FailureKind::Overloaded
            | FailureKind::ServerError(_)
            | FailureKind::HttpStatus(_)
            | FailureKind::NotMcp
            | FailureKind::NoCommonVersion { .. }
            | FailureKind::ErrorResponse { .. }
            | FailureKind::InvalidResponse
            | FailureKind::Closed
            | FailureKind::SessionExpired
            | FailureKind::MessageTooLarge(_)
            | FailureKind::SecretUnavailable
            | FailureKind::InvalidConfig
            | FailureKind::NotRegistered
            | FailureKind::IdeTokenRefused
            | FailureKind::SessionRefused(_)
            | FailureKind::ConnectorLoginRequired { .. } => self.to_string(),
        }
    }

    /// The class of the failure, which decides on retries.
    pub fn class(&self) -> FailureClass {
        match &self.kind {
            FailureKind::AuthRequired
            | FailureKind::SessionRefused(_)
            | FailureKind::ConnectorLoginRequired { .. } => FailureClass::AuthRequired,
            FailureKind::Unreachable(why) => match why {
                UnreachableReason::Tls(_) => FailureClass::Permanent,
                UnreachableReason::NameResolution
                | UnreachableReason::Refused
                | UnreachableReason::Reset
                | UnreachableReason::Timeout
                | UnreachableReason::Proxy
                | UnreachableReason::Other => FailureClass::Transient,
            },
            FailureKind::Overloaded
            | FailureKind::ServerError(_)
            | FailureKind::Closed
            | FailureKind::SessionExpired
            | FailureKind::LoginNotRefreshed
            // A loaded machine or network may have been the cause.
            | FailureKind::Timeout(_)
            | FailureKind::MessageTooLarge(_) => FailureClass::Transient,
            FailureKind::CommandNotFound { .. }
            | FailureKind::CommandNotRunnable { .. }
            | FailureKind::FolderNotFound { .. }
            | FailureKind::Exited { .. }
            | FailureKind::HeaderRefused { .. }
            | FailureKind::Forbidden
            | FailureKind::NotFound
            | FailureKind::HttpStatus(_)
            | FailureKind::CrossOriginRedirect(_)
            | FailureKind::NotMcp
            | FailureKind::NoCommonVersion { .. }
            | FailureKind::ErrorResponse { .. }
            | FailureKind::InvalidResponse
            | FailureKind::SecretUnavailable
            | FailureKind::InvalidConfig
            | FailureKind::NotRegistered
            | FailureKind::IdeTokenRefused => FailureClass::Permanent,
        }
    }

    /// The identifier for programs.
    pub fn id(&self) -> &'static str {
        match &self.kind {
            FailureKind::CommandNotFound { .. } => "command-not-found",
            FailureKind::CommandNotRunnable { .. } => "command-not-runnable",
            FailureKind::FolderNotFound { .. } => "folder-not-found",
            FailureKind::Exited { .. } => "exited",
            FailureKind::Timeout(_) => "timeout",
            FailureKind::Unreachable(why) => match why {
                UnreachableReason::NameResolution => "unknown-host",
                UnreachableReason::Refused => "refused",
                UnreachableReason::Reset => "reset",
                UnreachableReason::Timeout => "timeout",
                UnreachableReason::Tls(problem) => match problem {
                    TlsProblem::UntrustedCertificate => "certificate-untrusted",
                    TlsProblem::ExpiredCertificate => "certificate-expired",
                    TlsProblem::CertificateNotYetValid => "certificate-not-yet-valid",
                    TlsProblem::WrongHost => "certificate-wrong-host",
                    TlsProblem::NotTls => "not-tls",
                    TlsProblem::Other => "tls",
                },
                UnreachableReason::Proxy => "proxy",
                UnreachableReason::Other => "unreachable",
            },
            FailureKind::AuthRequired => "needs-auth",
            FailureKind::HeaderRefused { .. } => "header-refused",
            FailureKind::Forbidden => "forbidden",
            FailureKind::NotFound => "not-found",
            FailureKind::Overloaded => "overloaded",
            FailureKind::ServerError(_) => "server-error",
            FailureKind::HttpStatus(_) => "http-status",
            FailureKind::CrossOriginRedirect(_) => "redirected",
            FailureKind::NotMcp => "not-mcp",
            FailureKind::NoCommonVersion { .. } => "version",
            FailureKind::ErrorResponse { .. } => "refused-by-server",
            FailureKind::InvalidResponse => "protocol",
            FailureKind::Closed => "closed",
            FailureKind::SessionExpired => "session-gone",
            FailureKind::LoginNotRefreshed => "login-not-renewed",
            FailureKind::MessageTooLarge(_) => "too-large",
            FailureKind::SecretUnavailable => "secret",
            FailureKind::InvalidConfig => "configuration",
            FailureKind::NotRegistered => "not-available",
            FailureKind::IdeTokenRefused => "ide-token-refused",
            FailureKind::SessionRefused(_) => "session-refused",
            FailureKind::ConnectorLoginRequired { .. } => "connector-needs-login",
        }
    }

    /// A remedy for the user; `name` is the server's name.
    pub fn remedy(&self, name: &str) -> String {
        match &self.kind {
            FailureKind::CommandNotFound { command } => {
                let install = match installation_hint(command) {
                    Some(hint) => hint.to_owned(),
                    None => format!("install `{command}`"),
                };
                format!("{install}, or give its full path: `swb get {name}` shows the entry")
            }
            FailureKind::CommandNotRunnable { command, .. } => {
                format!("make `{command}` executable, or configure another program")
            }
            FailureKind::FolderNotFound { .. } => {
                format!("correct `cwd`: `swb get {name}` shows the entry")
            }
            FailureKind::Exited { .. } | FailureKind::Closed => {
                format!("`swb logs {name}` shows its output")
            }
            FailureKind::Timeout(_) => format!(
                "`swb logs {name}` shows its output; raise `\"connectTimeout\"` in its entry or MCP_TIMEOUT"
            ),
            FailureKind::Unreachable(why) => match why {
                UnreachableReason::NameResolution => {
                    "check the host in the URL, and your network".to_owned()
                }
                UnreachableReason::Refused => {
                    "start the server, or correct the port in the URL".to_owned()
                }
                UnreachableReason::Tls(problem) => tls_remedy(*problem, name),
                UnreachableReason::Proxy => "check HTTPS_PROXY and NO_PROXY".to_owned(),
                UnreachableReason::Reset
                | UnreachableReason::Timeout
                | UnreachableReason::Other => {
                    format!("check your network, then `swb ping {name}`")
                }
            },
            FailureKind::AuthRequired => format!("`swb login {name}`"),
            FailureKind::HeaderRefused { .. } => format!(
                "correct the value in `headers`, or remove it and use `swb login {name}`: `swb get {name}` shows the entry"
            ),
            FailureKind::Forbidden => {
                "the token lacks permissions; ask the server's operator".to_owned()
            }
            FailureKind::NotFound => {
                format!("check the path in the URL: `swb get {name}` shows it")
            }
            FailureKind::Overloaded | FailureKind::ServerError(_) => {
                "wait, or ask the server's operator".to_owned()
            }
            FailureKind::HttpStatus(_) | FailureKind::NotMcp => {
                format!("check that the URL is an MCP endpoint: `swb get {name}` shows it")
            }
            FailureKind::CrossOriginRedirect(to) => {
                format!("if you trust {to}, put it into the URL yourself")
            }
            FailureKind::NoCommonVersion { .. } => "update the server or Switchboard".to_owned(),
            FailureKind::ErrorResponse { .. }
            | FailureKind::InvalidResponse
            | FailureKind::MessageTooLarge(_) => "report it to the server's author".to_owned(),
            FailureKind::SessionExpired => format!("`swb reconnect {name}`"),
            FailureKind::LoginNotRefreshed => {
                format!("try again later with `swb ping {name}`; the login is kept")
            }
            FailureKind::SecretUnavailable => {
                format!("correct the secret in its entry: `swb get {name}` shows the entry")
            }
            FailureKind::InvalidConfig => format!("correct its entry: `swb get {name}` shows it"),
            FailureKind::NotRegistered => "use it from the program that provides it".to_owned(),
            FailureKind::IdeTokenRefused => {
                "restart the extension in your IDE, then choose the IDE with `/ide`".to_owned()
            }
            FailureKind::SessionRefused(RefusedSession::AccountLogin) => {
                "`swb login --account`".to_owned()
            }
            FailureKind::SessionRefused(RefusedSession::AccountToken) => {
                "renew the token that `connectorAccount.token` in your settings names".to_owned()
            }
            FailureKind::SessionRefused(RefusedSession::Ingress) => {
                "renew the token of this session: `sessionIngress` in your settings or \
                 SWB_SESSION_TOKEN_FILE says where it is"
                    .to_owned()
            }
            FailureKind::ConnectorLoginRequired { manage_url: Some(url) } => {
                format!("connect it at {url}, then `swb reconnect '{name}'`")
            }
            FailureKind::ConnectorLoginRequired { manage_url: None } => format!(
                "connect it in the settings of your connector account, then `swb reconnect '{name}'`"
            ),
        }
    }
}

fn tls_remedy(problem: TlsProblem, name: &str) -> String {
    match problem {
        TlsProblem::UntrustedCertificate => {
            "if you trust the server, name its certificate or its CA in `tls.caFile` of its entry"
                .to_owned()
        }
        TlsProblem::ExpiredCertificate => {
            "the server's operator must renew it; check also the clock of this machine".to_owned()
        }
        TlsProblem::CertificateNotYetValid => {
            "check the clock of this machine, or ask the server's operator".to_owned()
        }
        TlsProblem::WrongHost => {
            format!("use the host name that the certificate is for: `swb get {name}` shows the URL")
        }
        TlsProblem::NotTls => {
            format!("use `http://` in the URL, or correct the port: `swb get {name}` shows it")
        }
        TlsProblem::Other => {
            "check the certificates; `tls` in its entry sets a CA and a client certificate"
                .to_owned()
        }
    }
}

impl Evidence {
    /// Its text.
    pub fn text(&self) -> &str {
        match self {
            Evidence::Stderr(text)
            | Evidence::NotAMessage(text)
            | Evidence::SearchedPath(text)
            | Evidence::Body(text)
            | Evidence::Challenge(text)
            | Evidence::RetryAfter(text)
            | Evidence::Detail(text) => text,
        }
    }

    /// The kind of evidence, as a label and as a key for programs.
    pub fn label(&self) -> &'static str {
        match self {
            Evidence::Stderr(_) => "stderr",
            Evidence::NotAMessage(_) => "not-a-message",
            Evidence::SearchedPath(_) => "searched",
            Evidence::Body(_) => "body",
            Evidence::Challenge(_) => "challenge",
            Evidence::RetryAfter(_) => "retry-after",
            Evidence::Detail(_) => "detail",
        }
    }
}

impl fmt::Display for ConnectionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FailureKind::CommandNotFound { command } => write!(f, "`{command}` was not found"),
            FailureKind::CommandNotRunnable { command, why } => {
                write!(f, "`{command}` could not be run: {why}")
            }
            FailureKind::FolderNotFound { folder } => {
                write!(f, "the folder {folder} does not exist")
            }
            FailureKind::Exited { code: Some(code), .. } => {
                write!(f, "the program exited with code {code} before it responded")
            }
            FailureKind::Exited { signal: Some(signal), .. } => {
                write!(f, "the program was killed by signal {signal} before it responded")
            }
            FailureKind::Exited { .. } => f.write_str("the program exited before it responded"),
            FailureKind::Timeout(limit) => {
                write!(f, "no response within {} s", limit.as_secs_f64())
            }
            FailureKind::Unreachable(why) => write!(f, "{why}"),
            FailureKind::AuthRequired => f.write_str("the server needs a login"),
            FailureKind::SessionRefused(
                RefusedSession::AccountLogin | RefusedSession::AccountToken,
            ) => f.write_str("your connector account refuses the session"),
            FailureKind::SessionRefused(RefusedSession::Ingress) => {
                f.write_str("the server refuses the token of this session")
            }
            FailureKind::ConnectorLoginRequired { .. } => {
                f.write_str("the connector needs a login of its own in your connector account")
            }
            FailureKind::HeaderRefused { headers } => {
                let names: Vec<String> = headers.iter().map(|name| format!("`{name}`")).collect();
                let noun = if names.len() == 1 { "header" } else { "headers" };
                write!(
                    f,
                    "the server refused the {noun} {} of its entry (HTTP 401)",
                    names.join(", ")
                )
            }
            FailureKind::Forbidden => f.write_str("the server denied access (HTTP 403)"),
            FailureKind::NotFound => f.write_str("the URL does not exist on the server (HTTP 404)"),
            FailureKind::Overloaded => f.write_str("the server is overloaded (HTTP 429)"),
            FailureKind::ServerError(status) => write!(f, "the server failed (HTTP {status})"),
            FailureKind::HttpStatus(status) => write!(f, "the server responded with HTTP {status}"),
            FailureKind::CrossOriginRedirect(to) => write!(f, "the server redirects to {to}"),
            FailureKind::NotMcp => f.write_str("the URL is not an MCP server"),
            FailureKind::NoCommonVersion { theirs } => {
                write!(f, "the server supports none of our protocol versions")?;
                if !theirs.is_empty() {
                    write!(f, ", only {}", theirs.join(", "))?;
                }
                Ok(())
            }
            FailureKind::ErrorResponse { code, message } => {
                write!(f, "the server responded with error {code}: {message}")
            }
            FailureKind::InvalidResponse => f.write_str("the server's responses are invalid"),
            FailureKind::Closed => f.write_str("the server closed the connection"),
            FailureKind::SessionExpired => f.write_str("the session has expired"),
            FailureKind::LoginNotRefreshed => {
                f.write_str("the login could not be refreshed at the moment")
            }
            FailureKind::MessageTooLarge(limit) => {
                write!(f, "the server sent a message larger than {limit} bytes")
            }
            FailureKind::SecretUnavailable => {
                f.write_str("a secret of its entry could not be fetched")
            }
            FailureKind::InvalidConfig => f.write_str("its entry is invalid"),
            FailureKind::NotRegistered => f.write_str("this server is provided by another program"),
            FailureKind::IdeTokenRefused => {
                f.write_str("the IDE refused the token, so its lock file is stale")
            }
        }
    }
}

impl From<&ConnectError> for ConnectionFailure {
    fn from(error: &ConnectError) -> ConnectionFailure {
        let failure = match &error.kind {
            ConnectErrorKind::Start(error) => {
                let command = error.command.display().to_string();
                let why = error.source.kind();
                let kind = match why == std::io::ErrorKind::NotFound {
                    true => FailureKind::CommandNotFound { command },
                    false => FailureKind::CommandNotRunnable { command, why },
                };
                ConnectionFailure::new(kind)
                    .with_evidence(Evidence::Detail(error.source.to_string()))
            }
            ConnectErrorKind::Timeout(limit) => {
                ConnectionFailure::new(FailureKind::Timeout(*limit))
            }
            // A session that cannot share a server runs its own copy, so this is not shown.
            ConnectErrorKind::NotShared(error) => ConnectionFailure::new(FailureKind::Closed)
                .with_evidence(Evidence::Detail(error_chain(error))),
            ConnectErrorKind::NoHttpClient => ConnectionFailure::new(FailureKind::InvalidConfig),
            ConnectErrorKind::Handshake(HandshakeError { kind, .. }) => match kind {
                HandshakeErrorKind::Call(error) => ConnectionFailure::from(error),
                HandshakeErrorKind::NoCommonVersion { server_versions } => {
                    ConnectionFailure::new(FailureKind::NoCommonVersion {
                        theirs: server_versions.clone(),
                    })
                }
                HandshakeErrorKind::InvalidResponse => {
                    ConnectionFailure::new(FailureKind::InvalidResponse)
                }
            },
        };
        let failure = match (error.exit, &failure.kind) {
            (Some(status), FailureKind::Closed) => ConnectionFailure::new(exit_failure(status)),
            (Some(_) | None, _) => failure,
        };
        let malformed = error.malformed.clone().unwrap_or_default();
        failure
            .with_evidence(stderr_evidence(&error.stderr))
            .with_evidence(Evidence::NotAMessage(malformed))
    }
}

/// The text of an error and of all its sources, in one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// How a program ended.
pub fn exit_failure(status: std::process::ExitStatus) -> FailureKind {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None;
    FailureKind::Exited { code: status.code(), signal }
}

/// The end of a program's stderr output.
pub fn stderr_evidence(stderr: &[u8]) -> Evidence {
    let end = &stderr[stderr.len().saturating_sub(MAX_STDERR_BYTES)..];
    Evidence::Stderr(String::from_utf8_lossy(end).trim().to_owned())
}

impl From<&CallError> for ConnectionFailure {
    fn from(error: &CallError) -> ConnectionFailure {
        match error {
            CallError::Remote(error) => {
                let message = error.message.chars().take(500).collect();
                ConnectionFailure::new(FailureKind::ErrorResponse { code: error.code, message })
            }
            CallError::Timeout(limit) => ConnectionFailure::new(FailureKind::Timeout(*limit)),
            CallError::Transport(error) => ConnectionFailure::from(error),
            CallError::Closed { reason, .. } => ConnectionFailure::from(reason),
        }
    }
}

impl From<&CloseReason> for ConnectionFailure {
    fn from(reason: &CloseReason) -> ConnectionFailure {
        match reason {
            CloseReason::Closed | CloseReason::Truncated => {
                ConnectionFailure::new(FailureKind::Closed)
            }
            CloseReason::TooLarge { limit } => {
                ConnectionFailure::new(FailureKind::MessageTooLarge(*limit))
            }
            CloseReason::Io(kind) => ConnectionFailure::new(FailureKind::Closed)
                .with_evidence(Evidence::Detail(kind.to_string())),
            CloseReason::Transport(error) => ConnectionFailure::from(error),
        }
    }
}

impl From<&TransportError> for ConnectionFailure {
    fn from(error: &TransportError) -> ConnectionFailure {
        match error {
            TransportError::Unreachable { reason: why, detail } => {
                ConnectionFailure::new(FailureKind::Unreachable(*why))
                    .with_evidence(Evidence::Detail(detail.clone()))
            }
            TransportError::Status(response) => {
                let kind = match response.status {
                    401 => FailureKind::AuthRequired,
                    403 => FailureKind::Forbidden,
                    404 | 410 => FailureKind::NotFound,
                    407 => FailureKind::Unreachable(UnreachableReason::Proxy),
                    408 | 429 => FailureKind::Overloaded,
                    500..=599 => FailureKind::ServerError(response.status),
                    other => FailureKind::HttpStatus(other),
                };
                let failure = ConnectionFailure::new(kind)
                    .with_evidence(Evidence::Detail(response.to_string()))
                    .with_evidence(Evidence::Body(response.body.clone()))
                    .with_evidence(Evidence::RetryAfter(
                        response.retry_after.clone().unwrap_or_default(),
                    ));
                response.challenges.iter().fold(failure, |failure, challenge| {
                    failure.with_evidence(Evidence::Challenge(challenge.clone()))
                })
            }
            TransportError::CrossOriginRedirect { to } => {
                ConnectionFailure::new(FailureKind::CrossOriginRedirect(to.clone()))
            }
            TransportError::NotMcp { content_type, body_prefix } => {
                ConnectionFailure::new(FailureKind::NotMcp)
                    .with_evidence(Evidence::Detail(format!("it sent `{content_type}`")))
                    .with_evidence(Evidence::Body(body_prefix.clone()))
            }
            TransportError::IncompleteResponse => ConnectionFailure::new(FailureKind::Closed),
            TransportError::Timeout(limit) => ConnectionFailure::new(FailureKind::Timeout(*limit)),
            TransportError::TooLarge { limit } => {
                ConnectionFailure::new(FailureKind::MessageTooLarge(*limit))
            }
        }
    }
}
