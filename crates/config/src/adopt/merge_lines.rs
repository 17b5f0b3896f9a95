//! Merges two changes of one text, line by line.

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// One replaced range of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hunk {
    start: usize,
    end: usize,
    new_start: usize,
    new_end: usize,
}

/// Applies the change from `base` to `theirs` and the one from `base` to `ours`. Returns `None` where both change the
/// same lines or lines next to each other.
pub fn merge_lines(base: &str, ours: &str, theirs: &str) -> Option<String> {
    let base: Vec<&str> = base.split_inclusive('\n').collect();
    let ours: Vec<&str> = ours.split_inclusive('\n').collect();
    let theirs: Vec<&str> = theirs.split_inclusive('\n').collect();
    let (our_hunks, their_hunks) = (hunks(&base, &ours), hunks(&base, &theirs));
    let overlaps = |a: &Hunk, b: &Hunk| a.start <= b.end && b.start <= a.end;
    if our_hunks.iter().any(|a| their_hunks.iter().any(|b| overlaps(a, b))) {
        return None;
    }
    let mut all: Vec<(Hunk, &[&str])> = Vec::new();
    all.extend(our_hunks.iter().map(|hunk| (*hunk, &ours[hunk.new_start..hunk.new_end])));
    all.extend(their_hunks.iter().map(|hunk| (*hunk, &theirs[hunk.new_start..hunk.new_end])));
    all.sort_by_key(|(hunk, _)| hunk.start);
    let mut merged = String::new();
    let mut at = 0;
    for (hunk, lines) in all {
        merged.extend(base[at..hunk.start].iter().chain(lines).copied());
        at = hunk.end;
    }
    merged.extend(base[at..].iter().copied());
    Some(merged)
}

fn hunks(old: &[&str], new: &[&str]) -> Vec<Hunk> {
    let changed = |op: &DiffOp| {
        let (old, new) = (op.old_range(), op.new_range());
        let hunk = Hunk { start: old.start, end: old.end, new_start: new.start, new_end: new.end };
        (!matches!(op, DiffOp::Equal { .. })).then_some(hunk)
    };
    capture_diff_slices(Algorithm::Myers, old, new).iter().filter_map(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base: &str, ours: &str, theirs: &str, expected: Option<&str>) {
        let lines = |text: &str| text.split(' ').map(|it| format!("{it}\n")).collect::<String>();
        let merged = merge_lines(&lines(base), &lines(ours), &lines(theirs));
        assert_eq!(merged, expected.map(lines));
    }

    #[test]
    fn changes_of_different_lines_are_both_applied() {
        check("a b c d e", "a B c d e", "a b c d E", Some("a B c d E"));
        check("a b c d e", "b c d e", "a b c d e f", Some("b c d e f"));
        check("a b c", "a b c", "a x c", Some("a x c"));
        check("a b c", "a x c", "a b c", Some("a x c"));
    }

    #[test]
    fn changes_of_the_same_lines_are_a_conflict() {
        check("a b c", "a x c", "a y c", None);
        check("a b c", "a x c", "a b y", None);
        check("a b c", "a c", "a b x c", None);
    }
}
