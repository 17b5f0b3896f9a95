//! Reads `hooks` of a settings file: commands that answer an elicitation before the user is asked.
//! Running them is left to `host`.

use std::time::Duration;

use crate::document::{Member, Node, Value, find_member};
use crate::pattern::Glob;
use crate::problem::{ProblemKind, ProblemSubject, Reporter};
pub use crate::schema::HOOKS_KEYS;
use crate::schema::{ELICITATION, nearest};
use crate::source::Origin;

/// The key of the section.
pub(crate) const KEY: &str = "hooks";
/// The default timeout of a command.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum timeout of a command, in seconds.
const MAX_TIMEOUT: f64 = 24.0 * 3600.0;

/// A command that may answer an elicitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElicitationHook {
    /// The servers whose elicitations it gets: names with `*`, separated by `|`. Empty means all.
    pub matcher: String,
    /// The command, for the shell.
    pub command: String,
    /// The timeout of the command.
    pub timeout: Duration,
    /// The position of the hook.
    pub origin: Origin,
}

impl ElicitationHook {
    /// Does it get the elicitations of this server?
    pub fn matches_server(&self, server: &str) -> bool {
        let matches = |pattern: &str| Glob::parse(pattern.trim()).matches(server);
        self.matcher.is_empty() || self.matcher.split('|').any(matches)
    }
}

/// Reads the section from the members of a settings file.
pub(crate) fn read(members: &[Member], reporter: &mut Reporter<'_>) -> Vec<ElicitationHook> {
    let mut reader = Reader { reporter, hooks: Vec::new() };
    if let Some(member) = find_member(members, KEY).filter(|it| it.node.value != Value::Null) {
        reader.events(&member.node);
    }
    reader.hooks
}

struct Reader<'r, 'l> {
    reporter: &'r mut Reporter<'l>,
    hooks: Vec<ElicitationHook>,
}

impl Reader<'_, '_> {
    fn events(&mut self, node: &Node) {
        let Some(members) = self.object(node, KEY) else { return };
        for member in members {
            if member.key != ELICITATION {
                let nearest = nearest(&member.key, [ELICITATION].into_iter());
                let key = format!("{KEY}.{}", member.key);
                let subject = ProblemSubject { server: None, key: &key };
                self.reporter.report(member.key_span, subject, ProblemKind::UnknownKey { nearest });
                continue;
            }
            let key = format!("{KEY}.{ELICITATION}");
            for (index, group) in self.array(&member.node, &key).into_iter().flatten().enumerate() {
                self.group(group, &format!("{key}[{index}]"));
            }
        }
    }

    fn group(&mut self, node: &Node, key: &str) {
        let Some(members) = self.object(node, key) else { return };
        let matcher = match find_member(members, "matcher") {
            None => String::new(),
            Some(member) => match self.text(&member.node, &format!("{key}.matcher")) {
                Some(text) => text,
                None => return,
            },
        };
        let list = format!("{key}.hooks");
        let Some(member) = find_member(members, "hooks") else {
            return self.report_wrong_type(node, &list, "an array");
        };
        for (index, hook) in self.array(&member.node, &list).into_iter().flatten().enumerate() {
            self.hook(hook, &format!("{list}[{index}]"), &matcher);
        }
    }

    fn hook(&mut self, node: &Node, key: &str, matcher: &str) {
        let Some(members) = self.object(node, key) else { return };
        let kind = find_member(members, "type").map(|it| &it.node);
        if let Some(kind) = kind.filter(|it| it.value != Value::String("command".to_owned())) {
            return self.report_wrong_type(kind, &format!("{key}.type"), "`command`");
        }
        let command_key = format!("{key}.command");
        let Some(command) = find_member(members, "command") else {
            return self.report_wrong_type(node, &command_key, "a string");
        };
        let Some(command) = self.text(&command.node, &command_key) else { return };
        let timeout = match find_member(members, "timeout") {
            None => DEFAULT_TIMEOUT,
            Some(member) => match seconds(&member.node) {
                Some(timeout) => timeout,
                None => {
                    return self.report_wrong_type(
                        &member.node,
                        &format!("{key}.timeout"),
                        "seconds above 0",
                    );
                }
            },
        };
        let origin = self.reporter.origin(node.span);
        self.hooks.push(ElicitationHook { matcher: matcher.to_owned(), command, timeout, origin });
    }

    fn object<'n>(&mut self, node: &'n Node, key: &str) -> Option<&'n [Member]> {
        match &node.value {
            Value::Object(members) => Some(members),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                self.report_wrong_type(node, key, "an object");
                None
            }
        }
    }

    fn array<'n>(&mut self, node: &'n Node, key: &str) -> Option<&'n [Node]> {
        match &node.value {
            Value::Array(nodes) => Some(nodes),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => {
                self.report_wrong_type(node, key, "an array");
                None
            }
        }
    }

    fn text(&mut self, node: &Node, key: &str) -> Option<String> {
        match &node.value {
            Value::String(text) => Some(text.clone()),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => {
                self.report_wrong_type(node, key, "a string");
                None
            }
        }
    }

    fn report_wrong_type(&mut self, node: &Node, key: &str, expected: &'static str) {
        self.reporter.report_wrong_type(node, ProblemSubject { server: None, key }, expected);
    }
}

fn seconds(node: &Node) -> Option<Duration> {
    let Value::Number(number) = &node.value else { return None };
    let seconds: f64 = number.to_string().parse().ok()?;
    (seconds > 0.0).then(|| Duration::from_secs_f64(seconds.min(MAX_TIMEOUT)))
}

#[cfg(test)]
mod tests {
    use crate::settings::test_reader::{problem_keys, read};

    #[test]
    fn a_group_of_commands_is_read_with_its_matcher() {
        let settings = read(
            r#"{"hooks": {"Elicitation": [
                {"matcher": "files|git*", "hooks": [{"type": "command", "command": "one", "timeout": 2.5}]},
                {"hooks": [{"command": "two"}]}
            ]}}"#,
        );
        assert!(settings.layer.problems.is_empty(), "{:?}", settings.layer.problems);
        let [one, two] = &settings.hooks[..] else { panic!("{:?}", settings.hooks) };
        assert_eq!((one.command.as_str(), one.timeout.as_millis()), ("one", 2500));
        assert_eq!((two.command.as_str(), two.timeout.as_secs()), ("two", 60));
        for (server, expected) in
            [("files", true), ("github", true), ("git", true), ("file", false), ("agit", false)]
        {
            assert_eq!(
                (one.matches_server(server), two.matches_server(server)),
                (expected, true),
                "{server}"
            );
        }
    }

    #[test]
    fn invalid_hooks_are_reported_with_their_keys_and_not_run() {
        for (text, key) in [
            (r#"{"hooks": []}"#, "hooks"),
            (r#"{"hooks": {"PreToolUse": []}}"#, "hooks.PreToolUse"),
            (r#"{"hooks": {"Elicitation": {}}}"#, "hooks.Elicitation"),
            (r#"{"hooks": {"Elicitation": [1]}}"#, "hooks.Elicitation[0]"),
            (r#"{"hooks": {"Elicitation": [{}]}}"#, "hooks.Elicitation[0].hooks"),
            (
                r#"{"hooks": {"Elicitation": [{"matcher": 1, "hooks": []}]}}"#,
                "hooks.Elicitation[0].matcher",
            ),
            (
                r#"{"hooks": {"Elicitation": [{"hooks": [{"type": "prompt", "command": "x"}]}]}}"#,
                "hooks.Elicitation[0].hooks[0].type",
            ),
            (
                r#"{"hooks": {"Elicitation": [{"hooks": [{"command": ["x"]}]}]}}"#,
                "hooks.Elicitation[0].hooks[0].command",
            ),
            (
                r#"{"hooks": {"Elicitation": [{"hooks": [{"command": "x", "timeout": 0}]}]}}"#,
                "hooks.Elicitation[0].hooks[0].timeout",
            ),
        ] {
            let settings = read(text);
            let keys = problem_keys(&settings);
            assert_eq!((keys, settings.hooks.len()), (vec![key.to_owned()], 0), "{text}");
        }
    }
}
