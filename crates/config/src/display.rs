//! What may be shown of untrusted or secret text: escapes for the terminal, masks for secrets.
//! Everything that `cli` prints of a configuration goes through here.

use serde_json::Value as Json;

use crate::template::Template;

mod mask_arguments;
mod sanitize;

pub use sanitize::{sanitize, sanitize_line};

/// What stands for a hidden value.
pub const MASK: &str = "•••";

/// The text with everything that a terminal acts on, or that hides from the eye, written as an escape.
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

/// Control characters, and those that reorder, join or vanish.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// A value that is secret unless it only names variables: names are shown, literals are masked.
/// The scheme in front of a credential is no secret.
pub fn masked_template(template: &Template) -> String {
    let literal = |text: &str| match text {
        "Bearer " | "Basic " | "Token " => text.to_owned(),
        _ => MASK.to_owned(),
    };
    printable(&template.masked_with(literal))
}

/// A URL without user, password, query values and fragment. Its host is always the one it leads to.
pub fn masked_url(text: &str) -> String {
    printable(&mask_url_parts(text))
}

/// Like [`url`], for text that still holds variables.
pub fn masked_url_template(template: &Template) -> String {
    masked_url(&template.masked_with(str::to_owned))
}

/// Cuts at the marks that a URL's parts begin with. Where it cannot be told what is a password and what a
/// host, nothing but the scheme is shown: a mask must never make one host look like another.
fn mask_url_parts(text: &str) -> String {
    let Some(at) = text.find("://") else {
        return if text.contains('@') { MASK.to_owned() } else { mask_after_authority("", text) };
    };
    let (scheme, rest) = text.split_at(at + 3);
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let is_web = ["http://", "https://", "ws://", "wss://"].iter().any(|web| scheme.ends_with(web));
    if behind.contains('@') && !is_web {
        return format!("{scheme}{MASK}");
    }
    let shown = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}{MASK}@{host}"),
        None => format!("{scheme}{authority}"),
    };
    mask_after_authority(&shown, behind)
}

/// The path, query and fragment behind what is shown already.
fn mask_after_authority(front: &str, rest: &str) -> String {
    let (rest, fragment) = split_off(rest, '#');
    let (path, query) = split_off(rest, '?');
    let mut shown = format!("{front}{}", mask_path(path));
    if let Some(query) = query {
        shown.push('?');
        shown.push_str(&mask_query(query));
    }
    if fragment.is_some() {
        shown.push_str(&format!("#{MASK}"));
    }
    shown
}

fn split_off(text: &str, mark: char) -> (&str, Option<&str>) {
    text.split_once(mark).map_or((text, None), |(front, back)| (front, Some(back)))
}

/// Path segments that look like keys are masked: some services put a token there.
fn mask_path(path: &str) -> String {
    let segment = |segment: &str| {
        let (front, parameters) = split_off(segment, ';');
        let shown = if looks_like_token(front) { MASK } else { front };
        match parameters {
            Some(_) => format!("{shown};{MASK}"),
            None => shown.to_owned(),
        }
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

fn mask_query(query: &str) -> String {
    let pair = |pair: &str| match pair.split_once('=') {
        Some((key, value)) if is_reference(value) => format!("{key}={value}"),
        Some((key, _)) => format!("{key}={MASK}"),
        None => MASK.to_owned(),
    };
    query.split('&').map(pair).collect::<Vec<_>>().join("&")
}

/// `${…}` and nothing else: a name is no secret.
fn is_reference(text: &str) -> bool {
    text.starts_with("${") && text.ends_with('}') && !text[2..text.len() - 1].contains("${")
}

/// A command's arguments, with what looks like a secret masked.
pub fn masked_arguments(arguments: &[Template]) -> Vec<String> {
    let texts: Vec<String> = arguments.iter().map(|it| it.masked_with(str::to_owned)).collect();
    mask_arguments::mask_arguments(&texts).iter().map(|text| printable(text)).collect()
}

/// A command in one string, with what looks like a secret masked.
pub fn masked_command(text: &str) -> String {
    printable(&mask_arguments::mask_arguments(&[text.to_owned()]).concat())
}

/// Values that a tool is given, with what looks like a secret masked: by the name of the member, or by its shape. All
/// the rest stays, because whoever allows a call must see what it does.
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
    fn values_show_what_a_call_does_and_no_secrets() {
        let given = serde_json::json!({
            "path": "/srv/a b", "apiKey": "canary", "pin": {"password": 1234}, "list": [1, null],
            "command": "curl -H ghp_canary0123456789 host", "maxTokens": 5,
        });
        let shown = serde_json::json!({
            "path": "/srv/a b", "apiKey": "•••", "pin": {"password": "•••"}, "list": [1, null],
            "command": "curl -H ••• host", "maxTokens": 5,
        });
        assert_eq!(masked_json(&given), shown);
    }

    #[track_caller]
    fn check_url(text: &str, expected: &str) {
        assert_eq!(masked_url_template(&Template::parse(text)), expected);
    }

    #[test]
    fn a_shown_url_has_no_user_no_query_values_and_no_fragment() {
        check_url("https://api.example.com/mcp", "https://api.example.com/mcp");
        check_url(
            "https://u:p@h.example/x?key=canary&b#canary",
            "https://•••@h.example/x?key=•••&•••#•••",
        );
        check_url("https://${HOST}/x?key=${KEY}&t=canary", "https://${HOST}/x?key=${KEY}&t=•••");
        check_url("https://h.example/s/sk-canary1234567/mcp", "https://h.example/s/•••/mcp");
        check_url("https://h.example/x;token=canary/y", "https://h.example/x;•••/y");
        check_url("https:/u:canary@${X}/", "•••");
        check_url("https://h.example/@scope/package", "https://h.example/@scope/package");
        check_url("not a url?canary#canary", "not a url?•••#•••");
        check_url("https://user:canary@${HOST:-canary}/", "https://•••@${HOST:-…}/");
    }

    #[test]
    fn a_mask_never_makes_one_host_look_like_another() {
        check_url(
            "https://u@evil.example/@api.github.com/mcp",
            "https://•••@evil.example/@api.github.com/mcp",
        );
        check_url(
            "https://evil.example${NOPE:-}/@api.github.com/mcp",
            "https://evil.example${NOPE:-…}/@api.github.com/mcp",
        );
        check_url("evil://evil.example/@api.github.com", "evil://•••");
        check_url(
            "https://mcp-server-abcdef-123456.us-central1.run.app/x",
            "https://mcp-server-abcdef-123456.us-central1.run.app/x",
        );
    }

    #[test]
    fn paths_and_ordinary_words_are_not_taken_for_tokens() {
        for word in [
            "/usr/local/share/some/very/long/path/to/a/folder",
            "mcp-server-filesystem",
            "2024-11-05",
            "monkey",
            "--keyboard",
            "@modelcontextprotocol/server-everything@2025.11.25",
        ] {
            assert!(!looks_like_token(word), "{word}");
        }
        for word in [
            "--keyboard",
            "passenger",
            "author",
            "monkey",
            "PWD",
            "--max-tokens",
            "no-auth",
            "--key-file",
            "TOKEN_URL",
            "--auth-type",
        ] {
            assert!(!is_secret_name(word), "{word}");
        }
        for word in ["GITHUB_PAT", "AccountKey", "NOTION_TOKEN", "NODE_AUTH_TOKEN", "X-Api-Key"] {
            assert!(is_secret_name(word), "{word}");
        }
    }

    fn check_excerpt(line: &str, expected: &str) {
        let known = |key: &str| matches!(key, "args" | "command" | "env" | "type");
        assert_eq!(masked_excerpt(line, 0, known).0, expected);
    }

    #[test]
    fn an_excerpt_shows_known_keys_and_covers_everything_else_even_of_broken_json() {
        check_excerpt(r#"  "args": "oops","#, r#"  "args": "••••","#);
        check_excerpt(r#"  "command": ["x"]"#, r#"  "command": ["•"]"#);
        check_excerpt(r#"  "TOKEN": canary,"#, r#"  "•••••": ••••••,"#);
        check_excerpt(r#"  "TOKEN": "canary"#, r#"  "•••••": "••••••"#);
        check_excerpt(r#"  // "TOKEN": "canary""#, r#"  // "•••••": "••••••""#);
        check_excerpt("\t\"canary\"", " \"••••••\"");
        check_excerpt(
            r#"{"command": npx", "env": {"T": "canary"}}"#,
            r#"{"command": •••"••"•••"•••"•"••"••••••"••"#,
        );
        check_excerpt(
            r#""cwd": "C:\tmp\", "env": {"T": "canary"}"#,
            r#""•••": "•••••••"••"•••"•••"•"••"••••••"•"#,
        );
    }

    #[test]
    fn of_a_long_line_the_part_around_the_place_is_shown() {
        let line = format!("{}\"args\": 5{}", " ".repeat(500), " ".repeat(500));
        let (shown, column) = masked_excerpt(&line, 508, |key| key == "args");
        assert!(
            shown.chars().count() <= 2 * EXCERPT_CONTEXT + 2 && shown.contains("\"args\": •"),
            "{shown}"
        );
        assert_eq!(shown.chars().nth(column), Some('•'));
    }
}
