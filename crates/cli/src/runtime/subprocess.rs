//! Jobs that this program does when it starts itself: the watchdog of server processes, and the reader of one PDF.

use std::process::ExitCode;

use switchboard::wire::process::child::{Program, WatchdogProgram};
use switchboard_builtin::workspace::formats::pdf_text;

use crate::output::report;

/// The word that makes this program a guard. Nobody types it.
const WATCHDOG_ARGUMENT: &str = "__guard";

/// The word that makes this program a reader of one PDF. Nobody types it.
const PDF_READER_ARGUMENT: &str = "__pdf";

/// Whom to guard, where this program was started to do so.
pub fn watchdog_owner() -> Option<String> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next() {
        Some(word) if word == WATCHDOG_ARGUMENT => arguments.next(),
        Some(_) | None => None,
    }
}

/// How to start a guard: this program once more.
pub fn watchdog_program() -> Option<WatchdogProgram> {
    let program = std::env::current_exe().ok()?;
    Some(WatchdogProgram { command: program.into(), args: vec![WATCHDOG_ARGUMENT.into()] })
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

/// Was this program started to read a PDF?
pub fn is_pdf_reader() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == PDF_READER_ARGUMENT)
}

/// Reads the PDF on standard input and writes its text; that is all this process does.
pub fn read_pdf() -> ExitCode {
    match pdf_text::run_pdf_reader(std::io::stdin().lock(), std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::print_stderr(&format!("{error}\n"));
            ExitCode::FAILURE
        }
    }
}
