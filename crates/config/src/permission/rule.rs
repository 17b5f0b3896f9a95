//! One permission rule: `mcp__server`, `mcp__server__tool` or `mcp__server/tool`, with or without predicates on arguments.
//! Where a rule comes from and what it decides is left to `rules` and `decision`.

use std::fmt;

use super::call::CallRequest;
use super::predicate::{Predicate, PredicateMismatch};
use super::rule_error::{RuleError, RuleErrorKind};
use super::rule_parser::{
    self, EXPLICIT_SEPARATOR, PREFIX, SEPARATOR, is_name_char, split_explicit,
};
use crate::display;
use crate::pattern::{Glob, MatchMode};

/// A parsed rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRule {
    /// Everything between the prefix and the predicates. It is split only where it says where the server's name ends: a
    /// name may itself contain the separator, and otherwise only a call knows.
    target: String,
    predicates: Vec<Predicate>,
}

/// Whether a rule matches a call, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatchResult {
    /// It matches.
    Matches,
    /// It names another server.
    OtherServer,
    /// It names another tool of the server.
    OtherTool,
    /// A predicate is not met.
    PredicateNotMet {
        /// The predicate, as a rule contains it.
        predicate: String,
        /// Why not.
        mismatch: PredicateMismatch,
    },
    /// The session has seen nothing of what the rule's condition names.
    NotSeen {
        /// What it names.
        after: Vec<String>,
    },
}

impl fmt::Display for MatchResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MatchResult::Matches => f.write_str("it matches"),
            MatchResult::OtherServer => f.write_str("it names another server"),
            MatchResult::OtherTool => f.write_str("it names another tool"),
            MatchResult::PredicateNotMet { predicate, mismatch: PredicateMismatch::Absent } => {
                write!(f, "`{predicate}` refers to an argument that is missing")
            }
            MatchResult::PredicateNotMet { predicate, mismatch: PredicateMismatch::Differs } => {
                write!(f, "`{predicate}` does not hold")
            }
            MatchResult::NotSeen { after } => {
                write!(f, "it applies only after results of `{}`", after.join("` or `"))
            }
        }
    }
}

impl ToolRule {
    /// Parses a rule.
    pub fn parse(text: &str) -> Result<ToolRule, RuleError> {
        let (target, predicates) = rule_parser::parse(text)?;
        Ok(ToolRule { target, predicates })
    }

    /// Parses a rule in the entry of a server: `tool(argument=value)`, or a rule that names this server.
    pub(crate) fn parse_in_entry(text: &str, server: &str) -> Result<ToolRule, RuleError> {
        if text.starts_with(PREFIX) {
            let rule = ToolRule::parse(text)?;
            return match rule.tools_of(server, MatchMode::Strict) {
                Some(_) => Ok(rule),
                None => Err(RuleError { at: PREFIX.len(), kind: RuleErrorKind::OtherServer }),
            };
        }
        let front = format!("{PREFIX}{}", rule_parser::join(server, ""));
        let parsed = ToolRule::parse(&format!("{front}{text}"));
        let rule = parsed.map_err(|error| RuleError {
            at: error.at.saturating_sub(front.len()).min(text.len()),
            ..error
        })?;
        match rule.tools_of(server, MatchMode::Strict) {
            Some(_) => Ok(rule),
            None => Err(RuleError { at: 0, kind: RuleErrorKind::OtherServer }),
        }
    }

    /// Creates the rule for every tool of a server.
    pub(super) fn for_server(server: &str) -> ToolRule {
        let target = match server.contains(SEPARATOR) {
            true => rule_parser::join(server, "*"),
            false => server.to_owned(),
        };
        ToolRule { target, predicates: Vec::new() }
    }

    /// Creates the rule for one tool, with the given predicates.
    pub(super) fn for_tool(server: &str, tool: &str, predicates: Vec<Predicate>) -> ToolRule {
        ToolRule { target: rule_parser::join(server, tool), predicates }
    }

    /// The text after the prefix and before the conditions: a server, or a server and a pattern for its tools.
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// The conditions on the arguments.
    pub fn predicates(&self) -> &[Predicate] {
        &self.predicates
    }

    /// Does the rule apply to all arguments?
    pub fn is_unconditional(&self) -> bool {
        self.predicates.is_empty()
    }

    /// May it apply to tools of this server? Because a name may contain the separator, a rule may apply to
    /// several servers.
    pub fn names_server(&self, server: &str) -> bool {
        self.tools_of(server, MatchMode::Broad).is_some()
    }

    /// Does it match every call that the other one matches?
    pub(super) fn covers(&self, other: &ToolRule) -> bool {
        let whole = |target: &str| {
            let server = target.strip_suffix("__*").or_else(|| target.strip_suffix("/*"));
            server.unwrap_or(target).to_owned()
        };
        let (mine, theirs) = (whole(&self.target), whole(&other.target));
        let is_broader = theirs.strip_prefix(&mine).is_some_and(|it| {
            it.starts_with(EXPLICIT_SEPARATOR)
                || (!mine.ends_with('_') && it.starts_with(SEPARATOR))
        });
        self.is_unconditional()
            && (is_broader || mine == theirs || Glob::parse(&self.target).matches(&other.target))
    }

    /// Does the rule apply to this tool for some arguments?
    pub fn names_tool(&self, server: &str, tool: &str) -> bool {
        self.tools_of(server, MatchMode::Broad).is_some_and(|tools| tools.matches(tool))
    }

    /// Does it match this call?
    pub fn match_call(&self, request: &CallRequest<'_>, match_mode: MatchMode) -> MatchResult {
        match self.tools_of(request.server, match_mode) {
            None => return MatchResult::OtherServer,
            Some(tools) if !tools.matches(request.tool) => return MatchResult::OtherTool,
            Some(_) => {}
        }
        let failed = self.predicates.iter().find_map(|predicate| {
            let mismatch = predicate.mismatch(request.arguments, match_mode)?;
            Some(MatchResult::PredicateNotMet { predicate: predicate.to_string(), mismatch })
        });
        failed.unwrap_or(MatchResult::Matches)
    }

    /// Does the rule name this tool of this server? Conditions on arguments do not count.
    pub fn names(&self, server: &str, tool: &str) -> bool {
        self.tools_of(server, MatchMode::Broad).is_some_and(|tools| tools.matches(tool))
    }

    /// Returns the pattern for the tools of this server; `None` if the rule names another server. Server and tool are
    /// compared one by one: `mcp__a___x` is the tool `_x` of `a`, never the tool `x` of `a_`.
    pub(super) fn tools_of(&self, server: &str, match_mode: MatchMode) -> Option<Glob> {
        // First, because most rules name another server.
        let rest = self.target.strip_prefix(server)?;
        if let Some((named, tool)) = split_explicit(&self.target) {
            return (named == server).then(|| Glob::parse(tool));
        }
        if !rest.is_empty() && server.ends_with('_') {
            return None;
        }
        if rest.is_empty() {
            // `mcp__a__b` most likely means the tool `b` of `a`, not every tool of a server `a__b`.
            let is_plain = match_mode == MatchMode::Broad || !server.contains(SEPARATOR);
            return is_plain.then(|| Glob::parse("*"));
        }
        rest.strip_prefix(SEPARATOR).filter(|tool| !tool.is_empty()).map(Glob::parse)
    }

    /// Returns the rule with everything escaped that a terminal acts on.
    pub fn to_printable(&self) -> String {
        display::printable(&self.to_string())
    }
}

impl fmt::Display for ToolRule {
    /// Writes text that parses as this rule. For a terminal, use [`ToolRule::to_printable`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.target)?;
        if self.predicates.is_empty() {
            return Ok(());
        }
        let predicates: Vec<String> = self.predicates.iter().map(ToString::to_string).collect();
        write!(f, "({})", predicates.join(","))
    }
}

/// Returns the name of a server in rules and in the names of tools, where `_` replaces every character that is not
/// allowed there.
pub fn rule_name(server: &str) -> String {
    server.chars().map(|c| if is_name_char(c) { c } else { '_' }).collect()
}

/// The servers that an invalid rule may apply to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AffectedServers {
    /// The server is unknown, so the rule applies to every server.
    EveryServer,
    /// Those whose name is at the start of the text, after the prefix.
    Named(String),
}

impl AffectedServers {
    /// Finds the servers that an invalid rule may apply to.
    pub(crate) fn of_invalid_rule(text: &str) -> AffectedServers {
        let Some(rest) = text.strip_prefix(PREFIX) else { return AffectedServers::EveryServer };
        let target = rest.split('(').next().unwrap_or_default();
        let server = target.split(SEPARATOR).next().unwrap_or_default();
        let server = server.split(EXPLICIT_SEPARATOR).next().unwrap_or_default();
        match !server.is_empty() && server.chars().all(is_name_char) {
            true => AffectedServers::Named(target.to_owned()),
            false => AffectedServers::EveryServer,
        }
    }

    /// May it apply to this server?
    pub fn includes(&self, server: &str) -> bool {
        match self {
            AffectedServers::EveryServer => true,
            AffectedServers::Named(target) => target.strip_prefix(server).is_some_and(|rest| {
                rest.is_empty()
                    || rest.starts_with(SEPARATOR)
                    || rest.starts_with(EXPLICIT_SEPARATOR)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::permission::predicate::Comparison;

    #[test]
    fn a_rule_may_name_a_method_of_an_extension() {
        check("mcp__s__method:x.y/do", "mcp__s__method:x.y/do");
        check("mcp__s__method:*", "mcp__s__method:*");
        check("mcp__s__a:b", "9: names may contain only letters, digits, `-` and `_`");
        check("mcp__s:x__method:y", "6: names may contain only letters, digits, `-` and `_`");
        let rule = ToolRule::parse("mcp__s__method:x/*").expect("a rule");
        assert!(rule.names_tool("s", "method:x/do") && !rule.names_tool("s", "method:z/do"));
        assert!(ToolRule::parse("mcp__s").expect("a rule").names_tool("s", "method:x/do"));
    }

    /// Parses a rule and prints it, or prints what is wrong and where.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = match ToolRule::parse(text) {
            Ok(rule) => rule.to_string(),
            Err(error) => format!("{}: {error}", error.at),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in [
            "mcp__files",
            "mcp__files__*",
            "mcp__files__read",
            "mcp__files__read_*_now",
            "mcp__plugin_x_y__read-it",
            "mcp__files_/read",
            "mcp__files_/read_*(path=/srv/*)",
            "mcp__files_/method:x/do",
            "mcp__my__files/read",
            "mcp__files(path=/srv/*)",
            "mcp__files__read(path=/srv/*,options.mode!=fast)",
            "mcp__files__read(text=a=b c)",
            r"mcp__files__read(path=C:\x\*)",
            r#"mcp__files__read(text="a, (b) \" \\ \* *")"#,
            r#"mcp__files__read(text="")"#,
        ] {
            check(text, text);
        }
    }

    #[test]
    fn spaces_around_predicates_and_needless_quotes_and_stars_are_dropped() {
        check("mcp__f__r( a=1 ,  b!=2 )", "mcp__f__r(a=1,b!=2)");
        check(r#"mcp__f__r(a="plain")"#, "mcp__f__r(a=plain)");
        check("mcp__f__r**(a=**x)", "mcp__f__r*(a=*x)");
        check("mcp__f/r", "mcp__f__r");
    }

    #[test]
    fn an_invalid_rule_is_an_error_with_its_position() {
        check("", "0: a rule must begin with `mcp__`");
        check("Bash(ls)", "0: a rule must begin with `mcp__`");
        check("mcp__", "5: the server is missing");
        check("mcp____read", "5: the server is missing");
        check("mcp__*", "5: `*` is allowed in the tool's name only");
        check("mcp__fi*es__read", "7: `*` is allowed in the tool's name only");
        check("mcp__files__", "12: the tool after `__` is missing");
        check("mcp__f_/", "8: the tool after `__` is missing");
        check("mcp__/r", "5: the server is missing");
        check("mcp__f_/a/b", "9: names may contain only letters, digits, `-` and `_`");
        check("mcp__my files", "7: names may contain only letters, digits, `-` and `_`");
        check("mcp__files__read ", "16: names may contain only letters, digits, `-` and `_`");
        check("mcp__f()", "7: a predicate must be `argument=value` or `argument!=value`");
        check("mcp__f(a)", "8: a predicate must be `argument=value` or `argument!=value`");
        check("mcp__f(a==1)", "9: a predicate must be `argument=value` or `argument!=value`");
        check("mcp__f(a.=1)", "7: a predicate must be `argument=value` or `argument!=value`");
        check("mcp__f(a=1,)", "11: a predicate must be `argument=value` or `argument!=value`");
        check("mcp__f(a=x(1))", "10: a predicate must be `argument=value` or `argument!=value`");
        check("mcp__f(a=)", "9: a value is missing");
        check("mcp__f(a=1", "10: the `(` is not closed");
        check("mcp__f(a=\"1", "9: a quote is not closed");
        check(r#"mcp__f(a="\n")"#, "10: in quotes, `\\` may precede only `\"`, `*` and `\\`");
        check("mcp__f(a=1)x", "11: nothing may follow the `)`");
        check("mcp__f(a.b.c.d.e.f.g.h.i=1)", "7: it is too long");
    }

    #[track_caller]
    fn check_affected(text: &str, server: &str, expected: &str) {
        let found = match AffectedServers::of_invalid_rule(text).includes(server) {
            true => "affected",
            false => "not affected",
        };
        assert_eq!(found, expected, "{text} and {server}");
    }

    #[test]
    fn an_invalid_rule_affects_its_server_or_every_server_if_none_is_recognizable() {
        check_affected("mcp__files__read(path", "files", "affected");
        check_affected("mcp__files(path", "files", "affected");
        check_affected("mcp__files__re ad", "files", "affected");
        check_affected("mcp__files__read(path", "other", "not affected");
        check_affected("mcp__files__read(path", "file", "not affected");
        check_affected("mcp__fi les__read", "other", "affected");
        check_affected("mcp__*", "other", "affected");
        check_affected("mpc__files__read", "other", "affected");
    }

    fn predicate() -> impl Strategy<Value = Predicate> {
        let key = prop::collection::vec("[a-zé$-]{1,3}", 1..4);
        let comparison = prop::sample::select(vec![
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::CommandStart,
        ]);
        let pieces = prop::collection::vec(any::<String>(), 1..4);
        (key, comparison, pieces).prop_map(|(key, comparison, pieces)| Predicate {
            key,
            comparison,
            value: Glob::from_pieces(pieces),
        })
    }

    fn rule() -> impl Strategy<Value = ToolRule> {
        let predicates = || prop::collection::vec(predicate(), 0..3);
        prop_oneof![
            "[a-z0-9-]{1,6}".prop_map(|server| ToolRule::for_server(&server)),
            ("[a-z0-9-]{1,6}_{0,3}", "[a-z_-]{1,5}\\*?", predicates()).prop_map(
                |(server, tool, predicates)| ToolRule::for_tool(&server, &tool, predicates)
            ),
        ]
    }

    proptest! {
        /// The text of every rule parses as the same rule.
        #[test]
        fn every_rule_parses_from_its_text(rule in rule()) {
            prop_assert_eq!(ToolRule::parse(&rule.to_string()), Ok(rule));
        }

        /// No text makes the parser panic, and an error position is always inside the text.
        #[test]
        fn any_text_is_a_rule_or_an_error(text in "(mcp__)?([a-z_*(),=!.\"\\\\]|\\PC){0,24}") {
            match ToolRule::parse(&text) {
                Ok(rule) => prop_assert_eq!(ToolRule::parse(&rule.to_string()), Ok(rule)),
                Err(error) => prop_assert!(text.is_char_boundary(error.at)),
            }
        }
    }
}
