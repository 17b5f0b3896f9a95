//! One client over the standard streams of a gateway that is started for it, with many calls under way.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use memchr::memmem::find;

use super::{Era, GatewayCost, StopCondition, load_error, measure, write_call};
use crate::failure::Failure;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const BUFFER_BYTES: usize = 256 * 1024;

/// A client. Dropping it ends its gateway.
pub struct StdioClient {
    gateway: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl StdioClient {
    /// Starts a gateway and begins to talk.
    pub fn start(mut command: Command) -> Result<StdioClient, Failure> {
        let program = OsString::from(command.get_program());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = command.spawn();
        let mut gateway =
            started.map_err(|error| Failure::NotStarted { program: program.into(), error })?;
        let (Some(input), Some(output)) = (gateway.stdin.take(), gateway.stdout.take()) else {
            return Err(Failure::InvalidRequest);
        };
        let output = BufReader::with_capacity(BUFFER_BYTES, output);
        let mut lines = StdioClient { gateway, input: Some(input), output, next: 1 };
        lines.initialize().map_err(load_error)?;
        Ok(lines)
    }

    /// Makes the calls, so many of them under way at any time, and says what they cost the gateway.
    pub fn measure(&mut self, size: usize, in_flight: usize) -> Result<GatewayCost, Failure> {
        let gateway = self.gateway.id();
        measure(gateway, |until| self.run(size, until, in_flight).map_err(load_error))
    }

    /// Makes calls until a time, so many of them under way at any moment. The duration of each call.
    pub fn call_until(
        &mut self,
        size: usize,
        in_flight: usize,
        end: Instant,
    ) -> Result<Vec<Duration>, Failure> {
        self.run(size, StopCondition::Deadline(end), in_flight).map_err(load_error)
    }

    fn initialize(&mut self) -> io::Result<()> {
        self.write(format!("{INITIALIZE}\n{INITIALIZED}\n").as_bytes())?;
        let mut answer = Vec::new();
        self.read(&mut answer)
    }

    /// Answers may come in any order. What has arrived is taken before anything new is asked.
    fn run(
        &mut self,
        size: usize,
        until: StopCondition,
        in_flight: usize,
    ) -> io::Result<Vec<Duration>> {
        let first = self.next;
        let (mut begun, mut times): (Vec<Instant>, Vec<Duration>) = (Vec::new(), Vec::new());
        let (mut out, mut line) = (Vec::new(), Vec::new());
        loop {
            let is_over = until.is_over(begun.len(), Instant::now());
            if is_over && times.len() == begun.len() {
                return Ok(times);
            }
            while !is_over && begun.len() - times.len() < in_flight {
                write_call(&mut out, self.next, size, Era::Legacy)?;
                out.push(b'\n');
                self.next += 1;
                begun.push(Instant::now());
            }
            self.write(&out)?;
            out.clear();
            loop {
                self.read(&mut line)?;
                let id = response_id(&line)
                    .ok_or_else(|| io::Error::other(String::from_utf8_lossy(&line).into_owned()))?;
                let place = usize::try_from(id - first).map_err(|_| ErrorKind::InvalidData)?;
                let start = begun.get(place).ok_or(ErrorKind::InvalidData)?;
                times.push(start.elapsed());
                let has_more = memchr::memchr(b'\n', self.output.buffer()).is_some();
                if !has_more || times.len() == begun.len() {
                    break;
                }
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.input.as_mut().ok_or(ErrorKind::BrokenPipe)?.write_all(bytes)
    }

    fn read(&mut self, line: &mut Vec<u8>) -> io::Result<()> {
        line.clear();
        match self.output.read_until(b'\n', line)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// The call that a line is a good answer to.
fn response_id(line: &[u8]) -> Option<u64> {
    find(line, b"\"result\"")?;
    let digits = &line[find(line, b"\"id\":")? + 5..];
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

impl Drop for StdioClient {
    /// Its input ends first, so that it ends its server.
    fn drop(&mut self) {
        self.input = None;
        let mut rest = Vec::new();
        let mut left = 1000;
        while left > 0 && self.read(&mut rest).is_ok() {
            left -= 1;
        }
        let _gone_already = self.gateway.kill();
        let _gone_already = self.gateway.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_line_is_matched_to_its_call() {
        assert_eq!(response_id(br#"{"jsonrpc":"2.0","id":17,"result":{}}"#), Some(17));
        assert_eq!(response_id(br#"{"result":{},"id":17}"#), Some(17));
        assert_eq!(response_id(br#"{"jsonrpc":"2.0","id":17,"error":{}}"#), None);
        assert_eq!(response_id(br#"{"method":"notifications/message"}"#), None);
    }
}
