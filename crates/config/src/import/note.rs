//! What an import has to tell people: notes, reasons and errors.
//! None of them can hold a value of the file. Names and keys are in them as the file wrote them,
//! so whoever prints to a terminal escapes them.

use std::fmt;

/// Something that people should know about an imported server or file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportNote {
    /// The key has no counterpart here.
    KeyDropped {
        /// Its path in the server.
        key: String,
    },
    /// The key should hold servers, or a list of them, and holds something else.
    KeyNotRead {
        /// Its path in the file.
        key: String,
    },
    /// Part of a value had to change.
    Rewritten {
        /// The value's path in the server.
        key: String,
        /// What stood there: a reference or a word, never the value around it.
        from: String,
        /// What stands there now.
        to: String,
    },
    /// A plain dollar was doubled: the peer does not expand it and we would.
    DollarEscaped {
        /// The value's path in the server.
        key: String,
    },
    /// A reference that we cannot translate became plain text.
    ReferenceNotTranslated {
        /// The value's path in the server.
        key: String,
    },
    /// The file lies in a project's tree, where nobody may vouch for a server.
    TrustDropped,
    /// The variable must be set for the server to work.
    VariableRequired {
        /// The variable.
        variable: String,
    },
    /// The peer asks for this value; here it is a variable.
    InputBecameVariable {
        /// The peer's name for it.
        input: String,
        /// The variable to set.
        variable: String,
    },
    /// The value comes out of a file.
    FileReferenced {
        /// The value's path in the server.
        key: String,
        /// The file.
        path: String,
    },
    /// The peer does not say which transport it is.
    TransportAssumed {
        /// The transport that was taken.
        transport: &'static str,
    },
    /// A list elsewhere in the file turns the server off.
    DisabledBy {
        /// The list's path in the file.
        key: &'static str,
    },
    /// A person's server that is off in this project only; the entry leaves it on.
    DisabledInProject,
    /// The file has more servers, for other projects.
    OtherProjects {
        /// How many.
        servers: usize,
    },
    /// A server that could not be taken.
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
                write!(f, "`{key}` has another shape and was not read")
            }
            ImportNote::Rewritten { key, from, to } => write!(f, "`{key}`: {from} became {to}"),
            ImportNote::DollarEscaped { key } => {
                write!(f, "`{key}`: `$` became `$$` so that it keeps meaning a dollar")
            }
            ImportNote::ReferenceNotTranslated { key } => {
                write!(f, "`{key}`: a reference has no counterpart and is plain text now")
            }
            ImportNote::TrustDropped => {
                write!(f, "`trust` was left out because the file lies in a project")
            }
            ImportNote::VariableRequired { variable } => write!(f, "`{variable}` must be set"),
            ImportNote::InputBecameVariable { input, variable } => {
                write!(f, "the input `{input}` became the variable `{variable}`: set it")
            }
            ImportNote::FileReferenced { key, path } => write!(f, "`{key}` is read from `{path}`"),
            ImportNote::TransportAssumed { transport } => {
                write!(f, "no transport is written: taken as `{transport}`")
            }
            ImportNote::DisabledBy { key } => write!(f, "disabled, as `{key}` says"),
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

/// Why a server was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipReason {
    /// It is not an object.
    NotAnObject,
    /// It says neither what to start nor where to connect.
    NoTransport,
    /// It says both, and the peer refuses that too.
    CommandAndUrl,
    /// Its `type` is not one that can be imported.
    UnknownType,
    /// Its address is not one that we can connect to, such as a socket file.
    UnsupportedUrl,
    /// A key holds something else than it should.
    WrongType {
        /// The key's path in the server.
        key: String,
        /// What belongs there.
        expected: ExpectedType,
    },
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkipReason::NotAnObject => write!(f, "it is not an object"),
            SkipReason::NoTransport => write!(f, "it has neither a command nor an address"),
            SkipReason::CommandAndUrl => write!(f, "it has both a command and an address"),
            SkipReason::UnknownType => write!(f, "its `type` cannot be imported"),
            SkipReason::UnsupportedUrl => write!(f, "its address is not a web address"),
            SkipReason::WrongType { key, expected } => write!(f, "`{key}` should be {expected}"),
        }
    }
}

/// What belongs at a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedType {
    /// A string.
    String,
    /// Strings in an array.
    StringArray,
    /// Strings by name.
    StringMap,
    /// `true` or `false`.
    Boolean,
    /// A time that is not negative.
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
            ExpectedType::Duration => "a time",
            ExpectedType::Port => "a port",
            ExpectedType::VariableName => "the name of a variable",
        })
    }
}
