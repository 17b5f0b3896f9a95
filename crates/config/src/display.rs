//! Makes untrusted or secret text safe to show: escapes for the terminal, masks for secrets.
//! Everything that `cli` prints of a configuration goes through this module.

mod excerpt;
mod mask_arguments;
mod mask_url;
mod sanitize;
mod secret_names;

use serde_json::Value as Json;

pub use crate::template::{masked_arguments, masked_template, masked_url_template};
pub use excerpt::masked_excerpt;
pub(crate) use mask_arguments::mask_arguments;
pub use mask_url::masked_url;
pub use sanitize::{sanitize, sanitize_line};
pub use secret_names::{is_secret_name, looks_like_token};

/// Replaces a masked value.
pub const MASK: &str = "•••";

/// Writes every character that a terminal acts on, or that is invisible, as an escape.
pub fn printable(text: &str) -> String {
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

/// Words that announce a secret, as they occur in flags, variables and headers.
const SECRET_WORDS: [&str; 12] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "credential",
    "authorization",
    "cookie",
    "bearer",
    "privatekey",
    "accesskey",
];

/// Names that hold such a word and announce no secret.
const NON_SECRET_NAMES: [&str; 6] =
    ["maxtokens", "tokenizer", "tokenizers", "oldpwd", "pwd", "stricthostkeychecking"];

/// What such a name ends with when it speaks of a secret without holding it.
const NON_SECRET_SUFFIXES: [&str; 10] =
    ["file", "path", "dir", "type", "mode", "url", "uri", "endpoint", "ttl", "limit"];

/// Does a flag's, variable's or header's name announce a secret?
pub fn is_secret_name(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let is_negation = name.trim_start_matches('-').starts_with("no-");
    let words = split_words(name);
    let is_about = words.last().is_some_and(|last| NON_SECRET_SUFFIXES.contains(&last.as_str()));
    if NON_SECRET_NAMES.iter().any(|word| plain == *word) || is_negation || is_about {
        return false;
    }
    SECRET_WORDS.iter().any(|word| plain.contains(word))
        || words.iter().any(|word| {
            matches!(word.as_str(), "key" | "pat" | "pwd" | "pass" | "pw" | "auth" | "jwt" | "sig")
        })
}

/// The words of a name, split at marks and where a capital begins.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && after_small) {
            words.push(String::new());
        }
        after_small = c.is_ascii_lowercase();
        if let (Some(last), true) = (words.last_mut(), c.is_ascii_alphanumeric()) {
            last.push(c.to_ascii_lowercase());
        }
    }
    words
}

/// Prefixes that well-known services give their tokens.
const TOKEN_PREFIXES: [&str; 36] = [
    "sk-",
    "sk_",
    "pk-",
    "pk_",
    "rk-",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "glsa_",
    "glc_",
    "xoxa-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "npm_",
    "hf_",
    "shpat_",
    "shpss_",
    "lin_api_",
    "dop_v1_",
    "SG.",
    "pypi-",
    "dckr_pat_",
    "ntn_",
    "secret_",
    "whsec_",
];

/// Does a bare word have the shape of a token: a known prefix with digits behind, or long and random?
/// A word that reads like a name is none, however it begins: people must see what they run.
pub fn looks_like_token(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    let known = TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'=' | b'+' | b'%');
    (known && word.len() >= 12 && digits >= 2)
        || (word.len() >= 32 && word.bytes().all(plain) && digits >= 4 && letters >= 4)
}

/// A count with its noun in the right number.
pub fn pluralize(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// How much of a line is shown around the place that is meant.
const EXCERPT_CONTEXT: usize = 48;

/// The part of a line around a column (from 0) for an error message, and the column in that part.
/// Only `known` keys and punctuation are shown; everything else is covered character by character, so
/// that columns still fit. Looks at characters alone, since a file that does not parse cannot say which
/// of its words are secret.
pub fn masked_excerpt(line: &str, column: usize, known: impl Fn(&str) -> bool) -> (String, usize) {
    let start = column.saturating_sub(EXCERPT_CONTEXT);
    let part: String = line.chars().skip(start).take(2 * EXCERPT_CONTEXT).collect();
    let more = line.chars().nth(start + 2 * EXCERPT_CONTEXT).is_some();
    let mut shown = String::new();
    let mut rest = part.as_str();
    while let Some(c) = rest.chars().next() {
        let token = match c {
            '"' => string_token(rest),
            c if is_punctuation(c) => &rest[..c.len_utf8()],
            _ => bare_token(rest),
        };
        rest = &rest[token.len()..];
        let key = token.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        let is_known = key.is_some_and(&known) && rest.trim_start().starts_with(':');
        if is_known || is_punctuation(c) {
            shown.push_str(token);
        } else {
            shown.push_str(&mask_token(token));
        }
    }
    let (before, after) = (if start > 0 { "…" } else { "" }, if more { "…" } else { "" });
    let shown = format!("{before}{}{after}", shown.replace(char::is_whitespace, " "));
    (printable(&shown), column - start + before.chars().count())
}

fn is_punctuation(c: char) -> bool {
    c.is_whitespace() || matches!(c, '{' | '}' | '[' | ']' | ',' | ':')
}

fn string_token(text: &str) -> &str {
    let mut escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return &text[..=index],
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text
}

fn bare_token(text: &str) -> &str {
    let end = text.find(|c| is_punctuation(c) || c == '"').unwrap_or(text.len());
    &text[..end]
}

fn mask_token(token: &str) -> String {
    match token {
        "true" | "false" | "null" | "//" | "/*" | "*/" => token.to_owned(),
        _ => token.chars().map(|c| if c == '"' { '"' } else { '•' }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
