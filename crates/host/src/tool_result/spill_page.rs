//! Reads a saved text by lines. A very long line counts as several, so that every part can be reached.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::num::NonZeroU64;
use std::ops::ControlFlow;

use thiserror::Error;

use super::spill;
use super::spill::{ResultId, SpillStore};

/// Longer lines count as several.
const MAX_LINE_BYTES: usize = 4096;
/// The maximum number of characters of a page.
const MAX_PAGE_CHARS: usize = 100_000;

/// A range of lines, inclusive, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRange {
    /// The first line.
    pub first: NonZeroU64,
    /// The last line; the text may end earlier.
    pub last: NonZeroU64,
}

/// Some lines of a saved text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpillPage {
    /// The lines, as the server sent them.
    pub text: String,
    /// The number of the last line; less than the first requested one if there is none.
    pub last: u64,
    /// Whether more lines follow.
    pub more: bool,
}

/// A saved text could not be read.
#[derive(Debug, Error)]
#[error("could not read result `{id}`")]
#[non_exhaustive]
pub struct SpillPageError {
    /// The id.
    pub id: ResultId,
    /// The I/O error. `NotFound` if the text never existed or was removed.
    #[source]
    pub cause: io::Error,
}

impl SpillStore {
    /// Reads lines of a saved text, as many as fit on a page.
    pub fn page(&self, id: &ResultId, lines: LineRange) -> Result<SpillPage, SpillPageError> {
        self.page_within(id, lines, MAX_PAGE_CHARS)
    }

    /// Reads a page of at most `max` characters, but at least one line.
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

/// Calls `visit` with each line, including its line break, and its number.
fn each_line(
    mut from: impl BufRead,
    mut visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut line: Vec<u8> = Vec::with_capacity(MAX_LINE_BYTES);
    let mut number = 0;
    loop {
        let capacity = MAX_LINE_BYTES - line.len();
        let count = (&mut from).take_line(capacity, &mut line)?;
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
    /// Reads up to a line break or `room` bytes.
    fn take_line(self, capacity: usize, line: &mut Vec<u8>) -> io::Result<usize>;
}

impl<R: BufRead> TakeLine for &mut R {
    fn take_line(self, capacity: usize, line: &mut Vec<u8>) -> io::Result<usize> {
        io::Read::take(self, capacity as u64).read_until(b'\n', line)
    }
}

/// The length of the complete characters at the start. Bytes that are not UTF-8 are kept.
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

    fn store_with(text: &str) -> (tempfile::TempDir, SpillStore, ResultId) {
        let home = tempfile::tempdir().expect("a temp folder");
        let spill = SpillStore {
            folder: home.path().to_owned(),
            ..SpillStore::in_data_folder(home.path())
        };
        let id = ResultId::parse(&"0123456789ab".repeat(2)).expect("an id");
        std::fs::write(spill.path(&id), text).expect("a file");
        (home, spill, id)
    }

    fn lines(first: u64, last: u64) -> LineRange {
        let number = |n| NonZeroU64::new(n).expect("lines begin at 1");
        LineRange { first: number(first), last: number(last) }
    }

    fn check(text: &str, (first, last): (u64, u64), expected: (&str, u64, bool)) {
        let (_home, spill, id) = store_with(text);
        let page = spill.page(&id, lines(first, last)).expect("it is there");
        assert_eq!((page.text.as_str(), page.last, page.more), expected);
    }

    #[test]
    fn lines_are_counted_from_one_and_ranges_are_inclusive() {
        let text = "a\nb\nc\nd";
        check(text, (1, 2), ("a\nb\n", 2, true));
        check(text, (3, 9), ("c\nd", 4, false));
        check(text, (4, 4), ("d", 4, false));
        check(text, (9, 12), ("", 4, false));
        check(text, (3, 2), ("", 2, true));
        check("", (1, 1), ("", 0, false));
    }

    #[test]
    fn a_long_line_counts_as_several_and_splits_no_character() {
        let text = "ü€😀".repeat(3000);
        let (_home, spill, id) = store_with(&text);
        let mut read = String::new();
        let mut next = 1;
        loop {
            let page = spill.page(&id, lines(next, next)).expect("it is there");
            read.push_str(&page.text);
            next += 1;
            if !page.more {
                break;
            }
        }
        assert_eq!((read == text, next), (true, 8));
    }

    #[test]
    fn a_page_stays_within_its_limit() {
        let (_home, spill, id) = store_with(&format!("{}\n", "x".repeat(999)).repeat(300));
        let page = spill.page(&id, lines(1, 300)).expect("it is there");
        assert_eq!((page.text.len(), page.last, page.more), (100_000, 100, true));
    }

    #[test]
    fn a_link_in_place_of_a_result_is_not_followed() {
        let (home, spill, id) = store_with("x");
        std::fs::rename(spill.path(&id), home.path().join("secret")).expect("moved");
        symlink("secret", spill.path(&id)).expect("a link");
        let error = spill.page(&id, lines(1, 1)).expect_err("it is a link");
        assert_eq!(error.to_string(), format!("could not read result `{id}`"));
    }

    proptest! {
        #[test]
        fn pages_together_are_the_text(text in "[a-zü😀\n]{0,200}", step in 1u64..5) {
            let (_home, spill, id) = store_with(&text);
            let (mut read, mut next) = (String::new(), 1);
            loop {
                let page = spill.page(&id, lines(next, next + step - 1)).expect("it is there");
                read.push_str(&page.text);
                next += step;
                if !page.more { break; }
            }
            prop_assert_eq!(read, text);
        }
    }
}
