//! Rules about the repository that the compiler does not check.
//! This file runs them; each rule is a file in `tidy/` and sees the repository as a `Tree`.

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

/// A rule: its name, and the function that finds violations.
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

/// A violation of some rule, and how to fix it.
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

/// A violation of the named rule.
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

/// Every violation below `root`, sorted by rule.
pub fn violations(root: &Path) -> Result<Vec<Violation>, TreeError> {
    let tree = Tree::read(root)?;
    let found = RULES.iter().flat_map(|rule| {
        let mut findings = (rule.find)(&tree);
        findings.sort();
        // `std::env::var` contains two forbidden phrases but is one violation.
        findings.dedup();
        findings.into_iter().map(|finding| Violation { rule: rule.name, finding })
    });
    Ok(found.collect())
}

/// Prints every violation, one per line.
pub fn run(root: &Path) -> Result<(), Failure> {
    let violations = violations(root)?;
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => {
            println!("tidy: {} rules checked, no violations", RULES.len());
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
    fn this_repository_follows_every_rule() {
        // Read at run time, for the reason given in `Workspace`.
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
