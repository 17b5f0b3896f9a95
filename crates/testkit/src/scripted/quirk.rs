//! The ways in which a scripted server misbehaves, each by a name that JSON can say.
//! What they do is in `scripted`, where the thing is that goes wrong.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Which cursors an endless list has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cursors {
    /// Always the same, with the same page behind it.
    Same,
    /// A new one each time, with new things behind it.
    #[default]
    Fresh,
}

/// One way to misbehave. Where a program would exit, a server inside a test drops the connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quirk {
    /// Takes requests and never answers. A quirk of single answers.
    NeverAnswers,
    /// Answers after a while. A quirk of single answers.
    AnswersLate {
        /// The while.
        ms: u64,
    },
    /// Exits before it reads anything.
    ExitsAtOnce {
        /// With this code.
        code: i32,
    },
    /// Exits when it is asked `server/discover`.
    ExitsOnProbe,
    /// Exits at the first message.
    ExitsOnFirstMessage,
    /// Exits at every `tools/call`, without an answer.
    CrashesMidCall,
    /// Writes so much to standard error before its first answer, and waits until it is taken.
    FloodsStderr {
        /// How much.
        bytes: usize,
    },
    /// Writes lines to standard error at its start.
    StderrLines {
        /// How many.
        n: usize,
    },
    /// Writes lines that are no messages before its first answer; over HTTP, before every one.
    FloodsStdoutWithGarbage {
        /// How many.
        lines: usize,
    },
    /// Greets on standard output before the protocol starts.
    PrintsBeforeProtocol,
    /// Writes half of its answer and exits. A quirk of single answers.
    #[serde(rename = "half_a_line")]
    TruncatesAnswer,
    /// Writes half of its answer and closes the stream properly, but lives on. A quirk of single answers.
    ClosesStreamMidAnswer,
    /// Answers with a message of at least this size. A quirk of single answers.
    HugeLine {
        /// The size.
        bytes: usize,
    },
    /// Answers in small pieces with pauses between them. Over WebSocket nothing is different.
    SlowDrip,
    /// Has bytes in its answers that are not UTF-8. A quirk of single answers.
    BadUtf8,
    /// Sends an answer to a request that somebody else made, then the right one. A quirk of single answers.
    DuplicateIds,
    /// Answers with another id only. A quirk of single answers.
    WrongIds,
    /// Sends every answer twice. A quirk of single answers.
    AnswersTwice,
    /// Sends every answer as a batch of one. A quirk of single answers.
    AnswersInBatches,
    /// Answers HTTP requests with a status. A quirk of single answers; requests without a message have the HTTP method's name.
    HttpStatus {
        /// The status.
        status: u16,
        /// The body.
        #[serde(default)]
        body: String,
        /// More headers.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// How many requests it serves before.
        #[serde(default)]
        after: usize,
        /// How many requests it treats so; absent for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        times: Option<usize>,
    },
    /// Sends HTTP clients elsewhere, with status 307. A quirk of single answers.
    RedirectsTo {
        /// Where.
        url: String,
    },
    /// Takes no HTTP request without this token.
    RequiresBearer {
        /// The token.
        token: String,
    },
    /// Forgets every HTTP session after so many requests in it.
    DropsSession {
        /// How many.
        after: usize,
    },
    /// Does not say that it completes arguments.
    NoCompletions,
    /// Lets SIGTERM and SIGINT pass.
    IgnoresSigterm,
    /// Lives on after its standard input was closed.
    IgnoresStdinClose,
    /// Starts processes that hold its output streams open, and one more in a session of its own.
    ForksGrandchildren {
        /// How many.
        n: usize,
    },
    /// Every list has a next page.
    EndlessPages {
        /// Behind which cursor.
        #[serde(default)]
        cursors: Cursors,
    },
    /// Says that its tools changed, many times over, as soon as somebody listens.
    ListChangedStorm {
        /// How often.
        n: usize,
    },
    /// Lists a tool without a name and one whose input schema is no object.
    BadToolSchema,
    /// Has contents of a kind that nobody knows in its results, and members that nobody knows everywhere.
    UnknownContent,
    /// Asks for a name as soon as it may, in the legacy era, whoever it is that comes.
    #[serde(rename = "asks_at_once")]
    ElicitsOnInitialized,
    /// Has a tool `say` that returns the `result` it is given, whatever that is.
    #[serde(rename = "says_what_it_is_told")]
    HasSayTool,
    /// Has a tool `talk {text, ms, steps, ask}` that says its text in progress, logs and questions before it returns it.
    #[serde(rename = "talks")]
    HasTalkTool,
    /// Says that it has tools and answers `tools/list` with an error.
    #[serde(rename = "wont_list_tools")]
    FailsToolList,
}
