//! Two rules about attributes: no lint is switched off with `allow`, and no test is ignored.

use super::Finding;
use super::source::Attribute;
use super::tree::Tree;

/// Finds `allow` attributes, which stay after their reason is gone; `expect` warns then.
pub fn find_allowed_lints(tree: &Tree) -> Vec<Finding> {
    let advice = "use `#[expect(lint, reason = \"…\")]`, or mend what the lint found";
    find(tree, advice, |attribute| {
        attribute.text.starts_with("allow(") || attribute.sets_conditionally("allow(")
    })
}

/// Finds ignored tests.
pub fn find_ignored_tests(tree: &Tree) -> Vec<Finding> {
    let advice = "run the test: assert what happens today and say why it is wrong";
    find(tree, advice, |attribute| {
        attribute.text == "ignore"
            || attribute.text.starts_with("ignore=")
            || attribute.sets_conditionally("ignore")
    })
}

fn find(tree: &Tree, advice: &str, is_bad: fn(&Attribute) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.sources {
        let bad = file.source.attributes.iter().filter(|attribute| is_bad(attribute));
        findings.extend(bad.map(|attribute| Finding::new(&file.path, attribute.line, advice)));
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::commands::tidy::fixture::check;

    #[test]
    fn no_lint_is_allowed_anywhere() {
        let bad = "//! A.\n#![allow(dead_code)]\n#[allow(\n    unused\n)]\nfn f() {}\n\
                   #[cfg_attr(\n    test,\n    allow(unused)\n)]\nfn g() {}\n";
        check(
            "no-allow",
            &[("xtask/tests/a.rs", bad)],
            &["xtask/tests/a.rs:2", "xtask/tests/a.rs:3", "xtask/tests/a.rs:7"],
        );
    }

    #[test]
    fn expect_attributes_are_accepted() {
        let good = "//! Not `#[allow(x)]`.\n#[expect(clippy::allow_attributes, reason = \"r\")]\n\
                    const A: &str = \"#[allow(x)]\";\n";
        check("no-allow", &[("crates/host/src/a.rs", good)], &[]);
    }

    #[test]
    fn no_test_is_ignored() {
        let bad = "//! A.\n#[test]\n#[ignore]\nfn f() {}\n#[test]\n#[ignore = \"slow\"]\nfn g() {}\n\
                   #[cfg_attr(windows, ignore)]\nfn h() {}\n";
        check(
            "no-ignore",
            &[("crates/a/tests/b.rs", bad)],
            &["crates/a/tests/b.rs:3", "crates/a/tests/b.rs:6", "crates/a/tests/b.rs:8"],
        );
    }

    #[test]
    fn the_word_ignore_outside_an_attribute_is_accepted() {
        let good = "//! A.\n#[arg(ignore_case = true)]\n// #[ignore]\nfn ignore() {}\n";
        check("no-ignore", &[("crates/a/src/b.rs", good)], &[]);
    }
}
