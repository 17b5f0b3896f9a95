//! `swb logs`: what a server said on standard error, and what became of its connections.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use switchboard::config::display::printable;
use switchboard::storage::stderr_log;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::report;
use crate::output::report::StdoutState;

/// How often a log that is followed is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The most that is read at once.
const MAX_READ: u64 = 1024 * 1024;

/// Arguments of `swb logs`.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// The server's name
    pub name: String,
    /// Stay, and show what comes
    #[arg(long, short)]
    pub follow: bool,
    /// How many of the last lines; all with 0
    #[arg(long, short = 'n', default_value_t = 200)]
    pub lines: usize,
}

/// Runs the command.
pub fn run(arguments: &LogsArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    let files = stderr_log::files(&session.env.paths.logs(), &arguments.name);
    let is_there = files.iter().any(|file| file.exists());
    if !is_there {
        let configuration = session.load()?;
        if configuration.effective.winner(&arguments.name).is_none() {
            return Err(session.not_found(&configuration, &arguments.name));
        }
    }
    let text = read_files(&files)?;
    let last = last_lines(&text, arguments.lines);
    if session.wants_json() {
        let lines: Vec<&str> = last.lines().collect();
        return Ok(super::json_output(&json!({"name": arguments.name, "lines": lines})));
    }
    let shown = escaped(last);
    if arguments.follow {
        let _reader = report::print_stdout(&shown);
        return follow(&files[1]);
    }
    let done = CommandOutput::text(shown);
    Ok(match is_there {
        true => done,
        false => done.note(format!(
            "nothing yet: `{0}` has not been started; swb ping {0} starts it\n",
            printable(&arguments.name)
        )),
    })
}

/// Both files, the older first. A file that is being replaced is read as far as it goes.
fn read_files(files: &[std::path::PathBuf; 2]) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    for file in files {
        match std::fs::read(file) {
            Ok(more) => bytes.extend(more),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Failure::new(Exit::Failure, "the log cannot be read").caused_by(error));
            }
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_lines(text: &str, count: usize) -> &str {
    if count == 0 {
        return text;
    }
    let body = text.strip_suffix('\n').unwrap_or(text);
    match body.rmatch_indices('\n').nth(count - 1) {
        Some((at, _)) => &text[at + 1..],
        None => text,
    }
}

/// Nothing that a server says moves a cursor or changes a colour.
fn escaped(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => printable(line.trim_end_matches('\r')) + "\n",
            None => printable(line),
        })
        .collect()
}

/// Shows what is added, also after the file was replaced, until nobody reads any more.
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
        if report::print_stdout(&escaped(&String::from_utf8_lossy(&bytes))) == StdoutState::Closed {
            return Ok(CommandOutput::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_whole_lines() {
        for (count, expected) in [(0, "a\nb\nc\n"), (1, "c\n"), (2, "b\nc\n"), (9, "a\nb\nc\n")] {
            assert_eq!(last_lines("a\nb\nc\n", count), expected, "{count}");
        }
        assert_eq!(last_lines("a\nb", 1), "b");
        assert_eq!(last_lines("", 3), "");
    }

    #[test]
    fn what_a_server_says_moves_no_cursor() {
        assert_eq!(escaped("a\x1b[2Jb\r\nc"), format!("{}\nc", printable("a\x1b[2Jb")));
        assert!(!escaped("\x1b[2J").contains('\x1b'));
    }
}
