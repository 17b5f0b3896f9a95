//! Why a server is not connected: the cause, what shows it, and what mends it.

use std::fmt;
use std::time::Duration;

use switchboard_wire::dial::{DialError, DialErrorKind};
use switchboard_wire::fault::{Fault, Unreachable};
use switchboard_wire::handshake::{HandshakeError, HandshakeErrorKind};
use switchboard_wire::link::LinkEnd;
use switchboard_wire::peer::CallError;

/// How much of what a program said is shown as evidence.
const SHOWN: usize = 4096;

/// Why a server is not connected.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// What it is.
    pub kind: CauseKind,
    /// What shows it.
    pub evidence: Vec<Evidence>,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum CauseKind {
    /// There is no such program.
    NoProgram {
        /// The command.
        command: String,
    },
    /// The program is there, and may not or cannot be run.
    NotRunnable {
        /// The command.
        command: String,
        /// What the system says.
        why: std::io::ErrorKind,
    },
    /// The folder to start in is not there.
    NoFolder {
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
    Silent(Duration),
    /// The server could not be reached.
    Unreachable(Unreachable),
    /// The server wants a login, there is one, and it cannot be renewed just now.
    NotRenewed,
    /// The server wants a login.
    WantsLogin,
    /// The server knows us and says no.
    Forbidden,
    /// Nothing is at this URL.
    NotThere,
    /// The server has too much to do.
    Overloaded,
    /// The server failed.
    ServerError(u16),
    /// Another status that is no success.
    Status(u16),
    /// The server sends us to another origin.
    RedirectedAway(String),
    /// What answers is no MCP server.
    NotMcp,
    /// The server speaks no version that we speak.
    NoCommonVersion {
        /// Those that it speaks.
        theirs: Vec<String>,
    },
    /// The server answered with an error.
    Refused {
        /// The code.
        code: i64,
        /// Its words.
        message: String,
    },
    /// The server's answers make no sense.
    Senseless,
    /// The server closed the connection.
    Closed,
    /// The server forgot the session.
    SessionGone,
    /// A message was too large.
    TooLarge(usize),
    /// A named secret could not be fetched.
    NoSecret,
    /// The URL, a header or a certificate cannot be used.
    Unusable,
    /// Nothing in this program serves this kind.
    NotHere,
}

/// What shows a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// The end of what the program said on standard error.
    Stderr(String),
    /// The folders that were searched for the program.
    Searched(String),
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
pub enum Outlook {
    /// It may pass by itself.
    Passing,
    /// It stays until somebody changes something.
    Lasting,
    /// A login mends it.
    Login,
}

impl Cause {
    /// A cause without evidence.
    pub fn of(kind: CauseKind) -> Cause {
        Cause { kind, evidence: Vec::new() }
    }

    /// The same with one more piece of evidence; empty ones do not count.
    pub fn with(mut self, evidence: Evidence) -> Cause {
        if !evidence.text().trim().is_empty() {
            self.evidence.push(evidence);
        }
        self
    }

    /// What is to be expected.
    pub fn outlook(&self) -> Outlook {
        match &self.kind {
            CauseKind::WantsLogin => Outlook::Login,
            CauseKind::Unreachable(why) => match why {
                Unreachable::Tls => Outlook::Lasting,
                Unreachable::Name
                | Unreachable::Refused
                | Unreachable::Reset
                | Unreachable::Timeout
                | Unreachable::Proxy
                | Unreachable::Other => Outlook::Passing,
            },
            CauseKind::Overloaded
            | CauseKind::ServerError(_)
            | CauseKind::Closed
            | CauseKind::SessionGone
            | CauseKind::NotRenewed
            | CauseKind::TooLarge(_) => Outlook::Passing,
            CauseKind::NoProgram { .. }
            | CauseKind::NotRunnable { .. }
            | CauseKind::NoFolder { .. }
            | CauseKind::Exited { .. }
            | CauseKind::Silent(_)
            | CauseKind::Forbidden
            | CauseKind::NotThere
            | CauseKind::Status(_)
            | CauseKind::RedirectedAway(_)
            | CauseKind::NotMcp
            | CauseKind::NoCommonVersion { .. }
            | CauseKind::Refused { .. }
            | CauseKind::Senseless
            | CauseKind::NoSecret
            | CauseKind::Unusable
            | CauseKind::NotHere => Outlook::Lasting,
        }
    }

    /// A word for programs.
    pub fn id(&self) -> &'static str {
        match &self.kind {
            CauseKind::NoProgram { .. } => "command-not-found",
            CauseKind::NotRunnable { .. } => "command-not-runnable",
            CauseKind::NoFolder { .. } => "folder-not-found",
            CauseKind::Exited { .. } => "exited",
            CauseKind::Silent(_) => "timeout",
            CauseKind::Unreachable(why) => match why {
                Unreachable::Name => "unknown-host",
                Unreachable::Refused => "refused",
                Unreachable::Reset => "reset",
                Unreachable::Timeout => "timeout",
                Unreachable::Tls => "tls",
                Unreachable::Proxy => "proxy",
                Unreachable::Other => "unreachable",
            },
            CauseKind::WantsLogin => "needs-auth",
            CauseKind::Forbidden => "forbidden",
            CauseKind::NotThere => "not-found",
            CauseKind::Overloaded => "overloaded",
            CauseKind::ServerError(_) => "server-error",
            CauseKind::Status(_) => "http-status",
            CauseKind::RedirectedAway(_) => "redirected",
            CauseKind::NotMcp => "not-mcp",
            CauseKind::NoCommonVersion { .. } => "version",
            CauseKind::Refused { .. } => "refused-by-server",
            CauseKind::Senseless => "protocol",
            CauseKind::Closed => "closed",
            CauseKind::SessionGone => "session-gone",
            CauseKind::NotRenewed => "login-not-renewed",
            CauseKind::TooLarge(_) => "too-large",
            CauseKind::NoSecret => "secret",
            CauseKind::Unusable => "configuration",
            CauseKind::NotHere => "not-available",
        }
    }

    /// What a person can do about it; `name` is the server's.
    pub fn remedy(&self, name: &str) -> String {
        match &self.kind {
            CauseKind::NoProgram { command } => {
                format!("install `{command}`, or give its full path: `swb get {name}` shows the entry")
            }
            CauseKind::NotRunnable { command, .. } => {
                format!("make `{command}` executable for you, or name another program")
            }
            CauseKind::NoFolder { .. } => format!("mend `cwd`: `swb get {name}` shows the entry"),
            CauseKind::Exited { .. } | CauseKind::Closed => {
                format!("`swb logs {name}` shows what it said")
            }
            CauseKind::Silent(_) => format!(
                "`swb logs {name}` shows what it said; give it longer with `\"timeout\"` in its entry or MCP_TIMEOUT"
            ),
            CauseKind::Unreachable(why) => match why {
                Unreachable::Name => "check the host in the URL, and your network".to_owned(),
                Unreachable::Refused => "start the server, or mend the port in the URL".to_owned(),
                Unreachable::Tls => {
                    "check the certificates; `tls` in its entry names an authority and a certificate of your own".to_owned()
                }
                Unreachable::Proxy => "check HTTPS_PROXY and NO_PROXY".to_owned(),
                Unreachable::Reset | Unreachable::Timeout | Unreachable::Other => {
                    format!("check your network, then `swb ping {name}`")
                }
            },
            CauseKind::WantsLogin => format!("`swb login {name}`"),
            CauseKind::Forbidden => {
                "the token has not the rights; ask whoever runs the server".to_owned()
            }
            CauseKind::NotThere => format!("check the path in the URL: `swb get {name}` shows it"),
            CauseKind::Overloaded | CauseKind::ServerError(_) => {
                "wait, or ask whoever runs the server".to_owned()
            }
            CauseKind::Status(_) | CauseKind::NotMcp => {
                format!("check that the URL is an MCP endpoint: `swb get {name}` shows it")
            }
            CauseKind::RedirectedAway(to) => {
                format!("if you trust {to}, put it into the URL yourself")
            }
            CauseKind::NoCommonVersion { .. } => "update the server, or us".to_owned(),
            CauseKind::Refused { .. } | CauseKind::Senseless | CauseKind::TooLarge(_) => {
                "report it to whoever wrote the server".to_owned()
            }
            CauseKind::SessionGone => format!("`swb reconnect {name}`"),
            CauseKind::NotRenewed => {
                format!("wait, and look again with `swb ping {name}`; the login is kept")
            }
            CauseKind::NoSecret => {
                format!("mend the secret that its entry names: `swb get {name}` shows the entry")
            }
            CauseKind::Unusable => format!("mend its entry: `swb get {name}` shows it"),
            CauseKind::NotHere => "it can be used from the program that provides it".to_owned(),
        }
    }
}

impl Evidence {
    /// Its words.
    pub fn text(&self) -> &str {
        match self {
            Evidence::Stderr(text)
            | Evidence::Searched(text)
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
            Evidence::Searched(_) => "searched",
            Evidence::Body(_) => "body",
            Evidence::Challenge(_) => "challenge",
            Evidence::RetryAfter(_) => "retry-after",
            Evidence::Detail(_) => "detail",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            CauseKind::NoProgram { command } => write!(f, "`{command}` was not found"),
            CauseKind::NotRunnable { command, why } => {
                write!(f, "`{command}` could not be run: {why}")
            }
            CauseKind::NoFolder { folder } => write!(f, "the folder {folder} is not there"),
            CauseKind::Exited { code: Some(code), .. } => {
                write!(f, "the program ended with exit code {code} before it answered")
            }
            CauseKind::Exited { signal: Some(signal), .. } => {
                write!(f, "the program was ended by signal {signal} before it answered")
            }
            CauseKind::Exited { .. } => f.write_str("the program ended before it answered"),
            CauseKind::Silent(limit) => {
                write!(f, "no answer within {} s", limit.as_secs_f64())
            }
            CauseKind::Unreachable(why) => write!(f, "{why}"),
            CauseKind::WantsLogin => f.write_str("the server wants a login"),
            CauseKind::Forbidden => f.write_str("the server does not let us in (HTTP 403)"),
            CauseKind::NotThere => f.write_str("nothing is at this URL (HTTP 404)"),
            CauseKind::Overloaded => f.write_str("the server has too much to do (HTTP 429)"),
            CauseKind::ServerError(status) => write!(f, "the server failed (HTTP {status})"),
            CauseKind::Status(status) => write!(f, "the server answered with HTTP {status}"),
            CauseKind::RedirectedAway(to) => write!(f, "the server sends us to {to}"),
            CauseKind::NotMcp => f.write_str("what answers there is no MCP server"),
            CauseKind::NoCommonVersion { theirs } => {
                write!(f, "the server speaks no version of the protocol that we speak")?;
                if !theirs.is_empty() {
                    write!(f, ", only {}", theirs.join(", "))?;
                }
                Ok(())
            }
            CauseKind::Refused { code, message } => {
                write!(f, "the server answered with error {code}: {message}")
            }
            CauseKind::Senseless => f.write_str("the server's answers make no sense"),
            CauseKind::Closed => f.write_str("the server closed the connection"),
            CauseKind::SessionGone => f.write_str("the server forgot the session"),
            CauseKind::NotRenewed => f.write_str("the login could not be renewed for now"),
            CauseKind::TooLarge(limit) => {
                write!(f, "the server sent a message larger than {limit} bytes")
            }
            CauseKind::NoSecret => {
                f.write_str("a secret that its entry names could not be fetched")
            }
            CauseKind::Unusable => f.write_str("its entry cannot be used"),
            CauseKind::NotHere => f.write_str("this kind of server lives in another program"),
        }
    }
}

impl From<&DialError> for Cause {
    fn from(error: &DialError) -> Cause {
        let cause = match &error.kind {
            DialErrorKind::Start(error) => {
                let command = error.command.display().to_string();
                let why = error.source.kind();
                let kind = match why == std::io::ErrorKind::NotFound {
                    true => CauseKind::NoProgram { command },
                    false => CauseKind::NotRunnable { command, why },
                };
                Cause::of(kind).with(Evidence::Detail(error.source.to_string()))
            }
            DialErrorKind::Silent(limit) => Cause::of(CauseKind::Silent(*limit)),
            DialErrorKind::NoNetwork => Cause::of(CauseKind::Unusable),
            DialErrorKind::Handshake(HandshakeError { kind, .. }) => match kind {
                HandshakeErrorKind::Call(error) => Cause::from(error),
                HandshakeErrorKind::NoCommonVersion { theirs } => {
                    Cause::of(CauseKind::NoCommonVersion { theirs: theirs.clone() })
                }
                HandshakeErrorKind::Unreadable => Cause::of(CauseKind::Senseless),
            },
        };
        let cause = match (error.exit, &cause.kind) {
            (Some(status), CauseKind::Closed) => Cause::of(exited(status)),
            (Some(_) | None, _) => cause,
        };
        cause.with(stderr(&error.said))
    }
}

/// How a program ended.
pub fn exited(status: std::process::ExitStatus) -> CauseKind {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None;
    CauseKind::Exited { code: status.code(), signal }
}

/// The end of what a program said.
pub fn stderr(said: &[u8]) -> Evidence {
    let end = &said[said.len().saturating_sub(SHOWN)..];
    Evidence::Stderr(String::from_utf8_lossy(end).trim().to_owned())
}

impl From<&CallError> for Cause {
    fn from(error: &CallError) -> Cause {
        match error {
            CallError::Remote(error) => {
                let message = error.message.chars().take(500).collect();
                Cause::of(CauseKind::Refused { code: error.code, message })
            }
            CallError::Timeout(limit) => Cause::of(CauseKind::Silent(*limit)),
            CallError::Lost(fault) => Cause::from(fault),
            CallError::Ended { how, .. } => Cause::from(how),
        }
    }
}

impl From<&LinkEnd> for Cause {
    fn from(how: &LinkEnd) -> Cause {
        match how {
            LinkEnd::Closed | LinkEnd::Truncated => Cause::of(CauseKind::Closed),
            LinkEnd::TooLarge { limit } => Cause::of(CauseKind::TooLarge(*limit)),
            LinkEnd::Failed(kind) => {
                Cause::of(CauseKind::Closed).with(Evidence::Detail(kind.to_string()))
            }
            LinkEnd::Fault(fault) => Cause::from(fault),
        }
    }
}

impl From<&Fault> for Cause {
    fn from(fault: &Fault) -> Cause {
        match fault {
            Fault::Unreachable { why, detail } => {
                Cause::of(CauseKind::Unreachable(*why)).with(Evidence::Detail(detail.clone()))
            }
            Fault::Status(answer) => {
                let kind = match answer.status {
                    401 => CauseKind::WantsLogin,
                    403 => CauseKind::Forbidden,
                    404 | 410 => CauseKind::NotThere,
                    407 => CauseKind::Unreachable(Unreachable::Proxy),
                    408 | 429 => CauseKind::Overloaded,
                    500..=599 => CauseKind::ServerError(answer.status),
                    other => CauseKind::Status(other),
                };
                let cause = Cause::of(kind)
                    .with(Evidence::Detail(answer.to_string()))
                    .with(Evidence::Body(answer.body.clone()))
                    .with(Evidence::RetryAfter(answer.retry_after.clone().unwrap_or_default()));
                answer.challenges.iter().fold(cause, |cause, challenge| {
                    cause.with(Evidence::Challenge(challenge.clone()))
                })
            }
            Fault::RedirectedAway { to } => Cause::of(CauseKind::RedirectedAway(to.clone())),
            Fault::NotMcp { content_type, beginning } => Cause::of(CauseKind::NotMcp)
                .with(Evidence::Detail(format!("it sent `{content_type}`")))
                .with(Evidence::Body(beginning.clone())),
            Fault::CutShort => Cause::of(CauseKind::Closed),
            Fault::Silent(limit) => Cause::of(CauseKind::Silent(*limit)),
            Fault::TooLarge { limit } => Cause::of(CauseKind::TooLarge(*limit)),
        }
    }
}
