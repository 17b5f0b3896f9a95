//! Notes of an import for the user, and the reasons why a server is skipped.
//! They contain no values of the file, but names and keys as written, which the caller must escape for a
//! terminal.

use std::fmt;

/// A note about an imported server or file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportNote {
    /// We have no such key.
    KeyDropped {
        /// Its path in the server.
        key: String,
    },
    /// The key has an unexpected type and was not read.
    KeyNotRead {
        /// Its path in the file.
        key: String,
    },
    /// Part of a value was rewritten.
    Rewritten {
        /// The value's path in the server.
        key: String,
        /// The original text: a reference or a word, never the whole value.
        from: String,
        /// The new text.
        to: String,
    },
    /// A dollar sign was doubled: the other host does not expand it, and we would.
    DollarEscaped {
        /// The value's path in the server.
        key: String,
    },
    /// A reference without equivalent became plain text.
    ReferenceNotTranslated {
        /// The value's path in the server.
        key: String,
    },
    /// `trust` was dropped, because a project's file must not mark its servers as trusted.
    TrustDropped,
    /// The variable must be set for the server to work.
    VariableRequired {
        /// The variable.
        variable: String,
    },
    /// The other host prompts for this value; here it is a variable.
    InputBecameVariable {
        /// The id of the input.
        input: String,
        /// The variable to set.
        variable: String,
    },
    /// The value is read from a file.
    FileReferenced {
        /// The value's path in the server.
        key: String,
        /// The file.
        path: String,
    },
    /// The command creates a container that stays when the server ends.
    ContainerKept,
    /// The other host does not state the transport.
    TransportAssumed {
        /// The transport that was chosen.
        transport: &'static str,
    },
    /// A list elsewhere in the file disables the server.
    DisabledBy {
        /// The list's path in the file.
        key: &'static str,
    },
    /// A user's server that is disabled in this project only; the entry leaves it enabled.
    DisabledInProject,
    /// The file also has servers of other projects.
    OtherProjects {
        /// How many.
        servers: usize,
    },
    /// A server was skipped.
    ServerSkipped {
        /// Its name.
        server: String,
        /// Why.
        reason: SkipReason,
    },
}

impl fmt::Display for ImportNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportNote::KeyDropped { key } => {
                write!(f, "`{key}` has no counterpart and was left out")
            }
            ImportNote::KeyNotRead { key } => {
                write!(f, "`{key}` has an unexpected type and was not read")
            }
            ImportNote::Rewritten { key, from, to } => write!(f, "`{key}`: {from} became {to}"),
            ImportNote::DollarEscaped { key } => {
                write!(f, "`{key}`: `$` became `$$` to stay a literal dollar sign")
            }
            ImportNote::ReferenceNotTranslated { key } => {
                write!(f, "`{key}`: a reference has no counterpart and is plain text now")
            }
            ImportNote::TrustDropped => {
                write!(f, "`trust` was left out because the file belongs to a project")
            }
            ImportNote::VariableRequired { variable } => write!(f, "`{variable}` must be set"),
            ImportNote::InputBecameVariable { input, variable } => {
                write!(f, "the input `{input}` became the variable `{variable}`: set it")
            }
            ImportNote::FileReferenced { key, path } => write!(f, "`{key}` is read from `{path}`"),
            ImportNote::ContainerKept => {
                write!(f, "without `--rm`, a stopped container stays behind after each start")
            }
            ImportNote::TransportAssumed { transport } => {
                write!(f, "no transport is given: assumed `{transport}`")
            }
            ImportNote::DisabledBy { key } => write!(f, "disabled by `{key}`"),
            ImportNote::DisabledInProject => {
                write!(f, "disabled in this project, but not elsewhere")
            }
            ImportNote::OtherProjects { servers: 1 } => write!(f, "1 server of another project"),
            ImportNote::OtherProjects { servers } => {
                write!(f, "{servers} servers of other projects")
            }
            ImportNote::ServerSkipped { server, reason } => {
                write!(f, "`{server}` was skipped: {reason}")
            }
        }
    }
}

/// Why a server was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipReason {
    /// It is not an object.
    NotAnObject,
    /// It has neither a command nor a URL.
    NoTransport,
    /// It has both a command and a URL, which the other host rejects too.
    CommandAndUrl,
    /// Its `type` cannot be imported.
    UnknownType,
    /// Its URL has a scheme that is not supported, such as a socket file.
    UnsupportedUrl,
    /// It starts Switchboard, which must not start itself.
    RunsSwitchboard,
    /// An extension of the other host provides it; the file holds only its settings.
    ProvidedByExtension,
    /// It is built into the other host.
    PartOfProgram,
    /// It needs values from a store that only the other host can read.
    SecretsElsewhere {
        /// The key that names the values.
        key: &'static str,
    },
    /// A key has the wrong type.
    WrongType {
        /// The key's path in the server.
        key: String,
        /// The expected type.
        expected: ExpectedType,
    },
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkipReason::NotAnObject => write!(f, "it is not an object"),
            SkipReason::NoTransport => write!(f, "it has neither a command nor a URL"),
            SkipReason::CommandAndUrl => write!(f, "it has both a command and a URL"),
            SkipReason::UnknownType => write!(f, "its `type` cannot be imported"),
            SkipReason::UnsupportedUrl => write!(f, "the scheme of its URL is not supported"),
            SkipReason::RunsSwitchboard => write!(f, "it runs Switchboard itself"),
            SkipReason::ProvidedByExtension => {
                write!(f, "an extension of the program provides it")
            }
            SkipReason::PartOfProgram => write!(f, "it is a part of the program itself"),
            SkipReason::SecretsElsewhere { key } => {
                write!(f, "only the program can read the values of its `{key}`")
            }
            SkipReason::WrongType { key, expected } => write!(f, "`{key}` should be {expected}"),
        }
    }
}

/// The expected type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedType {
    /// A string.
    String,
    /// An array of strings.
    StringArray,
    /// An object of strings.
    StringMap,
    /// `true` or `false`.
    Boolean,
    /// A time of at least zero.
    Duration,
    /// A TCP port.
    Port,
    /// The name of an environment variable.
    VariableName,
}

impl fmt::Display for ExpectedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExpectedType::String => "a string",
            ExpectedType::StringArray => "an array of strings",
            ExpectedType::StringMap => "an object of strings",
            ExpectedType::Boolean => "true or false",
            ExpectedType::Duration => "a duration",
            ExpectedType::Port => "a port",
            ExpectedType::VariableName => "the name of a variable",
        })
    }
}
