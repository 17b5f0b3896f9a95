//! Replaces comments and the contents of literals with spaces, so that rules see only code.
//! Line breaks are kept.

use super::phrase::is_identifier_char;

/// The text with everything but code blanked.
pub fn code_only(text: &str) -> String {
    let mut scan = Scan { rest: text, code: String::with_capacity(text.len()) };
    while let Some(next) = scan.rest.chars().next() {
        if scan.rest.starts_with("//") {
            scan.blank(scan.rest.find('\n').unwrap_or(scan.rest.len()));
        } else if scan.rest.starts_with("/*") {
            scan.blank(block_comment(scan.rest));
        } else if let Some(length) = scan.raw_string() {
            scan.blank(length);
        } else if next == '"' {
            scan.blank(string(scan.rest));
        } else if let Some(length) = character(scan.rest) {
            scan.blank(length);
        } else {
            scan.code.push(next);
            scan.rest = &scan.rest[next.len_utf8()..];
        }
    }
    scan.code
}

struct Scan<'a> {
    rest: &'a str,
    code: String,
}

impl Scan<'_> {
    fn blank(&mut self, length: usize) {
        let (gone, rest) = self.rest.split_at(length);
        self.code.extend(gone.chars().map(|character| match character {
            '\n' => '\n',
            _ => ' ',
        }));
        self.rest = rest;
    }

    /// The length of the raw string that starts here; `br` and `cr` are recognized at their `r`.
    fn raw_string(&self) -> Option<usize> {
        let after = self.rest.strip_prefix('r')?;
        let opening = after.trim_start_matches('#');
        let hashes = after.len() - opening.len();
        opening.strip_prefix('"')?;
        let mut before = self.code.chars().rev();
        let nearest = before.next();
        let prefixed = matches!(nearest, Some('b' | 'c'));
        let outer = if prefixed { before.next() } else { nearest };
        if outer.is_some_and(is_identifier_char) {
            return None;
        }
        let start = 1 + hashes + 1;
        let end = format!("\"{}", "#".repeat(hashes));
        let length = self.rest[start..].find(&end).map(|at| start + at + end.len());
        Some(length.unwrap_or(self.rest.len()))
    }
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += next.len_utf8();
        }
    }
    text.len()
}

fn string(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return at + 1,
            '\\' => {
                characters.next();
            }
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    let mut characters = inner.char_indices();
    let (_, first) = characters.next()?;
    if first == '\\' {
        // The escaped character may be the quote itself, so the search starts after it.
        let (_, escaped) = characters.next()?;
        let start = 2 + escaped.len_utf8();
        return text[start..].find('\'').map(|at| start + at + 1);
    }
    let (at, second) = characters.next()?;
    (second == '\'' && first != '\'').then_some(1 + at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let squeezed: Vec<String> = code_only(text)
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(squeezed.join("\n"), expected);
    }

    #[test]
    fn comments_go() {
        check("a // b\nc /* d /* e */\n f */ g", "a\nc\ng");
    }

    #[test]
    fn strings_are_blanked_with_their_escapes_and_hashes() {
        check(r#"a("b \" // c") d"#, "a( ) d");
        check("a r##\"b \"# c\n\"## d", "a\nd");
        check("br#\"x\"# y", "b y");
        check("for\"x\" y", "for y");
    }

    #[test]
    fn character_literals_are_blanked_and_lifetimes_kept() {
        check(r#"a('"') b('\'') c('\u{1F}') d<'x>('é') &'y z"#, "a( ) b( ) c( ) d<'x>( ) &'y z");
    }

    #[test]
    fn a_raw_identifier_is_not_a_raw_string() {
        check("r#type + r\"x\"", "r#type +");
    }
}
