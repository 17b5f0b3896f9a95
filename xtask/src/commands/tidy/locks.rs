//! Rule: one task owns each piece of changing state, so `host` and `gateway` hold no lock. State that several tasks change
//! is in a `Shared` of `wire`; the files that may hold one are listed here, with how many.

use super::Finding;
use super::source::LineKind;
use super::tree::{RustFile, Tree};

const LOCK_FREE_CRATES: &[&str] = &["host", "gateway"];
/// Bare names, so that a lock whose type is inferred is found as well.
const LOCKS: &[&str] = &["Mutex", "RwLock"];
/// A watch channel is a lock where its value is changed in place or by several senders. An owner that only publishes uses
/// `send`.
const LOCK_LIKE_CALLS: &[&str] = &["send_modify", "send_if_modified", "send_replace"];
/// The files in which one owner publishes to receivers with such a call, because `send` drops the value while there is no
/// receiver, or because the next value is made from the last one.
const PUBLISHERS: &[&str] = &[
    "crates/gateway/src/http/tls.rs",
    "crates/gateway/src/quotas.rs",
    "crates/host/src/audit/writer.rs",
    "crates/host/src/connection/actor.rs",
    "crates/host/src/connection/resource_subscriptions.rs",
    "crates/host/src/engine/actor.rs",
    "crates/host/src/login/pending.rs",
    "crates/host/src/pool/updater.rs",
    "crates/host/src/sources/watcher.rs",
];
/// The type that marks shared state, as its import and as a type; and its file.
const SHARED_IMPORT: &str = "shared::Shared";
const SHARED_TYPE: &str = "Shared<";
const SHARED_FILE: &str = "crates/wire/src/shared.rs";
/// The files that hold shared state, and how many values. Each says at the value why no task owns it.
const SHARED_STATE: &[(&str, usize)] = &[
    ("crates/chat/src/control/sdk_servers.rs", 1),
    ("crates/chat/src/control/state.rs", 1),
    ("crates/cli/src/sdk_session/backend.rs", 1),
    ("crates/cli/src/sdk_session/session_rules.rs", 1),
    ("crates/gateway/src/downstream/leases.rs", 1),
    ("crates/gateway/src/http/limits/accounts.rs", 1),
    ("crates/gateway/src/http/limits/connections.rs", 1),
    ("crates/gateway/src/http/replica/adoptions.rs", 1),
    ("crates/gateway/src/http/replica/locations.rs", 1),
    ("crates/gateway/src/http/session_table.rs", 1),
    ("crates/gateway/src/principal_stats.rs", 1),
    ("crates/gateway/src/quotas/local_counters.rs", 2),
    ("crates/gateway/src/relay/call_contexts.rs", 1),
    ("crates/gateway/src/relay/used_states.rs", 1),
    ("crates/gateway/src/shared/envelope.rs", 1),
    ("crates/gateway/src/shared/memory.rs", 1),
    ("crates/gateway/src/shared/rate.rs", 1),
    ("crates/gateway/src/shared/revocations.rs", 1),
    ("crates/gateway/src/task_owners.rs", 1),
    ("crates/gateway/src/telemetry/metrics.rs", 1),
    ("crates/host/src/channel/relay.rs", 1),
    ("crates/host/src/connection/server_requests.rs", 1),
    ("crates/host/src/login/connector_account.rs", 1),
    ("crates/host/src/login/dynamic_headers.rs", 1),
    ("crates/host/src/permission/active_rules.rs", 1),
    ("crates/host/src/permission/tool_pins.rs", 1),
    ("crates/tui/src/elicitor/login_guide.rs", 1),
];

/// Finds locks where there should be a task and a channel, and shared state that is not listed.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.sources {
        let Some(folder) = file.product_crate() else { continue };
        if LOCK_FREE_CRATES.contains(&folder) {
            let advice = "send an event to the task that owns the state; readers get a snapshot";
            findings.extend(LOCKS.iter().flat_map(|lock| mentions(file, lock, advice)));
            if !PUBLISHERS.contains(&file.path.as_str()) {
                let advice =
                    "publish with `send` from the task that owns the state, or use `Shared`";
                findings
                    .extend(LOCK_LIKE_CALLS.iter().flat_map(|call| mentions(file, call, advice)));
            }
        }
        if file.path != SHARED_FILE {
            findings.extend(unlisted_shared_state(file));
        }
    }
    findings
}

fn unlisted_shared_state(file: &RustFile) -> Vec<Finding> {
    let Some((_, listed)) = SHARED_STATE.iter().find(|(path, _)| *path == file.path) else {
        let advice = "let a task own the state, or list the file in `SHARED_STATE`";
        return mentions(file, SHARED_IMPORT, advice).collect();
    };
    let advice = "let a task own the state, or correct the number in `SHARED_STATE`";
    let lines = file.source.lines.iter().filter(|line| line.kind == LineKind::Product);
    let values: Vec<usize> =
        lines.filter(|line| line.code.contains(SHARED_TYPE)).map(|line| line.number).collect();
    match values.len() == *listed {
        true => Vec::new(),
        false => vec![Finding::new(&file.path, values.last().copied().unwrap_or(1), advice)],
    }
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
    use crate::commands::tidy::fixture::check;

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
    fn other_crates_and_tests_may_hold_locks() {
        let test = "//! No Mutex.\n#[cfg(test)]\nmod tests {\n    use std::sync::Mutex;\n}\n";
        check("locks", &[("crates/auth/src/a.rs", BAD), ("crates/host/src/b.rs", test)], &[]);
    }

    #[test]
    fn a_watch_channel_is_a_lock_where_its_value_is_changed_in_place() {
        let locked = "//! A.\nfn f(a: watch::Sender<u8>) {\n    a.send_modify(|it| *it += 1);\n    \
             a.send_if_modified(|_| true);\n    a.send_replace(1);\n    a.send(1).ok();\n}\n";
        check(
            "locks",
            &[
                ("crates/gateway/src/a.rs", locked),
                ("crates/host/src/a.rs", locked),
                ("crates/host/src/engine/actor.rs", locked),
                ("crates/tui/src/a.rs", locked),
            ],
            &[
                "crates/gateway/src/a.rs:3",
                "crates/gateway/src/a.rs:4",
                "crates/gateway/src/a.rs:5",
                "crates/host/src/a.rs:3",
                "crates/host/src/a.rs:4",
                "crates/host/src/a.rs:5",
            ],
        );
    }

    #[test]
    fn shared_state_is_only_in_the_files_that_are_listed() {
        let user = "//! A.\nuse switchboard_wire::shared::Shared;\nstruct A(Shared<u8>);\nenum B { Shared }\n";
        check(
            "locks",
            &[
                ("crates/gateway/src/exposed/a.rs", user),
                ("crates/gateway/src/task_owners.rs", user),
                ("crates/cli/src/a.rs", user),
            ],
            &["crates/cli/src/a.rs:2", "crates/gateway/src/exposed/a.rs:2"],
        );
    }

    #[test]
    fn a_listed_file_holds_as_many_shared_values_as_listed() {
        let two = "//! A.\nuse switchboard_wire::shared::Shared;\nstruct A(Shared<u8>);\nstruct B(Shared<u8>);\n";
        let expected = ["crates/gateway/src/task_owners.rs:4"];
        check("locks", &[("crates/gateway/src/task_owners.rs", two)], &expected);
    }
}
