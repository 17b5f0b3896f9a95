//! How far a call is, in one line that is drawn over and leaves nothing behind. Only where somebody looks at
//! standard error; what a server says is escaped and cut.

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

/// How wide the bar is.
const BAR_WIDTH: usize = 24;
/// It is not drawn more often than this.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// A line that shows how far something is.
#[derive(Debug)]
pub struct ProgressBar {
    /// How wide the line may be; none where nobody looks.
    width: Option<usize>,
    /// What is to be drawn with the next stroke.
    pending: Option<String>,
    next_draw: Instant,
    is_drawn: bool,
    /// Who may be reading a question where the bar would be.
    prompt: TerminalPrompt,
}

impl ProgressBar {
    /// An empty bar.
    pub fn new(width: Option<usize>, prompt: TerminalPrompt) -> ProgressBar {
        ProgressBar { width, pending: None, next_draw: Instant::now(), is_drawn: false, prompt }
    }

    /// Takes a sign of progress, and draws it now or soon.
    pub fn update(&mut self, notification: &Progress) {
        let Some(width) = self.width else { return };
        self.pending = Some(progress_line(&notification.0.decode().unwrap_or_default(), width));
        if Instant::now() >= self.next_draw {
            self.draw();
        }
    }

    /// Comes back when something waits to be drawn and its time has come.
    pub async fn wait_until_due(&self) {
        match self.pending {
            Some(_) => tokio::time::sleep_until(self.next_draw).await,
            None => std::future::pending().await,
        }
    }

    /// Draws what waits.
    pub fn draw(&mut self) {
        if let Some(line) = self.pending.take()
            && !self.prompt.is_active()
        {
            // The cursor stays in front: whoever prints next begins a line.
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

/// One line: a bar and a percentage where the total is known, a number where it is not, and the server's words.
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
    // A terminal that wraps at its last column would leave a line behind.
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
