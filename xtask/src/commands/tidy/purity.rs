//! Rule: `config` and every `state.rs` only decide: no I/O, no clock, no async.

use super::Finding;
use super::source::LineKind;
use super::tree::{RustFile, Tree};

const IO_ADVICE: &str = "take the contents as a parameter and return what is to be done";
const CLOCK_ADVICE: &str = "take the time as a parameter";
const ASYNC_ADVICE: &str = "decide here and let the caller wait";

const FORBIDDEN: &[(&str, &str)] = &[
    ("std::fs", IO_ADVICE),
    ("std::net", "take the contents as a parameter; plain addresses are in `core::net`"),
    ("std::process", IO_ADVICE),
    ("std::thread", ASYNC_ADVICE),
    ("tokio", ASYNC_ADVICE),
    ("SystemTime", CLOCK_ADVICE),
    ("Instant", CLOCK_ADVICE),
    ("async", ASYNC_ADVICE),
    (".await", ASYNC_ADVICE),
    // Methods of `Path` that access the disk without naming `std::fs`.
    (".canonicalize()", IO_ADVICE),
    (".exists()", IO_ADVICE),
    (".is_dir()", IO_ADVICE),
    (".is_file()", IO_ADVICE),
    (".is_symlink()", IO_ADVICE),
    (".read_dir()", IO_ADVICE),
    (".read_link()", IO_ADVICE),
    (".try_exists()", IO_ADVICE),
];

/// Finds I/O, clocks and async code in files that must be pure.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.sources.iter().filter(|file| is_pure(file)) {
        for (phrase, advice) in FORBIDDEN {
            let lines = file.source.mentions(phrase).filter(|line| line.kind == LineKind::Product);
            findings.extend(lines.map(|line| Finding::new(&file.path, line.number, *advice)));
        }
    }
    findings
}

fn is_pure(file: &RustFile) -> bool {
    file.product_crate().is_some_and(|folder| folder == "config" || file.stem() == "state")
}

#[cfg(test)]
mod tests {
    use crate::commands::tidy::fixture::check;

    const BAD: &str = "//! A.\nuse std::{fs, io};\nuse tokio::time;\nasync fn f(now: Instant) {\n    \
                       g().await;\n    std::process::exit(1);\n    path.exists();\n}\n";

    fn lines(path: &str) -> Vec<String> {
        [2, 3, 4, 4, 5, 6, 7].map(|line| format!("{path}:{line}")).to_vec()
    }

    #[test]
    fn config_and_state_files_do_no_io() {
        for path in ["crates/config/src/a/b.rs", "crates/host/src/connection/state.rs"] {
            let expected = lines(path);
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check("purity", &[(path, BAD)], &expected);
        }
    }

    #[test]
    fn other_files_and_tests_may_do_io() {
        let good = "//! Not async.\nuse std::path::Path;\nuse core::net::IpAddr;\n#[cfg(test)]\n\
                    mod tests {\n    use std::fs;\n}\n";
        check(
            "purity",
            &[
                ("crates/host/src/task.rs", BAD),
                ("crates/config/tests/it.rs", BAD),
                ("crates/config/src/lib.rs", good),
            ],
            &[],
        );
    }
}
