//! Rule: no file names the host of a package registry. Each machine configures its own mirror.

use super::Finding;
use super::tree::Tree;

/// Split in two, so that this file follows its own rule.
const HOSTS: &[&str] = &[
    concat!("static.", "crates.io"),
    concat!("index.", "crates.io"),
    concat!("registry.", "npmjs.org"),
    concat!("pypi", ".org"),
    concat!("files.", "pythonhosted.org"),
    concat!("deb.", "debian.org"),
];

/// Finds registry hosts in text files; `Tree` leaves out lock files such as `Cargo.lock`.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let advice = "name the package only; the machine knows which registry to ask";
    let mut findings = Vec::new();
    for file in &tree.texts {
        for (index, line) in file.text.lines().enumerate() {
            let line = line.to_lowercase();
            if HOSTS.iter().any(|host| line.contains(host)) {
                findings.push(Finding::new(&file.path, index + 1, advice));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::tidy::fixture::check;

    #[test]
    fn every_host_is_found_in_every_kind_of_text() {
        for host in HOSTS {
            let text = format!("# a\nurl = https://{}/x\n", host.to_uppercase());
            for path in [".ci/run", "a.md", "a/b.json", "c.toml", "d.yml", "e.sh", "f.rs"] {
                check("registry-hosts", &[(path, &text)], &[&format!("{path}:2")]);
            }
        }
    }

    #[test]
    fn registry_names_and_lock_files_are_accepted() {
        let index = "https://github.com/rust-lang/crates.io-index";
        check(
            "registry-hosts",
            &[("a.md", "published on crates.io\n"), ("deny.toml", index), ("Cargo.lock", HOSTS[0])],
            &[],
        );
    }
}
