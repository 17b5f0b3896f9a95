//! Counts with the right word.

/// A number with its noun.
pub fn pluralize(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
