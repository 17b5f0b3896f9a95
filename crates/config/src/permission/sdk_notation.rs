//! Permission rules in the notation of agent SDKs: `Read`, `Bash(git status:*)`, `Edit(src/**)`, `mcp__server__tool`.
//! They become rules on the server of the built-in tools, and rules on it are written in this notation again.

use std::path::{Component, Path, PathBuf};

use super::effect::PermissionEffect;
use super::predicate::{Comparison, Predicate};
use super::rule::ToolRule;
use super::rule_error::{RuleError, RuleErrorKind};
use super::rule_parser::PREFIX;
use crate::pattern::Glob;

/// The server of the built-in tools. No configured server may have this name.
pub const BUILT_IN_SERVER: &str = "switchboard";

/// The most `**/` in a path.
const MAX_OPTIONAL_FOLDERS: usize = 4;
/// The marker of a wildcard that also stands for slashes, while a path is translated.
const DEEP: char = '\u{1}';

/// A built-in tool and the argument that the text in parentheses is about.
struct BuiltInTool {
    name: &'static str,
    argument: RuleArgument,
    /// The tool whose path rules apply to it too.
    governed_by: &'static str,
}

/// What the text in the parentheses of a rule is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleArgument {
    /// A shell command in this argument.
    Command(&'static str),
    /// A path in this argument.
    Path(&'static str),
    /// Nothing: the rule is about the whole tool.
    None,
}

const BUILT_IN_TOOLS: [BuiltInTool; 10] = [
    tool("Read", RuleArgument::Path("file_path"), "Read"),
    tool("Glob", RuleArgument::Path("path"), "Read"),
    tool("Grep", RuleArgument::Path("path"), "Read"),
    tool("LS", RuleArgument::Path("path"), "Read"),
    tool("Edit", RuleArgument::Path("file_path"), "Edit"),
    tool("Write", RuleArgument::Path("file_path"), "Edit"),
    tool("MultiEdit", RuleArgument::Path("file_path"), "Edit"),
    tool("Bash", RuleArgument::Command("command"), "Bash"),
    tool("BashOutput", RuleArgument::None, "BashOutput"),
    tool("KillBash", RuleArgument::None, "KillBash"),
];

const fn tool(
    name: &'static str,
    argument: RuleArgument,
    governed_by: &'static str,
) -> BuiltInTool {
    BuiltInTool { name, argument, governed_by }
}

/// The folders that paths in rules begin at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulePaths {
    /// The working folder.
    pub folder: PathBuf,
    /// The user's home folder, if it is known.
    pub home: Option<PathBuf>,
}

/// The notation of the rules in a settings file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RuleNotation<'a> {
    /// Ours.
    Own,
    /// That of agent SDKs, which contains ours.
    Sdk(&'a RulePaths),
}

impl RuleNotation<'_> {
    /// Parses a rule into those of which any one must match.
    pub(crate) fn parse(
        self,
        text: &str,
        effect: PermissionEffect,
    ) -> Result<Vec<ToolRule>, RuleError> {
        match self {
            RuleNotation::Own => Ok(vec![ToolRule::parse(text)?]),
            RuleNotation::Sdk(paths) => match parse_sdk_rule(text, effect, paths)? {
                SdkRule::AnyOf(rules) => Ok(rules),
                SdkRule::UnknownTool(_) => Ok(Vec::new()),
            },
        }
    }
}

/// A rule in the notation of agent SDKs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SdkRule {
    /// Rules of which any one must match.
    AnyOf(Vec<ToolRule>),
    /// It is valid, but there is no such built-in tool, so it matches nothing.
    UnknownTool(String),
}

/// A rule as agent SDKs write it in permission updates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SdkRuleText {
    /// The tool's name.
    pub tool_name: String,
    /// The text in parentheses.
    pub rule_content: Option<String>,
}

/// Parses a rule in the notation of agent SDKs. An allow rule never matches more than is written; a deny or ask rule also
/// matches other spellings.
pub fn parse_sdk_rule(
    text: &str,
    effect: PermissionEffect,
    paths: &RulePaths,
) -> Result<SdkRule, RuleError> {
    let text = text.trim();
    if text.starts_with(PREFIX) {
        return ToolRule::parse(text).map(|rule| SdkRule::AnyOf(vec![rule]));
    }
    let (name, content) = split(text)?;
    let name = match name {
        "KillShell" => "KillBash",
        name => name,
    };
    let Some(named) = BUILT_IN_TOOLS.iter().find(|it| it.name == name) else {
        return Ok(SdkRule::UnknownTool(name.to_owned()));
    };
    let whole = || vec![rule(named.name, Vec::new())];
    let Some(content) = content else { return Ok(SdkRule::AnyOf(whole())) };
    let rules = match named.argument {
        RuleArgument::None => whole(),
        RuleArgument::Command(argument) => {
            vec![rule(named.name, vec![command_predicate(argument, content)])]
        }
        RuleArgument::Path(_) => {
            let governed = BUILT_IN_TOOLS
                .iter()
                .filter(|it| it.name == named.name || (it.governed_by == named.name));
            let alternatives = path_alternatives(content, effect, paths)
                .ok_or(RuleError { at: 0, kind: RuleErrorKind::TooLong })?;
            let of_tool = |it: &BuiltInTool| match it.argument {
                RuleArgument::Path(argument) => alternatives
                    .iter()
                    .map(|patterns| rule(it.name, patterns.predicates(argument)))
                    .collect(),
                RuleArgument::Command(_) | RuleArgument::None => Vec::new(),
            };
            governed.flat_map(of_tool).collect()
        }
    };
    Ok(SdkRule::AnyOf(rules))
}

/// Writes the rule that allows a call again, in the notation of agent SDKs: with its command or its path if `tool` is a
/// built-in one and the argument can be written, otherwise the tool alone. `tool` is the exposed name.
pub fn sdk_rule_text(tool: &str, arguments: &serde_json::Value) -> SdkRuleText {
    let built_in = BUILT_IN_TOOLS.iter().find(|it| it.name == tool);
    let content = built_in.and_then(|it| {
        let (RuleArgument::Command(argument) | RuleArgument::Path(argument)) = it.argument else {
            return None;
        };
        let value = arguments.get(argument)?.as_str()?;
        let content = match it.argument {
            // An absolute path begins with two slashes in a rule.
            RuleArgument::Path(_) if value.starts_with('/') => format!("/{value}"),
            RuleArgument::Path(_) | RuleArgument::Command(_) | RuleArgument::None => {
                value.to_owned()
            }
        };
        let is_plain = !content.is_empty()
            && content.trim() == content
            && !content.contains(|c: char| c == '*' || c.is_control())
            && !content.ends_with(':');
        is_plain.then_some(content)
    });
    SdkRuleText { tool_name: tool.to_owned(), rule_content: content }
}

/// Writes a rule on a built-in tool in the notation of agent SDKs; `None` for other rules. Where a rule has conditions on the
/// command or the path and on other arguments, only the former are written.
pub fn to_sdk_rule(rule: &ToolRule) -> Option<SdkRuleText> {
    let is_for = |it: &&BuiltInTool| {
        *rule == ToolRule::for_tool(BUILT_IN_SERVER, it.name, rule.predicates().to_vec())
    };
    let tool = BUILT_IN_TOOLS.iter().find(is_for)?;
    let tool_name = tool.name.to_owned();
    if rule.is_unconditional() {
        return Some(SdkRuleText { tool_name, rule_content: None });
    }
    let (RuleArgument::Command(argument) | RuleArgument::Path(argument)) = tool.argument else {
        return None;
    };
    let mut conditions = rule.predicates().iter().filter(|it| it.key == [argument]);
    let (Some(condition), None) = (conditions.next(), conditions.next()) else { return None };
    let [value] = condition.value.pieces() else { return None };
    match condition.comparison {
        Comparison::Equal => {
            let arguments = serde_json::json!({argument: value});
            let text = sdk_rule_text(&tool_name, &arguments);
            text.rule_content.is_some().then_some(text)
        }
        Comparison::CommandStart => {
            Some(SdkRuleText { tool_name, rule_content: Some(format!("{value}:*")) })
        }
        Comparison::NotEqual => None,
    }
}

/// Splits `Name(content)`. An empty content and `*` mean the whole tool.
fn split(text: &str) -> Result<(&str, Option<&str>), RuleError> {
    let (name, content) = match text.split_once('(') {
        None => (text, None),
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(content) => (name, Some(content.trim())),
            None => {
                let kind = RuleErrorKind::UnclosedParenthesis;
                return Err(RuleError { at: text.len(), kind });
            }
        },
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let starts_well = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    if let (false, _) | (_, Some(_)) = (starts_well, name.find(|c| !is_name(c))) {
        return Err(RuleError { at: 0, kind: RuleErrorKind::Character });
    }
    Ok((name, content.filter(|it| !matches!(*it, "" | "*" | ":*"))))
}

fn rule(tool: &str, predicates: Vec<Predicate>) -> ToolRule {
    ToolRule::for_tool(BUILT_IN_SERVER, tool, predicates)
}

fn predicate(argument: &str, comparison: Comparison, value: Glob) -> Predicate {
    Predicate { key: vec![argument.to_owned()], comparison, value }
}

/// The predicate for a command: exactly this one, or `prefix:*` and patterns with `*`.
fn command_predicate(argument: &str, content: &str) -> Predicate {
    let prefix = content.strip_suffix(":*").or_else(|| content.strip_suffix(" *"));
    match prefix {
        Some(prefix) => {
            predicate(argument, Comparison::CommandStart, Glob::parse(prefix.trim_end()))
        }
        None if content.contains('*') => {
            predicate(argument, Comparison::CommandStart, Glob::parse(content))
        }
        None => predicate(argument, Comparison::Equal, Glob::literal(content)),
    }
}

/// A path pattern: what a path must match, and what it must not match because a `*` stands for no slash.
struct PathPattern {
    included: Glob,
    excluded: Vec<Glob>,
}

impl PathPattern {
    fn predicates(&self, argument: &str) -> Vec<Predicate> {
        let included = predicate(argument, Comparison::Equal, self.included.clone());
        let excluded =
            self.excluded.iter().map(|it| predicate(argument, Comparison::NotEqual, it.clone()));
        std::iter::once(included).chain(excluded).collect()
    }
}

/// The patterns of which any one must match, for a path like `src/**`, `./a`, `~/b` or `//absolute`; `None` where there
/// are too many. A path below the working folder may be written in both ways in a call.
fn path_alternatives(
    content: &str,
    effect: PermissionEffect,
    paths: &RulePaths,
) -> Option<Vec<PathPattern>> {
    let (base, rest) = match content {
        // Two slashes mean an absolute path, one the working folder.
        it if it.starts_with("//") => (None, it[1..].to_owned()),
        it if it.starts_with('/') => (Some(&paths.folder), it[1..].to_owned()),
        it => match (it.strip_prefix("~/"), &paths.home) {
            (Some(rest), Some(home)) => {
                (None, format!("{}/{rest}", home.to_string_lossy().trim_end_matches('/')))
            }
            (_, _) => (Some(&paths.folder), it.trim_start_matches("./").to_owned()),
        },
    };
    let mut written = vec![rest.clone()];
    if let Some(base) = base {
        written.insert(0, absolute(base, &rest));
    }
    let mut alternatives = Vec::new();
    for text in written {
        for variant in with_optional_folders(&text)? {
            alternatives.push(path_pattern(&variant, effect));
        }
    }
    Some(alternatives)
}

/// The path from the root, without `.` and `..`.
fn absolute(base: &Path, rest: &str) -> String {
    let mut whole = PathBuf::new();
    for component in base.join(rest).components() {
        match component {
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                whole.push(component);
            }
        }
    }
    whole.to_string_lossy().into_owned()
}

/// `**/` stands for any number of folders, also for none, so there is a variant with and one without it.
fn with_optional_folders(text: &str) -> Option<Vec<String>> {
    let parts: Vec<&str> = text.split("**/").collect();
    if parts.len() > MAX_OPTIONAL_FOLDERS + 1 {
        return None;
    }
    let mut variants = vec![String::new()];
    for (index, part) in parts.iter().enumerate() {
        let part = part.replace("**", &DEEP.to_string());
        let is_last = index + 1 == parts.len();
        variants = variants
            .into_iter()
            .flat_map(|start| match is_last {
                true => vec![format!("{start}{part}")],
                false => vec![format!("{start}{part}"), format!("{start}{part}{DEEP}/")],
            })
            .collect();
    }
    Some(variants)
}

/// The pattern of one variant. For an allow rule, a single `*` must not stand for slashes; a deny rule may match more.
fn path_pattern(text: &str, effect: PermissionEffect) -> PathPattern {
    let included = Glob::parse(&text.replace(DEEP, "*"));
    let stars: Vec<usize> = text.match_indices('*').map(|(at, _)| at).collect();
    // Behind a deep wildcard, that one takes the folders.
    let is_shallow = |at: &usize| !text[..*at].ends_with(&format!("{DEEP}/"));
    let excluded = match effect {
        PermissionEffect::Deny | PermissionEffect::Ask => Vec::new(),
        PermissionEffect::Allow => stars
            .into_iter()
            .filter(is_shallow)
            .map(|at| {
                let longer = format!("{}*/*{}", &text[..at], &text[at + 1..]);
                Glob::parse(&longer.replace(DEEP, "*"))
            })
            .collect(),
    };
    PathPattern { included, excluded }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::pattern::MatchMode;
    use crate::permission::NOTHING_SEEN;
    use crate::permission::call::{CallRequest, ToolHints, Trust};
    use crate::permission::rule::MatchResult;

    fn paths() -> RulePaths {
        RulePaths { folder: "/w".into(), home: Some("/users/u".into()) }
    }

    fn parsed(text: &str, effect: PermissionEffect) -> Vec<ToolRule> {
        match parse_sdk_rule(text, effect, &paths()) {
            Ok(SdkRule::AnyOf(rules)) => rules,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// Does a rule match a call with this argument when it allows, and when it denies?
    #[track_caller]
    fn check(text: &str, (tool, arguments): (&str, Json), expected: &str) {
        let matches = |effect: PermissionEffect, mode: MatchMode| {
            let (hints, trust) = (ToolHints::default(), Trust::BuiltIn);
            let request = CallRequest {
                server: BUILT_IN_SERVER,
                tool,
                arguments: &arguments,
                hints,
                trust,
                seen: &NOTHING_SEEN,
            };
            parsed(text, effect)
                .iter()
                .any(|rule| rule.match_call(&request, mode) == MatchResult::Matches)
        };
        let allows = matches(PermissionEffect::Allow, MatchMode::Strict);
        let denies = matches(PermissionEffect::Deny, MatchMode::Broad);
        let found = match (allows, denies) {
            (true, true) => "both",
            (false, true) => "denies",
            (true, false) => "allows",
            (false, false) => "neither",
        };
        assert_eq!(found, expected, "{text} and {tool} {arguments}");
    }

    fn bash(command: &str) -> (&'static str, Json) {
        ("Bash", json!({"command": command, "description": "d"}))
    }

    fn file(tool: &'static str, path: &str) -> (&'static str, Json) {
        let argument = if matches!(tool, "Glob" | "Grep" | "LS") { "path" } else { "file_path" };
        (tool, json!({argument: path}))
    }

    #[test]
    fn a_name_means_the_whole_tool() {
        for text in ["Bash", "Bash()", "Bash(*)", "Bash(:*)", " Bash "] {
            check(text, bash("rm -rf /; x"), "both");
            check(text, file("Read", "/w/a"), "neither");
        }
        check("KillShell", ("KillBash", json!({})), "both");
        let rules = parsed("Write", PermissionEffect::Allow);
        assert_eq!(rules[0].to_string(), "mcp__switchboard__Write");
        assert!(rules[0].is_unconditional() && rules.len() == 1);
    }

    #[test]
    fn rules_on_configured_servers_stay_what_they_are() {
        for text in ["mcp__server", "mcp__server__tool", "mcp__server__tool(a=b)"] {
            assert_eq!(parsed(text, PermissionEffect::Allow)[0].to_string(), text);
        }
    }

    #[test]
    fn a_command_prefix_allows_one_command_only() {
        check("Bash(git:*)", bash("git log"), "both");
        check("Bash(git:*)", bash("git"), "both");
        for command in ["git; rm -rf /", "git && rm -rf /", "git log | sh", "git log > x", "git\nx"]
        {
            check("Bash(git:*)", bash(command), "denies");
        }
        check("Bash(git:*)", bash("gitk"), "neither");
        check("Bash(git status:*)", bash("git status -s"), "both");
        check("Bash(git status:*)", bash("git push"), "neither");
        check("Bash(npm run *)", bash("npm run test"), "both");
        check("Bash(npm run *)", bash("npm run test; rm x"), "denies");
        check("Bash(rm:*)", bash("cd / && sudo rm -rf x"), "denies");
        check("Bash(rm:*)", ("Bash", json!({})), "neither");
    }

    #[test]
    fn a_command_without_a_wildcard_is_meant_exactly() {
        check("Bash(npm run test)", bash("npm run test"), "both");
        check("Bash(npm run test)", bash("npm run test:all"), "neither");
        check("Bash(npm run test)", bash("npm run test -- x"), "neither");
        check("Bash(a, (b))", bash("a, (b)"), "both");
    }

    #[test]
    fn paths_begin_at_the_working_folder_the_home_folder_or_the_root() {
        for text in ["Edit(src/**)", "Edit(./src/**)", "Edit(/src/**)", "Edit(//w/src/**)"] {
            check(text, file("Edit", "/w/src/a/b.rs"), "both");
            check(text, file("Edit", "/w/other/b.rs"), "neither");
            check(text, file("Edit", "/w/src/../x"), "denies");
            check(text, file("Edit", "/etc/src/b"), "neither");
        }
        check("Edit(src/**)", file("Edit", "src/a.rs"), "both");
        check("Edit(//w/src/**)", file("Edit", "src/a.rs"), "neither");
        check("Read(~/notes/*)", file("Read", "/users/u/notes/a"), "both");
        check("Read(../b/**)", file("Read", "/b/x"), "both");
    }

    #[test]
    fn a_single_star_stands_for_no_slash_where_it_allows() {
        check("Edit(src/*.rs)", file("Edit", "/w/src/a.rs"), "both");
        check("Edit(src/*.rs)", file("Edit", "/w/src/a/b.rs"), "denies");
        check("Edit(src/*/x)", file("Edit", "/w/src/a/x"), "both");
        check("Edit(src/*/x)", file("Edit", "/w/src/a/b/x"), "denies");
        for path in ["/w/src/a.rs", "/w/src/b/c/a.rs", "src/a.rs", "src/b/a.rs"] {
            check("Edit(src/**/*.rs)", file("Edit", path), "both");
        }
        check("Edit(src/**/a.rs)", file("Edit", "/w/src/nota.rs"), "neither");
    }

    #[test]
    fn read_rules_hold_for_every_tool_that_reads_and_edit_rules_for_every_tool_that_writes() {
        for tool in ["Read", "Glob", "Grep", "LS"] {
            check("Read(./secrets/**)", file(tool, "/w/secrets/key"), "both");
            check("Read(./secrets/**)", file(tool, "secrets/key"), "both");
        }
        for tool in ["Edit", "Write", "MultiEdit"] {
            check("Edit(docs/**)", file(tool, "/w/docs/a"), "both");
        }
        check("Write(docs/**)", file("Edit", "/w/docs/a"), "neither");
        check("Edit(docs/**)", file("Read", "/w/docs/a"), "neither");
    }

    #[test]
    fn names_of_other_programs_tools_match_nothing() {
        for (text, name) in [
            ("WebFetch", "WebFetch"),
            ("WebFetch(domain:example.com)", "WebFetch"),
            ("Task", "Task"),
            ("Skill(pdf)", "Skill"),
        ] {
            let rule = parse_sdk_rule(text, PermissionEffect::Allow, &paths());
            assert_eq!(rule, Ok(SdkRule::UnknownTool(name.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_rule_is_an_error() {
        for text in ["", "???", "Bash(ls", "Read x", "(ls)", "mcp__", "-x", "Bash)"] {
            let found = parse_sdk_rule(text, PermissionEffect::Allow, &paths());
            assert!(found.is_err(), "{text}: {found:?}");
        }
        let deep = format!("Edit({}x)", "**/".repeat(5));
        assert!(parse_sdk_rule(&deep, PermissionEffect::Allow, &paths()).is_err());
    }

    #[test]
    fn a_written_rule_allows_the_call_that_it_was_made_for() {
        for (tool, arguments, content) in [
            (
                "Bash",
                json!({"command": "git status; ls", "description": "d"}),
                Some("git status; ls"),
            ),
            ("Write", json!({"file_path": "/w/a (b).rs", "content": "x"}), Some("//w/a (b).rs")),
            ("Edit", json!({"file_path": "src/a.rs"}), Some("src/a.rs")),
            ("Bash", json!({"command": "ls *"}), None),
            ("Bash", json!({"command": "ls\nx"}), None),
            ("BashOutput", json!({"bash_id": "1"}), None),
        ] {
            let SdkRuleText { tool_name, rule_content } = sdk_rule_text(tool, &arguments);
            assert_eq!((tool_name.as_str(), rule_content.as_deref()), (tool, content));
            let text = rule_content.map_or(tool_name, |it| format!("{tool}({it})"));
            check(&text, (tool, arguments), "both");
        }
        let other = sdk_rule_text("mcp__s__t", &json!({"command": "x"}));
        assert_eq!((other.tool_name.as_str(), other.rule_content), ("mcp__s__t", None));
    }

    #[test]
    fn rules_on_built_in_tools_are_written_back_as_they_were_read() {
        for text in ["Write", "Bash(git status:*)", "Bash(npm run test)", "Read(//srv/a b)"] {
            let rule = parsed(text, PermissionEffect::Allow).remove(0);
            let SdkRuleText { tool_name, rule_content } = to_sdk_rule(&rule).expect(text);
            assert_eq!(
                rule_content.map_or(tool_name.clone(), |it| format!("{tool_name}({it})")),
                text
            );
        }
        let exact = r#"mcp__switchboard__Bash(command=ls,description="List files")"#;
        let exact = ToolRule::parse(exact).expect("a rule");
        let content = to_sdk_rule(&exact).expect("a built-in tool").rule_content;
        assert_eq!(content.as_deref(), Some("ls"));
        for other in ["mcp__s__t", "mcp__switchboard", "mcp__switchboard__Bash(command!=ls)"] {
            assert_eq!(to_sdk_rule(&ToolRule::parse(other).expect("a rule")), None, "{other}");
        }
    }

    #[test]
    fn every_rule_can_be_written_to_a_file_and_read_again() {
        for text in ["Bash(git \"a\":*)", "Edit(src/**/*.rs)", "Read(~/x y/**)", "Bash(a, (b)=c)"] {
            for rule in parsed(text, PermissionEffect::Allow) {
                assert_eq!(ToolRule::parse(&rule.to_string()).as_ref(), Ok(&rule), "{text}");
            }
        }
    }
}
