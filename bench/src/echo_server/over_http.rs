//! The echo server over HTTP/1.1 with connections that stay open: just enough of it for honest clients.

use std::io::{self, Write};

use bytes::{Buf, BytesMut};
use memchr::memmem::find;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

use super::{MessageKind, ResponseText, number};

/// Serves until it is killed; prints its address first.
pub fn serve() -> io::Result<()> {
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("http://{}/mcp", listener.local_addr()?);
        io::stdout().flush()?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // Ends with its client, or with this process.
            tokio::spawn(serve_connection(stream));
        }
    })
}

async fn serve_connection(mut stream: TcpStream) -> io::Result<()> {
    let mut text = ResponseText::default();
    let mut buffer = BytesMut::with_capacity(64 * 1024);
    let mut out = Vec::new();
    let mut body = Vec::new();
    loop {
        while let Some(request) = Request::parse(&buffer) {
            let message = &buffer[request.body_start..request.end];
            body.clear();
            let is_answered =
                request.is_post && text.respond(message, &mut body) == MessageKind::Request;
            let status: &[u8] = match (request.is_post, is_answered) {
                (true, true) => b"200 OK\r\nContent-Type: application/json",
                (true, false) => b"202 Accepted",
                (false, _) => b"405 Method Not Allowed",
            };
            out.extend_from_slice(b"HTTP/1.1 ");
            out.extend_from_slice(status);
            write!(out, "\r\nContent-Length: {}\r\n\r\n", body.len())?;
            out.extend_from_slice(&body);
            buffer.advance(request.end);
        }
        if !out.is_empty() {
            stream.write_all(&out).await?;
            out.clear();
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// Where the parts of a request are.
struct Request {
    is_post: bool,
    body_start: usize,
    end: usize,
}

impl Request {
    /// None where some of it has not arrived.
    fn parse(bytes: &[u8]) -> Option<Request> {
        let body_start = find(bytes, b"\r\n\r\n")? + 4;
        let mut lengths = bytes[..body_start].split(|byte| *byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let is_length = line[..colon].eq_ignore_ascii_case(b"content-length");
            is_length.then(|| number(line[colon + 1..].trim_ascii()))
        });
        let end = body_start + lengths.next().unwrap_or(0);
        let is_post = bytes.starts_with(b"POST ");
        (bytes.len() >= end).then_some(Request { is_post, body_start, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_whole_when_its_body_is() {
        let request = b"POST /mcp HTTP/1.1\r\ncontent-LENGTH: 3\r\n\r\nabcGET";
        let parts = Request::parse(request).unwrap();
        assert_eq!(&request[parts.body_start..parts.end], b"abc");
        assert!(parts.is_post);
        assert!(Request::parse(&request[..parts.end - 1]).is_none());
    }
}
