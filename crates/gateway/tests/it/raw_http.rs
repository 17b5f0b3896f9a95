//! Raw HTTP over real sockets: requests are sent byte for byte, and responses are read as they arrive.

use std::net::SocketAddr;

use serde_json::Value as Json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::gateway_fixture::{TEST_TIMEOUT, token};

/// The protocol version of legacy clients.
pub const LEGACY: &str = "2025-11-25";
/// The protocol version of modern clients.
pub const MODERN: &str = "2026-07-28";

/// An address and a token.
#[derive(Debug, Clone)]
pub struct RawClient {
    pub address: SocketAddr,
    pub token: Option<String>,
    pub session: Option<String>,
}

/// A response whose head has been read.
#[derive(Debug)]
pub struct RawResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    stream: BufReader<TcpStream>,
    framing: Framing,
    /// The part of the body that was read but not used.
    buffer: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Chunked,
    ContentLength(usize),
    Done,
}

/// One event of an event stream.
#[derive(Debug, Clone, PartialEq)]
pub struct SseEvent {
    pub id: Option<String>,
    /// The message; null if there is none.
    pub message: Json,
}

impl RawClient {
    /// A client with a token.
    pub fn client(address: SocketAddr, number: usize) -> RawClient {
        RawClient { address, token: Some(token(number)), session: None }
    }

    /// The `Host` and `Authorization` lines of a request's head.
    pub fn request_head(&self, first: &str) -> String {
        let mut head = format!("{first} HTTP/1.1\r\nHost: {}\r\n", self.address);
        if let Some(token) = &self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if let Some(session) = &self.session {
            head.push_str(&format!("Mcp-Session-Id: {session}\r\n"));
            head.push_str(&format!("MCP-Protocol-Version: {LEGACY}\r\n"));
        }
        head
    }

    /// A POST request with a message and these header lines.
    pub fn post_bytes_with(&self, message: &Json, lines: &[String]) -> Vec<u8> {
        let body = message.to_string();
        let mut head = self.request_head("POST /mcp");
        for line in lines {
            head.push_str(line);
            head.push_str("\r\n");
        }
        head.push_str("Accept: application/json, text/event-stream\r\n");
        head.push_str("Content-Type: application/json\r\n");
        head.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        head.into_bytes()
    }

    /// A POST request of an era.
    pub fn post_bytes(&self, message: &Json) -> Vec<u8> {
        let params = &message["params"];
        let version = &params["_meta"]["io.modelcontextprotocol/protocolVersion"];
        let mut lines = Vec::new();
        if let (Some(version), Some(method)) = (version.as_str(), message["method"].as_str()) {
            lines.push(format!("MCP-Protocol-Version: {version}"));
            lines.push(format!("Mcp-Method: {method}"));
            let name = match method {
                "resources/read" => params["uri"].as_str(),
                "tools/call" | "prompts/get" => params["name"].as_str(),
                _ => None,
            };
            lines.extend(name.map(|it| format!("Mcp-Name: {it}")));
        }
        self.post_bytes_with(message, &lines)
    }

    pub async fn post(&self, message: &Json) -> RawResponse {
        self.send(&self.post_bytes(message)).await
    }

    /// Opens the GET stream, or resumes an interrupted one.
    pub async fn open_stream(&self, after: Option<&str>) -> RawResponse {
        let mut head = self.request_head("GET /mcp");
        head.push_str("Accept: text/event-stream\r\n");
        if let Some(after) = after {
            head.push_str(&format!("Last-Event-ID: {after}\r\n"));
        }
        self.send(format!("{head}\r\n").as_bytes()).await
    }

    pub async fn delete(&self) -> RawResponse {
        self.send(format!("{}\r\n", self.request_head("DELETE /mcp")).as_bytes()).await
    }

    pub async fn connect(&self) -> TcpStream {
        let stream = timeout(TEST_TIMEOUT, TcpStream::connect(self.address)).await;
        stream.expect("in time").expect("the gateway listens")
    }

    /// Sends bytes over a new connection, and reads the head of the response.
    pub async fn send(&self, bytes: &[u8]) -> RawResponse {
        let mut stream = self.connect().await;
        // A server that refuses early does not read all of it.
        let _refused_early = stream.write_all(bytes).await;
        RawResponse::read(stream).await.expect("an answer")
    }
}

impl RawResponse {
    /// Reads a head; None if the server closes the connection.
    pub async fn read(stream: TcpStream) -> Option<RawResponse> {
        timeout(TEST_TIMEOUT, RawResponse::read_head(BufReader::new(stream)))
            .await
            .expect("in time")
    }

    async fn read_head(mut stream: BufReader<TcpStream>) -> Option<RawResponse> {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok()?;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':')?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut reply =
            RawResponse { status, headers, stream, framing: Framing::Done, buffer: Vec::new() };
        reply.framing = match (reply.header("transfer-encoding"), reply.header("content-length")) {
            (Some(_), _) => Framing::Chunked,
            (None, Some(length)) => Framing::ContentLength(length.parse().ok()?),
            (None, None) => Framing::Done,
        };
        Some(reply)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|it| it.0 == name).map(|it| it.1.as_str())
    }

    pub fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// Reads one more chunk. Returns whether there was one.
    async fn read_more(&mut self) -> bool {
        timeout(TEST_TIMEOUT, self.read_piece()).await.expect("in time").is_some()
    }

    async fn read_piece(&mut self) -> Option<()> {
        match self.framing {
            Framing::Done => None,
            Framing::ContentLength(length) => {
                self.framing = Framing::Done;
                let mut bytes = vec![0; length];
                self.stream.read_exact(&mut bytes).await.ok()?;
                self.buffer.append(&mut bytes);
                Some(())
            }
            Framing::Chunked => {
                let mut size = String::new();
                self.stream.read_line(&mut size).await.ok()?;
                let size = usize::from_str_radix(size.trim(), 16).ok()?;
                let mut bytes = vec![0; size + 2];
                self.stream.read_exact(&mut bytes).await.ok()?;
                if size == 0 {
                    self.framing = Framing::Done;
                    return None;
                }
                self.buffer.extend_from_slice(&bytes[..size]);
                Some(())
            }
        }
    }

    /// The next event with data or an id; None when the stream has ended.
    pub async fn event(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|it| it == b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let event = String::from_utf8(event).expect("text");
                if let Some(event) = parse_event(&event) {
                    return Some(event);
                }
                continue;
            }
            if !self.read_more().await {
                assert!(self.buffer.is_empty(), "half an event");
                return None;
            }
        }
    }

    /// The next message of a stream, or the body.
    pub async fn message(&mut self) -> Option<Json> {
        if !self.is_stream() {
            while self.read_more().await {}
            let text = std::mem::take(&mut self.buffer);
            return serde_json::from_slice(&text).ok();
        }
        loop {
            let event = self.event().await?;
            if !event.message.is_null() {
                return Some(event.message);
            }
        }
    }

    /// The remaining body as text.
    pub async fn remaining_text(mut self) -> String {
        while self.read_more().await {}
        String::from_utf8(self.buffer).expect("text")
    }

    /// The remaining events of a stream.
    pub async fn remaining_events(mut self) -> Vec<SseEvent> {
        let mut all = Vec::new();
        while let Some(event) = self.event().await {
            all.push(event);
        }
        all
    }
}

fn parse_event(text: &str) -> Option<SseEvent> {
    let mut event = SseEvent { id: None, message: Json::Null };
    let mut has_content = false;
    for line in text.lines() {
        if let Some(id) = line.strip_prefix("id: ") {
            event.id = Some(id.to_owned());
            has_content = true;
        }
        if let Some(data) = line.strip_prefix("data: ").filter(|it| !it.is_empty()) {
            event.message = serde_json::from_str(data).expect("JSON");
            has_content = true;
        }
    }
    has_content.then_some(event)
}
