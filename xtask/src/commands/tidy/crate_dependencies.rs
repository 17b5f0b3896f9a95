//! Rule: crates depend on each other in one direction only.

use std::collections::HashMap;

use super::Finding;
use super::manifest::{self, Purpose};
use super::tree::{Tree, crate_folder};

/// One crate of this workspace.
struct Crate {
    folder: &'static str,
    package: &'static str,
    may_use: &'static [&'static str],
}

/// Every crate in `crates/`, and the folders of the crates it may depend on. A change here is a
/// change to the architecture page.
const MAY_USE: &[Crate] = &[
    Crate { folder: "wire", package: "switchboard-wire", may_use: &[] },
    Crate { folder: "config", package: "switchboard-config", may_use: &[] },
    Crate { folder: "auth", package: "switchboard-auth", may_use: &["wire"] },
    Crate { folder: "share", package: "switchboard-share", may_use: &["wire"] },
    Crate { folder: "host", package: "switchboard", may_use: &["wire", "config", "auth", "share"] },
    Crate {
        folder: "packages",
        package: "switchboard-packages",
        may_use: &["wire", "config", "auth"],
    },
    Crate { folder: "builtin", package: "switchboard-builtin", may_use: &["wire"] },
    Crate { folder: "computer", package: "switchboard-computer", may_use: &["wire", "builtin"] },
    Crate { folder: "browser", package: "switchboard-browser", may_use: &["wire", "builtin"] },
    Crate { folder: "chat", package: "switchboard-chat", may_use: &["host", "config"] },
    Crate { folder: "acp", package: "switchboard-acp", may_use: &["chat", "host"] },
    Crate {
        folder: "gateway",
        package: "switchboard-gateway",
        may_use: &["host", "wire", "auth", "config"],
    },
    Crate { folder: "tui", package: "switchboard-tui", may_use: &["chat", "host", "config"] },
    Crate {
        folder: "cli",
        package: "swb",
        may_use: &[
            "wire", "config", "auth", "host", "packages", "builtin", "browser", "computer", "chat",
            "acp", "gateway", "tui",
        ],
    },
    Crate { folder: TESTKIT, package: "testkit", may_use: &["wire"] },
];

/// The crate that no product code may depend on.
const TESTKIT: &str = "testkit";

/// Finds crates that are unknown or misnamed, or that have forbidden dependencies.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let renamed = workspace_renames(tree);
    let mut findings = Vec::new();
    for file in &tree.texts {
        let Some(folder) = crate_folder(&file.path) else {
            continue;
        };
        if file.path != format!("crates/{folder}/Cargo.toml") {
            continue;
        }
        let Some(known) = MAY_USE.iter().find(|known| known.folder == folder) else {
            let advice = "add the crate to MAY_USE and to ARCHITECTURE.md, with its reason";
            findings.push(Finding::new(&file.path, 1, advice));
            continue;
        };
        let name = manifest::package_name(&file.text);
        if let Some((line, name)) = name.filter(|(_, name)| name != known.package) {
            let advice = format!("call it `{}` as MAY_USE does, not `{name}`", known.package);
            findings.push(Finding::new(&file.path, line, advice));
        }
        for dependency in manifest::dependencies(&file.text) {
            let package = dependency
                .package
                .as_ref()
                .or_else(|| renamed.get(&dependency.name))
                .unwrap_or(&dependency.name);
            if dependency.purpose == Purpose::Build
                && let Some(advice) = known.violation(package)
            {
                findings.push(Finding::new(&file.path, dependency.line, advice));
            }
        }
    }
    findings
}

impl Crate {
    /// The advice if this crate must not depend on `package`.
    fn violation(&self, package: &str) -> Option<String> {
        let used = MAY_USE.iter().find(|used| used.package == package)?;
        if used.folder == TESTKIT {
            return Some("move testkit to [dev-dependencies]".to_owned());
        }
        (!self.may_use.contains(&used.folder)).then(|| match self.may_use {
            [] => format!("`{}` may use no crate of ours, so not `{}`", self.folder, used.folder),
            allowed => format!(
                "`{}` may use {} only, not `{}`; let the crate above pass in what is needed",
                self.folder,
                allowed.join(", "),
                used.folder
            ),
        })
    }
}

/// Dependency names in the workspace manifest that differ from their package names.
fn workspace_renames(tree: &Tree) -> HashMap<String, String> {
    tree.texts
        .iter()
        .filter(|file| file.path == "Cargo.toml")
        .flat_map(|file| manifest::dependencies(&file.text))
        .filter_map(|dependency| Some((dependency.name, dependency.package?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::commands::tidy::fixture::check;

    fn check_edges(manifest: (&str, &str), expected: &[&str]) {
        let root =
            "[workspace.dependencies]\nengine = { path = \"x\", package = \"switchboard\" }\n";
        check("crate-edges", &[("Cargo.toml", root), manifest], expected);
    }

    #[test]
    fn a_crate_may_use_those_below_it() {
        let text = "[package]\nname = \"switchboard\"\n[dependencies]\nserde = \"1\"\n\
                    switchboard-config.workspace = true\nswitchboard-wire.workspace = true\n\
                    [dev-dependencies]\ntestkit.workspace = true\n";
        check_edges(("crates/host/Cargo.toml", text), &[]);
    }

    #[test]
    fn a_crate_may_not_use_those_above_it() {
        let text = "[package]\nname = \"switchboard-config\"\n[dependencies]\n\
                    switchboard.workspace = true\n\
                    [build-dependencies]\nswitchboard-wire.workspace = true\n";
        let expected = ["crates/config/Cargo.toml:4", "crates/config/Cargo.toml:6"];
        check_edges(("crates/config/Cargo.toml", text), &expected);
    }

    #[test]
    fn a_renamed_dependency_is_found() {
        let text = "[package]\nname = \"switchboard-auth\"\n[dependencies]\n\
                    engine.workspace = true\n\
                    other = { path = \"../chat\", package = \"switchboard-chat\" }\n";
        let expected = ["crates/auth/Cargo.toml:4", "crates/auth/Cargo.toml:5"];
        check_edges(("crates/auth/Cargo.toml", text), &expected);
    }

    #[test]
    fn testkit_is_only_a_dev_dependency() {
        let text = "[package]\nname = \"swb\"\n[dependencies]\ntestkit.workspace = true\n";
        check_edges(("crates/cli/Cargo.toml", text), &["crates/cli/Cargo.toml:4"]);
    }

    #[test]
    fn an_unknown_crate_and_a_misnamed_one_are_found() {
        let text = "[package]\nname = \"extra\"\n";
        check_edges(("crates/extra/Cargo.toml", text), &["crates/extra/Cargo.toml:1"]);
        check_edges(("crates/wire/Cargo.toml", text), &["crates/wire/Cargo.toml:2"]);
    }
}
