//! Wall: one task owns each piece of changing state, so `host` and `gateway` hold no lock. In `gateway`, state that several
//! tasks change is in a `Shared`, and the files that may use one are listed here.

use super::Finding;
use super::source::LineKind;
use super::tree::{RustFile, Tree};

const LOCK_FREE_CRATES: &[&str] = &["host", "gateway"];
/// Bare names, so that a lock whose type is inferred is found as well.
const LOCKS: &[&str] = &["Mutex", "RwLock"];
/// A watch channel is a lock where its value is changed in place or by several senders. An owner that only publishes uses
/// `send`.
const LOCK_LIKE_CALLS: &[&str] = &["send_modify", "send_if_modified", "send_replace"];
/// The type that marks shared state, and its file.
const SHARED: &str = "shared::Shared";
const SHARED_FILE: &str = "crates/gateway/src/shared.rs";
/// The files that hold shared state. Each says at the field why no task owns it.
const SHARED_STATE: &[&str] = &[
    "crates/gateway/src/http/session_table.rs",
    "crates/gateway/src/relay/call_contexts.rs",
    "crates/gateway/src/task_owners.rs",
    "crates/gateway/src/telemetry/metrics.rs",
];

/// Finds locks where there should be a task and a channel, and shared state that is not listed.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.sources {
        let Some(folder) = file.product_crate().filter(|it| LOCK_FREE_CRATES.contains(it)) else {
            continue;
        };
        let advice = "send an event to the task that owns the state; readers get a snapshot";
        findings.extend(LOCKS.iter().flat_map(|lock| mentions(file, lock, advice)));
        if folder == "gateway" && file.path != SHARED_FILE {
            let advice = "publish with `send` from the task that owns the state, or use `Shared`";
            findings.extend(LOCK_LIKE_CALLS.iter().flat_map(|call| mentions(file, call, advice)));
            if !SHARED_STATE.contains(&file.path.as_str()) {
                let advice = "let a task own the state, or list the file in `SHARED_STATE`";
                findings.extend(mentions(file, SHARED, advice));
            }
        }
    }
    findings
}

fn mentions<'a>(
    file: &'a RustFile,
    phrase: &'a str,
    advice: &'static str,
) -> impl Iterator<Item = Finding> + 'a {
    let lines = file.source.mentions(phrase).filter(|line| line.kind == LineKind::Product);
    lines.map(move |line| Finding::new(&file.path, line.number, advice))
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

    #[test]
    fn a_watch_channel_is_a_lock_in_gateway_where_its_value_is_changed_in_place() {
        let locked = "//! A.\nfn f(a: watch::Sender<u8>) {\n    a.send_modify(|it| *it += 1);\n    \
             a.send_if_modified(|_| true);\n    a.send_replace(1);\n    a.send(1).ok();\n}\n";
        check(
            "locks",
            &[
                ("crates/gateway/src/a.rs", locked),
                ("crates/gateway/src/shared.rs", locked),
                ("crates/host/src/a.rs", locked),
            ],
            &[
                "crates/gateway/src/a.rs:3",
                "crates/gateway/src/a.rs:4",
                "crates/gateway/src/a.rs:5",
            ],
        );
    }

    #[test]
    fn shared_state_is_only_in_the_files_that_are_listed() {
        let user = "//! A.\nuse crate::shared::Shared;\nstruct A(Shared<u8>);\nenum B { Shared }\n";
        check(
            "locks",
            &[
                ("crates/gateway/src/exposed/a.rs", user),
                ("crates/gateway/src/task_owners.rs", user),
            ],
            &["crates/gateway/src/exposed/a.rs:2"],
        );
    }
}
