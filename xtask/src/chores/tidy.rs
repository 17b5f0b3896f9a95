//! The walls of the house: rules about the repository that no compiler checks.
//! This file runs them; each wall is a file in `tidy/`, and `Tree` is all they see.

mod ambient_access;
mod anyhow_use;
mod attributes;
mod code_only;
mod command_tests;
mod crate_dependencies;
mod file_headers;
#[cfg(test)]
mod fixture;
mod import_cycles;
mod imports;
mod locks;
mod machine_paths;
mod manifest;
mod phrase;
mod purity;
mod registry_hosts;
mod sleeps;
mod source;
mod tree;
mod type_names;

use std::fmt;
use std::path::Path;

use crate::failure::Failure;
use tree::Tree;

pub use tree::TreeError;

/// One wall: its name and what finds the places that break it.
struct Rule {
    name: &'static str,
    find: fn(&Tree) -> Vec<Finding>,
}

const RULES: &[Rule] = &[
    Rule { name: "crate-edges", find: crate_dependencies::find },
    Rule { name: "surroundings", find: ambient_access::find },
    Rule { name: "purity", find: purity::find },
    Rule { name: "anyhow", find: anyhow_use::find },
    Rule { name: "file-headers", find: file_headers::find },
    Rule { name: "no-allow", find: attributes::find_allowed_lints },
    Rule { name: "no-ignore", find: attributes::find_ignored_tests },
    Rule { name: "locks", find: locks::find },
    Rule { name: "command-tests", find: command_tests::find },
    Rule { name: "sleeps", find: sleeps::find },
    Rule { name: "machine-paths", find: machine_paths::find },
    Rule { name: "registry-hosts", find: registry_hosts::find },
    Rule { name: "import-cycles", find: import_cycles::find },
    Rule { name: "type-names", find: type_names::find },
];

/// A place that breaks some wall, and what to do instead.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Finding {
    path: String,
    line: usize,
    advice: String,
}

impl Finding {
    fn new(path: &str, line: usize, advice: impl Into<String>) -> Self {
        Finding { path: path.to_owned(), line, advice: advice.into() }
    }
}

/// A place that breaks the named wall.
#[derive(Debug)]
pub struct Violation {
    rule: &'static str,
    finding: Finding,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { path, line, advice } = &self.finding;
        write!(out, "{path}:{line}: {}: {advice}", self.rule)
    }
}

/// Every place below `root` that breaks a wall, sorted wall by wall.
pub fn violations(root: &Path) -> Result<Vec<Violation>, TreeError> {
    let tree = Tree::read(root)?;
    let found = RULES.iter().flat_map(|rule| {
        let mut findings = (rule.find)(&tree);
        findings.sort();
        // `std::env::var` holds two forbidden phrases and is one mistake.
        findings.dedup();
        findings.into_iter().map(|finding| Violation { rule: rule.name, finding })
    });
    Ok(found.collect())
}

/// Prints every violation, one a line.
pub fn run(root: &Path) -> Result<(), Failure> {
    let violations = violations(root)?;
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => {
            println!("tidy: {} walls stand", RULES.len());
            Ok(())
        }
        count => Err(Failure::Violations(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;

    #[test]
    fn this_repository_keeps_its_walls() {
        // Asked for at run time, for the reason `Workshop` gives.
        let package = env::var("CARGO_MANIFEST_DIR").expect("cargo and nextest set it for tests");
        let root = Path::new(&package).parent().expect("xtask lies in the repository");

        let lines: Vec<String> =
            violations(root).unwrap().iter().map(Violation::to_string).collect();

        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }

    #[test]
    fn a_violation_reads_as_place_rule_and_advice() {
        let folder =
            fixture::repository(&[("crates/host/src/a.rs", "//! A.\nuse anyhow::Result;")]);

        let lines: Vec<String> =
            violations(folder.path()).unwrap().iter().map(Violation::to_string).collect();

        assert_eq!(
            lines,
            [
                "crates/host/src/a.rs:2: anyhow: return the module's own error; only cli may use anyhow"
            ]
        );
    }
}
