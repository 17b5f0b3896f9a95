//! Rule: tests do not sleep. They pause time or wait for the event.

use super::Finding;
use super::source::LineKind;
use super::tree::Tree;

const SLEEPS: &[&str] = &["thread::sleep", "time::sleep"];
/// The only exception: waiting for another process, marked with this comment on the line.
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
    use crate::commands::tidy::fixture::check;

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
    fn product_code_and_tests_with_a_reason_may_sleep() {
        let product = "//! A.\nasync fn f() { tokio::time::sleep(X).await }\n";
        let excused = "//! A.\nfn f() {\n    thread::sleep(X); // waits for another process\n}\n";
        check(
            "sleeps",
            &[("crates/host/src/a.rs", product), ("crates/host/tests/b.rs", excused)],
            &[],
        );
    }
}
