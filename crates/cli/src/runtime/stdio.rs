//! Standard input and output as a transport to the parent process. Each has its own thread, because they may be
//! pipes, sockets, files or a terminal, which cannot all be polled.

use std::io::{Read, Write};
use std::time::Duration;

use switchboard::wire::transport::stdio::{DEFAULT_MAX_MESSAGE_SIZE, StdioTransport};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The size of a pipe's buffer.
const BUFFER_SIZE: usize = 64 * 1024;
/// How long the parent may take to read the last output.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Completes when all output is written.
#[derive(Debug)]
pub struct PendingOutput(oneshot::Receiver<()>);

/// The transport, and what to await after it is dropped. Must be called inside a runtime. The reader thread ends with
/// its input or with the process.
pub fn transport() -> std::io::Result<(StdioTransport<DuplexStream, DuplexStream>, PendingOutput)> {
    let (reader, writer, pending) = streams()?;
    Ok((StdioTransport::new(reader, writer, DEFAULT_MAX_MESSAGE_SIZE), pending))
}

/// Standard input and output as streams of bytes, and what to await after they are dropped. Must be called inside a
/// runtime. The reader thread ends with its input or with the process.
pub fn streams() -> std::io::Result<(DuplexStream, DuplexStream, PendingOutput)> {
    let (reader, to_transport) = tokio::io::duplex(BUFFER_SIZE);
    let (writer, from_transport) = tokio::io::duplex(BUFFER_SIZE);
    let (done, written) = oneshot::channel();
    let (reading, writing) = (Handle::current(), Handle::current());
    std::thread::Builder::new().name("standard input".to_owned()).spawn(move || {
        read_stdin(&reading, to_transport);
    })?;
    std::thread::Builder::new().name("standard output".to_owned()).spawn(move || {
        write_stdout(&writing, from_transport);
        let _receiver_gone = done.send(());
    })?;
    Ok((reader, writer, PendingOutput(written)))
}

impl PendingOutput {
    /// Waits until all output is written, with a timeout.
    pub async fn wait(self) {
        let _time_up = timeout(FLUSH_TIMEOUT, self.0).await;
    }
}

fn read_stdin(runtime: &Handle, mut to_transport: DuplexStream) {
    let mut input = std::io::stdin().lock();
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        match input.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if runtime.block_on(to_transport.write_all(&buffer[..count])).is_err() {
                    return;
                }
            }
        }
    }
}

fn write_stdout(runtime: &Handle, mut from_transport: DuplexStream) {
    let mut output = std::io::stdout().lock();
    let mut buffer = vec![0; BUFFER_SIZE];
    while let Ok(count @ 1..) = runtime.block_on(from_transport.read(&mut buffer)) {
        if output.write_all(&buffer[..count]).and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}
