//! How far a call is, in one line that is drawn over and leaves nothing behind. Only where somebody looks at
//! standard error; what a server says is escaped and cut.

use std::time::Duration;

use serde_json::Value as Json;
use switchboard::config::shown::printable;
use switchboard::wire::peer::Progress;
use tokio::time::Instant;

use crate::person::Person;
use crate::report;
use crate::session::Session;
use crate::style::{Meaning, paint};
use crate::table::cut;

/// How wide the bar is.
const BAR: usize = 24;
/// It is not drawn more often than this.
const PAUSE: Duration = Duration::from_millis(50);
/// Goes to the beginning of the line and clears it.
pub const CLEAR: &str = "\r\x1b[K";

/// A line that shows how far something is.
#[derive(Debug)]
pub struct ProgressBar {
    /// How wide the line may be; none where nobody looks.
    width: Option<usize>,
    /// What is to be drawn with the next stroke.
    waiting: Option<String>,
    next_stroke: Instant,
    is_drawn: bool,
    /// Who may be reading a question where the bar would be.
    person: Person,
}

impl ProgressBar {
    /// A bar with nothing on it.
    pub fn new(session: &Session) -> ProgressBar {
        let terminal = &session.machine.terminal;
        let shows = terminal.shows_progress && !session.wants_json();
        ProgressBar {
            width: shows.then_some(terminal.progress_width),
            waiting: None,
            next_stroke: Instant::now(),
            is_drawn: false,
            person: session.person.clone(),
        }
    }

    /// Takes a sign of progress, and draws it now or soon.
    pub fn show(&mut self, sign: &Progress) {
        let Some(width) = self.width else { return };
        self.waiting = Some(line(&sign.0.decode().unwrap_or_default(), width));
        if Instant::now() >= self.next_stroke {
            self.draw();
        }
    }

    /// Comes back when something waits to be drawn and its time has come.
    pub async fn due(&self) {
        match self.waiting {
            Some(_) => tokio::time::sleep_until(self.next_stroke).await,
            None => std::future::pending().await,
        }
    }

    /// Draws what waits.
    pub fn draw(&mut self) {
        if let Some(line) = self.waiting.take()
            && !self.person.is_being_asked()
        {
            // The cursor stays in front: whoever prints next begins a line.
            report::aside(&format!("{CLEAR}{}\r", paint(Meaning::Faint, line)));
            self.is_drawn = true;
            self.next_stroke = Instant::now() + PAUSE;
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if self.is_drawn {
            report::aside(CLEAR);
        }
    }
}

/// One line: a bar and a percentage where the total is known, a number where it is not, and the server's words.
fn line(sign: &Json, width: usize) -> String {
    let part = match (sign["progress"].as_f64(), sign["total"].as_f64()) {
        (Some(done), Some(total)) if total > 0.0 => {
            let share = (done / total).clamp(0.0, 1.0);
            let filled = filled(share);
            let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled));
            format!("{bar} {:>3.0} %", 100.0 * share)
        }
        (Some(done), Some(_) | None) => format!("{done}"),
        (None, Some(_) | None) => String::new(),
    };
    let message = printable(sign["message"].as_str().unwrap_or_default());
    let text = format!("{part}  {message}");
    // A terminal that wraps at its last column would leave a line behind.
    cut(text.trim(), width.saturating_sub(1))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the share is between nought and one, and a bar is short"
)]
fn filled(share: f64) -> usize {
    ((share * BAR as f64).round() as usize).min(BAR)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(sign: Json, width: usize, expected: &str) {
        assert_eq!(line(&sign, width), expected);
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
        assert!(!line(&json!({"message": "a\u{1b}[2Jb"}), 80).contains('\u{1b}'));
    }
}
