//! A minimal hand-written client for these calls only: `serde_json` over pipes, and hyper. Both locate the result
//! without decoding it, as ours does.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use url::Url;

use super::load_request::{CallCost, LoadRequest, share};
use crate::child_server::StdioServer;
use crate::failure::Failure;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"hand","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

#[derive(Deserialize)]
struct Response<'a> {
    id: u64,
    #[serde(borrow)]
    result: &'a RawValue,
}

fn write_call(out: &mut Vec<u8>, id: u64, size: usize) -> io::Result<()> {
    write!(
        out,
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"size":{size}}}}}}}"#
    )
}

/// Fails unless this is the response to that call.
fn verify(body: &[u8], id: u64) -> io::Result<()> {
    let answer: Response = serde_json::from_slice(body)?;
    std::hint::black_box(answer.result.get());
    if answer.id == id { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// One thread, blocking reads and writes.
pub fn over_stdio(question: &LoadRequest) -> Result<CallCost, Failure> {
    let server = StdioServer::start(&question.target)?;
    let mut client = StdioClient { server, buffer: Vec::new(), filled: 0, consumed: 0, next: 1 };
    let fail = |error| Failure::client("by hand", error);
    client.initialize().map_err(fail)?;
    question.measure(|calls| client.run(question, calls).map_err(fail))
}

struct StdioClient {
    server: StdioServer,
    buffer: Vec<u8>,
    filled: usize,
    /// The number of bytes of the buffer that have been scanned.
    consumed: usize,
    next: u64,
}

impl StdioClient {
    fn initialize(&mut self) -> io::Result<()> {
        self.server.input.write_all(format!("{INITIALIZE}\n{INITIALIZED}\n").as_bytes())?;
        self.line().map(|_| ())
    }

    /// Keeps this number of calls in flight. The echo server responds in order.
    fn run(&mut self, question: &LoadRequest, calls: usize) -> io::Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(calls);
        let mut begun = Vec::with_capacity(calls);
        let mut out = Vec::new();
        while times.len() < calls {
            // New calls are sent only after all received responses have been taken.
            while begun.len() < calls && begun.len() - times.len() < question.in_flight {
                write_call(&mut out, self.next, question.size)?;
                out.push(b'\n');
                self.next += 1;
                begun.push(Instant::now());
            }
            self.server.input.write_all(&out)?;
            out.clear();
            loop {
                let id = self.next - (begun.len() - times.len()) as u64;
                let (start, end) = self.line()?;
                verify(&self.buffer[start..end], id)?;
                times.push(begun[times.len()].elapsed());
                let more = memchr(b'\n', &self.buffer[self.consumed..self.filled]);
                if more.is_none() || times.len() == begun.len() {
                    break;
                }
            }
        }
        Ok(times)
    }

    /// The range of the next line in the buffer, once it has arrived.
    fn line(&mut self) -> io::Result<(usize, usize)> {
        let mut looked_at = self.consumed;
        loop {
            if let Some(length) = memchr(b'\n', &self.buffer[looked_at..self.filled]) {
                let (start, end) = (self.consumed, looked_at + length);
                self.consumed = end + 1;
                return Ok((start, end));
            }
            self.buffer.copy_within(self.consumed..self.filled, 0);
            self.filled -= self.consumed;
            self.consumed = 0;
            looked_at = self.filled;
            if self.buffer.len() - self.filled < 64 * 1024 {
                self.buffer.resize((self.buffer.len() * 2).max(128 * 1024), 0);
            }
            match self.server.output.read(&mut self.buffer[self.filled..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.filled += count,
            }
        }
    }
}

/// One connection per call in flight, as HTTP/1.1 requires.
pub fn over_http(question: &LoadRequest) -> Result<CallCost, Failure> {
    let fail = |error: BoxError| Failure::client("by hand", error);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| fail(error.into()))?;
    let address = Url::parse(question.address()?).map_err(|error| fail(error.into()))?;
    let mut senders = runtime.block_on(connect(&address, question.in_flight)).map_err(fail)?;
    question.measure(|calls| {
        let size = question.size;
        runtime.block_on(async {
            let callers = senders.drain(..).enumerate().map(|(number, sender)| {
                let calls = share(calls, question.in_flight, number);
                tokio::spawn(make_calls(sender, address.clone(), size, calls))
            });
            let mut times = Vec::with_capacity(calls);
            let mut back = Vec::new();
            for caller in callers.collect::<Vec<_>>() {
                let (sender, some) =
                    caller.await.map_err(|error| fail(error.into()))?.map_err(fail)?;
                back.push(sender);
                times.extend(some);
            }
            senders.extend(back);
            Ok(times)
        })
    })
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Sender = SendRequest<Full<Bytes>>;

async fn connect(address: &Url, connections: usize) -> Result<Vec<Sender>, BoxError> {
    let mut senders = Vec::new();
    for number in 0..connections {
        let host = address.host_str().unwrap_or_default();
        let stream = TcpStream::connect((host, address.port().unwrap_or(80))).await?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Ends when its sender is dropped.
        tokio::spawn(connection);
        if number == 0 {
            post(&mut sender, address, INITIALIZE.into()).await?;
            post(&mut sender, address, INITIALIZED.into()).await?;
        }
        senders.push(sender);
    }
    Ok(senders)
}

async fn post(sender: &mut Sender, address: &Url, body: Bytes) -> Result<Bytes, BoxError> {
    let request = Request::post(address.path())
        .header("host", address.authority())
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(Full::new(body))?;
    sender.ready().await?;
    Ok(sender.send_request(request).await?.into_body().collect().await?.to_bytes())
}

async fn make_calls(
    mut sender: Sender,
    address: Url,
    size: usize,
    calls: usize,
) -> Result<(Sender, Vec<Duration>), BoxError> {
    let mut times = Vec::with_capacity(calls);
    for id in 1..=calls as u64 {
        let start = Instant::now();
        let mut call = Vec::with_capacity(128);
        write_call(&mut call, id, size)?;
        let body = post(&mut sender, &address, call.into()).await?;
        verify(&body, id)?;
        times.push(start.elapsed());
    }
    Ok((sender, times))
}
