//! Standard input and output as a link to whoever started us: one message a line. Each has a thread of its own, since
//! neither can be asked whether it is ready: they may be pipes, sockets, files or a terminal.

use std::io::{Read, Write};
use std::time::Duration;

use switchboard::wire::lines::{LARGEST_MESSAGE, LineLink};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// As much as a pipe holds.
const SIZE: usize = 64 * 1024;
/// How long whoever reads us may take with what is left at the end.
const PATIENCE: Duration = Duration::from_secs(1);

/// What waits for the last words to be out.
#[derive(Debug)]
pub struct Written(oneshot::Receiver<()>);

/// The link, and what to wait for once it is dropped. Must be called inside a runtime. The thread that reads ends
/// with its input, or with the process.
pub fn link() -> std::io::Result<(LineLink<DuplexStream, DuplexStream>, Written)> {
    let (reader, to_link) = tokio::io::duplex(SIZE);
    let (writer, from_link) = tokio::io::duplex(SIZE);
    let (done, written) = oneshot::channel();
    let (reading, writing) = (Handle::current(), Handle::current());
    std::thread::Builder::new().name("standard input".to_owned()).spawn(move || {
        take_in(&reading, to_link);
    })?;
    std::thread::Builder::new().name("standard output".to_owned()).spawn(move || {
        give_out(&writing, from_link);
        let _nobody_waits = done.send(());
    })?;
    Ok((LineLink::new(reader, writer, LARGEST_MESSAGE), Written(written)))
}

impl Written {
    /// Waits until everything is out, but not for a reader that does not read.
    pub async fn wait(self) {
        let _time_up = timeout(PATIENCE, self.0).await;
    }
}

fn take_in(runtime: &Handle, mut to_link: DuplexStream) {
    let mut input = std::io::stdin().lock();
    let mut buffer = vec![0; SIZE];
    loop {
        match input.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if runtime.block_on(to_link.write_all(&buffer[..count])).is_err() {
                    return;
                }
            }
        }
    }
}

fn give_out(runtime: &Handle, mut from_link: DuplexStream) {
    let mut output = std::io::stdout().lock();
    let mut buffer = vec![0; SIZE];
    while let Ok(count @ 1..) = runtime.block_on(from_link.read(&mut buffer)) {
        if output.write_all(&buffer[..count]).and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}
