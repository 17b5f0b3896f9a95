//! Formats events as lines: time, level, module, message, then the fields of the event and of the spans around it.
//! Control characters are escaped and long values are cut, so that an event is always one line of limited length.

use std::fmt::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use switchboard::config::display::is_unprintable;
use switchboard::utc_timestamp;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::log::filter::LogFilter;
use crate::log::writer::LineSender;

/// The longest value, in characters.
const MAX_VALUE_CHARS: usize = 400;

/// Writes the events that a filter selects.
pub(super) struct LogLayer {
    filter: LogFilter,
    lines: LineSender,
}

impl LogLayer {
    pub(super) fn new(filter: LogFilter, lines: LineSender) -> LogLayer {
        LogLayer { filter, lines }
    }
}

/// The message and the fields of an event or a span, as text.
#[derive(Default)]
struct RecordedFields {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl<S: Subscriber + for<'lookup> LookupSpan<'lookup>> Layer<S> for LogLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= self.filter.level_of(metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter.max_level())
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut recorded = RecordedFields::default();
        attributes.record(&mut recorded);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(recorded);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut recorded = RecordedFields::default();
        event.record(&mut recorded);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(around) = span.extensions().get::<RecordedFields>() {
                recorded.add_missing(&around.fields);
            }
        }
        let metadata = event.metadata();
        let line = format_line(SystemTime::now(), *metadata.level(), metadata.target(), &recorded);
        self.lines.send(line);
    }
}

impl RecordedFields {
    /// Adds the fields of a span that the event does not have itself.
    fn add_missing(&mut self, fields: &[(&'static str, String)]) {
        for (name, value) in fields {
            if !self.fields.iter().any(|(known, _)| known == name) {
                self.fields.push((name, value.clone()));
            }
        }
    }

    fn add(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            name => self.fields.push((name, text)),
        }
    }
}

impl Visit for RecordedFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}

/// One line, with its line end.
fn format_line(
    time: SystemTime,
    level: Level,
    target: &str,
    RecordedFields { message, fields }: &RecordedFields,
) -> String {
    let mut line = timestamp(time);
    let _infallible = write!(line, " {level:<5} {target}: ");
    push_escaped(&mut line, message);
    for (name, value) in fields {
        let _infallible = write!(line, " {name}=");
        push_value(&mut line, value);
    }
    line.push('\n');
    line
}

/// A time in UTC with milliseconds, formatted as in RFC 3339.
fn timestamp(time: SystemTime) -> String {
    let mut text = utc_timestamp(time);
    let millis = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_millis());
    text.pop();
    let _infallible = write!(text, ".{millis:03}Z");
    text
}

/// Quotes values that would not be one word.
fn push_value(line: &mut String, value: &str) {
    let is_plain =
        |c: char| !c.is_whitespace() && !is_unprintable(c) && !matches!(c, '"' | '=' | '\\');
    match !value.is_empty() && value.chars().all(is_plain) {
        true => push_escaped(line, value),
        false => {
            line.push('"');
            push_escaped(line, &value.replace('\\', "\\\\").replace('"', "\\\""));
            line.push('"');
        }
    }
}

/// Appends text with every character escaped that a terminal acts on, and cuts it where it is long.
fn push_escaped(line: &mut String, text: &str) {
    let mut chars = text.chars();
    for c in chars.by_ref().take(MAX_VALUE_CHARS) {
        match is_unprintable(c) {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    if chars.next().is_some() {
        line.push('…');
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[track_caller]
    fn check(message: &str, fields: &[(&'static str, &str)], expected: &str) {
        let fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let recorded = RecordedFields { message: message.to_owned(), fields };
        let time = UNIX_EPOCH + Duration::from_millis(1_794_787_199_007);
        let line = format_line(time, Level::INFO, "switchboard", &recorded);
        assert_eq!(line, format!("2026-11-15T23:59:59.007Z INFO  switchboard: {expected}\n"));
    }

    #[test]
    fn an_event_is_one_line_with_its_fields() {
        check("connected", &[("server", "files"), ("ms", "12")], "connected server=files ms=12");
        check("", &[("a", ""), ("b", "x y"), ("c", "k=v")], r#" a="" b="x y" c="k=v""#);
    }

    #[test]
    fn control_characters_are_escaped_and_quotes_are_unambiguous() {
        check("a\nb", &[("s", "\x1b[2J\r\u{202e}")], r#"a\nb s="\u{1b}[2J\r\u{202e}""#);
        check("", &[("s", r#"a "b" \n"#)], r#" s="a \"b\" \\n""#);
    }

    #[test]
    fn long_values_are_cut() {
        let long = "x".repeat(MAX_VALUE_CHARS + 1);
        check("m", &[("s", &long)], &format!("m s={}…", &long[1..]));
    }

    #[test]
    fn a_field_of_the_event_hides_that_of_its_span() {
        let mut recorded = RecordedFields::default();
        recorded.fields.push(("server", "own".to_owned()));
        recorded.add_missing(&[("server", "outer".to_owned()), ("attempt", "1".to_owned())]);
        let expected = [("server", "own".to_owned()), ("attempt", "1".to_owned())];
        assert_eq!(recorded.fields, expected);
    }
}
