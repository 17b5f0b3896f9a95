//! Exit codes: one number for each kind of outcome, so that scripts can tell them apart.

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Success,
    /// A system error: disk, permission, lock.
    Failure,
    /// The command line is invalid.
    Usage,
    /// A configuration is invalid.
    Configuration,
    /// A policy or an administrator's file forbids it.
    Policy,
    /// The server does not exist.
    NotFound,
    /// The name already exists, or exists in several scopes.
    Conflict,
    /// A required server is not ready.
    NotReady,
    /// A server needs a login.
    LoginRequired,
    /// A server's process could not be started, or exited before it responded.
    StartFailed,
    /// A server could not be reached, or the connection was lost.
    Connection,
    /// A tool ran and reported an error.
    ToolFailed,
    /// The model could not be reached, refused, or did not finish.
    ModelFailed,
    /// The user interrupted the command.
    Interrupted,
}

impl Exit {
    /// Every exit code, in order.
    pub const ALL: [Exit; 14] = [
        Exit::Success,
        Exit::Failure,
        Exit::Usage,
        Exit::Configuration,
        Exit::Policy,
        Exit::NotFound,
        Exit::Conflict,
        Exit::NotReady,
        Exit::LoginRequired,
        Exit::StartFailed,
        Exit::Connection,
        Exit::ToolFailed,
        Exit::ModelFailed,
        Exit::Interrupted,
    ];

    /// The exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::Configuration => 3,
            Exit::Policy => 4,
            Exit::NotFound => 5,
            Exit::Conflict => 6,
            Exit::NotReady => 7,
            Exit::LoginRequired => 8,
            Exit::StartFailed => 9,
            Exit::Connection => 10,
            Exit::ToolFailed => 11,
            Exit::ModelFailed => 12,
            Exit::Interrupted => 130,
        }
    }

    /// The word for programs: `error.code` of a failure in JSON.
    pub fn id(self) -> &'static str {
        match self {
            Exit::Success => "success",
            Exit::Failure => "failure",
            Exit::Usage => "usage",
            Exit::Configuration => "configuration",
            Exit::Policy => "policy",
            Exit::NotFound => "not-found",
            Exit::Conflict => "conflict",
            Exit::NotReady => "not-ready",
            Exit::LoginRequired => "login-required",
            Exit::StartFailed => "start-failed",
            Exit::Connection => "connection",
            Exit::ToolFailed => "tool-failed",
            Exit::ModelFailed => "model-failed",
            Exit::Interrupted => "interrupted",
        }
    }

    /// The meaning, for the reference page.
    pub fn description(self) -> &'static str {
        match self {
            Exit::Success => "success",
            Exit::Failure => {
                "a system error: disk, permission or lock; `swb doctor`: something needs attention"
            }
            Exit::Usage => "the command line is invalid",
            Exit::Configuration => {
                "the configuration is invalid: a file, an entry or a secret reference"
            }
            Exit::Policy => "a policy, or an administrator's exclusive control, forbids it",
            Exit::NotFound => "the server does not exist",
            Exit::Conflict => "the name already exists, or exists in several scopes",
            Exit::NotReady => {
                "a required server is not ready: pending approval, disabled, refused, invalid, or timed out"
            }
            Exit::LoginRequired => "a server needs a login",
            Exit::StartFailed => {
                "a server's process could not be started, or exited before it responded"
            }
            Exit::Connection => {
                "a server could not be reached, does not speak MCP, or the connection was lost"
            }
            Exit::ToolFailed => "a tool reported an error",
            Exit::ModelFailed => {
                "the model could not be reached, refused to answer, or did not finish"
            }
            Exit::Interrupted => "interrupted",
        }
    }
}
