//! Pieces that several screens show: names, states, times, buttons. Texts from outside become safe here.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};
use serde_json::Value as Json;
use switchboard::connection::Status;
use switchboard::utc_timestamp;
use switchboard_config::display::{is_unprintable, printable};

/// The most characters of a name that a page shows.
const MAX_NAME_CHARS: usize = 120;
/// The most characters of a text that a page shows.
const MAX_TEXT_CHARS: usize = 4000;

/// A text from outside, with characters visible that would move or hide others, and not too long. Still to be escaped as
/// HTML, which maud does.
pub(crate) fn shown(text: &str, max_chars: usize) -> String {
    let mut short: String = text.chars().take(max_chars).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    printable(&short)
}

/// A name from outside.
pub(crate) fn name(text: &str) -> Markup {
    html! { bdi { (shown(text, MAX_NAME_CHARS)) } }
}

/// A sentence in which names and commands stand between backticks.
pub(crate) fn prose(text: &str, max_chars: usize) -> Markup {
    let text = shown(text, max_chars);
    let mut pieces = text.split('`').enumerate().peekable();
    html! {
        @while let Some((at, piece)) = pieces.next() {
            // A piece behind an opening backtick that is never closed is no code.
            @if at % 2 == 1 && pieces.peek().is_some() { code { (piece) } } @else { (piece) }
        }
    }
}

/// A text of several lines from outside.
pub(crate) fn lines(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_TEXT_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    visible_lines(&short)
}

/// The same without a limit.
pub(crate) fn visible_lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| printable(line.trim_end_matches('\r')));
    lines.collect::<Vec<_>>().join("\n")
}

/// How a state looks. The symbol says the same as the color, and the label the same as both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Busy,
    Warning,
    Bad,
    Quiet,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Busy => "busy",
            Tone::Warning => "warning",
            Tone::Bad => "bad",
            Tone::Quiet => "quiet",
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            Tone::Good => "✓",
            Tone::Busy => "…",
            Tone::Warning => "!",
            Tone::Bad => "✕",
            Tone::Quiet => "–",
        }
    }

    /// The tone of a connection.
    pub(crate) fn of_status(status: &Status) -> Tone {
        match status {
            Status::Connected => Tone::Good,
            Status::Pending { .. } => Tone::Busy,
            Status::NeedsAuth(_) | Status::SessionRefused(_) => Tone::Warning,
            Status::Failed(_) => Tone::Bad,
            Status::Disabled => Tone::Quiet,
        }
    }

    /// The tone of an outcome in the audit log.
    pub(crate) fn of_outcome(outcome: &str) -> Tone {
        match outcome {
            "ok" => Tone::Good,
            "started" => Tone::Busy,
            "denied" | "cancelled" | "invalid" => Tone::Warning,
            _ => Tone::Bad,
        }
    }

    /// The tone of a permission effect.
    pub(crate) fn of_effect(effect: &str) -> Tone {
        match effect {
            "allow" => Tone::Good,
            "ask" => Tone::Warning,
            "deny" => Tone::Bad,
            _ => Tone::Quiet,
        }
    }
}

/// A state as a symbol and a word.
pub(crate) fn badge(tone: Tone, label: &str) -> Markup {
    html! {
        span class={"badge " (tone.class())} {
            span.symbol aria-hidden="true" { (tone.symbol()) }
            (shown(label, MAX_NAME_CHARS))
        }
    }
}

/// An outcome of the audit log in words.
pub(crate) fn outcome_label(outcome: &str) -> &str {
    match outcome {
        "ok" => "ok",
        "tool-error" => "tool error",
        "started" => "running",
        other => other,
    }
}

/// A UTC timestamp. The script shows it in the time of the browser.
pub(crate) fn timestamp(utc: &str) -> Markup {
    let plain = utc.replace('T', " ").replace('Z', " UTC");
    html! { time datetime=(shown(utc, 40)) { (shown(&plain, 40)) } }
}

/// A moment.
pub(crate) fn moment(time: SystemTime) -> Markup {
    timestamp(&utc_timestamp(time))
}

/// A time in the past or future, in seconds since 1970.
pub(crate) fn seconds_since_1970(seconds: u64) -> Markup {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    html! { @match at { Some(at) => { (moment(at)) }, None => { "far in the future" } } }
}

/// A duration in milliseconds, for tables.
pub(crate) fn millis(millis: f64) -> String {
    match millis {
        _ if millis < 1.0 => "<1 ms".to_owned(),
        _ if millis < 1000.0 => format!("{millis:.0} ms"),
        _ if millis < 60_000.0 => format!("{:.1} s", millis / 1000.0),
        _ => format!("{:.1} min", millis / 60_000.0),
    }
}

/// A latency that may be unknown.
pub(crate) fn latency(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), millis)
}

/// An age in one unit.
pub(crate) fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// A count; a dash for none.
pub(crate) fn count(count: u64) -> String {
    if count == 0 { "–".to_owned() } else { thousands(count) }
}

/// A number with a thin space between groups of digits.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// The hidden inputs of a form.
pub(crate) fn hidden(pairs: &[(&str, &str)]) -> Markup {
    html! { @for (name, value) in pairs { input type="hidden" name=(name) value=(value); } }
}

/// The look of a button.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ButtonKind {
    Primary,
    Plain,
    Danger,
}

impl ButtonKind {
    fn class(self) -> &'static str {
        match self {
            ButtonKind::Primary => "button primary",
            ButtonKind::Plain => "button",
            ButtonKind::Danger => "button danger",
        }
    }
}

/// A form that is one button.
pub(crate) fn button_form(
    action: &str,
    page_token: &str,
    pairs: &[(&str, &str)],
    (kind, label): (ButtonKind, &str),
) -> Markup {
    html! {
        form.inline method="post" action=(action) {
            (hidden(&[("page-token", page_token)]))
            (hidden(pairs))
            button type="submit" class=(kind.class()) { (label) }
        }
    }
}

/// A command that the reader can copy.
pub(crate) fn command(id: &str, command: &str) -> Markup {
    html! {
        div.command {
            code id=(id) { (printable(command)) }
            button.copy type="button" data-copy=(id) hidden { "Copy" }
        }
    }
}

/// What a page says where there is nothing to show.
pub(crate) fn nothing(text: &str) -> Markup {
    html! { p.nothing { (text) } }
}

/// JSON for people. Characters that are invisible or reorder text are escaped, so that it stays the same JSON.
pub(crate) fn pretty_json(json: &Json) -> String {
    visible_json(&serde_json::to_string_pretty(json).unwrap_or_default())
}

/// JSON in one line, for a command.
pub(crate) fn compact_json(json: &Json) -> String {
    visible_json(&json.to_string())
}

fn visible_json(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) && c != '\n' {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                visible.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            visible.push(c);
        }
    }
    visible
}

/// A word for a POSIX shell.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_from_outside_are_visible_and_bounded() {
        assert_eq!(shown("a\u{202e}b\u{1b}[2J", 10), "a\\u{202e}b\\u{1b}[2J");
        assert_eq!(shown("abc", 2), "ab…");
        assert_eq!(visible_lines("a\r\n\tb"), "a\n\\u{9}b");
        let html = name("<img src=x onerror=alert(1)>").into_string();
        assert_eq!(html, "<bdi>&lt;img src=x onerror=alert(1)&gt;</bdi>");
    }

    #[test]
    fn backticks_become_code() {
        let html = prose("run `swb login <x>` or `b", 100).into_string();
        assert_eq!(html, "run <code>swb login &lt;x&gt;</code> or b");
    }

    #[test]
    fn json_stays_the_same_with_invisible_characters_escaped() {
        let json = json!({"a\u{202e}": "\u{e0041}\u{7f}\n", "b": "ü"});
        let text = compact_json(&json);
        assert!(text.is_ascii() || text.contains('ü'), "{text}");
        assert!(!text.contains('\u{202e}'), "{text}");
        assert_eq!(serde_json::from_str::<Json>(&text).expect("JSON"), json);
        assert_eq!(serde_json::from_str::<Json>(&pretty_json(&json)).expect("JSON"), json);
    }

    #[test]
    fn numbers_and_words_are_readable() {
        assert_eq!(thousands(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(
            (millis(0.4), millis(12.4), millis(1500.0)),
            ("<1 ms".into(), "12 ms".into(), "1.5 s".into())
        );
        assert_eq!(shell_word("mcp__a__b"), "mcp__a__b");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(age(Duration::from_secs(7300)), "2 h");
    }
}
