//! Makes untrusted or secret text safe to show: escapes for the terminal, masks for secrets.
//! Everything that `cli` prints of a configuration goes through this module.

mod excerpt;
mod loading_variables;
mod mask_arguments;
mod mask_url;
mod sanitize;
mod secret_names;

use serde_json::Value as Json;

pub(crate) use excerpt::{ExcerptSubject, masked_excerpt};
pub use loading_variables::changes_loading;
pub(crate) use mask_arguments::{is_plain_value, mask_arguments};
pub use mask_url::masked_url;
pub use sanitize::{sanitize, sanitize_line};
pub use secret_names::{has_token_prefix, is_secret_name, looks_like_token};

/// Replaces a masked value.
pub const MASK: &str = "•••";

/// Writes every character that a terminal acts on, or that is invisible, as an escape.
pub fn printable(text: &str) -> String {
    // Most texts are.
    if text.bytes().all(|it| matches!(it, b' '..=b'~')) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Is it a control character, or one that reorders, joins or hides text?
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns a command with everything masked that looks like a secret.
pub fn masked_command(text: &str) -> String {
    printable(&mask_arguments(&[text.to_owned()]).concat())
}

/// Returns a tool's arguments with secrets masked, by the name of the member or by the shape of the value.
/// Everything else stays visible, because the user who allows a call must see what it does.
pub fn masked_json(json: &Json) -> Json {
    match json {
        Json::Object(members) => {
            let shown = |(name, value): (&String, &Json)| {
                let is_hidden = (value.is_string() || value.is_number()) && is_secret_name(name);
                (name.clone(), if is_hidden { MASK.into() } else { masked_json(value) })
            };
            members.iter().map(shown).collect()
        }
        Json::Array(items) => items.iter().map(masked_json).collect(),
        Json::String(text) => {
            let word = |word: &str| if looks_like_token(word) { MASK } else { word }.to_owned();
            text.split(' ').map(word).collect::<Vec<_>>().join(" ").into()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => json.clone(),
    }
}

/// Returns a count with its noun in the right number.
pub fn pluralize(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Bytes in a unit that fits.
pub fn format_bytes(bytes: u64) -> String {
    const MEGABYTE: u64 = 1024 * 1024;
    match bytes {
        0..MEGABYTE => format!("{} KB", bytes / 1024),
        MEGABYTE..10_737_418_240 => format!("{} MB", bytes / MEGABYTE),
        _ => format!("{} GB", bytes / MEGABYTE / 1024),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, expected) in
            [(0, "0 KB"), (1_048_576, "1 MB"), (83_886_080, "80 MB"), (53_687_091_200, "50 GB")]
        {
            assert_eq!(format_bytes(bytes), expected);
        }
    }

    #[test]
    fn nothing_that_a_terminal_acts_on_is_printed() {
        assert_eq!(printable("a\u{1b}[2Jb\u{7}\u{9b}"), "a\\u{1b}[2Jb\\u{7}\\u{9b}");
        assert_eq!(printable("safe\u{202e}evil\u{200b}"), "safe\\u{202e}evil\\u{200b}");
        assert_eq!(printable("naïve 日本"), "naïve 日本");
    }

    #[test]
    fn masked_arguments_show_what_a_call_does_and_no_secrets() {
        let arguments = serde_json::json!({
            "path": "/srv/a b", "apiKey": "canary", "pin": {"password": 1234}, "list": [1, null],
            "command": "curl -H ghp_canary0123456789 host", "maxTokens": 5,
        });
        let shown = serde_json::json!({
            "path": "/srv/a b", "apiKey": "•••", "pin": {"password": "•••"}, "list": [1, null],
            "command": "curl -H ••• host", "maxTokens": 5,
        });
        assert_eq!(masked_json(&arguments), shown);
    }
}
