//! Every decoder with malformed input: nothing panics, hangs or grows without bound.
//! The inputs follow from a seed, so a failure is reproducible. `SWB_FUZZ_ROUNDS` sets their number.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use switchboard_wire::http::client::{HttpClient, HttpSettings, ProxySettings, Target};
use switchboard_wire::http::sse_decoder::SseDecoder;
use switchboard_wire::jsonrpc::message;
use switchboard_wire::peer::Peer;
use switchboard_wire::transport::Transport;
use switchboard_wire::transport::http_sse_2024::HttpSseTransport;
use switchboard_wire::transport::stdio::StdioTransport;
use switchboard_wire::transport::streamable_http::StreamableHttpTransport;
use switchboard_wire::transport::websocket::WebSocketTransport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

const LIMIT: usize = 4096;
/// How long one input may take before it counts as a hang.
const HANG_TIMEOUT: Duration = Duration::from_secs(10);

/// A deterministic pseudo-random generator.
struct SeededRng(u64);

impl SeededRng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).expect("it is below a size")
    }

    /// One of the samples with some mutations.
    fn mutated(&mut self, samples: &[&[u8]]) -> Vec<u8> {
        let mut bytes = samples[self.below(samples.len())].to_vec();
        for _ in 0..self.below(6) {
            let at = self.below(bytes.len() + 1);
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, u8::try_from(self.below(256)).expect("a byte")),
                2 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                3 => {
                    let other = samples[self.below(samples.len())];
                    let tail = bytes.split_off(at);
                    bytes.extend_from_slice(other);
                    bytes.extend(tail);
                }
                4 => {
                    let again = bytes[..at].to_vec();
                    bytes.extend(again);
                }
                _ => bytes.extend(std::iter::repeat_n(b'[', self.below(200))),
            }
        }
        bytes
    }
}

fn iterations(default_count: u64) -> u64 {
    std::env::var("SWB_FUZZ_ROUNDS").ok().and_then(|it| it.parse().ok()).unwrap_or(default_count)
}

const MESSAGES: &[&[u8]] = &[
    br#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","x":[1.5e300,null,true]}]}}"#,
    br#"{"jsonrpc":"2.0","id":"x\u00e9","method":"roots/list","params":{"_meta":{"progressToken":7}}}"#,
    br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"1","progress":0.5}}"#,
    br#"{"jsonrpc":"2.0","id":-1,"error":{"code":-32601,"message":"no \"such\" method","data":[{}]}}"#,
    br#"[{"id":1,"result":null},{"method":"x"},5,"\ud800"]"#,
    b"{\"id\":18446744073709551616,\"result\":\"\\u0000\\n\"}",
    b"\xff\xfe{\"id\":1}\x00",
];

const STREAMS: &[&[u8]] = &[
    b"event: message\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
    b"\xef\xbb\xbf: comment\r\nretry: 10\r\ndata: a\r\ndata: b\r\n\r\n",
    b"event: endpoint\ndata: /messages?session=1\n\n",
    b"id: \x00\ndata\ndata:\n\nretry: -1\n\n",
    b"data: {\r\rdata: }\n\n\n\n",
];

#[test]
fn any_bytes_are_messages_or_are_not() {
    let mut rng = SeededRng(0x5eed_0001);
    for _ in 0..iterations(20_000) {
        let bytes = Bytes::from(rng.mutated(MESSAGES));
        let Ok(messages) = message::parse(&bytes) else { continue };
        // A parsed message can be written and parsed again.
        let message::Messages::One(message) = messages else { continue };
        let mut written = Vec::new();
        message.write_to(&mut written);
        assert!(!written.contains(&b'\n'));
        message::parse(&Bytes::from(written)).expect("what we write we can read");
    }
}

#[tokio::test]
async fn any_bytes_may_come_over_a_stream_of_lines() {
    let mut rng = SeededRng(0x5eed_0002);
    for _ in 0..iterations(2_000) {
        let (reader, mut writer) = tokio::io::duplex(512);
        let mut transport = StdioTransport::new(reader, tokio::io::sink(), LIMIT);
        let mut bytes = Vec::new();
        for _ in 0..rng.below(4) {
            bytes.extend(rng.mutated(MESSAGES));
            bytes.push(b'\n');
        }
        let feed = async move {
            let _link_gave_up = writer.write_all(&bytes).await;
        };
        let drain = async move { while transport.next().await.is_ok() {} };
        timeout(HANG_TIMEOUT, async { tokio::join!(feed, drain) }).await.expect("it ends");
    }
}

#[test]
fn any_bytes_may_come_as_events() {
    let mut rng = SeededRng(0x5eed_0003);
    for _ in 0..iterations(20_000) {
        let bytes = rng.mutated(STREAMS);
        let mut decoder = SseDecoder::new(LIMIT);
        for chunk in bytes.chunks(1 + rng.below(40)) {
            decoder.feed(Bytes::copy_from_slice(chunk));
            while let Some(Ok(event)) = decoder.next() {
                assert!(event.data.len() <= LIMIT);
            }
        }
    }
}

/// A server that sends bytes from a seeded generator on every connection.
async fn hostile_server(
    seed: u64,
    answers: &'static [&'static [u8]],
) -> (u16, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
    let port = listener.local_addr().expect("it listens").port();
    let task = tokio::spawn(async move {
        let mut rng = SeededRng(seed);
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = rng.mutated(answers);
            let mut received = [0; 2048];
            let _gone = timeout(Duration::from_secs(1), stream.read(&mut received)).await;
            let _gone = stream.write_all(&answer).await;
            let _gone = stream.shutdown().await;
        }
    });
    (port, task)
}

fn http_client() -> HttpClient {
    HttpClient::new(&HttpSettings {
        user_agent: "fuzz".to_owned(),
        proxies: ProxySettings::default(),
        extra_ca: Vec::new(),
        identity: None,
        connect_timeout: Duration::from_secs(5),
    })
    .expect("there is a way out")
}

fn target(scheme: &str, port: u16) -> Target {
    let url = format!("{scheme}://127.0.0.1:{port}/mcp").parse().expect("a URL");
    Target::new(url).headers(HeaderMap::new()).max_message_size(LIMIT)
}

/// Sends a request and waits for any outcome.
async fn send_one(transport: impl Transport) {
    let connection = Peer::spawn(transport);
    let call = connection.peer.call("initialize").timeout(Duration::from_secs(1));
    let _whatever = timeout(HANG_TIMEOUT, call).await.expect("a call ends in time");
    drop((connection.peer, connection.events));
    timeout(HANG_TIMEOUT, connection.task)
        .await
        .expect("the link lets go")
        .expect("without a panic");
}

const HTTP: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: 1\r\ncontent-length: 36\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nid: 1\ndata: {\"id\":1,\"result\":{}}\n\n",
    b"HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer x=\"\xff\"\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 307 Temporary Redirect\r\nlocation: //\x20\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\n5\r\n{\"id\"\r\nfffffffffffffffff\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: x\r\n\r\n\x81\x05hello\x88\x80",
];

#[tokio::test]
async fn any_bytes_over_streamable_http_end_the_call() {
    let (port, server) = hostile_server(0x5eed_0004, HTTP).await;
    let http_client = http_client();
    for _ in 0..iterations(150) {
        send_one(StreamableHttpTransport::new(http_client.clone(), target("http", port))).await;
    }
    server.abort();
}

#[tokio::test]
async fn any_bytes_over_http_sse_2024_end_the_call() {
    let (port, server) = hostile_server(0x5eed_0005, HTTP).await;
    let http_client = http_client();
    for _ in 0..iterations(150) {
        send_one(HttpSseTransport::new(http_client.clone(), target("http", port))).await;
    }
    server.abort();
}

#[tokio::test]
async fn any_bytes_over_a_websocket_end_the_call() {
    let (port, server) = hostile_server(0x5eed_0006, HTTP).await;
    let http_client = http_client();
    for _ in 0..iterations(150) {
        send_one(WebSocketTransport::new(http_client.clone(), target("ws", port))).await;
    }
    server.abort();
}
