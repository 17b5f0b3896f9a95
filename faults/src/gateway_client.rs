//! Sends one request to the gateway over HTTP/1.1, without a library: reads until the gateway closes the connection,
//! so that a second response is noticed.

use std::io;
use std::time::Instant;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-06-18";

/// An HTTP response.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The header lines.
    pub head: String,
    /// The body, with chunks joined.
    pub body: String,
}

impl Response {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (said, value) = line.split_once(':')?;
            said.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Every message in the body, which is JSON or server-sent events.
    pub fn messages(&self) -> Vec<Json> {
        if let Ok(message) = serde_json::from_str(&self.body) {
            return vec![message];
        }
        let events = self.body.lines().filter_map(|line| line.strip_prefix("data:"));
        events.filter_map(|it| serde_json::from_str(it.trim()).ok()).collect()
    }
}

/// The era of a client.
#[derive(Debug, Clone)]
pub enum ClientEra {
    /// Modern: each request is self-contained.
    Modern,
    /// Legacy, in this session.
    Legacy(String),
}

/// The headers and the body of a request.
pub fn build_request(era: &ClientEra, id: u64, method: &str, mut params: Json) -> (String, String) {
    let lines = match era {
        ClientEra::Legacy(session) => {
            format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {LEGACY}\r\n")
        }
        ClientEra::Modern => {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            let name = params["name"].as_str().map(|it| format!("Mcp-Name: {it}\r\n"));
            let name = name.unwrap_or_default();
            format!("MCP-Protocol-Version: {MODERN}\r\nMcp-Method: {method}\r\n{name}")
        }
    };
    let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    (lines, body.to_string())
}

/// Starts a session.
pub async fn open_session(address: &str) -> io::Result<String> {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"},
    }});
    let response = send(address, "POST /mcp", "", &hello.to_string()).await?;
    let session = response.header("mcp-session-id").map(str::to_owned);
    let session = session.ok_or_else(|| io::Error::other(format!("no session: {response:?}")))?;
    let lines = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {LEGACY}\r\n");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    send(address, "POST /mcp", &lines, &ready.to_string()).await?;
    Ok(session)
}

/// Ends a session.
pub async fn close_session(address: &str, session: &str) -> io::Result<()> {
    let lines = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {LEGACY}\r\n");
    send(address, "DELETE /mcp", &lines, "").await.map(drop)
}

/// Opens the GET stream of a session.
pub async fn open_get_stream(address: &str, session: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "GET /mcp HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\
         Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {LEGACY}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

/// Sends one request and reads until the gateway closes the connection.
pub async fn send(
    address: &str,
    request_line: &str,
    lines: &str,
    body: &str,
) -> io::Result<Response> {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let request = format!(
        "{request_line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{lines}\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    parse_response(&bytes).ok_or_else(|| {
        let said = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
        let after = start.elapsed();
        io::Error::other(format!(
            "not a whole response after {after:?}, to {request_line}: {said:?}"
        ))
    })
}

/// A complete response; `None` if it was truncated.
fn parse_response(bytes: &[u8]) -> Option<Response> {
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut response = Response { status, head, body: String::new() };
    let rest = &bytes[end..];
    let body = match (response.header("content-length"), response.header("transfer-encoding")) {
        (Some(length), _) => rest.get(..length.parse().ok()?)?.to_vec(),
        (None, Some(_)) => decode_chunked(rest)?,
        (None, None) => rest.to_vec(),
    };
    response.body = String::from_utf8_lossy(&body).into_owned();
    Some(response)
}

/// A chunked body; `None` if the last chunk is missing.
fn decode_chunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|it| it == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..line]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(line + 2..line + 2 + size)?);
        rest = rest.get(line + 2 + size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_body_is_joined_and_a_truncated_one_rejected() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let whole = format!("{head}9\r\ndata: {{\"i\r\n8\r\nd\":1}}\n\nx\r\n0\r\n\r\n");
        let response = parse_response(whole.as_bytes()).unwrap();
        assert_eq!((response.status, response.messages()), (200, vec![json!({"id": 1})]));
        assert!(parse_response(&whole.as_bytes()[..whole.len() - 6]).is_none());
        assert!(parse_response(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab").is_none());
    }

    #[test]
    fn every_answer_in_a_body_is_seen() {
        let body = "data: {\"id\":1}\n\n: breath\n\ndata: {\"id\":1}\n\n";
        let whole = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert_eq!(parse_response(whole.as_bytes()).unwrap().messages().len(), 2);
    }
}
