//! A program that starts programs, and its own watchdog and supervisor. Tests run it and kill it.
//!
//! `process_roles own SCRIPT` runs a shell script as a server without a cgroup, with a watchdog, until it is killed.

use std::env;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use switchboard_wire::process::{
    CgroupUse, ProcessOptions, Program, Watchdog, WatchdogProgram, run_supervisor, run_watchdog,
    spawn,
};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    match arguments.split_first() {
        Some((role, [owner])) if role == "watch" => {
            run_watchdog(io::stdin(), &owner.to_string_lossy());
            ExitCode::SUCCESS
        }
        Some((role, command)) if role == "supervise" => ExitCode::from(run_supervisor(command)),
        Some((role, [script])) if role == "own" => {
            own(script).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
        }
        Some(_) | None => ExitCode::FAILURE,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn own(script: &OsString) -> io::Result<()> {
    let watchdog = Watchdog::start(&WatchdogProgram {
        command: env::current_exe()?.into(),
        args: vec!["watch".into()],
        supervisor_args: vec!["supervise".into()],
    })?;
    let program = Program {
        command: "sh".into(),
        args: vec!["-c".into(), script.clone()],
        env: vec![("PATH".into(), env::var_os("PATH").unwrap_or_default())],
        cwd: Some(env::current_dir()?),
    };
    let options = ProcessOptions {
        watchdog: Some(watchdog),
        cgroups: CgroupUse::Never,
        ..ProcessOptions::default()
    };
    let _running = spawn(&program, &options).map_err(|error| error.source)?;
    std::future::pending().await
}
