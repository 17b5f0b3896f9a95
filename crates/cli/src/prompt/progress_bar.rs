//! The progress of a call, on one line that is redrawn and removed at the end. Drawn only if standard error is a
//! terminal; the server's message is escaped and truncated.

use std::time::Duration;

use serde_json::Value as Json;
use switchboard::config::display::printable;
use switchboard::wire::peer::Progress;
use tokio::time::Instant;

use crate::output::report;
use crate::output::report::CLEAR_LINE;
use crate::output::style::{TextStyle, paint};
use crate::output::table::truncate_end;
use crate::prompt::terminal_prompt::TerminalPrompt;

/// The width of the bar.
const BAR_WIDTH: usize = 24;
/// The shortest time between two redraws.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// A progress line.
#[derive(Debug)]
pub struct ProgressBar {
    /// The width of the line; `None` if it is not drawn.
    width: Option<usize>,
    /// The line to draw next.
    pending: Option<String>,
    next_draw: Instant,
    is_drawn: bool,
    /// Prompts, which the line must not overwrite.
    prompt: TerminalPrompt,
}

impl ProgressBar {
    /// An empty bar.
    pub fn new(width: Option<usize>, prompt: TerminalPrompt) -> ProgressBar {
        ProgressBar { width, pending: None, next_draw: Instant::now(), is_drawn: false, prompt }
    }

    /// Takes a progress notification, and draws it now or when the interval is over.
    pub fn update(&mut self, notification: &Progress) {
        let Some(width) = self.width else { return };
        self.pending = Some(progress_line(&notification.0.decode().unwrap_or_default(), width));
        if Instant::now() >= self.next_draw {
            self.draw();
        }
    }

    /// Waits until a pending line is due.
    pub async fn wait_until_due(&self) {
        match self.pending {
            Some(_) => tokio::time::sleep_until(self.next_draw).await,
            None => std::future::pending().await,
        }
    }

    /// Draws the pending line.
    pub fn draw(&mut self) {
        if let Some(line) = self.pending.take()
            && !self.prompt.is_active()
        {
            // The cursor returns to the start, so that the next output overwrites the line.
            report::print_stderr(&format!("{CLEAR_LINE}{}\r", paint(TextStyle::Dim, line)));
            self.is_drawn = true;
            self.next_draw = Instant::now() + MIN_INTERVAL;
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if self.is_drawn {
            report::print_stderr(CLEAR_LINE);
        }
    }
}

/// One line: a bar and a percentage if the total is known, otherwise a number, and the server's message.
fn progress_line(notification: &Json, width: usize) -> String {
    let part = match (notification["progress"].as_f64(), notification["total"].as_f64()) {
        (Some(done), Some(total)) if total > 0.0 => {
            let share = (done / total).clamp(0.0, 1.0);
            let filled = filled_cells(share);
            let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR_WIDTH - filled));
            format!("{bar} {:>3.0} %", 100.0 * share)
        }
        (Some(done), Some(_) | None) => format!("{done}"),
        (None, Some(_) | None) => String::new(),
    };
    let message = printable(notification["message"].as_str().unwrap_or_default());
    let text = format!("{part}  {message}");
    // A full line would wrap, and its wrapped part would stay.
    truncate_end(text.trim(), width.saturating_sub(1))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the share is between nought and one, and a bar is short"
)]
fn filled_cells(share: f64) -> usize {
    ((share * BAR_WIDTH as f64).round() as usize).min(BAR_WIDTH)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(notification: Json, width: usize, expected: &str) {
        assert_eq!(progress_line(&notification, width), expected);
    }

    #[test]
    fn a_line_says_how_far_it_is_and_never_wraps() {
        let half = format!("{}{}  50 %", "█".repeat(12), "░".repeat(12));
        check(json!({"progress": 2, "total": 4}), 80, &half);
        check(json!({"progress": 2, "total": 4, "message": "two"}), 80, &format!("{half}  two"));
        check(json!({"progress": 9, "total": 4}), 80, &format!("{} 100 %", "█".repeat(24)));
        check(json!({"progress": 7, "message": "seven"}), 80, "7  seven");
        check(json!({"message": "no number"}), 80, "no number");
        check(json!({"progress": 1, "total": 0}), 80, "1");
        check(json!({"progress": 7, "message": "\u{65e5}\u{672c}\u{8a9e}"}), 8, "7  \u{65e5}…");
        check(json!({}), 9, "");
        assert!(!progress_line(&json!({"message": "a\u{1b}[2Jb"}), 80).contains('\u{1b}'));
    }
}
