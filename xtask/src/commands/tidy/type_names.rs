//! Rule: the name of a public type is unique in its crate and says what the type holds.

use std::collections::BTreeMap;

use super::Finding;
use super::phrase::is_identifier_char;
use super::source::LineKind;
use super::tree::{Tree, crate_folder};

/// Words that introduce a public type.
const DEFINITIONS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// Participles and pronouns, which do not say what a type holds.
const SAYS_NOTHING: &[&str] = &[
    "Answered", "Asked", "Begun", "Behest", "Given", "Heard", "Kept", "Known", "Made", "Manner",
    "News", "Nobody", "Read", "Said", "Seen", "Sent", "Shown", "Somebody", "Taken", "Told",
    "Wanted", "Way", "What", "Who", "Whose",
];

/// Names that end in a participle although they say what the type holds, with the reason.
const ALLOWED_NAMES: &[(&str, &str)] = &[
    ("InputRequired", "the protocol's name of the result type `input_required`"),
    ("KeepRunning", "a choice, named as a command"),
    ("LimitExceeded", "an error, named as a limit's usual failure"),
    ("OnInputRequired", "a choice for results of the type `input_required`"),
    ("Shared", "the one kind of shared state; the rule `locks` counts its uses"),
];

/// Last words of names that end like a participle and are nouns.
const NOUNS: &[&str] = &[
    "Binding", "Chunking", "Encoding", "Ending", "Feed", "Finding", "Framing", "Handling",
    "Meaning", "Naming", "Nothing", "Polling", "Sampling", "Setting", "Sharing", "Speed", "String",
    "Thing", "Timing", "Warning",
];

/// Does the last word of the name end like a participle?
fn ends_in_participle(name: &str) -> bool {
    if ALLOWED_NAMES.iter().any(|(allowed, _)| *allowed == name) {
        return false;
    }
    let start = name.rfind(|character: char| character.is_ascii_uppercase()).unwrap_or(0);
    let word = &name[start..];
    (word.ends_with("ed") || word.ends_with("ing")) && !NOUNS.contains(&word)
}

/// Finds public types that share a name with another of their crate, and types whose names say nothing.
pub fn find(tree: &Tree) -> Vec<Finding> {
    let mut first_seen: BTreeMap<(&str, String), &str> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in &tree.sources {
        let Some(folder) = crate_folder(&file.path) else {
            continue;
        };
        let product = file.source.lines.iter().filter(|line| line.kind == LineKind::Product);
        for line in product {
            // Types inside functions need good names too.
            if let Some(definition) = defined_type(line.code.trim_start())
                && (SAYS_NOTHING.contains(&definition.name) || ends_in_participle(definition.name))
            {
                let advice = format!("call `{}` after what it holds", definition.name);
                findings.push(Finding::new(&file.path, line.number, advice));
            }
            let Some(definition) = defined_type(&line.code) else {
                continue;
            };
            if definition.is_public {
                let key = (folder, definition.name.to_owned());
                match first_seen.get(&key) {
                    Some(first) => {
                        let name = definition.name;
                        let advice =
                            format!("find another name; {first} has a public `{name}` too");
                        findings.push(Finding::new(&file.path, line.number, advice));
                    }
                    None => {
                        first_seen.insert(key, &file.path);
                    }
                }
            }
        }
    }
    findings
}

struct Definition<'a> {
    name: &'a str,
    is_public: bool,
}

/// The type that a line defines at the top level of its module.
fn defined_type(code: &str) -> Option<Definition<'_>> {
    let (is_public, rest) = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with(' ') => (true, rest),
        Some(rest) => (false, rest.split_once(')')?.1),
        None => (false, code),
    };
    let rest = rest.trim_start_matches(' ');
    let (word, rest) = rest.split_once(' ')?;
    let end = rest.find(|character| !is_identifier_char(character)).unwrap_or(rest.len());
    let name = &rest[..end];
    (DEFINITIONS.contains(&word) && !name.is_empty()).then_some(Definition { name, is_public })
}

#[cfg(test)]
mod tests {
    use crate::commands::tidy::fixture::check;

    #[test]
    fn two_public_types_of_a_crate_do_not_share_a_name() {
        check(
            "type-names",
            &[
                ("crates/auth/src/a.rs", "//! A.\npub struct Record {\n"),
                ("crates/auth/src/b.rs", "//! B.\npub enum Record {\n"),
                ("crates/host/src/b.rs", "//! B.\npub trait Record: Send {\n"),
            ],
            &["crates/auth/src/b.rs:2"],
        );
    }

    #[test]
    fn private_types_test_types_and_associated_types_may_share_a_name() {
        check(
            "type-names",
            &[
                ("crates/auth/src/a.rs", "//! A.\npub struct Record {\nstruct Rule;\n"),
                (
                    "crates/auth/src/b.rs",
                    "//! B.\nstruct Record {\npub(crate) struct Rule;\n    type Record = u8;\n",
                ),
                (
                    "crates/auth/src/c.rs",
                    "//! C.\n#[cfg(test)]\nmod tests {\n    pub struct Record;\n}\n",
                ),
            ],
            &[],
        );
    }

    #[test]
    fn a_name_says_what_the_type_holds() {
        check(
            "type-names",
            &[("crates/auth/src/a.rs", "//! A.\nenum Said {\n")],
            &["crates/auth/src/a.rs:2"],
        );
    }

    #[test]
    fn no_type_is_named_by_a_participle_not_even_inside_a_function() {
        let code = "//! A.\npub struct Quarantined {\npub(crate) struct KeyHandled;\nenum Loading {\n\
            fn f() {\n    struct Cancelled<'a> {\n}\n";
        check(
            "type-names",
            &[("crates/auth/src/a.rs", code)],
            &[
                "crates/auth/src/a.rs:2",
                "crates/auth/src/a.rs:3",
                "crates/auth/src/a.rs:4",
                "crates/auth/src/a.rs:6",
            ],
        );
    }

    #[test]
    fn nouns_and_allowed_names_may_end_like_a_participle() {
        let code = "//! A.\npub enum TraceEncoding {\nstruct Speed(u32);\npub struct Shared<T>(T);\n\
            struct CancelledParams {\nenum InputRequired {\n";
        check("type-names", &[("crates/auth/src/a.rs", code)], &[]);
    }
}
