//! Lines typed at the terminal. One thread reads them for as long as the program runs, so that a prompt that is
//! withdrawn leaves no reader that would take the next line.

use std::io::BufRead;
use std::thread;

use tokio::sync::mpsc;

/// How many typed lines are queued.
const MAX_QUEUED_LINES: usize = 16;

/// Reads lines from standard input.
#[derive(Debug)]
pub struct Keyboard {
    lines: mpsc::Receiver<String>,
}

impl Keyboard {
    /// Starts the reader thread.
    pub fn open() -> std::io::Result<Keyboard> {
        let (typed, lines) = mpsc::channel(MAX_QUEUED_LINES);
        thread::Builder::new().name("keyboard".to_owned()).spawn(move || {
            let mut stdin = std::io::stdin().lock();
            let mut line = Vec::new();
            // Invalid UTF-8 does not end the input.
            while matches!(stdin.read_until(b'\n', &mut line), Ok(length) if length > 0) {
                let text = String::from_utf8_lossy(&line);
                let text = text.trim_end_matches('\n').trim_end_matches('\r').to_owned();
                if typed.blocking_send(text).is_err() {
                    return;
                }
                line.clear();
            }
        })?;
        Ok(Keyboard { lines })
    }

    /// Discards lines that were typed before the prompt was shown.
    pub fn discard_typed(&mut self) {
        while self.lines.try_recv().is_ok() {}
        #[cfg(unix)]
        let _no_terminal =
            rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
        while self.lines.try_recv().is_ok() {}
    }

    /// The next line; `None` at the end of input.
    pub async fn next_line(&mut self) -> Option<String> {
        self.lines.recv().await
    }
}
