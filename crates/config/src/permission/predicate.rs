//! Conditions of a rule on the arguments of a call.
//! Deny and ask rules match broadly, allow rules strictly: in doubt, a call is not allowed.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value as Json;

use super::command;
use crate::pattern::{Glob, MatchMode, percent_decode};

/// How often the escapes of a text may be escaped again.
const MAX_ESCAPE_DEPTH: usize = 4;

/// One condition on one argument: `path=/srv/*`, `options.mode!=fast`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Predicate {
    /// The path of the argument: its name, and the names inside it.
    pub(super) key: Vec<String>,
    /// Must the value match, or must it not?
    pub(super) comparison: Comparison,
    /// The pattern that the value is compared with.
    pub(super) value: Glob,
}

/// How an argument is compared with a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `^=`: the value is a shell command that begins with the words of the pattern.
    CommandStart,
}

/// Why a predicate does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PredicateMismatch {
    /// The argument is absent.
    Absent,
    /// The argument is present, but its value does not match.
    Differs,
}

impl Predicate {
    /// Returns why the arguments do not meet the predicate; `None` if they do.
    pub fn mismatch(&self, arguments: &Json, match_mode: MatchMode) -> Option<PredicateMismatch> {
        let mut leaves = Vec::new();
        collect_values(arguments, &self.key, &mut leaves);
        if leaves.is_empty() {
            leaves.push(None);
        }
        let holds = match match_mode {
            MatchMode::Strict => leaves.iter().all(|leaf| self.holds_strictly(*leaf)),
            MatchMode::Broad => leaves.iter().any(|leaf| self.holds_broadly(*leaf)),
        };
        let is_absent = leaves.iter().all(Option::is_none);
        match (holds, is_absent) {
            (true, _) => None,
            (false, true) => Some(PredicateMismatch::Absent),
            (false, false) => Some(PredicateMismatch::Differs),
        }
    }

    fn holds_strictly(&self, leaf: Option<&Json>) -> bool {
        match (leaf, self.comparison) {
            // Most servers treat null as an absent argument, and the content of an object is not compared.
            (None | Some(Json::Null | Json::Object(_)), _) => false,
            (Some(value), Comparison::Equal) => matches_strictly(&self.value, value),
            (Some(value), Comparison::NotEqual) => !matches_broadly(&self.value, value),
            (Some(Json::String(line)), Comparison::CommandStart) => {
                command::is_one_matching_command(&self.value, line)
            }
            (Some(Json::Bool(_) | Json::Number(_) | Json::Array(_)), Comparison::CommandStart) => {
                false
            }
        }
    }

    fn holds_broadly(&self, leaf: Option<&Json>) -> bool {
        match (leaf, self.comparison) {
            (None, Comparison::Equal | Comparison::CommandStart) => false,
            (None, Comparison::NotEqual) => true,
            (Some(Json::String(line)), Comparison::CommandStart) => {
                command::may_run_matching_command(&self.value, line)
            }
            (Some(value), Comparison::CommandStart) => {
                command::may_run_matching_command(&self.value, &value.to_string())
            }
            (Some(value), Comparison::Equal) => matches_broadly(&self.value, value),
            (Some(value), Comparison::NotEqual) => !matches_strictly(&self.value, value),
        }
    }
}

/// Collects every value that a dotted key may refer to; `None` for each place without a value. An array stands
/// for each of its elements, and a name may itself contain dots.
fn collect_values<'v>(value: &'v Json, key: &[String], leaves: &mut Vec<Option<&'v Json>>) {
    match value {
        Json::Array(elements) => {
            for element in elements {
                collect_values(element, key, leaves);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_)
            if key.is_empty() =>
        {
            leaves.push(Some(value));
        }
        Json::Object(members) => {
            let candidates = (1..=key.len()).filter_map(|taken| {
                let member = members.get(&key[..taken].join("."))?;
                Some((member, &key[taken..]))
            });
            let candidates: Vec<_> = candidates.collect();
            if candidates.is_empty() {
                leaves.push(None);
            }
            for (member, rest) in candidates {
                collect_values(member, rest, leaves);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => leaves.push(None),
    }
}

/// Does the value match, however a server interprets it?
fn matches_strictly(glob: &Glob, value: &Json) -> bool {
    match value {
        Json::String(text) => glob.matches(text) && !leaves_directory(glob, text),
        Json::Bool(_) | Json::Number(_) => glob.matches(&value.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => false,
    }
}

/// Does the value match in some interpretation? Servers differ in how they treat case, escapes and `..`, and
/// none of these may bypass a deny rule.
fn matches_broadly(glob: &Glob, value: &Json) -> bool {
    let text = match value {
        Json::String(text) => Cow::Borrowed(text.as_str()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            Cow::Owned(value.to_string())
        }
    };
    if glob.matches(&text) || is_same_number(glob, value) {
        return true;
    }
    let fold = |text: &str| normalize_separators(text).to_lowercase();
    let folded: Vec<String> = glob.pieces().iter().map(|piece| fold(piece)).collect();
    let text = fold(text.trim());
    let paths = file_paths(&text);
    // A rule may name a file by its URL too.
    let of_url = folded.split_first().and_then(|(first, rest)| {
        let path = file_paths(first).into_iter().next()?;
        Some(std::iter::once(path.to_owned()).chain(rest.iter().cloned()).collect())
    });
    let globs = std::iter::once(folded).chain(of_url).map(Glob::from_pieces);
    globs.into_iter().any(|glob| {
        glob.matches(&text)
            || glob.matches(&normalize_path(&text, EmptySegments::Keep))
            || std::iter::once(text.as_str()).chain(paths.iter().copied()).any(|path| {
                glob.matches(&normalize_path(path, EmptySegments::Drop))
                    || path_from_root(path).is_some_and(|path| glob.matches(&path))
            })
    })
}

/// Returns the paths that a `file:` URL may mean: with and without a host, query and fragment, and without the slash
/// before the letter of a drive. Empty for other texts.
fn file_paths(text: &str) -> Vec<&str> {
    let Some(rest) = text.strip_prefix("file:") else { return Vec::new() };
    let mut paths = Vec::new();
    match rest.strip_prefix("//") {
        None => paths.push(rest),
        Some(rest) => {
            let after_host = rest.find('/').map_or("", |slash| &rest[slash..]);
            paths.extend([after_host, rest]);
        }
    }
    let cut: Vec<&str> =
        paths.iter().filter_map(|path| Some(&path[..path.find(['?', '#'])?])).collect();
    paths.extend(cut);
    let is_drive = |path: &str| path.as_bytes().get(1) == Some(&b':');
    let drives: Vec<&str> =
        paths.iter().filter_map(|path| path.strip_prefix('/')).filter(|it| is_drive(it)).collect();
    paths.extend(drives);
    paths
}

/// Returns the path that enough `..` lead to from any folder; `None` if the path does not begin with `..`. A server's
/// folder is not known, so a deny rule sees the path as if the `..` ended at the root.
fn path_from_root(text: &str) -> Option<String> {
    let mut path = normalize_path(text, EmptySegments::Drop);
    if path != ".." && !path.starts_with("../") {
        return None;
    }
    while let Some(rest) = path.strip_prefix("../") {
        path = rest.to_owned();
    }
    Some(format!("/{}", path.trim_start_matches("..")))
}

/// `1`, `1.0` and `1e0` are the same number.
fn is_same_number(glob: &Glob, value: &Json) -> bool {
    let [text] = glob.pieces() else { return false };
    let number = text.parse::<f64>().ok();
    value.as_f64().is_some_and(|value| number == Some(value))
}

/// Does the text use `..` to leave the folder that the wildcard is in?
fn leaves_directory(glob: &Glob, text: &str) -> bool {
    glob.has_wildcard()
        && count_parent_segments(text) > count_parent_segments(&glob.pieces().join("*"))
}

fn count_parent_segments(text: &str) -> usize {
    normalize_separators(text).split('/').filter(|segment| *segment == "..").count()
}

/// Decodes percent escapes and replaces every separator with `/`. Escapes that are escaped again are decoded too, because
/// a server may decode the path of a URL that it has decoded before.
fn normalize_separators(text: &str) -> String {
    let mut plain = Cow::Borrowed(text);
    for _ in 0..MAX_ESCAPE_DEPTH {
        if !plain.contains('%') {
            break;
        }
        plain = Cow::Owned(String::from_utf8_lossy(&percent_decode(&plain)).into_owned());
    }
    plain.replace('\\', "/")
}

/// The handling of empty segments: a URL has one after its scheme, in a path they have no meaning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EmptySegments {
    Keep,
    Drop,
}

/// Resolves `.` and `..` in a path.
fn normalize_path(text: &str, empty: EmptySegments) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for (index, segment) in text.split('/').enumerate() {
        match segment {
            "." => {}
            ".." if segments.last().is_some_and(|last| !matches!(*last, "" | "..")) => {
                segments.pop();
            }
            // The root has no parent.
            ".." if segments.len() == 1 && segments[0].is_empty() => {}
            "" if index > 0 && empty == EmptySegments::Drop => {}
            other => segments.push(other),
        }
    }
    segments.join("/")
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comparison = match self.comparison {
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
            Comparison::CommandStart => "^=",
        };
        write!(f, "{}{comparison}{}", self.key.join("."), quote_value(&self.value))
    }
}

/// Returns the value as it is written in a rule, in quotes if necessary.
fn quote_value(glob: &Glob) -> String {
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

    /// Checks in which match modes a predicate holds for the arguments.
    #[track_caller]
    fn check(predicate: &str, arguments: Json, expected: &str) {
        let rule = ToolRule::parse(&format!("mcp__s__t({predicate})")).expect("a rule");
        let [predicate] = rule.predicates() else { panic!("one predicate") };
        let strict = predicate.mismatch(&arguments, MatchMode::Strict).is_none();
        let broad = predicate.mismatch(&arguments, MatchMode::Broad).is_none();
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
    fn different_spellings_of_a_number_match_only_broadly() {
        check("count=1", json!({"count": 1.0}), "broadly");
        check("count!=1", json!({"count": 1.0}), "broadly");
    }

    #[test]
    fn an_absent_argument_matches_only_a_broad_inequality() {
        check("path=/srv/*", json!({}), "never");
        check("path!=/srv/*", json!({}), "broadly");
        check("path=*", json!({"path": null}), "broadly");
        check("path!=/srv/*", json!({"path": null}), "broadly");
        check("path!=/srv/*", json!({"path": "/etc"}), "always");
        check("path!=/srv/*", json!({"path": []}), "broadly");
    }

    #[test]
    fn dotted_keys_refer_to_nested_values_and_to_names_with_dots() {
        check("options.mode=fast", json!({"options": {"mode": "fast"}}), "always");
        check("options.mode=fast", json!({"options.mode": "fast"}), "always");
        check("a.b=x", json!({"a.b": "x", "a": {"b": "y"}}), "broadly");
        check("options.mode=fast", json!({"options": "fast"}), "never");
    }

    #[test]
    fn every_element_of_an_array_must_be_allowed_and_one_is_enough_to_deny() {
        check("paths=/srv/*", json!({"paths": ["/srv/a", "/srv/b"]}), "always");
        check("paths=/srv/*", json!({"paths": ["/srv/a", "/etc/b"]}), "broadly");
        check("files.path=/srv/*", json!({"files": [{"path": "/srv/a"}, {}]}), "broadly");
    }

    #[test]
    fn the_start_of_a_command_allows_one_command_and_denies_every_line_that_runs_it() {
        check("command^=git status", json!({"command": "git status -s"}), "always");
        check("command^=git status", json!({"command": "git status; rm -rf /"}), "broadly");
        check("command^=rm", json!({"command": "cd / && rm -rf x"}), "broadly");
        check("command^=rm", json!({"command": "ls"}), "never");
        check("command^=rm", json!({}), "never");
        check("command^=rm", json!({"command": ["rm x", "ls"]}), "broadly");
        check("command^=5", json!({"command": 5}), "broadly");
    }

    #[test]
    fn an_object_never_matches_strictly() {
        check("options=*secret*", json!({"options": {"a": "secret"}}), "broadly");
        check("options!=x", json!({"options": {"a": 1}}), "broadly");
    }

    #[test]
    fn a_path_is_allowed_as_written_and_denied_wherever_it_may_lead() {
        for path in ["/srv/../etc/x", "/srv/a/../../etc/x", "/srv/..%2Fetc/x", "/srv/%2e%2e/etc/x"]
        {
            check("path=/srv/*", json!({"path": path}), "broadly");
            check("path=/etc/*", json!({"path": path}), "broadly");
            check("path!=/etc/*", json!({"path": path}), "broadly");
        }
        for path in ["//etc/x", "/./etc/x", "/../etc/x", "/etc//x"] {
            check("path!=/etc/x", json!({"path": path}), "broadly");
        }
        for path in
            ["../../etc/x", "a/../../etc/./x", r"..\..\etc\x", "~/../../etc/x", "file:///etc/x"]
        {
            check("path=/etc/*", json!({"path": [path]}), "broadly");
            check("path=/etc/*", json!({"path": path}), "broadly");
            check("path!=/etc/*", json!({"path": path}), "broadly");
        }
        for path in ["../../home/x", "etc/x", "..", "..etc/x"] {
            check("path=/etc/*", json!({"path": path}), "never");
        }
        for path in ["/ETC/x", "/%65tc/x", r"\etc\x", " /etc/x"] {
            check("path=/etc/*", json!({"path": path}), "broadly");
            check("path!=/etc/*", json!({"path": path}), "broadly");
        }
        for url in [
            "file:/etc/x",
            "file:///etc/x",
            "file://localhost/etc/x",
            "FILE://LOCALHOST/etc/x",
            "file:///%65tc/x",
            "file:%2f%2flocalhost%2Fetc/x",
            "file:///srv/%252e%252e/etc/x",
            "file:/etc/x?raw=1",
            "file:///etc/x#top",
        ] {
            for rule in ["uri=/etc/x", "uri=file:///ETC/x", "uri!=/etc/x"] {
                check(rule, json!({"uri": url}), "broadly");
            }
            check("uri!=/etc/y", json!({"uri": url}), "always");
            check("uri=/etc/x", json!({"uri": ["/srv/a", url]}), "broadly");
        }
        check("uri=/etc/x", json!({"uri": "file:///srv/etc/x"}), "never");
        check("uri=/etc/x", json!({"uri": "profile:/etc/x"}), "never");
        check(r"uri=C:\x\*", json!({"uri": "file:///C:/x/y"}), "broadly");
        check("path=/srv/*", json!({"path": "/srv/%252e%252e/etc/x"}), "broadly");
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
        /// A value that matches strictly also matches broadly.
        #[test]
        fn a_strict_match_is_also_a_broad_match(
            key in prop::collection::vec("[kl]", 1..3),
            comparison in prop::sample::select(vec![Comparison::Equal, Comparison::NotEqual, Comparison::CommandStart]),
            pattern in "[aA/.%\\\\125*]{0,6}",
            arguments in value(),
        ) {
            let predicate = Predicate { key, comparison, value: Glob::parse(&pattern) };
            if predicate.mismatch(&arguments, MatchMode::Strict).is_none() {
                prop_assert_eq!(predicate.mismatch(&arguments, MatchMode::Broad), None);
            }
        }

        /// No value is allowed both by `=` and by `!=` with the same pattern.
        #[test]
        fn no_value_matches_both_equal_and_not_equal(
            pattern in "[aA/.%\\\\125*]{0,6}",
            arguments in value(),
        ) {
            let held = [Comparison::Equal, Comparison::NotEqual].map(|comparison| {
                let value = Glob::parse(&pattern);
                let predicate = Predicate { key: vec!["k".to_owned()], comparison, value };
                predicate.mismatch(&arguments, MatchMode::Strict).is_none()
            });
            prop_assert_ne!(held, [true, true]);
        }
    }
}
