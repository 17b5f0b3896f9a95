//! A client of a program on stdio.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use testkit::Script;
use testkit::processes::wait_until;

use crate::client::{Client, TIMEOUT};

/// The program and its streams. Dropping it kills the program.
pub struct StdioClient {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Receiver<Vec<u8>>,
    stderr: Option<JoinHandle<String>>,
}

impl StdioClient {
    pub fn start(script: &Script) -> StdioClient {
        StdioClient::start_with_env(script, &[])
    }

    pub fn start_with_env(script: &Script, variables: &[(&str, &str)]) -> StdioClient {
        let mut command = Command::new(testkit::scripted::program());
        StdioClient::run(command.arg(script.to_json()).envs(variables.iter().copied()))
    }

    /// Starts any program that uses newline-delimited messages.
    pub fn run(command: &mut Command) -> StdioClient {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("it is piped");
        let mut stderr = child.stderr.take().expect("it is piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            loop {
                let mut line = Vec::new();
                let read = reader.read_until(b'\n', &mut line);
                if !matches!(read, Ok(1..)) || sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stderr = thread::spawn(move || {
            let mut text = Vec::new();
            let _broken = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        StdioClient { child, stdin, stdout: lines, stderr: Some(stderr) }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line; ignores errors if the program has exited.
    pub fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("it was not closed");
        let _gone = stdin.write_all(format!("{line}\n").as_bytes());
    }

    /// The next line with its line ending, or `None` when the stream is closed.
    pub fn line(&self) -> Option<Vec<u8>> {
        use std::sync::mpsc::RecvTimeoutError;
        match self.stdout.recv_timeout(TIMEOUT) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line came"),
        }
    }

    /// Whether nothing is written for a while.
    pub fn is_silent(&self, ms: u64) -> bool {
        self.stdout.recv_timeout(Duration::from_millis(ms)).is_err()
    }

    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Waits until the program exits.
    pub fn exit(&mut self) -> ExitStatus {
        let child = &mut self.child;
        wait_until(TIMEOUT, "the program exits", || child.try_wait().expect("it can be waited for"))
    }

    pub fn has_exited(&mut self) -> bool {
        self.child.try_wait().expect("it can be waited for").is_some()
    }

    /// Its stderr output, once it has exited.
    pub fn stderr_text(&mut self) -> String {
        self.stderr.take().expect("it was not read before").join().expect("it was read")
    }
}

impl Client for StdioClient {
    fn send(&mut self, message: &Value) {
        self.write(&message.to_string());
    }

    fn next(&mut self) -> Value {
        let line = self.line().expect("the stream is open");
        serde_json::from_slice(&line).expect("it is JSON")
    }
}

impl Drop for StdioClient {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
