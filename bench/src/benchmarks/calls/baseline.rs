//! The lower bound of every client: bytes to another process and back, without a protocol.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::load_request::{CallCost, LoadRequest};
use crate::child_server;
use crate::echo_server::raw_bytes::{MESSAGE_BYTES, SIZE_DIGITS};
use crate::failure::Failure;

/// Over the standard streams of a server that is started for it.
pub fn over_pipe(question: &LoadRequest) -> Result<CallCost, Failure> {
    let mut server = child_server::StdioServer::start(&question.target)?;
    question.measure(|calls| exchange(&mut server.output, &mut server.input, question, calls))
}

/// Over a connection to a listening server.
pub fn over_tcp(question: &LoadRequest) -> Result<CallCost, Failure> {
    let fail = |error| Failure::client("floor", error);
    let mut reader = TcpStream::connect(question.address()?).map_err(fail)?;
    reader.set_nodelay(true).map_err(fail)?;
    let mut writer = reader.try_clone().map_err(fail)?;
    question.measure(|calls| exchange(&mut reader, &mut writer, question, calls))
}

/// Sends as many messages as may be in flight, waits for all responses, and repeats.
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
