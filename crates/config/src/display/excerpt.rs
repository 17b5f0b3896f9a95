//! Cuts the part of a line that an error message shows, with every value masked.

use super::printable;

/// How many characters are shown on each side of the column.
const EXCERPT_CONTEXT: usize = 48;

/// Returns the part of a line around a column (from 0) for an error message, and the column in that part. Only
/// `known` keys and punctuation are shown; all other characters are masked one by one, so that columns still
/// match. It looks at characters only: a file that does not parse does not tell which of its words are secret.
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

    fn check_excerpt(line: &str, expected: &str) {
        let known = |key: &str| matches!(key, "args" | "command" | "env" | "type");
        assert_eq!(masked_excerpt(line, 0, known).0, expected);
    }

    #[test]
    fn an_excerpt_masks_everything_but_known_keys_even_in_invalid_json() {
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
    fn only_the_part_around_the_column_of_a_long_line_is_shown() {
        let line = format!("{}\"args\": 5{}", " ".repeat(500), " ".repeat(500));
        let (shown, column) = masked_excerpt(&line, 508, |key| key == "args");
        assert!(
            shown.chars().count() <= 2 * EXCERPT_CONTEXT + 2 && shown.contains("\"args\": •"),
            "{shown}"
        );
        assert_eq!(shown.chars().nth(column), Some('•'));
    }
}
