//! What a rule asks of a call's arguments, and whether they meet it.
//! Deny and ask rules are read broadly, allow rules strictly: a doubt never lets a call through.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value as Json;

use super::glob::Glob;
use crate::url_pattern::Reading;

/// One condition on one argument: `path=/srv/*`, `options.mode!=fast`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Predicate {
    /// The argument's name, and names inside it.
    pub(super) key: Vec<String>,
    /// Must the value fit, or must it not?
    pub(super) relation: Relation,
    /// What it is compared with.
    pub(super) value: Glob,
}

/// How an argument and a pattern must stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `=`
    Is,
    /// `!=`
    IsNot,
}

/// Why a predicate does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// The argument is not there.
    Absent,
    /// It is there, and its value does not do.
    Differs,
}

impl Predicate {
    /// Why the arguments do not meet the predicate; nothing where they do.
    pub fn miss(&self, arguments: &Json, reading: Reading) -> Option<Miss> {
        let mut leaves = Vec::new();
        collect(arguments, &self.key, &mut leaves);
        if leaves.is_empty() {
            leaves.push(None);
        }
        let holds = match reading {
            Reading::Strict => leaves.iter().all(|leaf| self.surely_holds(*leaf)),
            Reading::Broad => leaves.iter().any(|leaf| self.possibly_holds(*leaf)),
        };
        let is_absent = leaves.iter().all(Option::is_none);
        match (holds, is_absent) {
            (true, _) => None,
            (false, true) => Some(Miss::Absent),
            (false, false) => Some(Miss::Differs),
        }
    }

    fn surely_holds(&self, leaf: Option<&Json>) -> bool {
        match (leaf, self.relation) {
            // Most servers take null for an argument that is not there, and nobody sees what is inside an object.
            (None | Some(Json::Null | Json::Object(_)), _) => false,
            (Some(value), Relation::Is) => surely_fits(&self.value, value),
            (Some(value), Relation::IsNot) => !possibly_fits(&self.value, value),
        }
    }

    fn possibly_holds(&self, leaf: Option<&Json>) -> bool {
        match (leaf, self.relation) {
            (None, Relation::Is) => false,
            (None, Relation::IsNot) => true,
            (Some(value), Relation::Is) => possibly_fits(&self.value, value),
            (Some(value), Relation::IsNot) => !surely_fits(&self.value, value),
        }
    }
}

/// Every value that a dotted key may mean; `None` for each place where there is none. A list stands for
/// each of its elements, and a name may itself hold dots.
fn collect<'v>(value: &'v Json, key: &[String], leaves: &mut Vec<Option<&'v Json>>) {
    match value {
        Json::Array(elements) => {
            for element in elements {
                collect(element, key, leaves);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_)
            if key.is_empty() =>
        {
            leaves.push(Some(value));
        }
        Json::Object(members) => {
            let meant = (1..=key.len()).filter_map(|taken| {
                let member = members.get(&key[..taken].join("."))?;
                Some((member, &key[taken..]))
            });
            let meant: Vec<_> = meant.collect();
            if meant.is_empty() {
                leaves.push(None);
            }
            for (member, rest) in meant {
                collect(member, rest, leaves);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => leaves.push(None),
    }
}

/// Does the value fit however a server reads it?
fn surely_fits(glob: &Glob, value: &Json) -> bool {
    match value {
        Json::String(text) => glob.matches(text) && !climbs(glob, text),
        Json::Bool(_) | Json::Number(_) => glob.matches(&value.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => false,
    }
}

/// Is there a way to read the value in which it fits? Servers differ in what they make of capitals, of
/// escapes and of `..`, and none of it may lead around a deny.
fn possibly_fits(glob: &Glob, value: &Json) -> bool {
    let text = match value {
        Json::String(text) => Cow::Borrowed(text.as_str()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            Cow::Owned(value.to_string())
        }
    };
    if glob.matches(&text) || is_same_number(glob, value) {
        return true;
    }
    let fold = |text: &str| unescaped(text).to_lowercase();
    let folded = Glob::of_pieces(glob.pieces().iter().map(|piece| fold(piece)).collect());
    let text = fold(text.trim());
    folded.matches(&text)
        || folded.matches(&walked(&text, Empty::Kept))
        || folded.matches(&walked(&text, Empty::Dropped))
}

/// `1`, `1.0` and `1e0` are one number to a server.
fn is_same_number(glob: &Glob, value: &Json) -> bool {
    let [text] = glob.pieces() else { return false };
    let number = text.parse::<f64>().ok();
    value.as_f64().is_some_and(|value| number == Some(value))
}

/// Does the text leave, with `..`, the folder that the pattern's star stands in?
fn climbs(glob: &Glob, text: &str) -> bool {
    glob.has_star() && steps_up(text) > steps_up(&glob.pieces().join("*"))
}

fn steps_up(text: &str) -> usize {
    unescaped(text).split('/').filter(|segment| *segment == "..").count()
}

/// The text with `%2F` and the like put in, and every separator a `/`.
fn unescaped(text: &str) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let escape = match rest {
            [b'%', high, low, ..] => digit(*high).zip(digit(*low)),
            _ => None,
        };
        let (byte, behind) = match escape {
            Some((high, low)) => (high * 16 + low, &rest[3..]),
            None => (*first, behind),
        };
        plain.push(if byte == b'\\' { b'/' } else { byte });
        rest = behind;
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// What becomes of empty segments: a URL has one behind its scheme, a path none that counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Empty {
    Kept,
    Dropped,
}

/// The path with its `.` and `..` walked.
fn walked(text: &str, empty: Empty) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for (index, segment) in text.split('/').enumerate() {
        match segment {
            "." => {}
            ".." if segments.last().is_some_and(|last| !matches!(*last, "" | "..")) => {
                segments.pop();
            }
            // There is nothing above the root.
            ".." if segments.len() == 1 && segments[0].is_empty() => {}
            "" if index > 0 && empty == Empty::Dropped => {}
            other => segments.push(other),
        }
    }
    segments.join("/")
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let relation = match self.relation {
            Relation::Is => "=",
            Relation::IsNot => "!=",
        };
        write!(f, "{}{relation}{}", self.key.join("."), written(&self.value))
    }
}

/// The value as a rule holds it, in quotes where it has to be.
fn written(glob: &Glob) -> String {
    let pieces = glob.pieces();
    let bare = pieces.join("*");
    let is_bare = !bare.is_empty()
        && bare.trim() == bare
        && !bare.starts_with('=')
        && !bare.contains(|c: char| matches!(c, ',' | '(' | ')' | '"') || c.is_control())
        && !pieces.iter().any(|piece| piece.contains('*'));
    if is_bare {
        return bare;
    }
    let escaped =
        |piece: &String| piece.replace('\\', r"\\").replace('"', r#"\""#).replace('*', r"\*");
    format!("\"{}\"", pieces.iter().map(escaped).collect::<Vec<_>>().join("*"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::permission::rule::ToolRule;

    /// Says in which readings a predicate holds for the arguments.
    #[track_caller]
    fn check(predicate: &str, arguments: Json, expected: &str) {
        let rule = ToolRule::parse(&format!("mcp__s__t({predicate})")).expect("a rule");
        let [predicate] = rule.predicates() else { panic!("one predicate") };
        let strict = predicate.miss(&arguments, Reading::Strict).is_none();
        let broad = predicate.miss(&arguments, Reading::Broad).is_none();
        let found = match (strict, broad) {
            (true, true) => "always",
            (false, true) => "broadly",
            (false, false) => "never",
            (true, false) => "strictly alone",
        };
        assert_eq!(found, expected, "{predicate} on {arguments}");
    }

    #[test]
    fn strings_numbers_and_booleans_compare_by_their_text() {
        check("path=/srv/*", json!({"path": "/srv/a/b"}), "always");
        check("path=/srv/*", json!({"path": "/etc/a"}), "never");
        check("count=5", json!({"count": 5}), "always");
        check("count=5", json!({"count": "5"}), "always");
        check("force=true", json!({"force": true}), "always");
        check("force=true", json!({"force": false}), "never");
    }

    #[test]
    fn one_number_written_in_two_ways_is_denied_in_both_and_allowed_in_one() {
        check("count=1", json!({"count": 1.0}), "broadly");
        check("count!=1", json!({"count": 1.0}), "broadly");
    }

    #[test]
    fn an_absent_argument_meets_nothing_but_a_broad_inequality() {
        check("path=/srv/*", json!({}), "never");
        check("path!=/srv/*", json!({}), "broadly");
        check("path=*", json!({"path": null}), "broadly");
        check("path!=/srv/*", json!({"path": null}), "broadly");
        check("path!=/srv/*", json!({"path": "/etc"}), "always");
        check("path!=/srv/*", json!({"path": []}), "broadly");
    }

    #[test]
    fn dotted_keys_go_inside_and_a_name_may_hold_the_dot_itself() {
        check("options.mode=fast", json!({"options": {"mode": "fast"}}), "always");
        check("options.mode=fast", json!({"options.mode": "fast"}), "always");
        check("a.b=x", json!({"a.b": "x", "a": {"b": "y"}}), "broadly");
        check("options.mode=fast", json!({"options": "fast"}), "never");
    }

    #[test]
    fn of_a_list_every_element_is_allowed_or_none_and_one_is_enough_to_deny() {
        check("paths=/srv/*", json!({"paths": ["/srv/a", "/srv/b"]}), "always");
        check("paths=/srv/*", json!({"paths": ["/srv/a", "/etc/b"]}), "broadly");
        check("files.path=/srv/*", json!({"files": [{"path": "/srv/a"}, {}]}), "broadly");
    }

    #[test]
    fn an_object_is_never_allowed_by_its_text() {
        check("options=*secret*", json!({"options": {"a": "secret"}}), "broadly");
        check("options!=x", json!({"options": {"a": 1}}), "broadly");
    }

    #[test]
    fn a_path_is_allowed_as_it_is_written_and_denied_where_it_may_arrive() {
        for path in ["/srv/../etc/x", "/srv/a/../../etc/x", "/srv/..%2Fetc/x", "/srv/%2e%2e/etc/x"]
        {
            check("path=/srv/*", json!({"path": path}), "broadly");
            check("path=/etc/*", json!({"path": path}), "broadly");
            check("path!=/etc/*", json!({"path": path}), "broadly");
        }
        for path in ["//etc/x", "/./etc/x", "/../etc/x", "/etc//x"] {
            check("path!=/etc/x", json!({"path": path}), "broadly");
        }
        for path in ["/ETC/x", "/%65tc/x", r"\etc\x", " /etc/x"] {
            check("path=/etc/*", json!({"path": path}), "broadly");
            check("path!=/etc/*", json!({"path": path}), "broadly");
        }
        check(r"path=C:\x\*", json!({"path": "c:/x/y"}), "broadly");
        check("url=https://h/b", json!({"url": "https://h/a/../b"}), "broadly");
        check("path=../shared/*", json!({"path": "../shared/a"}), "always");
        check("path=/srv/a..b", json!({"path": "/srv/a..b"}), "always");
    }

    fn value() -> impl Strategy<Value = Json> {
        let text = "[aA/.%\\\\ 125eEfF*]{0,8}";
        let leaf = prop_oneof![
            text.prop_map(Json::String),
            any::<f64>().prop_map(|number| json!(number)),
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
        ];
        leaf.prop_recursive(2, 6, 3, |inner| {
            let member = prop_oneof!["[kl]", Just("k.l".to_owned())];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Json::Array),
                prop::collection::hash_map(member, inner, 0..3)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// What allows would also deny: no value slips between the two readings.
        #[test]
        fn what_holds_strictly_holds_broadly(
            key in prop::collection::vec("[kl]", 1..3),
            relation in prop::sample::select(vec![Relation::Is, Relation::IsNot]),
            pattern in "[aA/.%\\\\125*]{0,6}",
            arguments in value(),
        ) {
            let predicate = Predicate { key, relation, value: Glob::parse(&pattern) };
            if predicate.miss(&arguments, Reading::Strict).is_none() {
                prop_assert_eq!(predicate.miss(&arguments, Reading::Broad), None);
            }
        }

        /// What `=` allows, `!=` does not, and the other way round.
        #[test]
        fn nothing_is_allowed_both_for_being_and_for_not_being(
            pattern in "[aA/.%\\\\125*]{0,6}",
            arguments in value(),
        ) {
            let held = [Relation::Is, Relation::IsNot].map(|relation| {
                let value = Glob::parse(&pattern);
                let predicate = Predicate { key: vec!["k".to_owned()], relation, value };
                predicate.miss(&arguments, Reading::Strict).is_none()
            });
            prop_assert_ne!(held, [true, true]);
        }
    }
}
