//! Wall: a file name means one thing in the whole workspace.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::{RustFile, Tree, crate_folder};

/// Names with a fixed meaning: roots, build scripts, and `state`, which the purity wall reads as
/// a promise and so must be free to repeat.
const REPEATABLE: &[&str] = &["lib", "main", "mod", "build", "state", "tests"];

/// A command's file has the command's name, which is what people type, whatever else has that name.
const COMMANDS: &str = "crates/cli/src/commands/";

/// Finds files that share their name with one in another crate.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let mut first_seen: BTreeMap<&str, &RustFile> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in &tree.sources {
        let folder = crate_folder(&file.path);
        let is_free = file.is_integration_test() || file.path.starts_with(COMMANDS);
        if folder.is_none() || is_free || REPEATABLE.contains(&file.stem()) {
            continue;
        }
        let first = *first_seen.entry(file.stem()).or_insert(file);
        if crate_folder(&first.path) != folder {
            let advice = format!("find another name; {} has this one", first.path);
            findings.push(Finding::new(&file.path, 1, advice));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::tidy::fixture::check;

    #[test]
    fn two_crates_do_not_share_a_file_name() {
        check(
            "file-names",
            &[
                ("crates/auth/src/store.rs", "//! A."),
                ("crates/host/src/a/store.rs", "//! A."),
                ("crates/wire/src/store.rs", "//! A."),
            ],
            &["crates/host/src/a/store.rs:1", "crates/wire/src/store.rs:1"],
        );
    }

    #[test]
    fn roots_tests_states_and_files_of_one_crate_may() {
        check(
            "file-names",
            &[
                ("crates/auth/build.rs", "//! A."),
                ("crates/auth/src/a/server.rs", "//! A."),
                ("crates/auth/src/b/server.rs", "//! A."),
                ("crates/auth/src/lib.rs", "//! A."),
                ("crates/auth/src/state.rs", "//! A."),
                ("crates/cli/src/commands/server.rs", "//! A."),
                ("crates/auth/tests/it/list.rs", "//! A."),
                ("crates/host/build.rs", "//! A."),
                ("crates/host/src/lib.rs", "//! A."),
                ("crates/host/src/list.rs", "//! A."),
                ("crates/host/src/state.rs", "//! A."),
                ("xtask/src/list.rs", "//! A."),
            ],
            &[],
        );
    }
}
