//! Calls inside this process: between two peers, and all the way through the host.

use std::io;
use std::path::Path;
use std::time::Duration;

use memchr::memmem;
use switchboard_wire::http::{HttpClient, HttpSettings, ProxySettings, Target};
use switchboard_wire::peer::{Peer, SpawnedPeer};
use switchboard_wire::transport::in_memory;
use switchboard_wire::transport::streamable_http::StreamableHttpTransport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::runtime;
use crate::benchmarks::call_pipeline::InProcessHost;
use crate::benchmarks::wire;
use crate::failure::Failure;

pub fn in_memory(times: usize) -> Result<(), Failure> {
    let connect = || {
        let (one, other) = in_memory::pair();
        (Peer::spawn(one), Peer::spawn(other))
    };
    between(connect, times)
}

pub fn as_bytes(times: usize) -> Result<(), Failure> {
    let connect = || {
        let (one, other) = tokio::io::duplex(64 * 1024);
        (wire::peer_over_stream(one), wire::peer_over_stream(other))
    };
    between(connect, times)
}

fn between(connect: fn() -> (SpawnedPeer, SpawnedPeer), times: usize) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let (one, other) = connect();
        let listener = tokio::spawn(wire::echo(other.events));
        for _ in 0..times {
            let answer = one.peer.call("tools/call").params(wire::params()).await;
            answer.map_err(|error| Failure::client("the other peer", error))?;
        }
        drop((one, other.peer));
        listener.await.map_err(|error| Failure::client("the other peer", error))
    })
}

/// Calls over HTTP/1.1 to a minimal server in this process.
pub fn over_http(times: usize) -> Result<(), Failure> {
    let fail = |error| Failure::client("the HTTP server", error);
    runtime()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(respond_to_posts(stream));
            }
        });
        let url = Url::parse(&format!("http://{address}/mcp"))
            .map_err(|error| Failure::client("the URL", error))?;
        let settings = HttpSettings {
            user_agent: "swb-bench".to_owned(),
            proxies: ProxySettings::default(),
            extra_ca: Vec::new(),
            identity: None,
            connect_timeout: Duration::from_secs(5),
        };
        let client = HttpClient::new(&settings)
            .map_err(|error| Failure::client("the HTTP client", error))?;
        let client = Peer::spawn(StreamableHttpTransport::new(client, Target::new(url)));
        for _ in 0..times {
            let response = client.peer.call("tools/call").params(wire::params()).await;
            response.map_err(|error| Failure::client("the HTTP server", error))?;
        }
        server.abort();
        Ok(())
    })
}

/// Responds to every request on a connection with the request's id and a fixed result.
async fn respond_to_posts(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(16 * 1024);
    loop {
        buffer.clear();
        while !is_complete_request(&buffer) {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        let key = b"\"id\":";
        let id =
            memmem::rfind(&buffer, key).map_or(0, |at| leading_number(&buffer[at + key.len()..]));
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"x\"}}]}}}}"
        );
        let length = body.len();
        let response = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(response.as_bytes()).await?;
    }
}

/// Whether the buffer holds a head and the body whose length it states.
fn is_complete_request(buffer: &[u8]) -> bool {
    let key = b"content-length: ";
    let Some(head) = memmem::find(buffer, b"\r\n\r\n") else { return false };
    let head_and_break = buffer[..head].to_ascii_lowercase();
    let length = memmem::find(&head_and_break, key)
        .map_or(0, |at| leading_number(&buffer[at + key.len()..]));
    buffer.len() >= head + 4 + length
}

fn leading_number(text: &[u8]) -> usize {
    let digits = text.iter().take_while(|it| it.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

/// Resolved, checked, permitted, sent, bounded and recorded.
pub fn host_call(times: usize) -> Result<(), Failure> {
    let fail = |error| Failure::file(Path::new("a home"), error);
    let folder = tempfile::tempdir().map_err(fail)?;
    runtime()?.block_on(async {
        let in_process_host = InProcessHost::open(folder.path(), 2).await.map_err(fail)?;
        for _ in 0..times {
            in_process_host.call().await;
        }
        in_process_host.close().await;
        Ok(())
    })
}
