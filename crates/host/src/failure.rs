//! Why a server is not connected: the cause, what shows it, and what mends it.

use std::fmt;
use std::time::Duration;

use switchboard_wire::client::handshake::{HandshakeError, HandshakeErrorKind};
use switchboard_wire::connect::{ConnectError, ConnectErrorKind};
use switchboard_wire::peer::CallError;
use switchboard_wire::transport::CloseReason;
use switchboard_wire::transport_error::{TransportError, UnreachableReason};

/// How much of what a program said is shown as evidence.
const MAX_STDERR_BYTES: usize = 4096;

/// Why a server is not connected.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionFailure {
    /// What it is.
    pub kind: FailureKind,
    /// What shows it.
    pub evidence: Vec<Evidence>,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum FailureKind {
    /// There is no such program.
    CommandNotFound {
        /// The command.
        command: String,
    },
    /// The program is there, and may not or cannot be run.
    CommandNotRunnable {
        /// The command.
        command: String,
        /// What the system says.
        why: std::io::ErrorKind,
    },
    /// The folder to start in is not there.
    FolderNotFound {
        /// The folder.
        folder: String,
    },
    /// The program ended before it answered.
    Exited {
        /// Its exit code, where it has one.
        code: Option<i32>,
        /// The signal that ended it, where one did.
        signal: Option<i32>,
    },
    /// No answer came.
    Timeout(Duration),
    /// The server could not be reached.
    Unreachable(UnreachableReason),
    /// The server wants a login, there is one, and it cannot be renewed just now.
    LoginNotRefreshed,
    /// The server wants a login.
    AuthRequired,
    /// The server knows us and says no.
    Forbidden,
    /// Nothing is at this URL.
    NotFound,
    /// The server has too much to do.
    Overloaded,
    /// The server failed.
    ServerError(u16),
    /// Another status that is no success.
    HttpStatus(u16),
    /// The server sends us to another origin.
    CrossOriginRedirect(String),
    /// What answers is no MCP server.
    NotMcp,
    /// The server speaks no version that we speak.
    NoCommonVersion {
        /// Those that it speaks.
        theirs: Vec<String>,
    },
    /// The server answered with an error.
    ErrorResponse {
        /// The code.
        code: i64,
        /// Its words.
        message: String,
    },
    /// The server's answers make no sense.
    InvalidResponse,
    /// The server closed the connection.
    Closed,
    /// The server forgot the session.
    SessionExpired,
    /// A message was too large.
    MessageTooLarge(usize),
    /// A named secret could not be fetched.
    SecretUnavailable,
    /// The URL, a header or a certificate cannot be used.
    InvalidConfig,
    /// Nothing in this program serves this kind.
    NotRegistered,
}

/// What shows a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// The end of what the program said on standard error.
    Stderr(String),
    /// The folders that were searched for the program.
    SearchedPath(String),
    /// What the server sent, or its beginning.
    Body(String),
    /// What a server wants a login for.
    Challenge(String),
    /// When to try again, says the server.
    RetryAfter(String),
    /// Other words of the system or a library.
    Detail(String),
}

/// What is to be expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// It may pass by itself.
    Transient,
    /// It stays until somebody changes something.
    Permanent,
    /// A login mends it.
    AuthRequired,
}

impl ConnectionFailure {
    /// A cause without evidence.
    pub fn new(kind: FailureKind) -> ConnectionFailure {
        ConnectionFailure { kind, evidence: Vec::new() }
    }

    /// The same with one more piece of evidence; empty ones do not count.
    pub fn with_evidence(mut self, evidence: Evidence) -> ConnectionFailure {
        if !evidence.text().trim().is_empty() {
            self.evidence.push(evidence);
        }
        self
    }

    /// What is to be expected.
    pub fn class(&self) -> FailureClass {
        match &self.kind {
            FailureKind::AuthRequired => FailureClass::AuthRequired,
            FailureKind::Unreachable(why) => match why {
                UnreachableReason::Tls => FailureClass::Permanent,
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
            | FailureKind::MessageTooLarge(_) => FailureClass::Transient,
            FailureKind::CommandNotFound { .. }
            | FailureKind::CommandNotRunnable { .. }
            | FailureKind::FolderNotFound { .. }
            | FailureKind::Exited { .. }
            | FailureKind::Timeout(_)
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
            | FailureKind::NotRegistered => FailureClass::Permanent,
        }
    }

    /// A word for programs.
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
                UnreachableReason::Tls => "tls",
                UnreachableReason::Proxy => "proxy",
                UnreachableReason::Other => "unreachable",
            },
            FailureKind::AuthRequired => "needs-auth",
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
        }
    }

    /// What a person can do about it; `name` is the server's.
    pub fn remedy(&self, name: &str) -> String {
        match &self.kind {
            FailureKind::CommandNotFound { command } => {
                format!("install `{command}`, or give its full path: `swb get {name}` shows the entry")
            }
            FailureKind::CommandNotRunnable { command, .. } => {
                format!("make `{command}` executable for you, or name another program")
            }
            FailureKind::FolderNotFound { .. } => format!("mend `cwd`: `swb get {name}` shows the entry"),
            FailureKind::Exited { .. } | FailureKind::Closed => {
                format!("`swb logs {name}` shows what it said")
            }
            FailureKind::Timeout(_) => format!(
                "`swb logs {name}` shows what it said; give it longer with `\"timeout\"` in its entry or MCP_TIMEOUT"
            ),
            FailureKind::Unreachable(why) => match why {
                UnreachableReason::NameResolution => "check the host in the URL, and your network".to_owned(),
                UnreachableReason::Refused => "start the server, or mend the port in the URL".to_owned(),
                UnreachableReason::Tls => {
                    "check the certificates; `tls` in its entry names an authority and a certificate of your own".to_owned()
                }
                UnreachableReason::Proxy => "check HTTPS_PROXY and NO_PROXY".to_owned(),
                UnreachableReason::Reset | UnreachableReason::Timeout | UnreachableReason::Other => {
                    format!("check your network, then `swb ping {name}`")
                }
            },
            FailureKind::AuthRequired => format!("`swb login {name}`"),
            FailureKind::Forbidden => {
                "the token has not the rights; ask whoever runs the server".to_owned()
            }
            FailureKind::NotFound => format!("check the path in the URL: `swb get {name}` shows it"),
            FailureKind::Overloaded | FailureKind::ServerError(_) => {
                "wait, or ask whoever runs the server".to_owned()
            }
            FailureKind::HttpStatus(_) | FailureKind::NotMcp => {
                format!("check that the URL is an MCP endpoint: `swb get {name}` shows it")
            }
            FailureKind::CrossOriginRedirect(to) => {
                format!("if you trust {to}, put it into the URL yourself")
            }
            FailureKind::NoCommonVersion { .. } => "update the server, or us".to_owned(),
            FailureKind::ErrorResponse { .. } | FailureKind::InvalidResponse | FailureKind::MessageTooLarge(_) => {
                "report it to whoever wrote the server".to_owned()
            }
            FailureKind::SessionExpired => format!("`swb reconnect {name}`"),
            FailureKind::LoginNotRefreshed => {
                format!("wait, and look again with `swb ping {name}`; the login is kept")
            }
            FailureKind::SecretUnavailable => {
                format!("mend the secret that its entry names: `swb get {name}` shows the entry")
            }
            FailureKind::InvalidConfig => format!("mend its entry: `swb get {name}` shows it"),
            FailureKind::NotRegistered => "it can be used from the program that provides it".to_owned(),
        }
    }
}

impl Evidence {
    /// Its words.
    pub fn text(&self) -> &str {
        match self {
            Evidence::Stderr(text)
            | Evidence::SearchedPath(text)
            | Evidence::Body(text)
            | Evidence::Challenge(text)
            | Evidence::RetryAfter(text)
            | Evidence::Detail(text) => text,
        }
    }

    /// What it is, for people and as a key for programs.
    pub fn label(&self) -> &'static str {
        match self {
            Evidence::Stderr(_) => "stderr",
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
            FailureKind::FolderNotFound { folder } => write!(f, "the folder {folder} is not there"),
            FailureKind::Exited { code: Some(code), .. } => {
                write!(f, "the program ended with exit code {code} before it answered")
            }
            FailureKind::Exited { signal: Some(signal), .. } => {
                write!(f, "the program was ended by signal {signal} before it answered")
            }
            FailureKind::Exited { .. } => f.write_str("the program ended before it answered"),
            FailureKind::Timeout(limit) => {
                write!(f, "no answer within {} s", limit.as_secs_f64())
            }
            FailureKind::Unreachable(why) => write!(f, "{why}"),
            FailureKind::AuthRequired => f.write_str("the server needs a login"),
            FailureKind::Forbidden => f.write_str("the server does not let us in (HTTP 403)"),
            FailureKind::NotFound => f.write_str("nothing is at this URL (HTTP 404)"),
            FailureKind::Overloaded => f.write_str("the server has too much to do (HTTP 429)"),
            FailureKind::ServerError(status) => write!(f, "the server failed (HTTP {status})"),
            FailureKind::HttpStatus(status) => write!(f, "the server answered with HTTP {status}"),
            FailureKind::CrossOriginRedirect(to) => write!(f, "the server sends us to {to}"),
            FailureKind::NotMcp => f.write_str("what answers there is no MCP server"),
            FailureKind::NoCommonVersion { theirs } => {
                write!(f, "the server speaks no version of the protocol that we speak")?;
                if !theirs.is_empty() {
                    write!(f, ", only {}", theirs.join(", "))?;
                }
                Ok(())
            }
            FailureKind::ErrorResponse { code, message } => {
                write!(f, "the server answered with error {code}: {message}")
            }
            FailureKind::InvalidResponse => f.write_str("the server's answers make no sense"),
            FailureKind::Closed => f.write_str("the server closed the connection"),
            FailureKind::SessionExpired => f.write_str("the server forgot the session"),
            FailureKind::LoginNotRefreshed => f.write_str("the login could not be renewed for now"),
            FailureKind::MessageTooLarge(limit) => {
                write!(f, "the server sent a message larger than {limit} bytes")
            }
            FailureKind::SecretUnavailable => {
                f.write_str("a secret that its entry names could not be fetched")
            }
            FailureKind::InvalidConfig => f.write_str("its entry cannot be used"),
            FailureKind::NotRegistered => {
                f.write_str("this kind of server lives in another program")
            }
        }
    }
}

impl From<&ConnectError> for ConnectionFailure {
    fn from(error: &ConnectError) -> ConnectionFailure {
        let cause = match &error.kind {
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
            ConnectErrorKind::NoHttpClient => ConnectionFailure::new(FailureKind::InvalidConfig),
            ConnectErrorKind::Handshake(HandshakeError { kind, .. }) => match kind {
                HandshakeErrorKind::Call(error) => ConnectionFailure::from(error),
                HandshakeErrorKind::NoCommonVersion { server_versions: theirs } => {
                    ConnectionFailure::new(FailureKind::NoCommonVersion { theirs: theirs.clone() })
                }
                HandshakeErrorKind::InvalidResponse => {
                    ConnectionFailure::new(FailureKind::InvalidResponse)
                }
            },
        };
        let cause = match (error.exit, &cause.kind) {
            (Some(status), FailureKind::Closed) => ConnectionFailure::new(exit_failure(status)),
            (Some(_) | None, _) => cause,
        };
        cause.with_evidence(stderr_evidence(&error.stderr))
    }
}

/// How a program ended.
pub fn exit_failure(status: std::process::ExitStatus) -> FailureKind {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None;
    FailureKind::Exited { code: status.code(), signal }
}

/// The end of what a program said.
pub fn stderr_evidence(said: &[u8]) -> Evidence {
    let end = &said[said.len().saturating_sub(MAX_STDERR_BYTES)..];
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
            CallError::Transport(fault) => ConnectionFailure::from(fault),
            CallError::Closed { reason: how, .. } => ConnectionFailure::from(how),
        }
    }
}

impl From<&CloseReason> for ConnectionFailure {
    fn from(how: &CloseReason) -> ConnectionFailure {
        match how {
            CloseReason::Closed | CloseReason::Truncated => {
                ConnectionFailure::new(FailureKind::Closed)
            }
            CloseReason::TooLarge { limit } => {
                ConnectionFailure::new(FailureKind::MessageTooLarge(*limit))
            }
            CloseReason::Io(kind) => ConnectionFailure::new(FailureKind::Closed)
                .with_evidence(Evidence::Detail(kind.to_string())),
            CloseReason::Transport(fault) => ConnectionFailure::from(fault),
        }
    }
}

impl From<&TransportError> for ConnectionFailure {
    fn from(fault: &TransportError) -> ConnectionFailure {
        match fault {
            TransportError::Unreachable { reason: why, detail } => {
                ConnectionFailure::new(FailureKind::Unreachable(*why))
                    .with_evidence(Evidence::Detail(detail.clone()))
            }
            TransportError::Status(answer) => {
                let kind = match answer.status {
                    401 => FailureKind::AuthRequired,
                    403 => FailureKind::Forbidden,
                    404 | 410 => FailureKind::NotFound,
                    407 => FailureKind::Unreachable(UnreachableReason::Proxy),
                    408 | 429 => FailureKind::Overloaded,
                    500..=599 => FailureKind::ServerError(answer.status),
                    other => FailureKind::HttpStatus(other),
                };
                let cause = ConnectionFailure::new(kind)
                    .with_evidence(Evidence::Detail(answer.to_string()))
                    .with_evidence(Evidence::Body(answer.body.clone()))
                    .with_evidence(Evidence::RetryAfter(
                        answer.retry_after.clone().unwrap_or_default(),
                    ));
                answer.challenges.iter().fold(cause, |cause, challenge| {
                    cause.with_evidence(Evidence::Challenge(challenge.clone()))
                })
            }
            TransportError::CrossOriginRedirect { to } => {
                ConnectionFailure::new(FailureKind::CrossOriginRedirect(to.clone()))
            }
            TransportError::NotMcp { content_type, body_prefix: beginning } => {
                ConnectionFailure::new(FailureKind::NotMcp)
                    .with_evidence(Evidence::Detail(format!("it sent `{content_type}`")))
                    .with_evidence(Evidence::Body(beginning.clone()))
            }
            TransportError::IncompleteResponse => ConnectionFailure::new(FailureKind::Closed),
            TransportError::Timeout(limit) => ConnectionFailure::new(FailureKind::Timeout(*limit)),
            TransportError::TooLarge { limit } => {
                ConnectionFailure::new(FailureKind::MessageTooLarge(*limit))
            }
        }
    }
}
