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

use super::actor::{Actor, CRASHED, Life};
use super::carried::{Transport, run};
use super::conversation::Conversation;
use super::eras::Opened;
use super::event_stream::{DROP, PAUSE};
use super::outlet::{Frame, Outlet};
use super::taint;
use crate::quirk::Quirk;
use crate::script::Script;

/// However stubborn a program is, it does not outlive the test by more than this.
const STUBBORN: Duration = Duration::from_secs(300);
/// How long requests that wait for something have to be answered after standard input was closed.
const GRACE: Duration = Duration::from_millis(20);
/// How often those that wait for nothing are let go on before that, however slow the machine is.
const TURNS: usize = 100;
/// How long what was answered has to be taken.
const TAKEN: Duration = Duration::from_secs(2);
/// The argument that makes the program one that only lives on.
const LINGER: &str = "--linger";
const LINGER_APART: &str = "--linger-apart";

/// Plays a script on this process's standard streams, and ends the process.
pub fn serve_stdio(script: Script) -> ! {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        misbehave(&script);
        thread::sleep(Duration::from_millis(script.start_delay_ms));
        converse(script).await;
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
        misbehave(&script);
        let running = run(transport, script, Life::Network, 0).expect("a port can be had");
        println!("listening on {}", running.url());
        std::future::pending::<()>().await;
    });
    process::exit(0)
}

/// Does everything that a script wants done at the start of a program. Must be called inside a runtime.
fn misbehave(script: &Script) {
    if script.does(&Quirk::IgnoresSigterm) {
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
            let calm = std::iter::repeat_n(LINGER, *n);
            calm.chain([LINGER_APART]).for_each(leave_behind);
        }
        if let Quirk::ExitsAtOnce { code } = quirk {
            process::exit(*code);
        }
    }
    if script.does(&Quirk::PrintsBeforeProtocol) {
        println!("{} is now listening on standard input!", script.name);
    }
}

/// Starts a process that holds our output streams open.
#[expect(clippy::zombie_processes, reason = "that nobody waits for them is what they are for")]
fn leave_behind(argument: &str) {
    let own = std::env::current_exe().expect("a program knows itself");
    Command::new(own)
        .arg(argument)
        .stdin(Stdio::null())
        .spawn()
        .expect("the program can be started again");
}

/// Lives on and does nothing, if the argument says so.
pub fn linger(argument: &str) {
    if argument == LINGER_APART {
        rustix::process::setsid().expect("a fresh process leads no group");
    }
    if [LINGER, LINGER_APART].contains(&argument) {
        thread::sleep(STUBBORN);
        process::exit(0);
    }
}

async fn converse(script: Script) {
    let lives_on = script.does(&Quirk::IgnoresStdinClose);
    let actor = Actor::new(script, Life::Stdio);
    let (sender, frames) = mpsc::unbounded_channel();
    let drips = actor.script.does(&Quirk::SlowDrip);
    let (done, written) = oneshot::channel();
    let taint = actor.script.taint.clone();
    thread::spawn(move || {
        write(frames, if drips { DROP } else { usize::MAX }, taint.as_deref());
        let _nobody_waits = done.send(());
    });
    let mut lines = read();
    let conversation = Conversation::new(&actor, Outlet::Direct(sender), Opened::NotYet);
    while let Some(mut line) = lines.recv().await {
        if let Some(taint) = &actor.script.taint {
            line = taint::take_out(line, taint);
        }
        conversation.take_text(&line, &json!({}));
    }
    if lives_on {
        tokio::time::sleep(STUBBORN).await;
    }
    finish(&actor, conversation, written).await;
}

/// Lets answers that are nearly there be written.
async fn finish(
    actor: &Arc<Actor>,
    conversation: Arc<Conversation>,
    written: oneshot::Receiver<()>,
) {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
    let idle = async {
        while actor.busy() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let _some_take_longer = timeout(GRACE, idle).await;
    conversation.standing().send(Frame::Stop);
    let _nobody_reads = timeout(TAKEN, written).await;
}

/// Lines of standard input, read on a thread that waits while nobody takes them.
fn read() -> mpsc::Receiver<Vec<u8>> {
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
fn write(mut frames: mpsc::UnboundedReceiver<Frame>, piece: usize, taint: Option<&str>) {
    let mut stdout = io::stdout().lock();
    while let Some(frame) = frames.blocking_recv() {
        let written = match frame {
            Frame::Message(mut bytes) => {
                if let Some(taint) = taint {
                    bytes = taint::put_in(bytes, taint);
                }
                bytes.push(b'\n');
                write_pieces(&mut stdout, &bytes, piece)
            }
            Frame::Half(bytes) => write_pieces(&mut stdout, &bytes[..bytes.len() / 2], piece),
            Frame::Cut => process::exit(CRASHED),
            Frame::Stop => return close().expect("standard output can be closed"),
        };
        if written.is_err() {
            return;
        }
    }
}

fn write_pieces(stdout: &mut impl Write, bytes: &[u8], piece: usize) -> io::Result<()> {
    for part in bytes.chunks(piece) {
        stdout.write_all(part)?;
        stdout.flush()?;
        if piece < bytes.len() {
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Closes standard output; nothing we write from here on goes anywhere.
fn close() -> io::Result<()> {
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(nowhere)?;
    Ok(())
}
