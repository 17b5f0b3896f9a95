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

/// Is there a way to read the value in which it fits?
fn possibly_fits(glob: &Glob, value: &Json) -> bool {
    let text = match value {
        Json::String(text) => Cow::Borrowed(text.as_str()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            Cow::Owned(value.to_string())
        }
    };
    let plain = unescaped(&text);
    glob.matches(&text)
        || glob.matches(&plain)
        || glob.matches(&walked(&plain, Empty::Kept))
        || glob.matches(&walked(&plain, Empty::Dropped))
        || is_same_number(glob, value)
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

/// Separators and dots as the others that they are read as: `\`, `%2F`, `%5C`, `%2E`.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let escape = rest.get(..3).map(str::to_ascii_lowercase);
        let (c, taken) = match (c, escape.as_deref()) {
            ('%', Some("%2f" | "%5c")) => ('/', 3),
            ('%', Some("%2e")) => ('.', 3),
            ('\\', _) => ('/', 1),
            (c, _) => (c, c.len_utf8()),
        };
        plain.push(c);
        rest = &rest[taken..];
    }
    plain
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
    fn a_path_that_climbs_out_is_not_allowed_and_denied_where_it_arrives() {
        for path in ["/srv/../etc/x", "/srv/a/../../etc/x", "/srv/..%2Fetc/x", "/srv/%2e%2e/etc/x"]
        {
            check("path=/srv/*", json!({"path": path}), "broadly");
            check("path=/etc/*", json!({"path": path}), "broadly");
            check("path!=/etc/*", json!({"path": path}), "broadly");
        }
        for path in ["//etc/x", "/./etc/x", "/../etc/x", "/etc//x"] {
            check("path!=/etc/x", json!({"path": path}), "broadly");
        }
        check("url=https://h/b", json!({"url": "https://h/a/../b"}), "broadly");
        check("path=../shared/*", json!({"path": "../shared/a"}), "always");
        check("path=/srv/a..b", json!({"path": "/srv/a..b"}), "always");
    }
}
