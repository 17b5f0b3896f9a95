//! Wall: one task owns each piece of changing state, so `host` and `gateway` hold no lock.

use super::Finding;
use super::source::LineKind;
use super::tree::Tree;

const LOCK_FREE_CRATES: &[&str] = &["host", "gateway"];
/// Bare names, so that a lock whose type is inferred is found as well.
const LOCKS: &[&str] = &["Mutex", "RwLock"];

/// Finds locks where there should be a task and a channel.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let advice = "send an event to the task that owns the state; readers get a snapshot";
    let mut findings = Vec::new();
    for file in &tree.sources {
        if !file.product_crate().is_some_and(|folder| LOCK_FREE_CRATES.contains(&folder)) {
            continue;
        }
        for lock in LOCKS {
            let lines = file.source.mentions(lock).filter(|line| line.kind == LineKind::Product);
            findings.extend(lines.map(|line| Finding::new(&file.path, line.number, advice)));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::chores::tidy::fixture::check;

    const BAD: &str =
        "//! A.\nuse tokio::sync::{\n    Mutex,\n    mpsc,\n};\nstruct A(RwLock<u8>);\n";

    #[test]
    fn host_and_gateway_hold_no_lock() {
        check(
            "locks",
            &[("crates/gateway/src/a.rs", BAD), ("crates/host/src/b.rs", BAD)],
            &[
                "crates/gateway/src/a.rs:3",
                "crates/gateway/src/a.rs:6",
                "crates/host/src/b.rs:3",
                "crates/host/src/b.rs:6",
            ],
        );
    }

    #[test]
    fn other_crates_and_tests_may() {
        let test = "//! No Mutex.\n#[cfg(test)]\nmod tests {\n    use std::sync::Mutex;\n}\n";
        check("locks", &[("crates/auth/src/a.rs", BAD), ("crates/host/src/b.rs", test)], &[]);
    }
}
