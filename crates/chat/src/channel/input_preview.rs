//! The arguments of a call as a channel gets them with a permission request: JSON-shaped, short, on one line, without
//! credentials and without hidden characters. They leave the machine, so a credential counts as one where it might be one. Pure.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value as Json;
use switchboard::config::display::{
    MASK, has_token_prefix, is_secret_name, masked_command, printable,
};

/// The most characters of one field.
const MAX_FIELD_CHARS: usize = 3_500;
/// The most characters of all fields.
const MAX_ALL_CHARS: usize = 20_000;
/// The longest name of a field.
const MAX_NAME_CHARS: usize = 100;
/// How many characters at each end of a very long text are looked at.
const MAX_SCANNED_CHARS: usize = 16_000;
/// What stands for a credential.
const REDACTED: &str = "[REDACTED]";

/// The arguments for a channel.
pub fn input_preview(arguments: &Json) -> String {
    let Json::Object(fields) = arguments else { return shown_value("", arguments) };
    let mut preview = String::from("{");
    let mut used = 0;
    for (index, (name, value)) in fields.iter().enumerate() {
        let shown_name: String = printable(&folded(name)).chars().take(MAX_NAME_CHARS).collect();
        let field = format!("{}: {}", Json::from(shown_name), shown_value(name, value));
        used += field.chars().count();
        if index > 0 {
            preview.push_str(", ");
        }
        if used > MAX_ALL_CHARS {
            preview.push_str(&format!("… {} more fields are not shown", fields.len() - index));
            break;
        }
        preview.push_str(&field);
    }
    preview.push('}');
    preview
}

/// The value of a field: texts as JSON strings, everything else as its JSON.
fn shown_value(name: &str, value: &Json) -> String {
    match safe_value(name, value) {
        Json::String(text) => {
            // The quotation marks count as well.
            let text = elided(&text, MAX_FIELD_CHARS / 2);
            elided(&Json::String(text).to_string(), MAX_FIELD_CHARS)
        }
        other @ (Json::Null
        | Json::Bool(_)
        | Json::Number(_)
        | Json::Array(_)
        | Json::Object(_)) => elided(&other.to_string(), MAX_FIELD_CHARS),
    }
}

fn safe_value(name: &str, value: &Json) -> Json {
    match value {
        Json::String(_) | Json::Number(_) if is_secret_name(name) => REDACTED.into(),
        Json::String(text) => safe_text(text).into(),
        Json::Array(items) => items.iter().map(|it| safe_value(name, it)).collect(),
        Json::Object(fields) => {
            let field = |(name, value): (&String, &Json)| {
                (printable(&folded(name)), safe_value(name, value))
            };
            fields.iter().map(field).collect()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
    }
}

/// A text on one line, without credentials and hidden characters.
fn safe_text(text: &str) -> String {
    static PRIVATE_KEY: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = r"(?s)-----BEGIN [A-Z ]*KEY-----.*?(-----END [A-Z ]*KEY-----|\z)";
        Regex::new(pattern).expect("the pattern of a key is valid")
    });
    static WORD: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"[A-Za-z0-9_.+/=-]{12,}").expect("the pattern of a word is valid")
    });
    let text = scanned(text);
    let text = PRIVATE_KEY.replace_all(&text, REDACTED);
    // Hidden characters first, so that none of them splits a credential into parts that are not recognised.
    let masked = masked_command(&printable(&folded(&text))).replace(MASK, REDACTED);
    let word = |found: &regex::Captures<'_>| {
        let word = found.get(0).map_or("", |it| it.as_str());
        // The rest of an assignment or of a path.
        let parts = word.split(['=', '/']);
        match parts.into_iter().any(has_token_prefix) || has_token_prefix(word) {
            true => REDACTED.to_owned(),
            false => word.to_owned(),
        }
    };
    WORD.replace_all(&masked, word).into_owned()
}

/// The ends of a very long text. The words at the cut are left out: a part of a credential might not be recognised.
fn scanned(text: &str) -> String {
    let count = text.chars().count();
    if count <= 2 * MAX_SCANNED_CHARS {
        return text.to_owned();
    }
    let head: String = text.chars().take(MAX_SCANNED_CHARS).collect();
    let tail: String = text.chars().skip(count - MAX_SCANNED_CHARS).collect();
    let head = head.rsplit_once(char::is_whitespace).map_or("", |(head, _)| head);
    let tail = tail.split_once(char::is_whitespace).map_or("", |(_, tail)| tail);
    format!("{head} … {tail}")
}

/// The text with its middle left out where it is too long.
fn elided(text: &str, max_chars: usize) -> String {
    let count = text.chars().count();
    if count <= max_chars {
        return text.to_owned();
    }
    let mark = format!(" …[{} characters left out]… ", count - max_chars);
    // The number of characters that are left out grows by the mark, but hardly its length.
    let kept = max_chars.saturating_sub(mark.chars().count() + 1);
    let (head, tail) = (kept - kept / 2, kept / 2);
    let head: String = text.chars().take(head).collect();
    let tail: String = text.chars().skip(count - tail).collect();
    format!("{head}{mark}{tail}")
}

fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(arguments: &Json, expected: &str) {
        assert_eq!(input_preview(arguments), expected);
    }

    #[test]
    fn fields_are_json_on_one_line() {
        check(
            &json!({"command": "ls -l\n  | wc", "count": 3, "deep": {"a": [1, "x\ty"]}, "no": null}),
            r#"{"command": "ls -l | wc", "count": 3, "deep": {"a":[1,"x y"]}, "no": null}"#,
        );
        check(&json!({}), "{}");
        check(&json!("text"), "\"text\"");
    }

    #[test]
    fn recognisable_credentials_are_redacted() {
        for (arguments, secret) in [
            (json!({"token": "canary-1"}), "canary-1"),
            (json!({"pin": {"password": 98_761_234}}), "98761234"),
            (json!({"command": "curl -H 'Authorization: Bearer canary2' h"}), "canary2"),
            (json!({"command": "API_KEY=canary3 run"}), "canary3"),
            (json!({"command": "echo ghp_canary0123456789abcd | tee x"}), "ghp_canary"),
            (json!({"text": "see (sk-ant-canary4567890) please"}), "canary456"),
            (json!({"url": "https://user:canary5@host/"}), "canary5"),
            (json!({"text": "x=sk-canary678901234"}), "canary678"),
            (json!({"list": ["fine", "glpat-canary789012345"]}), "canary789"),
            (json!({"list": [{"secret": "canary6"}]}), "canary6"),
            (json!({"secrets": ["canary7"]}), "canary7"),
            (
                json!({"key": "-----BEGIN RSA PRIVATE KEY-----\ncanary8\n-----END RSA PRIVATE KEY-----"}),
                "canary8",
            ),
            (json!({"text": "-----BEGIN PRIVATE KEY-----\ncanary9"}), "canary9"),
        ] {
            let preview = input_preview(&arguments);
            assert!(!preview.contains(secret) && preview.contains(REDACTED), "{preview}");
        }
        check(
            &json!({"path": "/srv/a b", "maxTokens": 5}),
            r#"{"path": "/srv/a b", "maxTokens": 5}"#,
        );
    }

    #[test]
    fn hidden_characters_are_shown_and_do_not_split_a_credential() {
        let preview =
            input_preview(&json!({"a\u{202e}b": "rm\u{200b} x\u{1b}]0;rm -rf ~\u{7}\u{e0041}"}));
        assert!(!preview.contains(switchboard::config::display::is_unprintable), "{preview:?}");
        // Nothing of the text disappears: it may do something.
        assert!(preview.contains("rm -rf ~"), "{preview}");
    }

    #[test]
    fn a_long_field_loses_its_middle() {
        let long = format!("begin {} end", "x ".repeat(50_000));
        let preview = input_preview(&json!({"first": long, "second": "whole"}));
        assert!(preview.starts_with(r#"{"first": "begin x"#), "{preview}");
        assert!(preview.ends_with(r#" end", "second": "whole"}"#), "{preview}");
        assert!(preview.contains("characters left out"), "{preview}");
        assert!(preview.chars().count() < MAX_FIELD_CHARS + 40, "{}", preview.chars().count());
    }

    #[test]
    fn all_fields_together_are_bounded() {
        let fields: serde_json::Map<String, Json> =
            (0..500).map(|n| (format!("field{n}"), "y ".repeat(2_000).into())).collect();
        let preview = input_preview(&Json::Object(fields));
        assert!(preview.chars().count() < MAX_ALL_CHARS + 100, "{}", preview.chars().count());
        assert!(preview.ends_with("more fields are not shown}"), "{preview}");
    }

    proptest! {
        #[test]
        fn any_text_is_safe_and_short(text in "(?s).{0,300}", repeat in 1..60_usize) {
            let preview = input_preview(&json!({"a": text.repeat(repeat)}));
            prop_assert!(preview.chars().count() <= MAX_FIELD_CHARS + 10);
            prop_assert!(!preview.contains(switchboard::config::display::is_unprintable));
        }
    }
}
