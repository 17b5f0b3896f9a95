//! A process between us and a command: descendants of the command that lose their parents become its children (on
//! Linux, as a child subreaper), so it finds and kills all of them when the command ends.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, kill_process, setrlimit, wait,
};

use super::family::{Family, Recipients};
use super::program::Program;
use super::watchdog::WatchdogProgram;

/// The exit code when the command cannot be started, as in shells.
const NOT_STARTED: u8 = 127;

/// The main function of a supervisor: runs a command in a process group of its own, waits for it, kills all of its
/// descendants, and ends like the command. Returns the exit code.
pub fn run_supervisor(command: &[OsString]) -> u8 {
    become_subreaper();
    let Some((program, args)) = command.split_first() else { return NOT_STARTED };
    let Ok(child) = Command::new(program).args(args).process_group(0).spawn() else {
        return NOT_STARTED;
    };
    let Some(status) = wait_for(child.id()) else { return NOT_STARTED };
    loop {
        Family::find_children(std::process::id()).kill(Recipients::All);
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => break, // no child is left
        }
    }
    end_like(status)
}

/// Waits until a child exits. Also reaps the descendants that became children.
fn wait_for(child: u32) -> Option<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if u32::try_from(pid.as_raw_pid()) == Ok(child) => {
                return Some(status);
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Ends this process by the signal that ended the command, or returns the exit code.
fn end_like(status: WaitStatus) -> u8 {
    if let Some(number) = status.terminating_signal() {
        // The memory of this process is of no use to anyone.
        let _may_not = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        let own = i32::try_from(std::process::id()).ok().and_then(Pid::from_raw);
        if let (Some(own), Some(signal)) = (own, Signal::from_named_raw(number)) {
            let _ignored_signal = kill_process(own, signal);
        }
        return u8::try_from(128 + number).unwrap_or(NOT_STARTED);
    }
    let code = status.exit_status().and_then(|code| u8::try_from(code).ok());
    code.unwrap_or(NOT_STARTED)
}

#[cfg(target_os = "linux")]
fn become_subreaper() {
    // Refused only by systems without it; descendants that keep their parents are found there as well.
    let own = i32::try_from(std::process::id()).ok().and_then(Pid::from_raw);
    let _not_supported = rustix::process::set_child_subreaper(own);
}

#[cfg(not(target_os = "linux"))]
fn become_subreaper() {}

/// The command that runs a program below a supervisor. A program that does not exist is an error here: the
/// supervisor could report it only by its exit code.
pub(super) fn supervised_command(
    program: &Program,
    supervisor: &WatchdogProgram,
) -> io::Result<tokio::process::Command> {
    let path = program.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value);
    let command = find_program(Path::new(&program.command), path)?;
    let mut line = tokio::process::Command::new(&supervisor.command);
    line.args(&supervisor.supervisor_args).arg(command).args(&program.args);
    Ok(line)
}

fn find_program(command: &Path, path: Option<&OsString>) -> io::Result<OsString> {
    if command.components().count() > 1 {
        return Ok(command.into());
    }
    let is_runnable = |file: &Path| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    let folders = path.into_iter().flat_map(|path| path.as_bytes().split(|byte| *byte == b':'));
    let folders = folders.map(|folder| Path::new(OsStr::from_bytes(folder)));
    let found = folders.map(|folder| folder.join(command)).find(|file| is_runnable(file));
    found.map(OsString::from).ok_or_else(|| io::ErrorKind::NotFound.into())
}
