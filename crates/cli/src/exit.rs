//! Exit codes: one number a kind of outcome, so that scripts can tell them apart.

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Success,
    /// The system failed us: a disk, a permission, a lock.
    Failure,
    /// The command line makes no sense.
    Usage,
    /// A configuration makes no sense.
    Configuration,
    /// A policy or an administrator's file forbids it.
    Policy,
    /// There is no such server.
    NotFound,
    /// Something of that name is there already, or in several places.
    Conflict,
    /// A server that was required is not ready.
    NotReady,
    /// A server wants a login.
    LoginRequired,
    /// A server's program could not be started, or ended before it answered.
    StartFailed,
    /// A server could not be reached, or the conversation with it broke.
    Connection,
    /// A tool ran and says that it failed.
    ToolFailed,
    /// The model could not be asked, or did not come to an end.
    ModelFailed,
    /// Somebody interrupted us.
    Interrupted,
}

impl Exit {
    /// Every outcome, by number.
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

    /// The number that the process ends with.
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

    /// What it means, for the reference page.
    pub fn description(self) -> &'static str {
        match self {
            Exit::Success => "all went well",
            Exit::Failure => "the system failed us: a disk, a permission, a lock",
            Exit::Usage => "the command line makes no sense",
            Exit::Configuration => {
                "a configuration makes no sense: a file, an entry, a named secret"
            }
            Exit::Policy => "a policy, or an administrator's exclusive control, forbids it",
            Exit::NotFound => "there is no such server",
            Exit::Conflict => "something of that name is there already, or in several places",
            Exit::NotReady => {
                "a required server is not ready: it waits for approval, is switched off, refused or invalid, or time ran out"
            }
            Exit::LoginRequired => "a server wants a login",
            Exit::StartFailed => {
                "a server's program could not be started, or ended before it answered"
            }
            Exit::Connection => {
                "a server could not be reached, does not speak the protocol, or the conversation broke"
            }
            Exit::ToolFailed => "a tool ran, and says that it failed",
            Exit::ModelFailed => {
                "the model could not be asked, would not answer, or did not come to an end"
            }
            Exit::Interrupted => "somebody interrupted us",
        }
    }
}
