//! How much a name is like another, for telling somebody which one he may have meant.
//! Most names are told apart by their lengths and their letters; only the rest is compared letter by letter.

use super::naming;
use super::tool::Tool;

/// Letters fall into so many drawers.
const BUCKETS: usize = 32;

type LetterCounts = [u8; BUCKETS];

/// A name that nobody has.
pub(super) struct NameQuery {
    /// In lower case, and no longer than any name.
    name: String,
    letters: LetterCounts,
}

impl NameQuery {
    pub(super) fn new(name: &str) -> NameQuery {
        let name: String = name.to_lowercase().chars().take(naming::MAX_NAME_BYTES * 2).collect();
        let letters = letters(name.as_bytes());
        NameQuery { name, letters }
    }

    /// How far it is from a tool's exposed name or its own: less than `limit`, and not far.
    pub(super) fn distance(&self, tool: &Tool, limit: usize) -> Option<usize> {
        if limit == 0 {
            return None;
        }
        // A name that is contested now was perhaps this one's alone before.
        if self.is_unsuffixed_form_of(&tool.exposed_name) {
            return (limit > 1).then_some(1);
        }
        let own = self.edit_distance(&tool.name, limit);
        self.edit_distance(&tool.exposed_name, own.unwrap_or(limit)).or(own)
    }

    /// Is it the other name without what was added to that?
    fn is_unsuffixed_form_of(&self, exposed: &str) -> bool {
        exposed.is_char_boundary(self.name.len())
            && exposed.len() > self.name.len()
            && exposed[..self.name.len()].eq_ignore_ascii_case(&self.name)
            && naming::is_suffix(&exposed[self.name.len()..])
    }

    fn edit_distance(&self, name: &str, limit: usize) -> Option<usize> {
        let limit_distance = (2 + name.len() / 5).min(limit);
        if name.len().abs_diff(self.name.len()) >= limit_distance {
            return None;
        }
        if !name.is_ascii() {
            let distance = strsim::damerau_levenshtein(&self.name, &name.to_lowercase());
            return (distance < limit_distance).then_some(distance);
        }
        let other = letters(name.as_bytes());
        let missing = |one: &LetterCounts, other: &LetterCounts| -> usize {
            one.iter().zip(other).map(|(one, other)| usize::from(one.saturating_sub(*other))).sum()
        };
        // Every letter that the other has not costs a step.
        let least = missing(&self.letters, &other).max(missing(&other, &self.letters));
        if least >= limit_distance {
            return None;
        }
        bounded_edit_distance(self.name.as_bytes(), name.as_bytes(), limit_distance)
    }
}

fn letters(name: &[u8]) -> LetterCounts {
    let mut letters = [0u8; BUCKETS];
    for byte in name {
        // Letters of either case fall into the same drawer.
        let bucket = &mut letters[usize::from(*byte) % BUCKETS];
        *bucket = bucket.saturating_add(1);
    }
    letters
}

/// How many letters have to be put in, taken out, replaced or swapped with their neighbours, where that is less than
/// `limit_distance`. The case of the second name does not matter.
fn bounded_edit_distance(one: &[u8], other: &[u8], limit_distance: usize) -> Option<usize> {
    let width = other.len() + 1;
    let mut before: Vec<usize> = vec![usize::MAX; width];
    let mut last: Vec<usize> = (0..width).collect();
    let mut row: Vec<usize> = vec![0; width];
    for (at, a) in one.iter().enumerate() {
        row.fill(limit_distance);
        row[0] = at + 1;
        // Further from the diagonal than this, it is too far already.
        let (from, to) = (
            (at + 1).saturating_sub(limit_distance).max(1),
            (at + 1 + limit_distance).min(width - 1),
        );
        let mut least = if from == 1 { row[0] } else { limit_distance };
        for there in from..=to {
            let b = other[there - 1].to_ascii_lowercase();
            let replaced = last[there - 1] + usize::from(*a != b);
            let mut best = replaced.min(last[there] + 1).min(row[there - 1] + 1);
            let is_swapped = there > 1
                && at > 0
                && *a == other[there - 2].to_ascii_lowercase()
                && one[at - 1] == b;
            if is_swapped {
                best = best.min(before[there - 2].saturating_add(1));
            }
            row[there] = best.min(limit_distance);
            least = least.min(best);
        }
        if least >= limit_distance {
            return None;
        }
        std::mem::swap(&mut before, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    Some(last[other.len()]).filter(|it| *it < limit_distance)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(one: &str, other: &str, expected: Option<usize>) {
        assert_eq!(
            bounded_edit_distance(one.as_bytes(), other.as_bytes(), 4),
            expected,
            "{one} {other}"
        );
    }

    #[test]
    fn a_swap_is_one_step_and_case_is_none() {
        check("read_file", "raed_file", Some(1)); // misspelt on purpose
        check("read_file", "READ_File", Some(0));
        check("read_file", "reads_file", Some(1));
        check("read_file", "rad_files", Some(2));
        check("read_file", "write_file", None);
        check("read_file", "completely", None);
        check("", "abc", Some(3));
        check("abcd", "", None);
    }

    fn name() -> impl Strategy<Value = String> {
        "[abAB_]{0,12}"
    }

    proptest! {
        #[test]
        fn steps_are_those_that_a_plain_comparison_finds(one in name(), other in name(), limit_distance in 1usize..9) {
            let one = one.to_lowercase();
            let plain = strsim::osa_distance(&one, &other.to_lowercase());
            let expected = (plain < limit_distance).then_some(plain);
            prop_assert_eq!(bounded_edit_distance(one.as_bytes(), other.as_bytes(), limit_distance), expected);
        }

        #[test]
        fn letters_never_tell_apart_what_is_close(one in name(), other in name()) {
            let query = NameQuery::new(&one);
            let limit_distance = 2 + other.len() / 5;
            let plain = strsim::osa_distance(&query.name, &other.to_lowercase());
            let expected = (plain < limit_distance).then_some(plain);
            prop_assert_eq!(query.edit_distance(&other, usize::MAX), expected);
        }
    }
}
