//! One client over HTTP/1.1, written by hand: reads as much of an answer as shows where it ends and whose it is.
//! Answers may be JSON or events, and say their length before or come in pieces.

use std::io::{self, ErrorKind, Write};
use std::time::{Duration, Instant};

use memchr::memmem::{find, rfind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{StopCondition, write_call};

const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}"#;
const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const READ_SIZE: usize = 64 * 1024;
/// How much of each end of a large answer is looked at.
const INSPECTED_BYTES: usize = 4096;

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// With a session.
    Legacy,
    /// Every question says all about itself.
    Modern,
}

/// A client.
pub struct HttpClient {
    stream: TcpStream,
    era: Era,
    host: String,
    path: String,
    session: String,
    authorization: String,
    buffer: Vec<u8>,
    filled: usize,
    out: Vec<u8>,
    next: u64,
}

/// Where an answer's body is, and what its first line says.
struct HttpResponse {
    status: u16,
    body: usize,
    end: usize,
}

impl HttpClient {
    /// Connects without a token, and begins a session where there are any.
    pub async fn open(address: &str, era: Era) -> io::Result<HttpClient> {
        let mut connection = HttpClient::connect(address, era, "").await?;
        match era {
            Era::Legacy => connection.initialize().await?,
            Era::Modern => {}
        }
        Ok(connection)
    }

    /// Connects. All requests have these header lines, each with its line break.
    pub async fn connect(address: &str, era: Era, headers: &str) -> io::Result<HttpClient> {
        let rest = address.strip_prefix("http://").ok_or(ErrorKind::InvalidInput)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        Ok(HttpClient {
            stream,
            era,
            host: host.to_owned(),
            path: format!("/{path}"),
            session: String::new(),
            authorization: headers.to_owned(),
            buffer: vec![0; READ_SIZE],
            filled: 0,
            out: Vec::new(),
            next: 1,
        })
    }

    /// Begins a session; from now on calls are made in it.
    pub async fn initialize(&mut self) -> io::Result<()> {
        self.session.clear();
        let answer = self.post(INITIALIZE).await?;
        let head = String::from_utf8_lossy(&self.buffer[..answer.body]).into_owned();
        if let Some(id) = header(&head, "mcp-session-id") {
            self.session = format!("Mcp-Session-Id: {id}\r\nMcp-Protocol-Version: 2025-06-18\r\n");
        }
        self.post(INITIALIZED).await.map(drop)
    }

    /// Goes on at another address, in the same session.
    pub async fn reconnect(&mut self, address: &str) -> io::Result<()> {
        let mut connected = HttpClient::connect(address, self.era, "").await?;
        connected.session = std::mem::take(&mut self.session);
        connected.authorization = std::mem::take(&mut self.authorization);
        // No later answer may be taken for one of a call that was given up.
        connected.next = self.next + 1;
        *self = connected;
        Ok(())
    }

    /// Makes one call, and says how long it took.
    pub async fn call(&mut self, size: usize) -> io::Result<Duration> {
        let mut call = Vec::new();
        let (start, id) = (Instant::now(), self.next);
        self.next += 1;
        write_call(&mut call, id, size, self.era)?;
        let answer = self.post(&call).await?;
        verify(answer.status, &self.buffer[answer.body..answer.end], id, size)?;
        Ok(start.elapsed())
    }

    /// Sends a call and reads nothing.
    pub async fn send_call(&mut self, size: usize) -> io::Result<()> {
        let mut call = Vec::new();
        let id = self.next;
        self.next += 1;
        write_call(&mut call, id, size, self.era)?;
        self.send(&call).await
    }

    /// Makes calls, one after the other, and says how long each took.
    pub(super) async fn calls(
        &mut self,
        size: usize,
        until: StopCondition,
    ) -> io::Result<Vec<Duration>> {
        let mut times = Vec::new();
        let mut call = Vec::new();
        loop {
            let (start, id) = (Instant::now(), self.next);
            if until.is_over(times.len(), start) {
                return Ok(times);
            }
            self.next += 1;
            call.clear();
            write_call(&mut call, id, size, self.era)?;
            let answer = self.post(&call).await?;
            verify(answer.status, &self.buffer[answer.body..answer.end], id, size)?;
            times.push(start.elapsed());
        }
    }

    /// Asks for the stream of the session, and waits until the gateway says that it has begun.
    pub async fn open_get_stream(&mut self) -> io::Result<()> {
        self.out.clear();
        let HttpClient { path, host, session, authorization, out, .. } = self;
        write!(
            out,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n{authorization}{session}\r\n"
        )?;
        self.stream.write_all(&self.out).await?;
        self.filled = 0;
        loop {
            self.read().await?;
            if find(&self.buffer[..self.filled], b"\r\n\r\n").is_some() {
                break;
            }
        }
        match status(&self.buffer[..self.filled]) {
            Some(200) => Ok(()),
            Some(_) | None => Err(unexpected_response(&self.buffer[..self.filled])),
        }
    }

    /// Ends the session, where there is one. What the gateway thinks of that is its own affair.
    pub async fn end_session(&mut self) -> io::Result<()> {
        if self.session.is_empty() {
            return Ok(());
        }
        self.out.clear();
        let HttpClient { path, host, session, authorization, out, .. } = self;
        write!(out, "DELETE {path} HTTP/1.1\r\nHost: {host}\r\n{authorization}{session}\r\n")?;
        self.stream.write_all(&self.out).await?;
        self.filled = 0;
        self.read().await
    }

    async fn send(&mut self, body: &[u8]) -> io::Result<()> {
        self.out.clear();
        let HttpClient { path, host, session, authorization, out, .. } = self;
        let of_era = match self.era {
            Era::Legacy => session.as_str(),
            Era::Modern => {
                "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
            }
        };
        write!(
            out,
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{authorization}{of_era}Content-Length: {}\r\n\r\n",
            body.len()
        )?;
        self.out.extend_from_slice(body);
        self.stream.write_all(&self.out).await
    }

    async fn post(&mut self, body: &[u8]) -> io::Result<HttpResponse> {
        self.send(body).await?;
        self.filled = 0;
        let mut looked_at = 0;
        loop {
            self.read().await?;
            let bytes = &self.buffer[..self.filled];
            if let Some(answer) = HttpResponse::parse(bytes, &mut looked_at) {
                return match answer.status {
                    200..=299 => Ok(answer),
                    _ => Err(unexpected_response(bytes)),
                };
            }
        }
    }

    async fn read(&mut self) -> io::Result<()> {
        if self.buffer.len() - self.filled < READ_SIZE / 2 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        match self.stream.read(&mut self.buffer[self.filled..]).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => {
                self.filled += count;
                Ok(())
            }
        }
    }
}

impl HttpResponse {
    /// None where some of it has not arrived. Remembers where the body begins, once that is known.
    fn parse(bytes: &[u8], body: &mut usize) -> Option<HttpResponse> {
        if *body == 0 {
            *body = find(bytes, b"\r\n\r\n")? + 4;
        }
        let head = std::str::from_utf8(&bytes[..*body]).ok()?;
        let end = match header(head, "content-length") {
            Some(length) => *body + length.parse::<usize>().ok()?,
            None => {
                let last: &[u8] = b"0\r\n\r\n";
                let is_over = bytes.ends_with(b"\r\n0\r\n\r\n") || &bytes[*body..] == last;
                is_over.then_some(bytes.len())?
            }
        };
        let status = status(bytes)?;
        (bytes.len() >= end).then_some(HttpResponse { status, body: *body, end })
    }
}

fn status(bytes: &[u8]) -> Option<u16> {
    std::str::from_utf8(bytes.get(9..12)?).ok()?.parse().ok()
}

/// The value of a header. Heads are short, so that looking for it costs next to nothing.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n").find_map(|line| {
        let (said, value) = line.split_once(':')?;
        said.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Fails unless this is a good answer to that call.
fn verify(status: u16, body: &[u8], id: u64, size: usize) -> io::Result<()> {
    let first = &body[..body.len().min(INSPECTED_BYTES)];
    let last = &body[body.len().saturating_sub(INSPECTED_BYTES)..];
    let is_whose = format!("\"id\":{id}");
    let is_whose = find(first, is_whose.as_bytes()).or_else(|| rfind(last, is_whose.as_bytes()));
    let is_good = status == 200
        && body.len() >= size
        && is_whose.is_some()
        && find(first, b"\"result\"").is_some()
        && find(last, b"\"isError\":true").is_none();
    if is_good { Ok(()) } else { Err(unexpected_response(body)) }
}

fn unexpected_response(bytes: &[u8]) -> io::Error {
    let beginning = String::from_utf8_lossy(&bytes[..bytes.len().min(500)]).into_owned();
    io::Error::other(format!("not the answer to the call: {beginning}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(whole: &str, body: &str) {
        let bytes = whole.as_bytes();
        for length in 0..bytes.len() {
            assert!(HttpResponse::parse(&bytes[..length], &mut 0).is_none(), "{length}");
        }
        let answer = HttpResponse::parse(bytes, &mut 0).unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(&whole[answer.body..answer.end], body);
    }

    #[test]
    fn a_response_ends_at_its_content_length() {
        check("HTTP/1.1 200 OK\r\ncontent-LENGTH: 3\r\n\r\nabc", "abc");
    }

    #[test]
    fn a_chunked_response_ends_with_an_empty_chunk() {
        let pieces = "3\r\nabc\r\n0\r\n\r\n";
        check(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{pieces}"), pieces);
    }

    #[test]
    fn only_a_successful_response_to_the_call_counts() {
        let good = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"isError":false}}"#;
        assert!(verify(200, good, 7, 10).is_ok());
        assert!(verify(200, good, 8, 10).is_err());
        assert!(verify(202, good, 7, 10).is_err());
        assert!(verify(200, good, 7, 1000).is_err());
        let bad = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"isError":true}}"#;
        assert!(verify(200, bad, 7, 10).is_err());
    }
}
