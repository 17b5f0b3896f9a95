//! Regular expressions of a schema, with the work that a match may take. Patterns are ECMA-262 and are translated to the
//! syntax of the `regex` crate, whose matches take linear time. Only what it does not support, such as lookaheads, is
//! matched by backtracking, with a limit.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The most different patterns of a schema.
const MAX_PATTERNS: usize = 128;
/// The maximum size of all compiled patterns of a schema in bytes.
const MAX_TOTAL_BYTES: usize = 4 << 20;
/// The sizes that a compiled pattern is tried with, in bytes, and the steps to pay for 1024 bytes of text. The worst
/// time per byte grows with the number of states, and so with the size.
const SIZE_CLASSES: [(usize, u64); 6] = [
    (2 << 10, 512),
    (4 << 10, 3 << 10),
    (16 << 10, 12 << 10),
    (64 << 10, 48 << 10),
    (256 << 10, 192 << 10),
    (1 << 20, 768 << 10),
];
/// The cache of an automaton in bytes.
const AUTOMATON_BYTES: usize = 128 << 10;
/// The backtracking limit of a match.
const MAX_BACKTRACKS: usize = 10_000;

/// The compiled patterns of a schema. Equal ones are compiled once.
#[derive(Debug, Default)]
pub(super) struct PatternSet {
    patterns: Vec<Pattern>,
    total_bytes: usize,
}

/// The place of a pattern in its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternId(usize);

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    source: String,
    engine: Engine,
    size: usize,
    steps_per_kib: u64,
}

#[derive(Debug)]
enum Engine {
    Linear(regex::Regex),
    Backtracking(fancy_regex::Regex),
}

impl PatternSet {
    /// Compiles a pattern. `None` if it is invalid or too large.
    pub(super) fn add(&mut self, source: &str) -> Option<PatternId> {
        if let Some(known) = self.patterns.iter().position(|it| it.source == source) {
            return Some(PatternId(known));
        }
        if self.patterns.len() >= MAX_PATTERNS {
            return None;
        }
        let pattern = caught(|| Pattern::compile(source)).flatten()?;
        self.total_bytes += pattern.size;
        if self.total_bytes > MAX_TOTAL_BYTES {
            return None;
        }
        self.patterns.push(pattern);
        Some(PatternId(self.patterns.len() - 1))
    }

    pub(super) fn get(&self, PatternId(index): PatternId) -> &Pattern {
        &self.patterns[index]
    }
}

impl Pattern {
    fn compile(source: &str) -> Option<Pattern> {
        let translated = jsonschema_regex::to_rust_regex(source).ok()?;
        SIZE_CLASSES.into_iter().find_map(|(size, steps_per_kib)| {
            let engine = linear(&translated, size).or_else(|| backtracking(&translated, size))?;
            Some(Pattern { source: source.to_owned(), engine, size, steps_per_kib })
        })
    }

    /// The text of the pattern.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// The steps to pay for a match.
    pub(super) fn steps(&self, text: &str) -> u64 {
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let read_once = length.saturating_mul(self.steps_per_kib) / 1024 + 1;
        match &self.engine {
            Engine::Linear(_) => read_once,
            // After each backtrack it may read all of the text again.
            Engine::Backtracking(_) => {
                let backtracks = u64::try_from(MAX_BACKTRACKS).unwrap_or(u64::MAX);
                read_once.saturating_mul(length.min(backtracks).max(1))
            }
        }
    }

    /// Whether the pattern is found in the text. Yes, if the engine gives up: the schema is at fault, not the text.
    pub(super) fn is_match(&self, text: &str) -> bool {
        let found = caught(|| match &self.engine {
            Engine::Linear(regex) => regex.is_match(text),
            Engine::Backtracking(regex) => regex.is_match(text).unwrap_or(true),
        });
        found.unwrap_or(true)
    }
}

fn linear(translated: &str, size: usize) -> Option<Engine> {
    let mut builder = regex::RegexBuilder::new(translated);
    let regex = builder.size_limit(size).dfa_size_limit(AUTOMATON_BYTES).build();
    regex.ok().map(Engine::Linear)
}

fn backtracking(translated: &str, size: usize) -> Option<Engine> {
    let mut builder = fancy_regex::RegexBuilder::new(translated);
    builder.backtrack_limit(MAX_BACKTRACKS);
    let regex = builder.delegate_size_limit(size).delegate_dfa_size_limit(AUTOMATON_BYTES).build();
    regex.ok().map(Engine::Backtracking)
}

/// Both engines panic on a few patterns (<https://github.com/rust-lang/regex/issues/1344>). Neither leaves anything
/// behind that is used later.
fn caught<T>(act: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(act)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, matching: &[&str], others: &[&str]) {
        let mut set = PatternSet::default();
        let pattern = set.add(source).expect("a pattern");
        for text in matching {
            assert!(set.get(pattern).is_match(text), "{text}");
        }
        for text in others {
            assert!(!set.get(pattern).is_match(text), "{text}");
        }
    }

    #[test]
    fn patterns_are_found_anywhere_as_in_ecmascript() {
        check("b+", &["abc"], &["ac"]);
        check(r"^\d{2}$", &["12"], &["1", "\u{0661}\u{0662}"]);
        check(r"^(?!x)\w+$", &["abc"], &["xyz"]);
        check(r"^\/a\-b$", &["/a-b"], &["a-b"]);
    }

    #[test]
    fn a_pattern_that_backtracks_too_much_matches() {
        check(r"^((a|aa)+)+\2b$", &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], &[]);
    }

    #[test]
    fn invalid_large_and_too_many_patterns_are_not_compiled() {
        let mut set = PatternSet::default();
        assert_eq!(set.add("(["), None);
        assert_eq!(set.add("((a{1000}){1000}){1000}"), None);
        let first = set.add("x0");
        assert!((1..MAX_PATTERNS).all(|it| set.add(&format!("x{it}")).is_some()));
        assert_eq!((set.add("more"), set.add("x0")), (None, first));
    }

    #[test]
    fn a_larger_automaton_pays_more_for_each_byte() {
        let mut set = PatternSet::default();
        let text = "a".repeat(1 << 16);
        let mut steps = |source: &str| {
            let pattern = set.add(source).expect("a pattern");
            set.get(pattern).steps(&text)
        };
        assert_eq!(steps("^[A-Za-z0-9+/]*={0,2}$"), (1 << 15) + 1);
        let (few, many) = (steps("[ab]*a[ab]{100}"), steps("[ab]*a[ab]{2000}"));
        assert!(few < many, "{few} {many}");
        assert!(steps("(?=b)") > 1 << 28);
    }
}
