//! Replaces a piece of a text and changes nothing else. If the piece is not found, the error lists similar
//! places.

use std::fmt::Write;

use super::contents::MAX_FILE_SIZE;
use super::similar_places::{Difference, SimilarPlace, similar_places};
use super::text_encoding::{LineEndings, to_crlf};

/// How many lines of ambiguous matches are listed.
const MAX_LISTED_LINES: usize = 10;

/// Which occurrences are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The only occurrence.
    Once,
    /// Every occurrence.
    Everywhere,
}

/// A replacement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replacement<'a> {
    pub(crate) old: &'a str,
    pub(crate) new: &'a str,
    pub(crate) extent: Extent,
}

/// A text after a replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplaceResult {
    pub(crate) text: String,
    /// The number of replacements.
    pub(crate) count: usize,
    /// Where the first replacement starts, in bytes of either text.
    pub(crate) start: usize,
    /// Where the first replacement ends, in bytes of the new text.
    pub(crate) end: usize,
}

/// Why nothing was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReplaceError {
    /// The old text is empty.
    Empty,
    /// Old and new text are the same.
    NoChange,
    /// The old text does not occur.
    NotFound {
        /// Similar places.
        near: Vec<SimilarPlace>,
    },
    /// The text would become too large.
    TooLarge,
    /// The old text occurs more than once, in these lines.
    Ambiguous { count: usize, lines: Vec<usize> },
}

/// Replaces a piece of a text. In a text with CRLF line endings, the arguments are converted to CRLF.
pub(crate) fn replace(
    text: &str,
    replacement: Replacement<'_>,
) -> Result<ReplaceResult, ReplaceError> {
    if replacement.old.is_empty() {
        return Err(ReplaceError::Empty);
    }
    let ends = LineEndings::detect(text);
    let adopted = to_crlf(replacement.old);
    // In a CRLF text, a single LF would match half a line ending.
    let is_as_written = ends != LineEndings::CrLf && text.contains(replacement.old);
    let old = match is_as_written {
        true => replacement.old,
        false => adopted.as_str(),
    };
    let new = match old == replacement.old {
        true => ends.normalize(replacement.new),
        false => to_crlf(replacement.new),
    };
    if old == new {
        return Err(ReplaceError::NoChange);
    }
    let Some(start) = text.find(old) else {
        return Err(ReplaceError::NotFound { near: similar_places(text, replacement.old) });
    };
    let end = start + new.len();
    match replacement.extent {
        Extent::Everywhere => {
            let count = text.matches(old).count();
            let added = count.saturating_mul(new.len());
            let size = (text.len() - count * old.len()).saturating_add(added);
            if u64::try_from(size).is_ok_and(|size| size > MAX_FILE_SIZE) {
                return Err(ReplaceError::TooLarge);
            }
            Ok(ReplaceResult { text: text.replace(old, &new), count, start, end })
        }
        Extent::Once => {
            let places = occurrences(text, old);
            if places.len() > 1 {
                let lines =
                    places.iter().take(MAX_LISTED_LINES).map(|at| line_number(text, *at)).collect();
                return Err(ReplaceError::Ambiguous { count: places.len(), lines });
            }
            let mut changed = String::with_capacity(text.len() + new.len());
            changed.push_str(&text[..start]);
            changed.push_str(&new);
            changed.push_str(&text[start + old.len()..]);
            Ok(ReplaceResult { text: changed, count: 1, start, end })
        }
    }
}

/// The start of every occurrence, including overlapping ones, since either could be meant.
fn occurrences(text: &str, piece: &str) -> Vec<usize> {
    let step = piece.chars().next().map_or(1, char::len_utf8);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(piece)) {
        found.push(from + at);
        from += at + step;
    }
    found
}

/// The line of a byte offset, from 1.
pub(crate) fn line_number(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

impl ReplaceError {
    /// The message for the model.
    pub(crate) fn message(&self) -> String {
        match self {
            ReplaceError::Empty => "`old_string` is empty; Write makes a file".to_owned(),
            ReplaceError::NoChange => "`old_string` and `new_string` are the same".to_owned(),
            ReplaceError::TooLarge => format!("it would have more than {MAX_FILE_SIZE} bytes"),
            ReplaceError::Ambiguous { count, lines } => {
                let named: Vec<String> = lines.iter().map(usize::to_string).collect();
                let more = if *count > lines.len() { ", …" } else { "" };
                format!(
                    "`old_string` was found {count} times (lines {}{more}); take in more of its \
                     surroundings so that it is unique, or set `replace_all`",
                    named.join(", ")
                )
            }
            ReplaceError::NotFound { near } => {
                let mut text = "`old_string` was not found".to_owned();
                if near.is_empty() {
                    text.push_str("; nothing in the file is similar");
                }
                for place in near {
                    let how = match place.difference {
                        Difference::Whitespace => "differs only in whitespace",
                        Difference::Text => "is like it",
                    };
                    let _infallible = write!(text, "\nline {} {how}:\n{}", place.line, place.text);
                }
                text
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn once<'a>(old: &'a str, new: &'a str) -> Replacement<'a> {
        Replacement { old, new, extent: Extent::Once }
    }

    fn everywhere<'a>(old: &'a str, new: &'a str) -> Replacement<'a> {
        Replacement { old, new, extent: Extent::Everywhere }
    }

    proptest! {
        #[test]
        fn nothing_but_the_match_is_changed(
            before in "([a-c ]|\r\n|\n){0,20}", old in "[a-c\n]{1,6}", after in "([a-c ]|\r\n|\n){0,20}",
            new in "[x-z\n]{0,6}", has_returns: bool,
        ) {
            let text = format!("{before}{old}{after}");
            let text = if has_returns { to_crlf(&text) } else { text };
            match replace(&text, once(&old, &new)) {
                Ok(replaced) => {
                    let start = replaced.start;
                    let put = &replaced.text[start..replaced.end];
                    prop_assert_eq!(&text[..start], &replaced.text[..start]);
                    let taken = text.len() + put.len() - replaced.text.len();
                    prop_assert_eq!(&text[start + taken..], &replaced.text[replaced.end..]);
                    prop_assert_eq!(put.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
                    let took = &text[start..start + taken];
                    prop_assert_eq!(took.replace("\r\n", "\n"), old.replace("\r\n", "\n"));
                }
                Err(ReplaceError::NoChange) => prop_assert_eq!(old, new),
                Err(error) => {
                    let is_ambiguous = matches!(error, ReplaceError::Ambiguous { .. });
                    prop_assert!(is_ambiguous, "{:?}", error);
                }
            }
        }

        #[test]
        fn replacing_everywhere_counts_every_match(
            text in "[ab\n]{0,60}", old in "[ab]{1,3}", new in "[xy]{0,3}",
        ) {
            if let Ok(replaced) = replace(&text, everywhere(&old, &new)) {
                prop_assert_eq!(replaced.count, text.matches(&old).count());
                prop_assert_eq!(replaced.text, text.replace(&old, &new));
            }
        }

        #[test]
        fn crlf_line_endings_are_preserved(
            lines in prop::collection::vec("[a-c]{1,4}", 2..8), new in "[x\n]{1,5}",
        ) {
            let text = lines.join("\r\n") + "\r\n";
            for old in [format!("{}\n", lines[0]), format!("\n{}", lines[1])] {
                let replaced = replace(&text, everywhere(&old, &new)).expect("it is there");
                let bare = replaced.text.replace("\r\n", "");
                prop_assert!(!bare.contains('\n') && !bare.contains('\r'), "{:?}", replaced.text);
            }
        }
    }

    #[test]
    fn overlapping_matches_are_ambiguous() {
        assert_eq!(
            replace("aaa", once("aa", "b")),
            Err(ReplaceError::Ambiguous { count: 2, lines: vec![1, 1] })
        );
        assert_eq!(
            replace("ééé", once("éé", "b")).unwrap_err().message().matches("2 times").count(),
            1
        );
    }

    #[test]
    fn a_missing_text_is_reported_with_similar_places() {
        let text = "fn main() {\n    let total = add(1, 2);\n    print(total);\n}\n";
        let missed = replace(text, once("let total = add(1, 3);", "x")).unwrap_err();
        assert_eq!(
            missed.message(),
            "`old_string` was not found\nline 2 is like it:\n    let total = add(1, 2);"
        );
        let blanks = "\tlet total = add(1, 2);\n\tprint(total);";
        let missed = replace(text, once(blanks, "x")).unwrap_err().message();
        assert!(missed.contains("line 2 differs only in whitespace"), "{missed}");
        let nothing = replace(text, once("something else entirely", "x")).unwrap_err();
        assert_eq!(nothing.message(), "`old_string` was not found; nothing in the file is similar");
    }

    #[test]
    fn replacements_without_effect_are_errors() {
        assert_eq!(replace("a", once("", "b")), Err(ReplaceError::Empty));
        assert_eq!(replace("a", once("a", "a")), Err(ReplaceError::NoChange));
        assert_eq!(replace("a\r\nb\r\n", once("a\nb", "a\nb")), Err(ReplaceError::NoChange));
        let (text, new) = ("a".repeat(10_000), "b".repeat(10_000));
        assert_eq!(replace(&text, everywhere("a", &new)), Err(ReplaceError::TooLarge));
    }
}
