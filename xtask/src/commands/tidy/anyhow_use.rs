//! Rule: only cli uses `anyhow`; other crates define errors with kinds.

use super::tree::Tree;
use super::{Finding, manifest};

const ADVICE: &str = "return the module's own error; only cli may use anyhow";
const ALLOWED_CRATE: &str = "crates/cli/";

/// Finds `anyhow` in code and manifests outside cli. The workspace manifest may declare it.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.sources.iter().filter(|file| !file.path.starts_with(ALLOWED_CRATE)) {
        let lines = file.source.mentions("anyhow");
        findings.extend(lines.map(|line| Finding::new(&file.path, line.number, ADVICE)));
    }
    let manifests = tree
        .texts
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml") && !file.path.starts_with(ALLOWED_CRATE));
    for file in manifests {
        for dependency in manifest::dependencies(&file.text) {
            if [Some(&dependency.name), dependency.package.as_ref()]
                .contains(&Some(&"anyhow".to_owned()))
            {
                findings.push(Finding::new(&file.path, dependency.line, ADVICE));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::commands::tidy::fixture::check;

    const CODE: &str = "//! A.\nuse anyhow::Context;\n";
    const MANIFEST: &str = "[dependencies]\nanyhow.workspace = true\n";

    #[test]
    fn a_library_may_not_use_anyhow() {
        check(
            "anyhow",
            &[
                ("crates/host/Cargo.toml", MANIFEST),
                ("crates/host/src/a.rs", CODE),
                ("crates/wire/Cargo.toml", "[dev-dependencies]\na = { package = \"anyhow\" }\n"),
            ],
            &["crates/host/Cargo.toml:2", "crates/host/src/a.rs:2", "crates/wire/Cargo.toml:2"],
        );
    }

    #[test]
    fn cli_may_use_anyhow_and_the_workspace_may_declare_it() {
        check(
            "anyhow",
            &[
                ("Cargo.toml", "[workspace.dependencies]\nanyhow = \"1\"\n"),
                ("crates/cli/Cargo.toml", MANIFEST),
                ("crates/cli/src/a.rs", CODE),
                ("crates/host/src/b.rs", "//! No anyhow.\n"),
            ],
            &[],
        );
    }
}
