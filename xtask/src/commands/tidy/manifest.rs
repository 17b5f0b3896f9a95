//! Reads the dependencies out of a `Cargo.toml`, line by line.
//! Supports the dependency syntax used in this repository, not all of TOML.

/// What a dependency is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// Part of the product, including build scripts.
    Build,
    /// For tests and examples only.
    Dev,
    /// Declared in the workspace manifest for members to use.
    WorkspaceOnly,
}

/// One dependency.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Dependency {
    /// Counted from 1.
    pub line: usize,
    /// The dependency's name in this manifest.
    pub name: String,
    /// The package's name, if the manifest renames it.
    pub package: Option<String>,
    /// What it is for.
    pub purpose: Purpose,
}

/// The package's name and its line, if the manifest has a package.
pub fn package_name(text: &str) -> Option<(usize, String)> {
    let mut section = String::new();
    for (number, line) in lines(text) {
        if let Some(header) = header(line) {
            section = header.to_owned();
        } else if section == "package"
            && let Some(("name", value)) = assignment(line)
        {
            return Some((number, unquoted(value).to_owned()));
        }
    }
    None
}

/// All dependencies in a manifest.
pub fn dependencies(text: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    let mut section = None;
    for (number, line) in lines(text) {
        if let Some(header) = header(line) {
            section = Section::of(header);
            if let Some(Section { purpose, table: Some(name) }) = &section {
                found.push(Dependency {
                    line: number,
                    name: name.clone(),
                    package: None,
                    purpose: *purpose,
                });
            }
            continue;
        }
        let (Some(section), Some((key, value))) = (&section, assignment(line)) else {
            continue;
        };
        match (&section.table, found.last_mut()) {
            (Some(_), Some(dependency)) => {
                if key == "package" {
                    dependency.package = Some(unquoted(value).to_owned());
                }
            }
            _ => found.push(Dependency {
                line: number,
                name: unquoted(key.split('.').next().unwrap_or(key)).to_owned(),
                package: inline_package(value),
                purpose: section.purpose,
            }),
        }
    }
    found
}

/// The kind of a `[dependencies]` section; `table` is the name in `[dependencies.name]`.
struct Section {
    purpose: Purpose,
    table: Option<String>,
}

impl Section {
    fn of(header: &str) -> Option<Self> {
        // A target's condition may contain dots, so the section is split at the closing quote or bracket.
        let plain = match header.strip_prefix("target.") {
            Some(rest) => rest.rsplit_once("'.").or_else(|| rest.split_once('.'))?.1,
            None => header,
        };
        let names = [
            ("dependencies", Purpose::Build),
            ("build-dependencies", Purpose::Build),
            ("dev-dependencies", Purpose::Dev),
            ("workspace.dependencies", Purpose::WorkspaceOnly),
        ];
        names.into_iter().find_map(|(name, purpose)| {
            let rest = plain.strip_prefix(name)?;
            let table = rest.strip_prefix('.').map(|table| unquoted(table).to_owned());
            (rest.is_empty() || table.is_some()).then_some(Section { purpose, table })
        })
    }
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, without_comment(line).trim()))
}

fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    for (at, character) in line.char_indices() {
        match character {
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[..at],
            _ => {}
        }
    }
    line
}

fn header(line: &str) -> Option<&str> {
    line.strip_prefix('[')?.strip_suffix(']')
}

fn assignment(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    Some((key.trim(), value.trim()))
}

fn unquoted(text: &str) -> &str {
    text.trim_matches(['"', '\''])
}

/// The name in `{ package = "name", … }`.
fn inline_package(value: &str) -> Option<String> {
    let inside = value.strip_prefix('{')?.strip_suffix('}')?;
    inside.split(',').find_map(|part| match assignment(part) {
        Some(("package", name)) => Some(unquoted(name).to_owned()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<String> = dependencies(text)
            .into_iter()
            .map(|dependency| {
                let Dependency { line, name, package, purpose } = dependency;
                let package = package.map(|package| format!(" = {package}")).unwrap_or_default();
                format!("{line} {purpose:?} {name}{package}")
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_way_of_writing_a_dependency_is_read() {
        check(
            "[package]\nname = \"x\"\n[dependencies]\na.workspace = true # why\n\
             b = { version = \"1\", package = \"bee\" }\nc = \"1\"\n[dev-dependencies]\nd = \"1\"\n\
             [features]\ne = []\n",
            &["4 Build a", "5 Build b = bee", "6 Build c", "8 Dev d"],
        );
    }

    #[test]
    fn tables_and_targets_are_read_too() {
        check(
            "[dependencies.a]\nversion = \"1\"\npackage = \"ay\"\n\
             [target.'cfg(target_os = \"linux\")'.dependencies]\nb = \"1\"\n\
             [target.x86_64-unknown-linux-gnu.dev-dependencies.c]\npath = \"c\"\n\
             [build-dependencies]\nd = \"1\"\n[workspace.dependencies]\ne = \"1\"\n",
            &["1 Build a = ay", "5 Build b", "6 Dev c", "9 Build d", "11 WorkspaceOnly e"],
        );
    }

    #[test]
    fn the_package_is_named_in_its_own_section() {
        let text = "[[bin]]\nname = \"no\"\n[package]\nname = \"yes\"\n";
        assert_eq!(package_name(text), Some((4, "yes".to_owned())));
        assert_eq!(package_name("[workspace]\nname = \"no\"\n"), None);
    }
}
