//! JSON output, with every character escaped that a terminal would act on.

use serde_json::Value as Json;
use switchboard::config::display::is_unprintable;

use crate::outcome::CommandOutput;

/// JSON output.
pub fn json_output(value: &Json) -> CommandOutput {
    CommandOutput { json: Some(value.clone()), ..CommandOutput::default() }
}

/// JSON with indentation.
pub fn json_text(value: &Json) -> String {
    escape_deceptive(format!("{value:#}\n"))
}

/// JSON on one line.
pub fn json_line(value: &Json) -> String {
    escape_deceptive(format!("{value}\n"))
}

fn escape_deceptive(text: String) -> String {
    let is_bad = |c: char| c != '\n' && is_unprintable(c);
    if !text.contains(is_bad) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if is_bad(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}
