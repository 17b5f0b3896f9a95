//! Finds names similar to an unknown one, for "did you mean" hints. Most names are excluded by length and letter
//! counts; only the rest needs an edit distance.

use super::naming;
use super::tool::Tool;

/// The number of buckets for letter counts.
const BUCKETS: usize = 32;

type LetterCounts = [u8; BUCKETS];

/// An unknown name to compare with.
pub(super) struct NameQuery {
    /// Lower case, truncated to twice the maximum name length.
    name: String,
    letters: LetterCounts,
}

impl NameQuery {
    pub(super) fn new(name: &str) -> NameQuery {
        let name: String = name.to_lowercase().chars().take(naming::MAX_NAME_BYTES * 2).collect();
        let letters = letters(name.as_bytes());
        NameQuery { name, letters }
    }

    /// The distance to a tool's exposed name or its own name, if it is below `limit` and small enough to be similar.
    pub(super) fn distance(&self, tool: &Tool, limit: usize) -> Option<usize> {
        if limit == 0 {
            return None;
        }
        // The name may have been this tool's before it became contested.
        if self.is_unsuffixed_form_of(&tool.exposed_name) {
            return (limit > 1).then_some(1);
        }
        let own = self.edit_distance(&tool.name, limit);
        self.edit_distance(&tool.exposed_name, own.unwrap_or(limit)).or(own)
    }

    /// Whether it is the other name without its hash suffix.
    fn is_unsuffixed_form_of(&self, exposed: &str) -> bool {
        exposed.is_char_boundary(self.name.len())
            && exposed.len() > self.name.len()
            && exposed[..self.name.len()].eq_ignore_ascii_case(&self.name)
            && naming::is_suffix(&exposed[self.name.len()..])
    }

    fn edit_distance(&self, name: &str, limit: usize) -> Option<usize> {
        let max_distance = (2 + name.len() / 5).min(limit);
        if name.len().abs_diff(self.name.len()) >= max_distance {
            return None;
        }
        if !name.is_ascii() {
            let distance = strsim::damerau_levenshtein(&self.name, &name.to_lowercase());
            return (distance < max_distance).then_some(distance);
        }
        let other = letters(name.as_bytes());
        let missing_letters = |one: &LetterCounts, other: &LetterCounts| -> usize {
            one.iter().zip(other).map(|(one, other)| usize::from(one.saturating_sub(*other))).sum()
        };
        // Each missing letter costs one edit.
        let min_distance =
            missing_letters(&self.letters, &other).max(missing_letters(&other, &self.letters));
        if min_distance >= max_distance {
            return None;
        }
        bounded_edit_distance(self.name.as_bytes(), name.as_bytes(), max_distance)
    }
}

fn letters(name: &[u8]) -> LetterCounts {
    let mut letters = [0u8; BUCKETS];
    for byte in name {
        // Upper and lower case fall into the same bucket.
        let bucket = &mut letters[usize::from(*byte) % BUCKETS];
        *bucket = bucket.saturating_add(1);
    }
    letters
}

/// The number of insertions, deletions, replacements and swaps of neighbours, if below `max_distance`. Ignores the
/// case of the second name.
fn bounded_edit_distance(one: &[u8], other: &[u8], max_distance: usize) -> Option<usize> {
    let width = other.len() + 1;
    let mut row_before_last: Vec<usize> = vec![usize::MAX; width];
    let mut last_row: Vec<usize> = (0..width).collect();
    let mut row: Vec<usize> = vec![0; width];
    for (row_index, a) in one.iter().enumerate() {
        row.fill(max_distance);
        row[0] = row_index + 1;
        // Cells further from the diagonal exceed the limit.
        let (from, to) = (
            (row_index + 1).saturating_sub(max_distance).max(1),
            (row_index + 1 + max_distance).min(width - 1),
        );
        let mut min_distance = if from == 1 { row[0] } else { max_distance };
        for column in from..=to {
            let b = other[column - 1].to_ascii_lowercase();
            let replaced = last_row[column - 1] + usize::from(*a != b);
            let mut best = replaced.min(last_row[column] + 1).min(row[column - 1] + 1);
            let is_swapped = column > 1
                && row_index > 0
                && *a == other[column - 2].to_ascii_lowercase()
                && one[row_index - 1] == b;
            if is_swapped {
                best = best.min(row_before_last[column - 2].saturating_add(1));
            }
            row[column] = best.min(max_distance);
            min_distance = min_distance.min(best);
        }
        if min_distance >= max_distance {
            return None;
        }
        std::mem::swap(&mut row_before_last, &mut last_row);
        std::mem::swap(&mut last_row, &mut row);
    }
    Some(last_row[other.len()]).filter(|it| *it < max_distance)
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
    fn a_swap_costs_one_edit_and_case_none() {
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
        fn the_distance_matches_a_reference_implementation(one in name(), other in name(), max_distance in 1usize..9) {
            let one = one.to_lowercase();
            let plain = strsim::osa_distance(&one, &other.to_lowercase());
            let expected = (plain < max_distance).then_some(plain);
            prop_assert_eq!(bounded_edit_distance(one.as_bytes(), other.as_bytes(), max_distance), expected);
        }

        #[test]
        fn letter_counts_never_exclude_similar_names(one in name(), other in name()) {
            let query = NameQuery::new(&one);
            let max_distance = 2 + other.len() / 5;
            let plain = strsim::osa_distance(&query.name, &other.to_lowercase());
            let expected = (plain < max_distance).then_some(plain);
            prop_assert_eq!(query.edit_distance(&other, usize::MAX), expected);
        }
    }
}
