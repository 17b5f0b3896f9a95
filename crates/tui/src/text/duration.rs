//! Durations for display.

use std::time::Duration;

/// A duration in a unit that fits: `7 ms`, `2.5 s`, `1 min 15 s`.
pub fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..=9 => format!("{:.1} s", time.as_secs_f64()),
        10..=59 => format!("{seconds} s"),
        60.. => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}
