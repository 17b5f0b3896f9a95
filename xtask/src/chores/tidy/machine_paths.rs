//! Wall: nothing we publish names a folder of the machine it was written on.

use super::Finding;
use super::tree::Tree;

/// A top folder whose mention gives a machine away.
struct TopFolder {
    name: &'static str,
    mention: Mention,
    exemption: Exemption,
}

/// What has to follow the folder for it to be a mention.
#[derive(Clone, Copy)]
enum Mention {
    /// Nothing: the folder alone is one.
    Alone,
    /// A slash, for names that are also ordinary words.
    WithSlash,
    /// A slash and somebody's name.
    WithPerson,
}

/// Whether a file may be excused from not naming it.
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

/// Files that are about such folders, and have to name them.
const EXEMPT_FILES: &[&str] = &[];

/// Finds absolute paths into somebody's machine.
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
        // `file:///…` does, the host in `https://…` does not.
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
    use crate::chores::tidy::fixture::{check, repository};

    /// Writes `@` for the leading slash, so that this file passes its own wall.
    fn check_line(line: &str, expected: &[&str]) {
        check("machine-paths", &[("docs/a.md", &line.replace('@', "/"))], expected);
    }

    #[test]
    fn a_folder_of_somebodys_machine_is_found() {
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
    fn parts_of_other_paths_are_fine() {
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
    fn an_excused_file_may_name_homes_but_never_our_own_machine() {
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
