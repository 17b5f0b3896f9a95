//! Reads a kept text by lines. A line that never ends counts as many, so that every part of a text can be reached.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::num::NonZeroU64;
use std::ops::ControlFlow;

use thiserror::Error;

use super::spill;
use super::spill::{ResultId, SpillStore};

/// A line longer than this, in bytes, counts as several.
const MAX_LINE_BYTES: usize = 4096;
/// The most characters of one page.
const MAX_PAGE_CHARS: usize = 100_000;

/// Lines to read, the last one included. The first line of a text is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRange {
    /// Where to begin.
    pub first: NonZeroU64,
    /// Where to end; a text may end before.
    pub last: NonZeroU64,
}

/// Some lines of a kept text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillPage {
    /// The text, the server's own.
    pub text: String,
    /// The last line in it; less than the first that was asked for if there is none.
    pub last: u64,
    /// Is there more after it?
    pub more: bool,
}

/// A kept text could not be read.
#[derive(Debug, Error)]
#[error("could not read result `{id}`")]
pub struct SpillPageError {
    /// Which.
    pub id: ResultId,
    /// Why; one that is gone was never there, or left to make room.
    #[source]
    pub cause: io::Error,
}

impl SpillStore {
    /// Reads lines of a kept text, as many of them as fit on a page.
    pub fn page(&self, id: &ResultId, lines: LineRange) -> Result<SpillPage, SpillPageError> {
        self.page_within(id, lines, MAX_PAGE_CHARS)
    }

    /// The same for a page of at most so many characters; one line is there in any case.
    pub fn page_within(
        &self,
        id: &ResultId,
        lines: LineRange,
        max: usize,
    ) -> Result<SpillPage, SpillPageError> {
        let read = || {
            let file = spill::open(&self.path(id))?;
            read_page(file, lines, max)
        };
        read().map_err(|cause| SpillPageError { id: id.clone(), cause })
    }
}

fn read_page(file: File, lines: LineRange, max: usize) -> io::Result<SpillPage> {
    let mut page = SpillPage { text: String::new(), last: 0, more: false };
    let (first, last) = (lines.first.get(), lines.last.get());
    let mut characters = 0;
    each_line(BufReader::with_capacity(64 * 1024, file), |number, line| {
        if number < first {
            page.last = number;
            return ControlFlow::Continue(());
        }
        let text = String::from_utf8_lossy(line);
        characters += text.chars().count();
        if number > last || (characters > max && number > first) {
            page.more = true;
            return ControlFlow::Break(());
        }
        page.text.push_str(&text);
        page.last = number;
        ControlFlow::Continue(())
    })?;
    Ok(page)
}

/// Shows every line with its number, its line break with it.
fn each_line(
    mut from: impl BufRead,
    mut visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut line: Vec<u8> = Vec::with_capacity(MAX_LINE_BYTES);
    let mut number = 0;
    loop {
        let room = MAX_LINE_BYTES - line.len();
        let count = (&mut from).take_line(room, &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        let is_whole = count == 0 || line.ends_with(b"\n");
        let end = if is_whole { line.len() } else { whole_characters(&line) };
        number += 1;
        if visit(number, &line[..end]).is_break() {
            return Ok(());
        }
        line.drain(..end);
    }
}

trait TakeLine {
    /// Reads up to a line break or so many bytes, whichever comes first.
    fn take_line(self, room: usize, line: &mut Vec<u8>) -> io::Result<usize>;
}

impl<R: BufRead> TakeLine for &mut R {
    fn take_line(self, room: usize, line: &mut Vec<u8>) -> io::Result<usize> {
        io::Read::take(self, room as u64).read_until(b'\n', line)
    }
}

/// How much of some bytes is whole characters. What is no text at all is taken as it is.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        Ok(_) | Err(_) => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    fn kept(text: &str) -> (tempfile::TempDir, SpillStore, ResultId) {
        let home = tempfile::tempdir().expect("a temp folder");
        let keep = SpillStore {
            folder: home.path().to_owned(),
            ..SpillStore::in_data_folder(home.path())
        };
        let id = ResultId::parse(&"0123456789ab".repeat(2)).expect("an id");
        std::fs::write(keep.path(&id), text).expect("a file");
        (home, keep, id)
    }

    fn lines(first: u64, last: u64) -> LineRange {
        let number = |n| NonZeroU64::new(n).expect("lines begin at 1");
        LineRange { first: number(first), last: number(last) }
    }

    fn check(text: &str, (first, last): (u64, u64), expected: (&str, u64, bool)) {
        let (_home, keep, id) = kept(text);
        let page = keep.page(&id, lines(first, last)).expect("it is there");
        assert_eq!((page.text.as_str(), page.last, page.more), expected);
    }

    #[test]
    fn lines_are_counted_from_one_and_both_ends_are_in() {
        let text = "a\nb\nc\nd";
        check(text, (1, 2), ("a\nb\n", 2, true));
        check(text, (3, 9), ("c\nd", 4, false));
        check(text, (4, 4), ("d", 4, false));
        check(text, (9, 12), ("", 4, false));
        check(text, (3, 2), ("", 2, true));
        check("", (1, 1), ("", 0, false));
    }

    #[test]
    fn a_line_without_an_end_counts_as_several_and_none_breaks_a_character() {
        let text = "ü€😀".repeat(3000);
        let (_home, keep, id) = kept(&text);
        let mut read = String::new();
        let mut next = 1;
        loop {
            let page = keep.page(&id, lines(next, next)).expect("it is there");
            read.push_str(&page.text);
            next += 1;
            if !page.more {
                break;
            }
        }
        assert_eq!((read == text, next), (true, 8));
    }

    #[test]
    fn a_page_ends_before_it_is_too_large() {
        let (_home, keep, id) = kept(&format!("{}\n", "x".repeat(999)).repeat(300));
        let page = keep.page(&id, lines(1, 300)).expect("it is there");
        assert_eq!((page.text.len(), page.last, page.more), (100_000, 100, true));
    }

    #[test]
    fn a_link_in_place_of_a_result_is_not_followed() {
        let (home, keep, id) = kept("x");
        std::fs::rename(keep.path(&id), home.path().join("secret")).expect("moved");
        symlink("secret", keep.path(&id)).expect("a link");
        let error = keep.page(&id, lines(1, 1)).expect_err("it is a link");
        assert_eq!(error.to_string(), format!("could not read result `{id}`"));
    }

    proptest! {
        #[test]
        fn pages_together_are_the_text(text in "[a-zü😀\n]{0,200}", step in 1u64..5) {
            let (_home, keep, id) = kept(&text);
            let (mut read, mut next) = (String::new(), 1);
            loop {
                let page = keep.page(&id, lines(next, next + step - 1)).expect("it is there");
                read.push_str(&page.text);
                next += step;
                if !page.more { break; }
            }
            prop_assert_eq!(read, text);
        }
    }
}
