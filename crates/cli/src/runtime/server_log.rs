//! Reads the log of a server: its standard error, and events of its connection.

use std::path::PathBuf;

use switchboard::StderrLog;
use switchboard::config::display::printable;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;

/// The end of a server's log.
#[derive(Debug)]
pub struct ServerLog {
    /// The last lines, not escaped.
    pub text: String,
    /// Was anything ever logged?
    pub exists: bool,
    /// The file that is written to now.
    pub current_file: PathBuf,
}

/// Reads the last lines of a server's log; all of them where `lines` is 0.
pub fn read(invocation: &Invocation, name: &str, lines: usize) -> Result<ServerLog, Failure> {
    let files = StderrLog::files_in(&invocation.env.paths.logs(), name);
    let exists = files.iter().any(|file| file.exists());
    if !exists {
        let configuration = invocation.load()?;
        if configuration.effective.winner(name).is_none() {
            return Err(invocation.not_found(&configuration, name));
        }
    }
    let text = last_lines(&read_files(&files)?, lines).to_owned();
    let [_, current_file] = files;
    Ok(ServerLog { text, exists, current_file })
}

/// The note for a server that has logged nothing.
pub fn empty_note(name: &str) -> String {
    format!("nothing yet: `{0}` has not been started; swb ping {0} starts it\n", printable(name))
}

/// Both files, the older one first.
fn read_files(files: &[PathBuf; 2]) -> Result<String, Failure> {
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

/// Text with every control character escaped.
pub fn escaped(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => printable(line.trim_end_matches('\r')) + "\n",
            None => printable(line),
        })
        .collect()
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
