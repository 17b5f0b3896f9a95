//! The difference of two texts in the unified format.

use similar::TextDiff;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Returns the difference of two texts; empty if they are equal. Mask secrets in the texts before.
pub fn unified_diff(name: &str, before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after)
        .unified_diff()
        .context_radius(CONTEXT)
        .header(name, name)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_its_context() {
        assert_eq!(unified_diff("f", "a\n", "a\n"), "");
        assert_eq!(
            unified_diff("f", "1\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n"),
            "--- f\n+++ f\n@@ -2,4 +2,4 @@\n 2\n 3\n 4\n-5\n+five\n"
        );
    }
}
