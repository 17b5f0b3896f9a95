//! A session as a program runs it: starts the command, exchanges frames, and hosts a server with one tool that returns the
//! length of its argument.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::failure::Failure;

const NAME: &str = "session";
/// The name of the hosted server.
pub const SERVER: &str = "bench";

/// A running session. Dropping it ends the process.
pub struct Session {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    started: Instant,
    line: String,
    next_id: usize,
}

impl Session {
    /// Starts a session and sends its first request.
    pub fn start(mut command: Command) -> Result<Session, Failure> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = Instant::now();
        let program = command.get_program().into();
        let mut child = command.spawn().map_err(|error| Failure::NotStarted { program, error })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::InvalidRequest);
        };
        let output = BufReader::new(output);
        let mut session =
            Session { child, input, output, started, line: String::new(), next_id: 0 };
        session.request(&json!({"subtype": "initialize", "sdkMcpServers": [SERVER]}))?;
        Ok(session)
    }

    /// The time from the start of the process to the first `init` frame, which a message causes.
    pub fn time_to_init(&mut self) -> Result<Duration, Failure> {
        let message = json!({"role": "user", "content": "hello"});
        self.send(&json!({"type": "user", "message": message}))?;
        loop {
            let frame = self.next_frame()?;
            if frame["type"] == "system" && frame["subtype"] == "init" {
                return Ok(self.started.elapsed());
            }
        }
    }

    /// Calls the tool of the hosted server with each argument at once, and returns how many results were right.
    pub fn call_all(&mut self, texts: &[String]) -> Result<usize, Failure> {
        let mut open: Vec<(String, String)> = Vec::new();
        for text in texts {
            let id = self.request(&json!({
                "subtype": "mcp_call", "server_name": SERVER, "tool_name": "length",
                "arguments": {"text": text},
            }))?;
            open.push((id, text.len().to_string()));
        }
        let mut right = 0;
        while !open.is_empty() {
            let frame = self.next_frame()?;
            let response = &frame["response"];
            let Some(at) = open.iter().position(|(id, _)| response["request_id"] == **id) else {
                continue;
            };
            let (_, expected) = open.swap_remove(at);
            let answer = &response["response"]["content"][0]["text"];
            right += usize::from(*answer == *expected);
        }
        Ok(right)
    }

    /// Waits for the answer to the first request and for the tools of the hosted server.
    pub fn wait_until_ready(&mut self) -> Result<(), Failure> {
        loop {
            let id = self.request(&json!({"subtype": "mcp_status"}))?;
            let status = loop {
                let frame = self.next_frame()?;
                if frame["response"]["request_id"] == *id {
                    break frame;
                }
            };
            let servers = &status["response"]["response"]["mcpServers"];
            let is_ready =
                |it: &Json| it["name"] == SERVER && it["tools"].to_string().contains("length");
            if servers.as_array().into_iter().flatten().any(is_ready) {
                return Ok(());
            }
        }
    }

    fn request(&mut self, request: &Json) -> Result<String, Failure> {
        self.next_id += 1;
        let id = format!("r{}", self.next_id);
        self.send(&json!({"type": "control_request", "request_id": id, "request": request}))?;
        Ok(id)
    }

    fn send(&mut self, frame: &Json) -> Result<(), Failure> {
        let mut line = frame.to_string();
        line.push('\n');
        self.input.write_all(line.as_bytes()).map_err(|error| Failure::client(NAME, error))
    }

    /// The next frame. Messages to the hosted server are answered here.
    fn next_frame(&mut self) -> Result<Json, Failure> {
        loop {
            self.line.clear();
            let read = self.output.read_line(&mut self.line);
            if read.map_err(|error| Failure::client(NAME, error))? == 0 {
                let ended = std::io::Error::other("the session ended");
                return Err(Failure::client(NAME, ended));
            }
            let frame: Json = serde_json::from_str(&self.line).map_err(Failure::InvalidJson)?;
            if frame["type"] != "control_request" {
                return Ok(frame);
            }
            let answer = match frame["request"]["subtype"].as_str() {
                Some("mcp_message") => json!({"mcp_response": serve(&frame["request"]["message"])}),
                _ => json!({}),
            };
            let id = &frame["request_id"];
            let response = json!({"subtype": "success", "request_id": id, "response": answer});
            self.send(&json!({"type": "control_response", "response": response}))?;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _gone_already = self.child.wait();
    }
}

/// The answer of the hosted server.
fn serve(message: &Json) -> Json {
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": SERVER, "version": "1"},
        }),
        Some("tools/list") => json!({"tools": [{
            "name": "length", "description": "Returns the length of a text",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
            "annotations": {"readOnlyHint": true},
        }]}),
        Some("tools/call") => {
            let text = message["params"]["arguments"]["text"].as_str().unwrap_or_default();
            json!({"content": [{"type": "text", "text": text.len().to_string()}]})
        }
        _ => json!({}),
    };
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result})
}
