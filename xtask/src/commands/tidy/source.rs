//! One parsed Rust file: its code line by line, attributes, imports, and which lines
//! are compiled for tests only. Parses only as much of the language as the rules need.

use super::code_only::code_only;
use super::imports::{Import, imports};
use super::phrase;

/// Whether a line belongs to the product or to its tests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineKind {
    /// Compiled into the product.
    Product,
    /// Compiled for tests only.
    Test,
}

/// One line of a file.
#[derive(Debug)]
pub struct Line {
    /// Counted from 1.
    pub number: usize,
    /// The line as written.
    pub text: String,
    /// The line with comments and literals replaced by spaces.
    pub code: String,
    /// Product or test.
    pub kind: LineKind,
}

/// `#[…]` or `#![…]`.
#[derive(Debug)]
pub struct Attribute {
    /// The line where it opens, counted from 1.
    pub line: usize,
    /// The text between the brackets, without spaces.
    pub text: String,
    reach: Reach,
    end: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reach {
    NextItem,
    WholeFile,
}

/// A parsed file.
#[derive(Debug)]
pub struct Source {
    /// All lines.
    pub lines: Vec<Line>,
    /// All attributes.
    pub attributes: Vec<Attribute>,
    /// Names of modules in separate files that are compiled for tests only.
    pub test_modules: Vec<String>,
    imports: Vec<Import>,
}

impl Source {
    /// Parses a file. Never fails; the result for text that is not Rust is meaningless.
    pub fn parse(text: &str) -> Self {
        let code = code_only(text);
        let lines = text.lines().zip(code.lines()).enumerate();
        let mut source = Source {
            lines: lines
                .map(|(index, (text, code))| Line {
                    number: index + 1,
                    text: text.to_owned(),
                    code: code.to_owned(),
                    kind: LineKind::Product,
                })
                .collect(),
            attributes: attributes(&code),
            test_modules: Vec::new(),
            imports: imports(&code),
        };
        source.mark_tests(&code);
        source
    }

    /// Marks the whole file as test code.
    pub fn mark_all_as_test(&mut self) {
        self.mark(1, self.lines.len());
    }

    /// The lines whose code contains `phrase`, written out or imported in a group.
    pub fn mentions<'a>(&'a self, phrase: &'a str) -> impl Iterator<Item = &'a Line> {
        self.lines.iter().filter(move |line| {
            let mut imported = self.imports.iter().filter(|import| import.line == line.number);
            phrase::contains_phrase(&line.code, phrase)
                || imported.any(|import| phrase::contains_phrase(&import.path, phrase))
        })
    }

    fn mark_tests(&mut self, code: &str) {
        let mut regions = Vec::new();
        for attribute in self.attributes.iter().filter(|attribute| attribute.is_for_tests()) {
            match attribute.reach {
                Reach::WholeFile if is_outermost(code, attribute.end) => {
                    regions.push((1, self.lines.len()));
                }
                // Inside a module it applies to that module only; rare enough that the stricter result is acceptable.
                Reach::WholeFile => {}
                Reach::NextItem => {
                    let end = item_end(code, attribute.end);
                    regions.push((attribute.line, line_number(code, end.saturating_sub(1))));
                    self.test_modules.extend(out_of_line_module(&code[attribute.end..end]));
                }
            }
        }
        for (first, last) in regions {
            self.mark(first, last);
        }
    }

    fn mark(&mut self, first: usize, last: usize) {
        for line in &mut self.lines[first - 1..last] {
            line.kind = LineKind::Test;
        }
    }
}

impl Attribute {
    fn is_for_tests(&self) -> bool {
        let text = self.text.as_str();
        let all = text.strip_prefix("cfg(all(").and_then(|rest| rest.strip_suffix("))"));
        text == "cfg(test)"
            || text == "test"
            || text.ends_with("::test")
            || text.contains("::test(")
            // Nested conditions may be `any(…)` or `not(…)`, which include the product.
            || all.is_some_and(|all| !all.contains('(') && all.split(',').any(|part| part == "test"))
    }

    /// Whether the attribute sets `word` under a condition: `cfg_attr(unix, word)`.
    pub fn sets_conditionally(&self, word: &str) -> bool {
        self.text.starts_with("cfg_attr(") && phrase::contains_phrase(&self.text, word)
    }
}

fn attributes(code: &str) -> Vec<Attribute> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices('#') {
        let after = &code[at + 1..];
        let (reach, bracket) = match after.strip_prefix('!') {
            Some(_) => (Reach::WholeFile, at + 2),
            None => (Reach::NextItem, at + 1),
        };
        if code[bracket..].starts_with('[')
            && let Some(end) = closing_bracket(code, bracket)
        {
            let text = code[bracket + 1..end].split_whitespace().collect();
            found.push(Attribute { line: line_number(code, at), text, reach, end: end + 1 });
        }
    }
    found
}

/// Where the bracket that opens at `start` closes.
fn closing_bracket(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, character) in code[start..].char_indices() {
        match character {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(start + at);
        }
    }
    None
}

/// The end of the item that begins at `start`: its `;`, or the brace that closes its body.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_i32;
    for (at, character) in code[start..].char_indices() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        let ends = match character {
            ';' => depth == 0,
            // Below zero, the attribute was on the last field or arm of an enclosing item.
            '}' => depth <= 0,
            _ => false,
        };
        if ends {
            return start + at + 1;
        }
    }
    code.len()
}

/// The name in `mod name;`.
fn out_of_line_module(item: &str) -> Option<String> {
    let words: Vec<&str> = item.strip_suffix(';')?.split_whitespace().collect();
    match words.as_slice() {
        [.., "mod", name] => Some((*name).to_owned()),
        _ => None,
    }
}

fn is_outermost(code: &str, offset: usize) -> bool {
    let before = &code[..offset];
    before.matches('{').count() == before.matches('}').count()
}

fn line_number(code: &str, offset: usize) -> usize {
    code[..offset].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the test lines of a file, and its test modules in other files.
    fn check(text: &str, lines: &[usize], modules: &[&str]) {
        let source = Source::parse(text);
        let found: Vec<usize> = source
            .lines
            .iter()
            .filter(|line| line.kind == LineKind::Test)
            .map(|line| line.number)
            .collect();
        assert_eq!(found, lines);
        assert_eq!(source.test_modules, modules);
    }

    #[test]
    fn a_test_module_ends_at_its_closing_brace() {
        check(
            "a();\n#[cfg(test)]\nmod tests {\n    fn f() { \"}\" }\n}\nb();\n",
            &[2, 3, 4, 5],
            &[],
        );
    }

    #[test]
    fn a_test_module_may_be_a_separate_file() {
        check("#[cfg(test)]\n#[path = \"x\"]\nmod fixture;\nmod real;\n", &[1, 2, 3], &["fixture"]);
    }

    #[test]
    fn a_test_function_counts_without_a_module() {
        check("#[tokio::test(start_paused = true)]\nasync fn f() {\n}\nfn g() {}", &[1, 2, 3], &[]);
        check("#[test]\nfn f<A: B<[u8; 3]>>() {}\nfn g() {}", &[1, 2], &[]);
    }

    #[test]
    fn only_code_compiled_for_tests_alone_is_test_code() {
        check("#[cfg(all(test, unix))]\nfn f() {}\n", &[1, 2], &[]);
        check("#[cfg(any(test, unix))]\nfn f() {}\n#[cfg(not(test))]\nfn g() {}\n", &[], &[]);
        check("#[cfg(all(unix, not(test)))]\nfn f() {}\n", &[], &[]);
    }

    #[test]
    fn an_inner_attribute_applies_to_the_whole_file() {
        check("//! A.\n#![cfg(test)]\nfn f() {}\n", &[1, 2, 3], &[]);
        check("mod a {\n    #![cfg(test)]\n}\nfn f() {}\n", &[], &[]);
    }

    #[test]
    fn names_in_import_groups_are_found() {
        let source = Source::parse("use std::{\n    env,\n    fs as files,\n};\n// std::env\n");
        let lines: Vec<usize> = source.mentions("std::fs").map(|line| line.number).collect();
        assert_eq!(lines, [3]);
    }
}
