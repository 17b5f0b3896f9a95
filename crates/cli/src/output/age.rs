//! Times in a short form.

use std::time::Duration;

/// A time in its largest unit: `12 s`, `5 min`, `3 h`, `2 d`.
pub fn short_age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_one_unit() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (7200, "2 h"),
            (172_800, "2 d"),
        ] {
            assert_eq!(short_age(Duration::from_secs(seconds)), expected);
        }
    }
}
