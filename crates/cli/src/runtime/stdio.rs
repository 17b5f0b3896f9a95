//! Standard input and output as a link to whoever started us: one message a line. Each has a thread of its own, since
//! neither can be asked whether it is ready: they may be pipes, sockets, files or a terminal.

use std::io::{Read, Write};
use std::time::Duration;

use switchboard::wire::transport::stdio::{DEFAULT_MAX_MESSAGE_SIZE, StdioTransport};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// As much as a pipe holds.
const BUFFER_SIZE: usize = 64 * 1024;
/// How long whoever reads us may take with what is left at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// What waits for the last words to be out.
#[derive(Debug)]
pub struct PendingOutput(oneshot::Receiver<()>);

/// The link, and what to wait for once it is dropped. Must be called inside a runtime. The thread that reads ends
/// with its input, or with the process.
pub fn transport() -> std::io::Result<(StdioTransport<DuplexStream, DuplexStream>, PendingOutput)> {
    let (reader, to_transport) = tokio::io::duplex(BUFFER_SIZE);
    let (writer, from_transport) = tokio::io::duplex(BUFFER_SIZE);
    let (done, written) = oneshot::channel();
    let (reading, writing) = (Handle::current(), Handle::current());
    std::thread::Builder::new().name("standard input".to_owned()).spawn(move || {
        read_stdin(&reading, to_transport);
    })?;
    std::thread::Builder::new().name("standard output".to_owned()).spawn(move || {
        write_stdout(&writing, from_transport);
        let _nobody_waits = done.send(());
    })?;
    Ok((StdioTransport::new(reader, writer, DEFAULT_MAX_MESSAGE_SIZE), PendingOutput(written)))
}

impl PendingOutput {
    /// Waits until everything is out, but not for a reader that does not read.
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
