//! The two ends of the control protocol as one peer: it reads the program's lines, matches answers to our requests, and
//! writes frames whole and in order. What the frames mean is left to `session`.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::control::frame_limit::{MAX_LINE_BYTES, bounded_line};
use crate::control::ids::new_uuid;
use crate::control::incoming::{FrameError, IncomingFrame, Line, parse_line};

/// How many frames may wait to be written.
const COMMAND_BUFFER: usize = 256;
/// How many frames of the program may wait for the session.
const INCOMING_BUFFER: usize = 256;
/// The longest line of the program.
const MAX_INPUT_LINE: u64 = 256 * 1024 * 1024;
/// How long a program may take to read the last frames. SDKs kill what does not exit within five seconds.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends frames and requests to the program. Clones share the connection.
#[derive(Debug, Clone)]
pub struct ControlPeer {
    commands: mpsc::Sender<Command>,
    /// Bounded by the number of requests that are open.
    signals: mpsc::UnboundedSender<Signal>,
}

/// Why a control request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ControlError {
    /// The program answered with an error.
    #[error("{0}")]
    Refused(String),
    /// The program closed its end before it answered.
    #[error("the input closed before the response arrived")]
    Closed,
    /// The request is too large for one frame.
    #[error("a message of {0} bytes is too large for the control channel")]
    TooLarge(usize),
}

/// The tasks of a peer.
#[derive(Debug)]
pub struct PeerTasks {
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
}

enum Command {
    Write(String),
    Request {
        id: String,
        line: String,
        reply: oneshot::Sender<Result<Bytes, ControlError>>,
    },
    Answered {
        id: String,
        outcome: Result<Bytes, String>,
    },
    /// The input ended: nothing more is answered.
    InputEnded,
}

/// What the writer learns at once, however many frames wait.
enum Signal {
    /// The request of this id is withdrawn.
    Withdraw(String),
    /// What waits now is the last output.
    Finish,
}

/// A request that is open. Dropping it withdraws the request.
struct OpenRequest {
    id: String,
    signals: mpsc::UnboundedSender<Signal>,
    is_answered: bool,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if !self.is_answered {
            let _peer_gone = self.signals.send(Signal::Withdraw(std::mem::take(&mut self.id)));
        }
    }
}

/// Reads and writes for a peer, once it is started.
pub struct PeerDriver {
    command_sender: mpsc::Sender<Command>,
    commands: mpsc::Receiver<Command>,
    signals: mpsc::UnboundedReceiver<Signal>,
}

impl PeerDriver {
    /// Starts to read and write; must be called inside a runtime. The frames of the program come out of the receiver;
    /// after the last one comes [`IncomingFrame::Ended`] or [`IncomingFrame::Broken`].
    pub fn start(
        self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> (mpsc::Receiver<IncomingFrame>, PeerTasks) {
        let (incoming_sender, incoming) = mpsc::channel(INCOMING_BUFFER);
        let reading = read((input, MAX_INPUT_LINE), incoming_sender, self.command_sender);
        let reader = tokio::spawn(reading);
        let writer = tokio::spawn(Writer::new(output).run(self.commands, self.signals));
        (incoming, PeerTasks { reader, writer })
    }
}

impl ControlPeer {
    /// A peer, and what reads and writes for it. Until that is started, frames wait.
    pub fn new() -> (ControlPeer, PeerDriver) {
        let (commands, command_receiver) = mpsc::channel(COMMAND_BUFFER);
        let (signals, signal_receiver) = mpsc::unbounded_channel();
        let command_sender = commands.clone();
        let driver =
            PeerDriver { command_sender, commands: command_receiver, signals: signal_receiver };
        (ControlPeer { commands, signals }, driver)
    }

    /// Prints a frame.
    pub async fn send(&self, frame: &Json) {
        let _peer_gone = self.commands.send(Command::Write(bounded_line(frame))).await;
    }

    /// Sends a request and waits for its answer. There is no timeout: the answer may be a user's. Dropping the future
    /// withdraws the request.
    pub async fn request(&self, request: &Json) -> Result<Json, ControlError> {
        let raw = self.raw_request(&request.to_string()).await?;
        serde_json::from_slice(&raw)
            .map_err(|error| ControlError::Refused(format!("the answer is not JSON: {error}")))
    }

    /// Sends a request that is JSON text already, and returns the answer as it came.
    pub async fn raw_request(&self, request: &str) -> Result<Bytes, ControlError> {
        self.request_with_id(new_uuid(), request).await
    }

    /// Sends a request under an id that the caller chose: an unused one.
    pub(crate) async fn request_with_id(
        &self,
        id: String,
        request: &str,
    ) -> Result<Bytes, ControlError> {
        let line = format!(
            "{{\"type\":\"control_request\",\"request_id\":\"{id}\",\"request\":{request}}}\n"
        );
        if line.len() > MAX_LINE_BYTES {
            return Err(ControlError::TooLarge(line.len()));
        }
        let mut open =
            OpenRequest { id: id.clone(), signals: self.signals.clone(), is_answered: false };
        let (reply, answered) = oneshot::channel();
        let sent = self.commands.send(Command::Request { id, line, reply }).await;
        let outcome = match sent {
            Ok(()) => answered.await.unwrap_or(Err(ControlError::Closed)),
            Err(_) => Err(ControlError::Closed),
        };
        open.is_answered = true;
        outcome
    }

    /// Answers a request of the program.
    pub async fn respond(&self, id: &str, outcome: Result<Json, RequestFailure>) {
        self.respond_with(&id.into(), outcome, Json::Null).await;
    }

    /// The same with the id as it was sent, and with members beside the response.
    pub(crate) async fn respond_with(
        &self,
        id: &Json,
        outcome: Result<Json, RequestFailure>,
        members: Json,
    ) {
        let mut response = match outcome {
            Ok(body) if body.is_null() => json!({"subtype": "success", "request_id": id}),
            Ok(body) => json!({"subtype": "success", "request_id": id, "response": body}),
            Err(RequestFailure { message, code }) => {
                let mut error = json!({"subtype": "error", "request_id": id, "error": message});
                if let Some(code) = code {
                    error["error_code"] = code.into();
                }
                error
            }
        };
        if let (Some(response), Json::Object(members)) = (response.as_object_mut(), members) {
            response.extend(members);
        }
        self.send(&json!({"type": "control_response", "response": response})).await;
    }

    /// Lets the output end with what is queued. Later frames are dropped.
    pub fn finish(&self) {
        let _finished_already = self.signals.send(Signal::Finish);
    }
}

/// Why a request of the program fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFailure {
    /// For people.
    pub message: String,
    /// For programs.
    pub code: Option<&'static str>,
}

impl RequestFailure {
    /// A failure with this message.
    pub fn new(message: impl Into<String>) -> RequestFailure {
        RequestFailure { message: message.into(), code: None }
    }
}

impl PeerTasks {
    /// Waits until all output is written, for a limited time: a program may have stopped to read. The reader may wait for
    /// input that never comes, so it is stopped.
    pub async fn join(mut self) {
        let _not_read = timeout(OUTPUT_TIMEOUT, &mut self.writer).await;
        self.writer.abort();
        self.reader.abort();
        let _aborted = self.reader.await;
    }
}

async fn read(
    (input, max_line): (impl AsyncRead + Send + Unpin, u64),
    incoming: mpsc::Sender<IncomingFrame>,
    commands: mpsc::Sender<Command>,
) {
    let mut input = BufReader::with_capacity(64 * 1024, input);
    let mut line = Vec::new();
    let end = loop {
        line.clear();
        let mut limited = (&mut input).take(max_line);
        match limited.read_until(b'\n', &mut line).await {
            Ok(0) => break IncomingFrame::Ended,
            Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 >= max_line => {
                let why = format!("a line has more than {max_line} bytes");
                break IncomingFrame::Broken(FrameError::Unreadable(why));
            }
            Ok(_) => {}
            Err(error) => break IncomingFrame::Broken(FrameError::Unreadable(error.to_string())),
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match parse_line(&line) {
            Ok(Line::Frame(frame)) => {
                if incoming.send(frame).await.is_err() {
                    return;
                }
            }
            Ok(Line::Response { id, outcome }) => {
                if commands.send(Command::Answered { id, outcome }).await.is_err() {
                    return;
                }
            }
            Ok(Line::Ignored) => {}
            Err(error) => break IncomingFrame::Broken(error),
        }
    };
    let _session_gone = commands.send(Command::InputEnded).await;
    let _session_gone = incoming.send(end).await;
}

/// Owns the output and the open requests.
struct Writer<W> {
    output: W,
    open: HashMap<String, oneshot::Sender<Result<Bytes, ControlError>>>,
    has_input: bool,
    /// Whether the program still reads.
    is_read: bool,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    fn new(output: W) -> Writer<W> {
        Writer { output, open: HashMap::new(), has_input: true, is_read: true }
    }

    async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        mut signals: mpsc::UnboundedReceiver<Signal>,
    ) {
        loop {
            tokio::select! {
                biased;
                Some(signal) = signals.recv() => match signal {
                    Signal::Withdraw(id) => self.withdraw(&id).await,
                    Signal::Finish => break,
                },
                command = commands.recv() => match command {
                    Some(command) => self.apply(command).await,
                    None => return,
                },
            }
        }
        commands.close();
        while let Some(command) = commands.recv().await {
            self.apply(command).await;
        }
    }

    async fn apply(&mut self, command: Command) {
        match command {
            Command::Write(line) => self.write(&line).await,
            Command::Request { id, line, reply } => {
                // It was withdrawn before it was sent.
                if reply.is_closed() {
                    return;
                }
                if !self.has_input {
                    let _caller_gone = reply.send(Err(ControlError::Closed));
                    return;
                }
                self.open.insert(id, reply);
                self.write(&line).await;
            }
            Command::Answered { id, outcome } => {
                // The answer to a request that was withdrawn comes too late.
                if let Some(reply) = self.open.remove(&id) {
                    let _caller_gone = reply.send(outcome.map_err(ControlError::Refused));
                }
            }
            Command::InputEnded => {
                self.has_input = false;
                for (_, reply) in self.open.drain() {
                    let _caller_gone = reply.send(Err(ControlError::Closed));
                }
            }
        }
    }

    async fn withdraw(&mut self, id: &str) {
        if self.open.remove(id).is_some() {
            let frame = json!({"type": "control_cancel_request", "request_id": id});
            self.write(&format!("{frame}\n")).await;
        }
    }

    async fn write(&mut self, line: &str) {
        if !self.is_read {
            return;
        }
        let written = async {
            self.output.write_all(line.as_bytes()).await?;
            self.output.flush().await
        };
        // A program that stops reading still gets its tools called: it may have closed only this stream.
        self.is_read = written.await.is_ok();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use tokio::io::{DuplexStream, Lines};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    struct Program {
        lines: Lines<BufReader<DuplexStream>>,
        input: DuplexStream,
    }

    impl Program {
        async fn frame(&mut self) -> Json {
            let line = tokio::time::timeout(TIMEOUT, self.lines.next_line()).await;
            let line = line.expect("in time").expect("readable").expect("a line");
            serde_json::from_str(&line).expect("JSON")
        }

        async fn say(&mut self, frame: &Json) {
            self.input.write_all(format!("{frame}\n").as_bytes()).await.expect("it reads");
        }
    }

    fn start() -> (ControlPeer, mpsc::Receiver<IncomingFrame>, PeerTasks, Program) {
        let (input, ours) = tokio::io::duplex(4096);
        let (theirs, output) = tokio::io::duplex(4096);
        let (peer, driver) = ControlPeer::new();
        let (incoming, tasks) = driver.start(ours, theirs);
        let lines = BufReader::new(output).lines();
        (peer, incoming, tasks, Program { lines, input })
    }

    fn answer(request: &Json, body: &Json) -> Json {
        json!({"type": "control_response", "response":
            {"subtype": "success", "request_id": request["request_id"], "response": body}})
    }

    #[tokio::test]
    async fn answers_find_their_requests_in_any_order() {
        let (peer, _incoming, _tasks, mut program) = start();
        let ask = |text: &'static str| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.request(&json!({"subtype": text})).await })
        };
        let first = ask("first");
        let one = program.frame().await;
        let second = ask("second");
        let other = program.frame().await;
        program.say(&answer(&other, &json!({"n": 2}))).await;
        program.say(&answer(&one, &json!({"n": 1}))).await;
        assert_eq!(first.await.expect("no panic"), Ok(json!({"n": 1})));
        assert_eq!(second.await.expect("no panic"), Ok(json!({"n": 2})));
    }

    #[tokio::test]
    async fn a_request_that_nothing_waits_for_is_withdrawn_and_its_answer_ignored() {
        let (peer, mut incoming, _tasks, mut program) = start();
        let asking = {
            let peer = peer.clone();
            tokio::spawn(async move { peer.request(&json!({"subtype": "can_use_tool"})).await })
        };
        let request = program.frame().await;
        asking.abort();
        let cancelled = program.frame().await;
        assert_eq!(cancelled["type"], "control_cancel_request");
        assert_eq!(cancelled["request_id"], request["request_id"]);
        program.say(&answer(&request, &json!({}))).await;
        let interrupt = json!({"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}});
        program.say(&interrupt).await;
        let Some(IncomingFrame::Request(request)) = incoming.recv().await else { panic!() };
        assert_eq!((request.id.as_str(), request.subtype.as_str()), ("1", "interrupt"));
    }

    #[tokio::test]
    async fn a_request_that_is_withdrawn_before_it_was_sent_is_not_sent() {
        let (peer, _incoming, _tasks, mut program) = start();
        // Nothing else is written while the program does not read this.
        peer.send(&json!({"type": "user", "text": "x".repeat(100_000)})).await;
        let request = json!({"subtype": "can_use_tool"});
        let mut asking = Box::pin(peer.request(&request));
        assert_eq!(futures_util::poll!(&mut asking), Poll::Pending);
        drop(asking);
        peer.send(&json!({"type": "result"})).await;
        assert_eq!(program.frame().await["type"], "user");
        assert_eq!(program.frame().await["type"], "result");
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_reads_nothing_does_not_keep_the_session_from_ending() {
        let (peer, _incoming, tasks, _program) = start();
        for _frame in 0..COMMAND_BUFFER {
            peer.send(&json!({"type": "user", "text": "x".repeat(10_000)})).await;
        }
        peer.finish();
        timeout(TIMEOUT, tasks.join()).await.expect("it ends");
    }

    #[tokio::test]
    async fn the_end_of_the_input_ends_open_requests_but_not_the_output() {
        let (peer, mut incoming, tasks, mut program) = start();
        let asking = {
            let peer = peer.clone();
            tokio::spawn(async move { peer.request(&json!({"subtype": "can_use_tool"})).await })
        };
        program.frame().await;
        program.input.shutdown().await.expect("it closes");
        assert_eq!(asking.await.expect("no panic"), Err(ControlError::Closed));
        assert_eq!(incoming.recv().await, Some(IncomingFrame::Ended));
        peer.send(&json!({"type": "result"})).await;
        assert_eq!(program.frame().await["type"], "result");
        peer.finish();
        tokio::time::timeout(TIMEOUT, tasks.join()).await.expect("it ends");
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_ends_the_input_and_is_not_kept() {
        let (mut program, ours) = tokio::io::duplex(4096);
        let (incoming, mut frames) = mpsc::channel(4);
        let (commands, _commands) = mpsc::channel(4);
        let reading = tokio::spawn(read((ours, 1024), incoming, commands));
        let short = format!("{{\"type\":\"user\",\"uuid\":\"{}\"}}\n", "a".repeat(900));
        program.write_all(short.as_bytes()).await.expect("it reads");
        assert!(matches!(frames.recv().await, Some(IncomingFrame::User(_))));
        program.write_all(&[b'{'; 2000]).await.expect("it reads");
        let Some(IncomingFrame::Broken(error)) = frames.recv().await else { panic!() };
        assert!(error.to_string().contains("more than 1024 bytes"), "{error}");
        reading.await.expect("it ends");
    }

    #[tokio::test]
    async fn a_line_that_is_no_frame_ends_the_input() {
        let (_peer, mut incoming, _tasks, mut program) = start();
        program.input.write_all(b"what?\n").await.expect("it reads");
        assert!(matches!(incoming.recv().await, Some(IncomingFrame::Broken(_))));
    }
}
