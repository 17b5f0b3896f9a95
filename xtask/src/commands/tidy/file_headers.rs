//! Rule: every Rust file starts with a comment that says what it owns.

use super::Finding;
use super::tree::Tree;

/// Finds Rust files whose first line is not `//!` with a word after it.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let advice = "open the file with `//!`: what it owns, and what it leaves to whom";
    let files = tree.sources.iter().filter(|file| {
        let first = file.source.lines.first();
        let header = first.and_then(|line| line.text.strip_prefix("//!"));
        header.is_none_or(|header| header.trim().is_empty())
    });
    files.map(|file| Finding::new(&file.path, 1, advice)).collect()
}

#[cfg(test)]
mod tests {
    use crate::commands::tidy::fixture::check;

    #[test]
    fn a_file_starts_with_a_module_comment() {
        check(
            "file-headers",
            &[
                ("build.rs", "//!\n"),
                ("crates/host/src/a.rs", "//! Owns A.\nfn a() {}\n"),
                ("crates/host/src/b.rs", "fn b() {}\n"),
                ("crates/host/src/c.rs", ""),
                ("crates/host/tests/d.rs", "\n//! Late.\n"),
                ("xtask/src/e.rs", "/// Outer.\n"),
            ],
            &[
                "build.rs:1",
                "crates/host/src/b.rs:1",
                "crates/host/src/c.rs:1",
                "crates/host/tests/d.rs:1",
                "xtask/src/e.rs:1",
            ],
        );
    }
}
