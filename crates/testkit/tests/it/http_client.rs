//! An HTTP client on plain sockets.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::client::{Client, MODERN_VERSION, TIMEOUT};

/// A response whose body is not read yet.
pub struct HttpResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    stream: BufReader<TcpStream>,
    left: RemainingBody,
}

/// How much of the body remains.
enum RemainingBody {
    Bytes(usize),
    /// The rest of this chunk, then others.
    Chunk(usize),
    Nothing,
}

/// An event of a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct SseEvent {
    pub id: Option<String>,
    pub name: String,
    pub data: String,
}

/// Sends a request; `url` must have a port.
pub fn http_request(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> HttpResponse {
    HttpResponse::read(BufReader::new(write_request(method, url, headers, body)))
}

/// Sends a request and returns all bytes until the connection ends.
pub fn raw_exchange(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<String> {
    let mut text = String::new();
    write_request(method, url, headers, body).read_to_string(&mut text).map(|_| text)
}

fn write_request(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
    let (_, rest) = url.split_once("://").expect("a URL has a scheme");
    let (host, path) = rest.split_once('/').expect("a URL has a path");
    let mut stream = TcpStream::connect(host).expect("the server listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
    let mut text = format!("{method} /{path} HTTP/1.1\r\nhost: {host}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(text.as_bytes()).expect("the server reads");
    stream
}

impl HttpResponse {
    fn read(mut stream: BufReader<TcpStream>) -> HttpResponse {
        let first = line(&mut stream);
        let status = first.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        let mut headers = Vec::new();
        loop {
            let next = line(&mut stream);
            let Some((name, value)) = next.split_once(": ") else { break };
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        let mut response = HttpResponse { status, headers, stream, left: RemainingBody::Nothing };
        if let Some(length) = response.header("content-length") {
            response.left = RemainingBody::Bytes(length.parse().expect("a length is a number"));
        } else if response.header("transfer-encoding") == Some("chunked") {
            response.left = RemainingBody::Chunk(0);
        }
        response
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// Whether nothing arrives for a while.
    pub fn is_silent(&mut self, ms: u64) -> bool {
        let timeout = Some(Duration::from_millis(ms));
        self.stream.get_ref().set_read_timeout(timeout).expect("a timeout can be set");
        let came = self.byte();
        came.is_err_and(|it| it.kind() == io::ErrorKind::WouldBlock)
    }

    /// The next byte of the body; `None` at its proper end.
    fn byte(&mut self) -> io::Result<Option<u8>> {
        if let RemainingBody::Chunk(0) = self.left {
            let size = usize::from_str_radix(&try_line(&mut self.stream)?, 16);
            self.left = match size.map_err(io::Error::other)? {
                0 => RemainingBody::Nothing,
                size => RemainingBody::Chunk(size),
            };
        }
        let (RemainingBody::Bytes(left @ 1..) | RemainingBody::Chunk(left @ 1..)) = &mut self.left
        else {
            return Ok(None);
        };
        *left -= 1;
        let is_end_of_chunk = *left == 0 && matches!(self.left, RemainingBody::Chunk(_));
        let mut byte = [0];
        self.stream.read_exact(&mut byte)?;
        if is_end_of_chunk {
            try_line(&mut self.stream)?;
        }
        Ok(Some(byte[0]))
    }

    /// The whole body, or an error if it is incomplete.
    pub fn body(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(byte) = self.byte()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }

    pub fn json(&mut self) -> Value {
        serde_json::from_slice(&self.body().expect("the body is whole")).expect("it is JSON")
    }

    /// The next event; `None` at the proper end of the stream.
    pub fn event(&mut self) -> io::Result<Option<SseEvent>> {
        let mut event = SseEvent { id: None, name: "message".to_owned(), data: String::new() };
        let mut has_data = false;
        loop {
            let mut line = Vec::new();
            loop {
                match self.byte()? {
                    None => return Ok(None),
                    Some(b'\n') => break,
                    Some(byte) => line.push(byte),
                }
            }
            let line = String::from_utf8_lossy(&line).into_owned();
            match line.split_once(':') {
                Some(("id", id)) => event.id = Some(id.trim().to_owned()),
                Some(("event", name)) => event.name = name.trim().to_owned(),
                Some(("data", data)) => {
                    event.data.push_str(data.trim_start());
                    has_data = true;
                }
                Some(_) => {}
                None if has_data => return Ok(Some(event)),
                None => {}
            }
        }
    }

    /// The message in the next event that has one.
    pub fn message(&mut self) -> Value {
        loop {
            let event = self.event().expect("the stream is whole").expect("the stream goes on");
            if !event.data.is_empty() {
                return serde_json::from_str(&event.data).expect("it is JSON");
            }
        }
    }
}

fn try_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut text = String::new();
    match stream.read_line(&mut text)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(text.trim_end().to_owned()),
    }
}

fn line(stream: &mut impl BufRead) -> String {
    try_line(stream).expect("the server responds")
}

pub const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");
pub const JSON: (&str, &str) = ("content-type", "application/json");

/// Posts a message in the legacy era.
pub fn post(url: &str, session: Option<&str>, message: &Value) -> HttpResponse {
    let mut headers = vec![ACCEPT, JSON];
    if let Some(session) = session {
        headers.extend([("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")]);
    }
    http_request("POST", url, &headers, &message.to_string())
}

/// Posts a message in the modern era, with all required headers.
pub fn post_modern(url: &str, message: &Value) -> HttpResponse {
    HttpResponse::read(BufReader::new(send_modern(url, message)))
}

/// Sends a message in the modern era without reading the response.
pub fn send_modern(url: &str, message: &Value) -> TcpStream {
    let mut headers = vec![ACCEPT, JSON, ("mcp-protocol-version", MODERN_VERSION)];
    let method = message["method"].as_str().unwrap_or_default();
    headers.push(("mcp-method", method));
    let params = &message["params"];
    let name = params["name"].as_str().or(params["uri"].as_str());
    headers.extend(name.map(|it| ("mcp-name", it)));
    write_request("POST", url, &headers, &message.to_string())
}

/// A client of streamable HTTP; the first message decides the era.
pub struct HttpClient {
    url: String,
    session: Option<String>,
    streams: VecDeque<HttpResponse>,
}

impl HttpClient {
    pub fn new(url: &str) -> HttpClient {
        HttpClient { url: url.to_owned(), session: None, streams: VecDeque::new() }
    }

    pub fn session(&self) -> &str {
        self.session.as_deref().expect("a session was opened")
    }

    /// Opens the GET stream.
    pub fn open_get_stream(&self, last: Option<&str>) -> HttpResponse {
        let mut headers = vec![("accept", "text/event-stream"), ("mcp-session-id", self.session())];
        headers.extend(last.map(|it| ("last-event-id", it)));
        http_request("GET", &self.url, &headers, "")
    }
}

impl Client for HttpClient {
    fn send(&mut self, message: &Value) {
        let is_modern =
            message["params"]["_meta"].get("io.modelcontextprotocol/protocolVersion").is_some();
        let response = match is_modern {
            true => post_modern(&self.url, message),
            false => post(&self.url, self.session.as_deref(), message),
        };
        if let Some(session) = response.header("mcp-session-id") {
            self.session = Some(session.to_owned());
        }
        match response.status {
            202 => {}
            _ => self.streams.push_back(response),
        }
    }

    fn next(&mut self) -> Value {
        let response = self.streams.back_mut().expect("a request was sent");
        match response.header("content-type") {
            Some("application/json") => response.json(),
            _ => response.message(),
        }
    }
}

/// A client of the SSE transport of 2024.
pub struct SseClient {
    stream: HttpResponse,
    endpoint: String,
}

impl SseClient {
    pub fn open(url: &str) -> SseClient {
        let mut stream = http_request("GET", url, &[("accept", "text/event-stream")], "");
        let event = stream.event().expect("the stream is whole").expect("the stream goes on");
        assert_eq!(event.name, "endpoint");
        let base = url.strip_suffix("/sse").expect("that is the path");
        SseClient { stream, endpoint: format!("{base}{}", event.data) }
    }
}

impl Client for SseClient {
    fn send(&mut self, message: &Value) {
        let response = http_request("POST", &self.endpoint, &[JSON], &message.to_string());
        assert_eq!(response.status, 202);
    }

    fn next(&mut self) -> Value {
        self.stream.message()
    }
}
