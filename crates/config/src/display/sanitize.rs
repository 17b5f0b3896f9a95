//! Removes everything from untrusted text that moves the cursor, changes colours, or reorders or hides letters.
//! Line breaks stay; wrapping is left to the caller that draws the text.

use super::is_unprintable;

/// The replacement for a tab.
const TAB_SPACES: &str = "    ";

/// Returns the text without anything that a terminal acts on. Line breaks stay.
pub fn sanitize(text: &str) -> String {
    if !text.contains(|c: char| c != '\n' && is_unprintable(c)) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' => shown.push('\n'),
            '\t' => shown.push_str(TAB_SPACES),
            '\r' if rest.peek() == Some(&'\n') => {}
            '\u{1b}' => skip_escape_sequence(&mut rest),
            // Emoji joiners and variation selectors: terminals disagree about their width.
            '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' => {}
            c if is_unprintable(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Returns the sanitized text on one line.
pub fn sanitize_line(text: &str) -> String {
    let text = sanitize(text);
    if !text.contains('\n') {
        return text;
    }
    text.split('\n').map(str::trim_end).collect::<Vec<_>>().join(" ")
}

/// Skips the rest of an escape sequence. If it is not a sequence, only the escape character is dropped.
fn skip_escape_sequence(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            while let Some(c) = rest.next_if(|c| ('\u{20}'..='\u{7e}').contains(c)) {
                if ('\u{40}'..='\u{7e}').contains(&c) {
                    break;
                }
            }
        }
        Some(']' | 'P' | '^' | '_' | 'X') => {
            rest.next();
            while let Some(c) = rest.next_if(|c| *c != '\n') {
                let is_end = c == '\u{7}'
                    || c == '\u{9c}'
                    || (c == '\u{1b}' && rest.next_if_eq(&'\\').is_some());
                if is_end {
                    break;
                }
            }
        }
        Some(_) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(sanitize(text), expected);
    }

    #[test]
    fn colours_titles_and_links_are_removed() {
        check("a\u{1b}[31mred\u{1b}[0m b", "ared b");
        check("\u{1b}]0;title\u{7}x\u{1b}]8;;http://e\u{1b}\\y", "xy");
        check("\u{1b}]52;c;never ends\nnext", "\nnext");
        check("\u{1b}", "");
    }

    #[test]
    fn characters_that_reorder_or_hide_text_are_escaped() {
        check("safe\u{202e}evil", "safe\\u{202e}evil");
        check("zero\u{200b}width\u{8}", "zero\\u{200b}width\\u{8}");
    }

    #[test]
    fn lines_tabs_and_emoji_stay() {
        check("a\r\n\tb", "a\n    b");
        check("⚠\u{fe0f} 日本 e\u{301}", "⚠ 日本 e\u{301}");
        assert_eq!(sanitize_line("a  \nb"), "a b");
    }
}
