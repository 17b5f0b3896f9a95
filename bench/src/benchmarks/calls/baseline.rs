//! What nobody can be faster than: bytes to another process and back, with no protocol at all.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::load_request::{CallCost, LoadRequest};
use crate::child_server;
use crate::failure::Failure;

/// As long as a small call; the first bytes say how many are wanted back.
const MESSAGE_BYTES: usize = 100;
const SIZE_DIGITS: usize = 10;

/// Over the standard streams of a server that is started for it.
pub fn over_pipe(question: &LoadRequest) -> Result<CallCost, Failure> {
    let mut server = child_server::StdioServer::start(&question.target)?;
    question.measure(|calls| exchange(&mut server.output, &mut server.input, question, calls))
}

/// Over a connection to a server that listens.
pub fn over_tcp(question: &LoadRequest) -> Result<CallCost, Failure> {
    let fail = |error| Failure::client("floor", error);
    let mut reader = TcpStream::connect(question.address()?).map_err(fail)?;
    reader.set_nodelay(true).map_err(fail)?;
    let mut writer = reader.try_clone().map_err(fail)?;
    question.measure(|calls| exchange(&mut reader, &mut writer, question, calls))
}

/// Sends as many messages as may be in flight, waits for all their answers, and so on.
fn exchange(
    reader: &mut impl Read,
    writer: &mut impl Write,
    question: &LoadRequest,
    calls: usize,
) -> Result<Vec<Duration>, Failure> {
    let message =
        format!("{:0SIZE_DIGITS$}{}", question.size, "x".repeat(MESSAGE_BYTES - SIZE_DIGITS));
    let messages = message.repeat(question.in_flight);
    let mut answers = vec![0; (question.size * question.in_flight).min(1 << 20)];
    let mut times = Vec::with_capacity(calls);
    while times.len() < calls {
        let batch = question.in_flight.min(calls - times.len());
        let start = Instant::now();
        let mut one_batch = || -> io::Result<()> {
            writer.write_all(&messages.as_bytes()[..batch * MESSAGE_BYTES])?;
            let mut left = batch * question.size;
            while left > 0 {
                let room = left.min(answers.len());
                match reader.read(&mut answers[..room])? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => left -= count,
                }
            }
            Ok(())
        };
        one_batch().map_err(|error| Failure::client("floor", error))?;
        times.resize(times.len() + batch, start.elapsed());
    }
    Ok(times)
}

/// The other side: sends what each message wants, until there are no more.
pub fn serve_bytes(reader: &mut impl Read, writer: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let mut filled = 0;
    let mut out = Vec::new();
    loop {
        let count = reader.read(&mut buffer[filled..])?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
        let whole = filled / MESSAGE_BYTES * MESSAGE_BYTES;
        out.clear();
        for message in buffer[..whole].chunks(MESSAGE_BYTES) {
            let digits = std::str::from_utf8(&message[..SIZE_DIGITS]).unwrap_or_default();
            out.resize(out.len() + digits.parse::<usize>().unwrap_or(0), b'x');
            // Sent on the way, so that large answers do not pile up.
            if out.len() >= 1 << 20 {
                writer.write_all(&out)?;
                out.clear();
            }
        }
        writer.write_all(&out)?;
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

/// [`pong`] for one client after the other; prints its address first.
pub fn serve_tcp() -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?);
    io::stdout().flush()?;
    for stream in listener.incoming() {
        let mut reader = stream?;
        reader.set_nodelay(true)?;
        let mut writer = reader.try_clone()?;
        // A client that leaves in the middle is none of the next one's business.
        let _gone = serve_bytes(&mut reader, &mut writer);
    }
    Ok(())
}
