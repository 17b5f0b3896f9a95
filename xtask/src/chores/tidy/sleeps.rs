//! Wall: tests do not sleep. Time is paused, or the test waits for the thing itself.

use super::Finding;
use super::source::LineKind;
use super::tree::Tree;

const SLEEPS: &[&str] = &["thread::sleep", "time::sleep"];
/// The one thing that can only be watched from outside; the line says so.
const ALLOWED_COMMENT: &str = "// waits for another process";

/// Finds sleeps in test code.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let advice = "pause the clock or wait for the event itself, with a deadline";
    let mut findings = Vec::new();
    for file in &tree.sources {
        for sleep in SLEEPS {
            let lines = file
                .source
                .mentions(sleep)
                .filter(|line| line.kind == LineKind::Test && !line.text.contains(ALLOWED_COMMENT));
            findings.extend(lines.map(|line| Finding::new(&file.path, line.number, advice)));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::chores::tidy::fixture::check;

    #[test]
    fn a_test_does_not_sleep() {
        let unit = "//! A.\n#[cfg(test)]\nmod tests {\n    use tokio::time::{self, sleep};\n    \
                    async fn f() { time::sleep(X).await }\n}\n";
        let whole = "//! A.\nfn f() { std::thread::sleep(X) }\n";
        check(
            "sleeps",
            &[("crates/host/src/a.rs", unit), ("crates/host/tests/b.rs", whole)],
            &["crates/host/src/a.rs:4", "crates/host/src/a.rs:5", "crates/host/tests/b.rs:2"],
        );
    }

    #[test]
    fn the_product_may_and_a_test_with_a_reason_may() {
        let product = "//! A.\nasync fn f() { tokio::time::sleep(X).await }\n";
        let excused = "//! A.\nfn f() {\n    thread::sleep(X); // waits for another process\n}\n";
        check(
            "sleeps",
            &[("crates/host/src/a.rs", product), ("crates/host/tests/b.rs", excused)],
            &[],
        );
    }
}
