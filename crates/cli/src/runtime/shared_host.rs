//! The process of the shared host: this program in another role. It reads no configuration; clients tell it what to
//! run.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use switchboard::StderrLog;
use switchboard::sharing::share::host::{HostOptions, run};
use switchboard::sharing::share::socket::HostFolder;
use switchboard::wire::process::child;
use tracing::error;

use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::options::GlobalOptions;
use crate::log::{self, LogContext};
use crate::outcome::Failure;
use crate::output::report::{self, FailureFormat};
use crate::runtime::interrupts::Interrupts;
use crate::runtime::subprocess::watchdog_program;

/// How long the host stays without a server.
const LINGER: Duration = Duration::from_secs(60);

/// Runs the shared host of a folder. Its standard input is the lock that it holds.
pub fn serve(folder: PathBuf, env: ProcessEnv) -> ExitCode {
    let outcome = serve_folder(folder, env);
    if let Err(failure) = &outcome {
        error!(message = failure.message, "the shared host failed");
    }
    let outcome = outcome.map(|()| crate::outcome::CommandOutput::default());
    ExitCode::from(report::print_outcome(outcome, FailureFormat::Text).code())
}

fn serve_folder(folder: PathBuf, env: ProcessEnv) -> Result<(), Failure> {
    let failed = |error| Failure::new(Exit::Failure, "the shared host failed").caused_by(error);
    // The terminal of the client that started it must not end it.
    let _already_leader = rustix::process::setsid();
    child::raise_file_limit();
    let global =
        GlobalOptions { log_file: Some(env.paths.shared_host_log()), ..GlobalOptions::default() };
    let invocation = Invocation::new(env, global);
    let log = log::start(&invocation, LogContext::Command)?;
    let folder = HostFolder::open(&folder)
        .map_err(|error| Failure::new(Exit::Failure, "the shared host failed").caused_by(error))?;
    let lock = std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    // One thread: messages change no thread on their way, and the host stays small.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime.map_err(failed)?.block_on(async {
        let cleanup = tokio::task::spawn_blocking(child::kill_orphans);
        let stderr_log = StderrLog::open(&invocation.env.paths.logs()).map_err(failed)?;
        let output = stderr_log.clone();
        let options = HostOptions {
            folder,
            lock,
            build: invocation.env.build.clone(),
            watchdog: watchdog_program(),
            // The task that writes the log ends with the output of the server.
            stderr_sink: Arc::new(move |server| output.sender(server).0),
            linger: LINGER,
        };
        let mut interrupts = Interrupts::listen();
        let served = run(options, interrupts.next()).await.map_err(failed);
        let _panicked = cleanup.await;
        stderr_log.flush().await;
        served
    });
    log.finish();
    served
}
