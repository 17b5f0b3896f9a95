//! Roles in which this program starts itself: watchdog of server processes, supervisor of a command, shared host, and
//! PDF reader.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use switchboard::wire::process::child::{Program, WatchdogProgram};
use switchboard_builtin::workspace::formats::pdf_text;

use crate::output::report;

/// The argument that selects the watchdog role.
const WATCHDOG_ARGUMENT: &str = "__guard";

/// The argument that selects the supervisor role.
const SUPERVISOR_ARGUMENT: &str = "__supervise";

/// The argument that selects the PDF reader role.
const PDF_READER_ARGUMENT: &str = "__pdf";

/// The argument that selects the role of the shared host; the folder of its socket follows.
pub const SHARED_HOST_ARGUMENT: &str = "__host";

/// The folder of the shared host that this process is, if it is one.
pub fn shared_host_folder() -> Option<PathBuf> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(word) if word == SHARED_HOST_ARGUMENT => arguments.next().map(PathBuf::from),
        Some(_) | None => None,
    }
}

/// The owner to watch, if this process is a watchdog.
pub fn watchdog_owner() -> Option<String> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next() {
        Some(word) if word == WATCHDOG_ARGUMENT => arguments.next(),
        Some(_) | None => None,
    }
}

/// The command to run, if this process is its supervisor.
pub fn supervised_command() -> Option<Vec<OsString>> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(word) if word == SUPERVISOR_ARGUMENT => Some(arguments.collect()),
        Some(_) | None => None,
    }
}

/// The command that starts a watchdog or a supervisor: this program.
pub fn watchdog_program() -> Option<WatchdogProgram> {
    let program = std::env::current_exe().ok()?;
    Some(WatchdogProgram {
        command: program.into(),
        args: vec![WATCHDOG_ARGUMENT.into()],
        supervisor_args: vec![SUPERVISOR_ARGUMENT.into()],
    })
}

/// The command that starts a PDF reader: this program.
pub fn pdf_reader_program() -> Option<Program> {
    let program = std::env::current_exe().ok()?;
    Some(Program {
        command: program.into(),
        args: vec![PDF_READER_ARGUMENT.into()],
        env: Vec::new(),
        cwd: None,
    })
}

/// Is this process a PDF reader?
pub fn is_pdf_reader() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == PDF_READER_ARGUMENT)
}

/// Reads a PDF from standard input and writes its text to standard output.
pub fn read_pdf() -> ExitCode {
    match pdf_text::run_pdf_reader(std::io::stdin().lock(), std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::print_stderr(&format!("{error}\n"));
            ExitCode::FAILURE
        }
    }
}
