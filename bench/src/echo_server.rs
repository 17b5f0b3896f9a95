//! The server that every client is measured against. It looks for a few bytes instead of parsing, so that it
//! is never what a call waits for, and answers `tools/call` with a text as long as the call asks for.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use memchr::memchr;
use memchr::memmem::find;

use crate::failure::Failure;

mod over_http;
pub mod raw_bytes;

/// The argument that makes this program the server.
pub const SUBCOMMAND: &str = "__echo";

const READ_SIZE: usize = 64 * 1024;
/// How long a server with a slow start sleeps before it reads anything.
pub const START_DELAY: Duration = Duration::from_millis(300);
/// The memory of a large server.
pub const LARGE_BYTES: usize = 40_000_000;

/// Serves until the other side has gone: `stdio`, the same `restless`, `mute`, `slow-start` or `large`, `http`, or the bare `pipe` and `tcp` without any protocol.
pub fn run(kind: &str) -> Result<(), Failure> {
    let result = match kind {
        "stdio" => over_stdio(),
        "restless" => over_stdio_with_changes(),
        "mute" => without_responses(),
        "slow-start" => {
            thread::sleep(START_DELAY);
            over_stdio()
        }
        "large" => with_memory(),
        "http" => over_http::serve(),
        "pipe" => streams()
            .and_then(|(mut input, mut output)| raw_bytes::serve_bytes(&mut input, &mut output)),
        "tcp" => raw_bytes::serve_tcp(),
        _ => return Err(Failure::UnknownArgument(kind.to_owned())),
    };
    result.map_err(|error| Failure::client("echo", error))
}

/// The standard streams without the standard library's buffers.
fn streams() -> io::Result<(File, File)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    Ok((File::from(input), File::from(output)))
}

/// Sends `notifications/tools/list_changed` ten times a second.
fn over_stdio_with_changes() -> io::Result<()> {
    const OTHERS: &[u8] =
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
    let (_, mut output) = streams()?;
    // Ends with the process, or when the reader closes the pipe.
    thread::spawn(move || {
        loop {
            thread::sleep(Duration::from_millis(100));
            if output.write_all(OTHERS).is_err() {
                return;
            }
        }
    });
    over_stdio()
}

/// Holds as much memory as a server on a runtime with a garbage collector.
fn with_memory() -> io::Result<()> {
    // Every page differs from zero, so that the system has to provide it.
    let memory = vec![1_u8; LARGE_BYTES];
    let served = over_stdio();
    drop(std::hint::black_box(memory));
    served
}

/// Reads, and never responds.
fn without_responses() -> io::Result<()> {
    let (mut input, _) = streams()?;
    io::copy(&mut input, &mut io::sink()).map(drop)
}

fn over_stdio() -> io::Result<()> {
    let (mut input, mut output) = streams()?;
    let mut text = ResponseText::default();
    let mut buffer = vec![0; READ_SIZE];
    let mut pending: Vec<u8> = Vec::new();
    let mut answers = Vec::new();
    loop {
        let count = input.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        pending.extend_from_slice(&buffer[..count]);
        let mut done = 0;
        while let Some(length) = memchr(b'\n', &pending[done..]) {
            if text.respond(&pending[done..done + length], &mut answers) == MessageKind::Request {
                answers.push(b'\n');
            }
            done += length + 1;
        }
        pending.drain(..done);
        output.write_all(&answers)?;
        answers.clear();
    }
}

/// The text of results: made once, as all calls of a run want the same length.
#[derive(Default)]
struct ResponseText(Vec<u8>);

/// The kind of a message: a request needs a response.
#[derive(PartialEq, Eq)]
enum MessageKind {
    Request,
    Notification,
}

impl ResponseText {
    /// Appends the response to a message.
    fn respond(&mut self, message: &[u8], out: &mut Vec<u8>) -> MessageKind {
        let Some(id) = value(message, b"\"id\":") else { return MessageKind::Notification };
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        out.extend_from_slice(id);
        if find(message, b"\"tools/call\"").is_some() {
            let size = value(message, b"\"size\":").map_or(0, number);
            out.extend_from_slice(b",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"");
            out.extend_from_slice(self.with_size(size));
            out.extend_from_slice(b"\"}]}}");
        } else if find(message, b"\"initialize\"").is_some() {
            let version = value(message, b"\"protocolVersion\":").unwrap_or(b"\"2025-06-18\"");
            out.extend_from_slice(b",\"result\":{\"protocolVersion\":");
            out.extend_from_slice(version);
            out.extend_from_slice(
                b",\"capabilities\":{\"tools\":{\"listChanged\":true}},\"serverInfo\":{\"name\":\"echo\",\"version\":\"1\"}}}",
            );
        } else if find(message, b"\"tools/list\"").is_some() {
            out.extend_from_slice(
                b",\"result\":{\"tools\":[{\"name\":\"echo\",\"inputSchema\":{\"type\":\"object\"}}]}}",
            );
        } else {
            out.extend_from_slice(b",\"error\":{\"code\":-32601,\"message\":\"unknown method\"}}");
        }
        MessageKind::Request
    }

    /// So many bytes of what may stand between quotes, with a line break in every 64.
    fn with_size(&mut self, size: usize) -> &[u8] {
        if self.0.len() != size {
            self.0 = b"all work and no play makes a dull benchmark and nothing but it\\n"
                .iter()
                .copied()
                .cycle()
                .take(size / 64 * 64)
                .collect();
            self.0.resize(size, b'x');
        }
        &self.0
    }
}

/// The bare value after a key. Good enough for numbers and for texts without commas or braces.
fn value<'a>(message: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let rest = &message[find(message, key)? + key.len()..];
    let end = rest.iter().position(|byte| matches!(byte, b',' | b'}'))?;
    Some(rest[..end].trim_ascii())
}

fn number(digits: &[u8]) -> usize {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Json;

    #[track_caller]
    fn answer(message: &str) -> Option<Json> {
        let mut out = Vec::new();
        match ResponseText::default().respond(message.as_bytes(), &mut out) {
            MessageKind::Request => Some(serde_json::from_slice(&out).unwrap()),
            MessageKind::Notification => None,
        }
    }

    #[test]
    fn a_call_is_answered_with_as_much_text_as_it_asks_for() {
        for size in [0, 1, 63, 64, 65, 100, 10_000] {
            let call = format!(
                r#"{{"method":"tools/call","params":{{"arguments":{{"size":{size}}}}},"id": "a"}}"#
            );
            let answer = answer(&call).unwrap();
            assert_eq!(answer["id"], "a");
            let text = answer["result"]["content"][0]["text"].as_str().unwrap();
            // On the wire; a line break is two bytes there and one here.
            assert_eq!(text.len() + text.matches('\n').count(), size);
        }
    }

    #[test]
    fn a_handshake_gets_the_version_it_asked_for_and_a_notification_nothing() {
        let hello =
            answer(r#"{"id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#);
        assert_eq!(hello.unwrap()["result"]["protocolVersion"], "2025-03-26");
        assert_eq!(answer(r#"{"method":"notifications/initialized"}"#), None);
    }

    #[test]
    fn an_unknown_method_is_refused() {
        let refused = answer(r#"{"id":7,"method":"server/discover"}"#).unwrap();
        assert_eq!(refused["error"]["code"], -32601);
    }
}
