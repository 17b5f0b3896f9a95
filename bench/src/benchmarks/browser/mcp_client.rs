//! A small client of a browser server over its standard streams. It notes what a model would read, and how long calls take.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::failure::Failure;

/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A server and the conversation with it.
pub struct McpClient {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
    /// How many tools were called.
    pub calls: usize,
    /// Arguments and results of the calls, as a model has them in its context.
    pub context: String,
}

/// The result of a call.
pub struct CallResult {
    pub text: String,
    pub image: Option<Json>,
    pub is_error: bool,
    pub took: Duration,
}

impl McpClient {
    /// Starts a server and introduces itself.
    pub fn start(
        command: &[OsString],
        folder: &Path,
        env: &[(&str, OsString)],
    ) -> Result<McpClient, Failure> {
        let (program, arguments) = command.split_first().ok_or(Failure::InvalidRequest)?;
        let mut starting = Command::new(program);
        starting.args(arguments).current_dir(folder).envs(env.iter().cloned());
        starting.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let not_started = |error| Failure::NotStarted { program: program.into(), error };
        let mut child = starting.spawn().map_err(not_started)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or(Failure::InvalidRequest)?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut client =
            McpClient { child, input, lines, next_id: 0, calls: 0, context: String::new() };
        client.request(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}),
        )?;
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(client)
    }

    /// The id of the server's process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    fn send(&mut self, message: &Json) -> Result<(), Failure> {
        let input = self.input.as_mut().ok_or(Failure::InvalidRequest)?;
        let line = format!("{message}\n");
        input.write_all(line.as_bytes()).map_err(failed)
    }

    /// A request's result.
    pub fn request(&mut self, method: &str, params: Json) -> Result<Json, Failure> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).map_err(failed)?;
            let message: Json = serde_json::from_str(&line).map_err(Failure::InvalidJson)?;
            if message["id"] != id || message.get("method").is_some() {
                continue;
            }
            return match message.get("result") {
                Some(result) => Ok(result.clone()),
                None => Err(failed(message["error"].to_string())),
            };
        }
    }

    /// Calls a tool.
    pub fn call(&mut self, tool: &str, arguments: Json) -> Result<CallResult, Failure> {
        self.calls += 1;
        self.context += &format!("{tool} {arguments}\n");
        let began = Instant::now();
        let result = self.request("tools/call", json!({"name": tool, "arguments": arguments}))?;
        let took = began.elapsed();
        let blocks = result["content"].as_array().cloned().unwrap_or_default();
        let text: Vec<&str> = blocks.iter().filter_map(|it| it["text"].as_str()).collect();
        let text = text.join("\n");
        self.context += &text;
        self.context.push('\n');
        let image = blocks.into_iter().find(|it| it["type"] == "image");
        Ok(CallResult { text, image, is_error: result["isError"] == true, took })
    }

    /// A call that must succeed.
    pub fn done(&mut self, tool: &str, arguments: Json) -> Result<CallResult, Failure> {
        let result = self.call(tool, arguments)?;
        match result.is_error {
            true => Err(failed(format!("{tool}: {}", result.text))),
            false => Ok(result),
        }
    }
}

impl Drop for McpClient {
    fn drop(&mut self) {
        // The end of its input ends a server, and its browser.
        self.input = None;
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(Some(_)) | Err(_) => return,
                Ok(None) => thread::sleep(Duration::from_millis(20)),
            }
        }
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

/// A failure of a server or of the conversation with it.
pub fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::ClientFailed { name: "browser", error: error.into() }
}
