//! Cuts the part of a line that an error message shows. Keys, numbers, booleans and the misspelt word that the error is
//! about are shown; every other value is masked, because a file that does not parse does not tell which of its words are
//! secret.

use super::{is_secret_name, looks_like_token, printable};

/// How many characters are shown on each side of the column.
const EXCERPT_CONTEXT: usize = 48;

/// What an excerpt is about.
pub(crate) struct ExcerptSubject<'a> {
    /// The key of the value at the column, or an empty string.
    pub key: &'a str,
    /// Is a key part of the format of the file?
    pub is_known_key: &'a dyn Fn(&str) -> bool,
    /// Is a word like a word of the format of the file? Such a word at the column is shown.
    pub is_like_known_word: &'a dyn Fn(&str) -> bool,
}

/// Returns the part of a line around a column (from 0) for an error message, and the column in that part. Masks
/// characters one by one, so that columns still match. Looks at the tokens of the line only.
pub(crate) fn masked_excerpt(
    line: &str,
    column: usize,
    subject: &ExcerptSubject<'_>,
) -> (String, usize) {
    let start = column.saturating_sub(EXCERPT_CONTEXT);
    // The whole line is read, because a part of it may begin inside a string.
    let shown = masked_line(line, column, subject);
    let part: String = shown.chars().skip(start).take(2 * EXCERPT_CONTEXT).collect();
    let more = shown.chars().nth(start + 2 * EXCERPT_CONTEXT).is_some();
    let (before, after) = (if start > 0 { "…" } else { "" }, if more { "…" } else { "" });
    let shown = format!("{before}{}{after}", part.replace(char::is_whitespace, " "));
    (printable(&shown), column - start + before.chars().count())
}

/// The last token that is not white space.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous {
    /// The start of the line or of a comment, a bracket or a comma.
    Start,
    /// A key.
    Key,
    /// A colon.
    Colon,
    /// A value after a colon.
    Value,
    /// An element of a list, or a word in a place where none belongs.
    Word,
}

fn masked_line(line: &str, column: usize, subject: &ExcerptSubject<'_>) -> String {
    let mut shown = String::with_capacity(line.len());
    let (mut rest, mut at, mut previous) = (line, 0, Previous::Start);
    let mut key = subject.key;
    while let Some(first) = rest.chars().next() {
        let token = match first {
            '"' => string_token(rest),
            c if is_punctuation(c) => &rest[..c.len_utf8()],
            _ => bare_token(rest),
        };
        rest = &rest[token.len()..];
        let length = token.chars().count();
        let is_marked = (at..at + length).contains(&column);
        at += length;
        if is_punctuation(first) {
            shown.push_str(token);
            previous = match first {
                ':' => Previous::Colon,
                c if c.is_whitespace() => previous,
                _ => Previous::Start,
            };
            continue;
        }
        // A string that is not closed on this line has no last quote.
        let text = token.strip_prefix('"').map(|it| it.strip_suffix('"').unwrap_or(it));
        let next = rest.trim_start().chars().next();
        let is_key = next == Some(':') && matches!(previous, Previous::Start | Previous::Value);
        let visible = match text {
            Some(word) if is_key => {
                key = word;
                visible_key(word)
            }
            Some(word) if is_marked && !is_secret_name(key) => visible_word(word, subject),
            Some(_) => "",
            None if is_key => {
                key = token;
                if (subject.is_known_key)(token) { token } else { "" }
            }
            None if is_secret_name(key) => "",
            None => {
                let is_in_place = matches!(previous, Previous::Start | Previous::Colon);
                let is_last = matches!(next, None | Some(',' | ']' | '}' | '/'));
                match (is_in_place, is_number(token) && is_last) {
                    (true, true) => token,
                    (true, false) if is_marked => visible_word(token, subject),
                    (true | false, _) => "",
                }
            }
        };
        shown.push_str(&mask_after(token, visible));
        previous = match (previous, is_key) {
            (_, true) => Previous::Key,
            (Previous::Start, false) if matches!(token, "//" | "/*") => Previous::Start,
            (Previous::Colon, false) => Previous::Value,
            (Previous::Start | Previous::Key | Previous::Value | Previous::Word, false) => {
                Previous::Word
            }
        };
    }
    shown
}

/// The part of a key that is shown: all of it, unless it looks like a token or has a value in it, such as
/// `NAME=value` or `Authorization: value`.
fn visible_key(key: &str) -> &str {
    let end =
        key.find(|c: char| matches!(c, ':' | '=') || (c.is_whitespace() && is_secret_name(key)));
    let name = &key[..end.unwrap_or(key.len())];
    if key.split(is_separator).any(looks_like_token) { "" } else { name }
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, ':' | '=' | ',' | ';')
}

/// The part of a value that is shown: a word that is like one of the format, or the scheme of a URL that is.
fn visible_word<'t>(word: &'t str, subject: &ExcerptSubject<'_>) -> &'t str {
    if (subject.is_like_known_word)(word) {
        return word;
    }
    let scheme = word.split_once("://").map(|(scheme, _)| scheme).unwrap_or_default();
    if (subject.is_like_known_word)(scheme) { &word[..scheme.len() + "://".len()] } else { "" }
}

/// Masks a token after its visible start. Quotes stay.
fn mask_after(token: &str, visible: &str) -> String {
    if visible.is_empty() {
        return mask_token(token);
    }
    let start = usize::from(token.starts_with('"')) + visible.len();
    let (start, rest) = token.split_at(start);
    let masked: String = rest.chars().map(|c| if c == '"' { '"' } else { '•' }).collect();
    format!("{start}{masked}")
}

fn is_number(token: &str) -> bool {
    token.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && token.parse::<f64>().is_ok_and(f64::is_finite)
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

    const MISSPELT: [&str; 3] = ["htpp", "flase", "ture"]; // misspelt on purpose

    const SUBJECT: ExcerptSubject<'static> = ExcerptSubject {
        key: "",
        is_known_key: &|key| matches!(key, "args" | "command" | "env" | "type" | "authToken"),
        is_like_known_word: &|word| MISSPELT.contains(&word.trim_start_matches('"')),
    };

    /// Checks the excerpt of a line with a problem at the mark, or at its start.
    fn check_excerpt(line: &str, expected: &str) {
        let column = line.find('‸').unwrap_or_default();
        assert_eq!(masked_excerpt(&line.replace('‸', ""), column, &SUBJECT).0, expected);
    }

    #[test]
    fn an_excerpt_shows_keys_and_masks_values_even_in_invalid_json() {
        check_excerpt(r#"  "args": "oops","#, r#"  "args": "••••","#);
        check_excerpt(r#"  "command": ["x"]"#, r#"  "command": ["•"]"#);
        check_excerpt(r#"  "TOKEN": ‸canary,"#, r#"  "TOKEN": ••••••,"#);
        check_excerpt(r#"  "TOKEN": "canary"#, r#"  "TOKEN": "••••••"#);
        check_excerpt(r#"  // "TOKEN": "canary""#, r#"  // "TOKEN": "••••••""#);
        check_excerpt("\t\"canary\"", " \"••••••\"");
        check_excerpt(
            r#"{"command": npx", "env": {"T": "canary"}}"#,
            r#"{"command": •••"••"•••"•••"•"••"••••••"••"#,
        );
        check_excerpt(
            r#""cwd": "C:\tmp\", "env": {"T": "canary"}"#,
            r#""cwd": "•••••••"••"•••"•••"•"••"••••••"•"#,
        );
    }

    #[test]
    fn a_value_in_the_place_of_a_key_is_masked() {
        check_excerpt(r#""TOKEN": "canary": 5"#, r#""TOKEN": "••••••": •"#);
        check_excerpt(r#""TOKEN" ‸"canary": 5"#, r#""•••••" "••••••": 5"#);
        check_excerpt(
            r#"{"Authorization: Bearer canary": 5}"#,
            r#"{"Authorization•••••••••••••••": •}"#,
        );
        check_excerpt(r#"{"Authorization canary": ""}"#, r#"{"Authorization•••••••": ""}"#);
        check_excerpt(r#"{"A=canary": "", "my server": 1}"#, r#"{"A•••••••": "", "my server": 1}"#);
        check_excerpt(r#"{"ghp_canary0123456789": 5}"#, r#"{"••••••••••••••••••••": 5}"#);
        check_excerpt(r#""A": x", "PAIR": "canary:1""#, r#""A": •"••"••••"••"••••••:•""#);
    }

    #[test]
    fn numbers_and_booleans_are_shown_and_secret_ones_are_not() {
        check_excerpt(
            r#"{"timeout": 70000, "list": [1, -2.5e3], "b": true}"#,
            r#"{"timeout": 70000, "list": [1, -2.5e3], "b": true}"#,
        );
        check_excerpt(
            r#"{"password": 1234, "authToken": 5}"#,
            r#"{"password": ••••, "authToken": •}"#,
        );
        check_excerpt(
            r#"{"note": x", "pin": "is 1234 now"}"#,
            r#"{"note": •"••"•••"••"•• •••• •••"•"#,
        );
        check_excerpt("// password: 1234", "// ••••••••: ••••");
    }

    #[test]
    fn the_misspelt_word_that_an_error_is_about_is_shown() {
        check_excerpt(r#"{"type": ‸"htpp", "url": "htpp"}"#, r#"{"type": "htpp", "url": "••••"}"#);
        check_excerpt(r#"{"url": ‸"htpp://canary"}"#, r#"{"url": "htpp://••••••"}"#);
        check_excerpt(r#"{"disabled": ‸flase}"#, r#"{"disabled": flase}"#); // misspelt on purpose
        check_excerpt(r#"{"odd": ‸ture}"#, r#"{"odd": ture}"#); // misspelt on purpose
        check_excerpt(r#"{"type": ‸"htpp"#, r#"{"type": "htpp"#);
        check_excerpt("‸\"htpp", "\"htpp");
        check_excerpt("‸\"", "\"");
    }

    #[test]
    fn a_value_that_is_no_misspelt_word_is_masked_even_where_the_error_is_about_it() {
        check_excerpt(r#"{"authToken": ‸"htpp"}"#, r#"{"authToken": "••••"}"#);
        check_excerpt(r#"{"args": ‸"canary"}"#, r#"{"args": "••••••"}"#);
        check_excerpt(r#"{"args": ‸canary}"#, r#"{"args": ••••••}"#);
        let subject = ExcerptSubject { key: "password", ..SUBJECT };
        assert_eq!(masked_excerpt("  1234", 2, &subject).0, "  ••••");
    }

    #[test]
    fn only_the_part_around_the_column_of_a_long_line_is_shown() {
        let line = format!("{}\"args\": \"5\"{}", " ".repeat(500), " ".repeat(500));
        let (shown, column) = masked_excerpt(&line, 509, &SUBJECT);
        assert!(
            shown.chars().count() <= 2 * EXCERPT_CONTEXT + 2 && shown.contains("\"args\": \"•\""),
            "{shown}"
        );
        assert_eq!(shown.chars().nth(column), Some('•'));
    }

    #[test]
    fn a_string_that_begins_before_the_shown_part_is_masked() {
        let line =
            format!(r#"{{"note": "{} 1234, {}", "type": 5}}"#, "x".repeat(100), "y".repeat(40));
        let column = line.find("\"type\"").expect("a key");
        let (shown, _) = masked_excerpt(&line, column, &SUBJECT);
        assert!(!shown.contains("1234") && shown.ends_with(r#"•", "type": 5}"#), "{shown}");
    }
}
