//! Lines that somebody types at the terminal. One thread reads them for as long as the program runs: a question that
//! is withdrawn leaves no reader behind that would swallow the next answer.

use std::io::BufRead;
use std::thread;

use tokio::sync::mpsc;

/// How many lines may wait.
const MAX_QUEUED_LINES: usize = 16;

/// The keyboard.
#[derive(Debug)]
pub struct Keyboard {
    lines: mpsc::Receiver<String>,
}

impl Keyboard {
    /// Begins to read.
    pub fn open() -> std::io::Result<Keyboard> {
        let (typed, lines) = mpsc::channel(MAX_QUEUED_LINES);
        thread::Builder::new().name("keyboard".to_owned()).spawn(move || {
            let mut stdin = std::io::stdin().lock();
            let mut line = Vec::new();
            // Bytes that are no text are no reason to stop listening.
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

    /// Forgets what was typed before somebody could know what it answers.
    pub fn discard_typed(&mut self) {
        while self.lines.try_recv().is_ok() {}
        #[cfg(unix)]
        let _no_terminal =
            rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
        while self.lines.try_recv().is_ok() {}
    }

    /// The next line; `None` where no more can come.
    pub async fn next_line(&mut self) -> Option<String> {
        self.lines.recv().await
    }
}
