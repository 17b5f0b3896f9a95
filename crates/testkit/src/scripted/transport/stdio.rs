//! A program on standard streams, and how programs misbehave: what they print, how they end, whom they leave behind.

use std::io::{self, BufRead, Write};
use std::process::{self, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::http_body::{DRIP_BYTES, DRIP_PAUSE};
use super::network::{Transport, spawn_server};
use crate::scripted::client_channel::{ClientChannel, Frame};
use crate::scripted::client_session::ClientSession;
use crate::scripted::protocol::Initialized;
use crate::scripted::quirk::Quirk;
use crate::scripted::script::Script;
use crate::scripted::server_state::{CRASH_EXIT_CODE, RunMode, ServerState};
use crate::scripted::taint;

/// However stubborn a program is, it does not outlive the test by more than this.
const MAX_LIFETIME: Duration = Duration::from_secs(300);
/// How long requests that wait for something have to be answered after standard input was closed.
const FINISH_GRACE: Duration = Duration::from_millis(20);
/// How often those that wait for nothing are let go on before that, however slow the machine is.
const YIELDS_BEFORE_EXIT: usize = 100;
/// How long what was answered has to be taken.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// The argument that makes the program one that only lives on.
const GRANDCHILD_FLAG: &str = "--linger";
const GRANDCHILD_OWN_SESSION_FLAG: &str = "--linger-apart";

/// Plays a script on this process's standard streams, and ends the process.
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

/// Plays a script on a free port of this process, and says on standard output which. Does not come back.
pub fn serve_network(transport: Transport, script: Script) -> ! {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        apply_startup_quirks(&script);
        let running =
            spawn_server(transport, script, RunMode::NetworkProgram, 0).expect("a port can be had");
        println!("listening on {}", running.url());
        std::future::pending::<()>().await;
    });
    process::exit(0)
}

/// Does everything that a script wants done at the start of a program. Must be called inside a runtime.
fn apply_startup_quirks(script: &Script) {
    if script.has_quirk(&Quirk::IgnoresSigterm) {
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            let mut signals = signal(kind).expect("a signal can be listened for");
            tokio::spawn(async move { while signals.recv().await.is_some() {} });
        }
    }
    if let Some(taint) = &script.taint {
        eprintln!("this is said {taint} beside");
    }
    for quirk in &script.quirks {
        if let Quirk::StderrLines { n } = quirk {
            for number in 1..=*n {
                eprintln!("line {number} of {n}");
            }
        }
        if let Quirk::ForksGrandchildren { n } = quirk {
            let plain = std::iter::repeat_n(GRANDCHILD_FLAG, *n);
            plain.chain([GRANDCHILD_OWN_SESSION_FLAG]).for_each(spawn_grandchild);
        }
        if let Quirk::ExitsAtOnce { code } = quirk {
            process::exit(*code);
        }
    }
    if script.has_quirk(&Quirk::PrintsBeforeProtocol) {
        println!("{} is now listening on standard input!", script.name);
    }
}

/// Starts a process that holds our output streams open.
#[expect(clippy::zombie_processes, reason = "that nobody waits for them is what they are for")]
fn spawn_grandchild(argument: &str) {
    let own = std::env::current_exe().expect("a program knows itself");
    Command::new(own)
        .arg(argument)
        .stdin(Stdio::null())
        .spawn()
        .expect("the program can be started again");
}

/// Lives on and does nothing, if the argument says so.
pub fn run_if_grandchild(argument: &str) {
    if argument == GRANDCHILD_OWN_SESSION_FLAG {
        rustix::process::setsid().expect("a fresh process leads no group");
    }
    if [GRANDCHILD_FLAG, GRANDCHILD_OWN_SESSION_FLAG].contains(&argument) {
        thread::sleep(MAX_LIFETIME);
        process::exit(0);
    }
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
        let _nobody_waits = done.send(());
    });
    let mut lines = read_lines();
    let session = ClientSession::new(&server, ClientChannel::Direct(sender), Initialized::NotYet);
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

/// Lets answers that are nearly there be written.
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
    let _some_take_longer = timeout(FINISH_GRACE, idle).await;
    session.standalone().send(Frame::End);
    let _nobody_reads = timeout(WRITE_TIMEOUT, written).await;
}

/// Lines of standard input, read on a thread that waits while nobody takes them.
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

/// Writes frames to standard output, in pieces of a size.
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

/// Closes standard output; nothing we write from here on goes anywhere.
fn close_stdout() -> io::Result<()> {
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(nowhere)?;
    Ok(())
}
