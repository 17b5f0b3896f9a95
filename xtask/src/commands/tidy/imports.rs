//! Expands every `use` to full paths, so that `use std::{fs, io}` counts as an import of `std::fs`.

use super::phrase::is_identifier_char;

/// One imported path and the line that names it.
#[derive(Debug, Eq, PartialEq)]
pub struct Import {
    /// Counted from 1.
    pub line: usize,
    /// The full path, without the alias.
    pub path: String,
    /// Whether it is a re-export.
    pub visibility: Visibility,
}

/// Whether other modules can use the imported name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Visibility {
    /// `use`.
    Private,
    /// `pub use`, `pub(crate) use` and the like.
    Exported,
}

/// All imports of a file whose comments and literals are replaced by spaces.
pub fn imports(code: &str) -> Vec<Import> {
    let mut found = Vec::new();
    for (at, word) in code.match_indices("use") {
        let start = at + word.len();
        let alone = !code[..at].ends_with(|before| is_identifier_char(before) || before == '#')
            && code[start..].starts_with(char::is_whitespace);
        if let Some(length) = code[start..].find(';')
            && alone
        {
            let visibility = match code[..at].trim_end() {
                before if before.ends_with("pub") || before.ends_with(')') => Visibility::Exported,
                _ => Visibility::Private,
            };
            let mut expansion = Expansion { code, visibility, found: &mut found };
            expansion.add("", start, start + length);
        }
    }
    found
}

struct Expansion<'a> {
    code: &'a str,
    visibility: Visibility,
    found: &'a mut Vec<Import>,
}

impl Expansion<'_> {
    /// Adds the paths of `code[start..end]`, each after `prefix`.
    fn add(&mut self, prefix: &str, start: usize, end: usize) {
        let code = self.code;
        let tree = &code[start..end];
        let start = start + (tree.len() - tree.trim_start().len());
        let tree = tree.trim();
        let Some((head, inner)) = tree.split_once('{') else {
            self.add_leaf(prefix, start, tree);
            return;
        };
        let prefix = joined(prefix, head.trim().trim_end_matches("::"));
        let from = start + head.len() + 1;
        let inner = inner.strip_suffix('}').unwrap_or(inner);
        let mut depth = 0;
        let mut branch = from;
        for (at, character) in inner.char_indices() {
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    self.add(&prefix, branch, from + at);
                    branch = from + at + 1;
                }
                _ => {}
            }
        }
        self.add(&prefix, branch, from + inner.len());
    }

    fn add_leaf(&mut self, prefix: &str, start: usize, leaf: &str) {
        // In `a::b as c`, the path is `a::b`.
        let Some(name) = leaf.split_whitespace().next() else {
            return;
        };
        let path = match name {
            "self" => prefix.to_owned(),
            _ => joined(prefix, name.trim_start_matches("::")),
        };
        let line = self.code[..start].matches('\n').count() + 1;
        self.found.push(Import { line, path, visibility: self.visibility });
    }
}

fn joined(prefix: &str, name: &str) -> String {
    match prefix {
        "" => name.trim_start_matches("::").to_owned(),
        _ => format!("{prefix}::{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str, expected: &[(usize, &str, Visibility)]) {
        let expected: Vec<Import> = expected
            .iter()
            .map(|(line, path, visibility)| Import {
                line: *line,
                path: (*path).to_owned(),
                visibility: *visibility,
            })
            .collect();
        assert_eq!(imports(code), expected);
    }

    #[test]
    fn groups_are_written_out_with_the_line_of_each_name() {
        use Visibility::{Exported, Private};
        check(
            "use std::{\n    fs,\n    io::{self, stdout as out},\n};\npub use ::a::b;\npub(crate) use c::d;",
            &[
                (2, "std::fs", Private),
                (3, "std::io", Private),
                (3, "std::io::stdout", Private),
                (5, "a::b", Exported),
                (6, "c::d", Exported),
            ],
        );
    }

    #[test]
    fn only_use_items_are_imports() {
        check("reuse std::fs; let used = r#use x; fn f() -> impl A + use<'a> {}", &[]);
    }
}
