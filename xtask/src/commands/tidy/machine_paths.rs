//! Rule: published files contain no folder of the machine they were written on.

use super::Finding;
use super::tree::Tree;

/// A top-level folder that identifies a machine.
struct TopFolder {
    name: &'static str,
    mention: Mention,
    exemption: Exemption,
}

/// What must follow the folder name for a match.
#[derive(Clone, Copy)]
enum Mention {
    /// Nothing: the folder alone matches.
    Alone,
    /// A slash, for names that are also ordinary words.
    WithSlash,
    /// A slash and a user name.
    WithPerson,
}

/// Whether a file can be exempt from the rule for this folder.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Exemption {
    Possible,
    Never,
}

const TOP_FOLDERS: &[TopFolder] = &[
    TopFolder { name: "home", mention: Mention::WithPerson, exemption: Exemption::Possible },
    TopFolder { name: "Users", mention: Mention::WithPerson, exemption: Exemption::Possible },
    TopFolder { name: "tmp", mention: Mention::Alone, exemption: Exemption::Possible },
    TopFolder { name: "root", mention: Mention::WithSlash, exemption: Exemption::Never },
    TopFolder { name: "work", mention: Mention::WithSlash, exemption: Exemption::Never },
];

/// Files whose subject is such folders, and which have to name them.
const EXEMPT_FILES: &[&str] = &[];

/// Finds absolute paths of a particular machine.
pub fn find(tree: &Tree) -> Vec<Finding> {
    find_with_exemptions(tree, EXEMPT_FILES)
}

fn find_with_exemptions(tree: &Tree, exempt_files: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.texts {
        let is_exempt = exempt_files.contains(&file.path.as_str());
        for (index, line) in file.text.lines().enumerate() {
            let top = TOP_FOLDERS.iter().find(|top| {
                top.is_in(line) && !(is_exempt && top.exemption == Exemption::Possible)
            });
            if let Some(top) = top {
                let advice = format!(
                    "use a temporary folder, a relative path or `~` instead of /{}",
                    top.name
                );
                findings.push(Finding::new(&file.path, index + 1, advice));
            }
        }
    }
    findings
}

impl TopFolder {
    fn is_in(&self, line: &str) -> bool {
        line.match_indices('/').any(|(at, _)| {
            let Some(rest) = line[at + 1..].strip_prefix(self.name) else {
                return false;
            };
            begins_a_path(&line[..at]) && self.mention.matches(rest)
        })
    }
}

impl Mention {
    fn matches(self, rest: &str) -> bool {
        let below = rest.strip_prefix('/');
        match self {
            Mention::Alone => !rest.starts_with(is_part_of_path),
            Mention::WithSlash => below.is_some(),
            Mention::WithPerson => {
                below.is_some_and(|below| below.starts_with(char::is_alphanumeric))
            }
        }
    }
}

/// Whether a slash after `before` starts an absolute path, not the next part of a longer one.
fn begins_a_path(before: &str) -> bool {
    match before.strip_suffix('/') {
        // `file:///…` does; the host in `https://…` does not.
        Some(earlier) => earlier.ends_with('/'),
        None => !before.ends_with(|last| is_part_of_path(last) || "~}).>*".contains(last)),
    }
}

fn is_part_of_path(character: char) -> bool {
    character.is_alphanumeric() || "_-.".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::tidy::fixture::{check, repository};

    /// Writes `@` for the leading slash, so that this file follows its own rule.
    fn check_line(line: &str, expected: &[&str]) {
        check("machine-paths", &[("docs/a.md", &line.replace('@', "/"))], expected);
    }

    #[test]
    fn absolute_paths_of_a_users_machine_are_found() {
        for line in [
            "see @home/ada/notes",
            "\"@Users/ada\"",
            "cd @root/x",
            "`@work/main`",
            "Path::new(\"@tmp\")",
            "file://@tmp/x",
            "A=@tmp/x",
        ] {
            check_line(&format!("fine\n{line}"), &["docs/a.md:2"]);
        }
    }

    #[test]
    fn the_same_names_inside_longer_paths_are_accepted() {
        for line in [
            "src@work/a.rs",
            "~@tmp/x",
            "$DIR@home/x ${DIR}@tmp",
            "https:/@work/x https://example.com@home/ada",
            "@home/<name>",
            "the @work folder",
            "@tmpfiles.d @etc/x",
            ".@tmp",
        ] {
            check_line(line, &[]);
        }
    }

    #[test]
    fn an_exempt_file_may_name_home_folders_but_not_build_machine_folders() {
        let text = "@tmp/x\n@home/ada\n@root/x\n".replace('@', "/");
        let folder = repository(&[("docs/a.md", &text)]);
        let tree = Tree::read(folder.path()).unwrap();

        let lines: Vec<usize> = find_with_exemptions(&tree, &["docs/a.md"])
            .iter()
            .map(|finding| finding.line)
            .collect();

        assert_eq!(lines, [3]);
    }
}
