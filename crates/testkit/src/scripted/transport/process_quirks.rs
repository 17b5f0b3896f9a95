//! Quirks of a scripted server that is a process: its output, its signals and its descendants.

use std::process::{self, Command, Stdio};
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::scripted::quirk::Quirk;
use crate::scripted::script::Script;

/// The maximum lifetime of a stubborn program.
pub(super) const MAX_LIFETIME: Duration = Duration::from_secs(300);
/// The arguments that turn the program into a grandchild that only keeps running.
const GRANDCHILD_FLAG: &str = "--linger";
const GRANDCHILD_OWN_SESSION_FLAG: &str = "--linger-apart";

/// Applies the quirks of a process at its start. Must run inside a runtime.
pub(super) fn apply_startup_quirks(script: &Script) {
    if script.has_quirk(&Quirk::IgnoresSigterm) {
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            let mut signals = signal(kind).expect("a signal can be listened for");
            tokio::spawn(async move { while signals.recv().await.is_some() {} });
        }
    }
    if let Some(taint) = &script.taint {
        eprintln!("a line {taint} on stderr");
    }
    for quirk in &script.quirks {
        if let Quirk::StderrLines { n } = quirk {
            for number in 1..=*n {
                eprintln!("line {number} of {n}");
            }
        }
        if let Quirk::ForksGrandchildren { n } = quirk {
            let ordinary = std::iter::repeat_n(GRANDCHILD_FLAG, *n);
            ordinary.chain([GRANDCHILD_OWN_SESSION_FLAG]).for_each(spawn_grandchild);
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
#[expect(clippy::zombie_processes, reason = "they are meant to outlive this process")]
fn spawn_grandchild(argument: &str) {
    let program = std::env::current_exe().expect("a program knows itself");
    Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .spawn()
        .expect("the program can be started again");
}

/// Sleeps and exits if the argument is a grandchild flag.
pub fn run_if_grandchild(argument: &str) {
    if argument == GRANDCHILD_OWN_SESSION_FLAG {
        rustix::process::setsid().expect("a fresh process leads no group");
    }
    if [GRANDCHILD_FLAG, GRANDCHILD_OWN_SESSION_FLAG].contains(&argument) {
        thread::sleep(MAX_LIFETIME);
        process::exit(0);
    }
}
