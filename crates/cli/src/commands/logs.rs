//! `swb logs`: prints the log of a server: its standard error, and events of its connection.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::report;
use crate::output::report::StdoutState;
use crate::runtime::server_log;

/// How often a followed log is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How many bytes are read at once.
const MAX_READ: u64 = 1024 * 1024;

/// Arguments of `swb logs`.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// The server's name
    pub name: String,
    /// Keep running and print new lines
    #[arg(long, short)]
    pub follow: bool,
    /// Show the last N lines; 0 shows all
    #[arg(long, short = 'n', default_value_t = 200)]
    pub lines: usize,
}

/// Runs the command.
pub fn run(arguments: &LogsArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let log = server_log::read(invocation, &arguments.name, arguments.lines)?;
    if invocation.wants_json() {
        let lines: Vec<&str> = log.text.lines().collect();
        return Ok(json_output(&json!({"name": arguments.name, "lines": lines})));
    }
    let shown = server_log::escaped(&log.text);
    if arguments.follow {
        let _reader = report::print_stdout(&shown);
        return follow(&log.current_file);
    }
    let done = CommandOutput::text(shown);
    Ok(match log.exists {
        true => done,
        false => done.note(server_log::empty_note(&arguments.name)),
    })
}

/// Prints new lines until the reader closes standard output. Starts over if the file is replaced.
fn follow(path: &Path) -> Result<CommandOutput, Failure> {
    let mut at = std::fs::metadata(path).map_or(0, |it| it.len());
    loop {
        std::thread::sleep(POLL_INTERVAL);
        let Ok(mut file) = File::open(path) else { continue };
        let size = file.metadata().map_or(0, |it| it.len());
        if size < at {
            at = 0;
        }
        if size == at || file.seek(SeekFrom::Start(at)).is_err() {
            continue;
        }
        let mut bytes = Vec::new();
        if file.take(MAX_READ).read_to_end(&mut bytes).is_err() {
            continue;
        }
        at += bytes.len() as u64;
        if report::print_stdout(&server_log::escaped(&String::from_utf8_lossy(&bytes)))
            == StdoutState::Closed
        {
            return Ok(CommandOutput::default());
        }
    }
}
