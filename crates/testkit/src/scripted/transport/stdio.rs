//! Runs a scripted server on stdio.

use std::io::{self, BufRead, Write};
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::http_body::{DRIP_BYTES, DRIP_PAUSE};
use super::process_quirks::{MAX_LIFETIME, apply_startup_quirks};
use crate::scripted::client_channel::{ClientChannel, Frame};
use crate::scripted::client_session::ClientSession;
use crate::scripted::protocol::Handshake;
use crate::scripted::quirk::Quirk;
use crate::scripted::script::{Era, Script};
use crate::scripted::server_state::{CRASH_EXIT_CODE, RunMode, ServerState};
use crate::scripted::taint;

/// How long waiting requests may take after stdin is closed.
const FINISH_GRACE: Duration = Duration::from_millis(20);
/// How often ready tasks are polled before that, so that a slow machine makes no difference.
const YIELDS_BEFORE_EXIT: usize = 100;
/// How long the output may take to be read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs a script on this process's stdio, and exits.
pub fn serve_stdio(script: Script) -> ! {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        apply_startup_quirks(&script);
        thread::sleep(Duration::from_millis(script.start_delay_ms));
        serve(script).await;
    });
    process::exit(0)
}

async fn serve(script: Script) {
    let ignores_close = script.has_quirk(&Quirk::IgnoresStdinClose);
    let server = ServerState::new(script, RunMode::StdioProgram);
    let (sender, frames) = mpsc::unbounded_channel();
    let is_slow = server.script.has_quirk(&Quirk::SlowDrip);
    let (done, written) = oneshot::channel();
    let taint = server.script.taint.clone();
    thread::spawn(move || {
        write_frames(frames, if is_slow { DRIP_BYTES } else { usize::MAX }, taint.as_deref());
        let _receiver_dropped = done.send(());
    });
    let mut lines = read_lines();
    let session = ClientSession::new(&server, ClientChannel::Direct(sender), Handshake::Pending);
    // In that era nothing ends the handshake.
    if let (Era::Modern, Some(channel)) = (server.script.era, &server.script.channel) {
        channel.start(session.standalone());
    }
    while let Some(mut line) = lines.recv().await {
        if let Some(taint) = &server.script.taint {
            line = taint::remove(line, taint);
        }
        session.receive_text(&line, &json!({}));
    }
    if ignores_close {
        tokio::time::sleep(MAX_LIFETIME).await;
    }
    finish_requests(&server, session, written).await;
}

/// Lets nearly finished responses be written.
async fn finish_requests(
    server: &Arc<ServerState>,
    session: Arc<ClientSession>,
    written: oneshot::Receiver<()>,
) {
    for _ in 0..YIELDS_BEFORE_EXIT {
        tokio::task::yield_now().await;
    }
    let idle = async {
        while server.in_flight() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let _grace_expired = timeout(FINISH_GRACE, idle).await;
    session.standalone().send(Frame::End);
    let _write_timed_out = timeout(WRITE_TIMEOUT, written).await;
}

/// Lines from stdin, read by a thread that blocks while the channel is full.
fn read_lines() -> mpsc::Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel(256);
    thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n') {
            match line {
                Ok(line) if line.trim_ascii().is_empty() => {}
                Ok(line) => {
                    if sender.blocking_send(line).is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    });
    lines
}

/// Writes frames to stdout in chunks.
fn write_frames(
    mut frames: mpsc::UnboundedReceiver<Frame>,
    chunk_size: usize,
    taint: Option<&str>,
) {
    let mut stdout = io::stdout().lock();
    while let Some(frame) = frames.blocking_recv() {
        let written = match frame {
            Frame::Message(mut bytes) => {
                if let Some(taint) = taint {
                    bytes = taint::insert(bytes, taint);
                }
                bytes.push(b'\n');
                write_chunks(&mut stdout, &bytes, chunk_size)
            }
            Frame::Truncated(bytes) => {
                write_chunks(&mut stdout, &bytes[..bytes.len() / 2], chunk_size)
            }
            Frame::Disconnect => process::exit(CRASH_EXIT_CODE),
            Frame::End => return close_stdout().expect("standard output can be closed"),
        };
        if written.is_err() {
            return;
        }
    }
}

fn write_chunks(stdout: &mut impl Write, bytes: &[u8], chunk_size: usize) -> io::Result<()> {
    for part in bytes.chunks(chunk_size) {
        stdout.write_all(part)?;
        stdout.flush()?;
        if chunk_size < bytes.len() {
            thread::sleep(DRIP_PAUSE);
        }
    }
    Ok(())
}

/// Closes stdout; later output is discarded.
fn close_stdout() -> io::Result<()> {
    let dev_null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(dev_null)?;
    Ok(())
}
