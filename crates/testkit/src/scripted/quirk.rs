//! Quirks: faults of a scripted server, with names for JSON. The modules of `scripted` implement them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The cursors of an endless list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cursors {
    /// Always the same cursor and page.
    Same,
    /// A new cursor and new items each time.
    #[default]
    Fresh,
}

/// A fault of a scripted server. Where a program would exit, a server inside a test drops the connection. Response
/// quirks apply only to the methods in `Script::quirks_on`, if it is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quirk {
    /// Accepts requests and never responds. A response quirk.
    NeverAnswers,
    /// Responds after a delay. A response quirk.
    AnswersLate {
        /// The delay.
        ms: u64,
    },
    /// Exits before it reads anything.
    ExitsAtOnce {
        /// The exit code.
        code: i32,
    },
    /// Exits on `server/discover`.
    ExitsOnProbe,
    /// Exits on the first message.
    ExitsOnFirstMessage,
    /// Exits on every `tools/call`, without a response.
    CrashesMidCall,
    /// Writes to stderr before its first response, and blocks until it is read.
    FloodsStderr {
        /// How many bytes.
        bytes: usize,
    },
    /// Writes lines to stderr at the start.
    StderrLines {
        /// How many.
        n: usize,
    },
    /// Writes invalid lines before its first response; over HTTP, before every response.
    FloodsStdoutWithGarbage {
        /// How many.
        lines: usize,
    },
    /// Prints a greeting to stdout before the protocol starts.
    PrintsBeforeProtocol,
    /// Writes half of its response and exits. A response quirk.
    #[serde(rename = "half_a_line")]
    TruncatesAnswer,
    /// Writes half of its response, closes the stream properly and keeps running. A response quirk.
    ClosesStreamMidAnswer,
    /// Responds with a message of at least this size. A response quirk.
    HugeLine {
        /// The size.
        bytes: usize,
    },
    /// Responds in small chunks with pauses in between. No effect over WebSocket.
    SlowDrip,
    /// Responses contain invalid UTF-8. A response quirk.
    BadUtf8,
    /// Sends a response with an unknown id before the right one. A response quirk.
    DuplicateIds,
    /// Responds only with a wrong id. A response quirk.
    WrongIds,
    /// Sends every response twice. A response quirk.
    AnswersTwice,
    /// Sends every response as a batch of one. A response quirk.
    AnswersInBatches,
    /// Responds to HTTP requests with a status. A response quirk; requests without a message count under their HTTP
    /// method.
    HttpStatus {
        /// The status.
        status: u16,
        /// The body.
        #[serde(default)]
        body: String,
        /// Additional headers.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// How many requests are handled before.
        #[serde(default)]
        after: usize,
        /// How many requests get the status; `None` for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        times: Option<usize>,
    },
    /// Redirects HTTP clients with status 307. A response quirk.
    RedirectsTo {
        /// The target.
        url: String,
    },
    /// Rejects HTTP requests without this token.
    RequiresBearer {
        /// The token.
        token: String,
    },
    /// Drops every HTTP session after a number of requests.
    DropsSession {
        /// How many.
        after: usize,
    },
    /// Does not declare the completions capability.
    NoCompletions,
    /// Ignores SIGTERM and SIGINT.
    IgnoresSigterm,
    /// Keeps running after its stdin is closed.
    IgnoresStdinClose,
    /// Starts processes that hold its output streams open, and one more in its own session.
    ForksGrandchildren {
        /// How many.
        n: usize,
    },
    /// Every list has a next page.
    EndlessPages {
        /// The cursors.
        #[serde(default)]
        cursors: Cursors,
    },
    /// Sends many `tools/list_changed` notifications as soon as a client listens.
    ListChangedStorm {
        /// How often.
        n: usize,
    },
    /// Lists a tool without a name and one with an invalid input schema.
    BadToolSchema,
    /// Results contain unknown content types and unknown members.
    UnknownContent,
    /// Sends an elicitation right after the handshake, in the legacy era.
    #[serde(rename = "asks_at_once")]
    ElicitsOnInitialized,
    /// Has a tool `say` that returns its argument `result` unchanged.
    #[serde(rename = "says_what_it_is_told")]
    HasSayTool,
    /// Has a tool `talk {text, ms, steps, ask}` that sends its text in progress, logs and elicitations before it
    /// returns it.
    #[serde(rename = "talks")]
    HasTalkTool,
    /// Declares tools but responds to `tools/list` with an error.
    #[serde(rename = "wont_list_tools")]
    FailsToolList,
}
