//! Which servers may run: allow and deny lists of administrators and users, decided by a pure function.
//! Denial always wins, and every decision names the rule that made it.

mod lists;
mod subject;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::entry::ServerSpec;
use crate::program::ProgramFinder;
use crate::scope::Scope;
pub use crate::source::Authority;
use crate::source::{Origin, Source};
use crate::template::Environment;
use subject::{AllowMatch, PolicySubject};

pub use lists::{AllowList, Matcher, MatcherKind, PolicyRule};

/// The allow and deny lists of all settings files.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The allow lists, one per file.
    pub allow: Vec<AllowList>,
    /// The deny rules of all files.
    pub deny: Vec<PolicyRule>,
    /// The position of `allowManagedMcpServersOnly`, if it is set.
    pub managed_only: Option<Origin>,
    /// `commandPath`: the folders in which an administrator's `serverCommand` rules find programs.
    pub command_path: Option<String>,
    /// A settings file that cannot be read: every server is refused until it can.
    pub unreadable: Option<Arc<Source>>,
}

/// The folders in which an administrator's `serverCommand` rules find programs, unless `commandPath` names others: the
/// folders of the system, whatever `PATH` the user has.
pub const DEFAULT_COMMAND_PATH: &str = if cfg!(windows) {
    r"C:\Windows\System32;C:\Windows;C:\Program Files\nodejs;C:\Program Files\Docker\Docker\resources\bin"
} else if cfg!(target_os = "macos") {
    "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin"
} else {
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
};

/// The inputs of a decision besides the server and the lists.
#[derive(Debug, Clone, Copy)]
pub struct PolicyContext<'a> {
    /// The scope of the server.
    pub scope: Scope,
    /// The variables that rules may use.
    pub environment: &'a Environment,
    /// Finds the programs of commands.
    pub programs: Option<&'a dyn ProgramFinder>,
    /// The file that the server runs, if there is one.
    pub program: Option<&'a Path>,
}

/// The decision about a server.
#[derive(Debug, Clone)]
pub enum PolicyDecision {
    /// The server may run. `by` is the matching allow rule, if there are allow lists.
    Allowed {
        /// The rule that matches.
        by: Option<PolicyRule>,
    },
    /// The server may not run.
    Refused(Refusal),
}

/// Why a server may not run.
#[derive(Debug, Clone)]
pub enum Refusal {
    /// A deny rule matches.
    Denied(PolicyRule),
    /// There are allow lists, and no rule of the required kind matches.
    NotAllowed {
        /// The lists that were searched.
        lists: Vec<Origin>,
        /// The kind of rule that would have to match.
        required: MatcherKind,
    },
    /// An allow rule names the command, but the entry makes it run something else.
    CommandNotCovered {
        /// The rule.
        rule: PolicyRule,
        /// The parts that the rule does not cover.
        doubt: CommandDoubt,
    },
    /// An allow list is empty.
    EmptyList(Origin),
    /// A settings file cannot be read, so no server may run.
    Unreadable(Arc<Source>),
}

/// Why an allow rule for a command does not cover a server with the same command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandDoubt {
    /// The entry sets variables that change what the program loads or runs.
    LoadingVariables(Vec<String>),
    /// The entry sets `cwd`, so that relative arguments mean other files.
    WorkingFolder,
    /// The command is a relative path.
    RelativePath,
    /// The command runs another file than the one that the rule means.
    OtherProgram {
        /// The file that the server runs.
        runs: PathBuf,
        /// The file that the rule means, if there is one.
        expected: Option<PathBuf>,
    },
}

impl Policy {
    /// Merges two policies.
    pub fn merge(mut self, other: Policy) -> Policy {
        self.allow.extend(other.allow);
        self.deny.extend(other.deny);
        self.managed_only = self.managed_only.or(other.managed_only);
        self.command_path = self.command_path.or(other.command_path);
        self.unreadable = self.unreadable.or(other.unreadable);
        self
    }

    /// Decides about a server. Variables in commands are expanded on both sides before they are compared.
    pub fn evaluate(&self, spec: &ServerSpec, context: &PolicyContext<'_>) -> PolicyDecision {
        if let Some(source) = &self.unreadable {
            return PolicyDecision::Refused(Refusal::Unreadable(source.clone()));
        }
        let command_path = self.command_path.as_deref().unwrap_or(DEFAULT_COMMAND_PATH);
        let server = PolicySubject::new(spec, context, command_path);
        if let Some(rule) = self.deny.iter().find(|rule| server.is_denied_by(&rule.matcher)) {
            return PolicyDecision::Refused(Refusal::Denied(rule.clone()));
        }
        self.evaluate_allow_lists(&server)
    }

    /// Does a rule name a command? Then only the program that was compared with the rule may run.
    pub(crate) fn binds_programs(&self) -> bool {
        let rules = self.allow.iter().flat_map(|list| &list.rules).chain(&self.deny);
        rules.into_iter().any(|rule| match &rule.matcher {
            Matcher::Command(_) => true,
            Matcher::Invalid(kinds) => kinds.contains(&MatcherKind::Command),
            Matcher::Name(_) | Matcher::Url(_) => false,
        })
    }

    fn evaluate_allow_lists(&self, server: &PolicySubject<'_>) -> PolicyDecision {
        let lists = self.effective_lists();
        if lists.is_empty() {
            return PolicyDecision::Allowed { by: None };
        }
        if let Some(empty) = lists.iter().find(|list| list.rules.is_empty()) {
            return PolicyDecision::Refused(Refusal::EmptyList(empty.origin.clone()));
        }
        let rules =
            || lists.iter().flat_map(|list| list.rules.iter().map(|rule| (list.authority, rule)));
        let required = server.required_kind(rules().map(|(_, rule)| rule));
        let mut doubted = None;
        for (authority, rule) in rules() {
            match server.is_allowed_by(&rule.matcher, required, authority) {
                AllowMatch::Allowed => {
                    return PolicyDecision::Allowed { by: Some(rule.clone()) };
                }
                AllowMatch::Doubtful(doubt) => {
                    let rule = rule.clone();
                    doubted.get_or_insert(Refusal::CommandNotCovered { rule, doubt });
                }
                AllowMatch::Other => {}
            }
        }
        PolicyDecision::Refused(doubted.unwrap_or_else(|| {
            let lists = lists.iter().map(|list| list.origin.clone()).collect();
            Refusal::NotAllowed { lists, required }
        }))
    }

    /// With `allowManagedMcpServersOnly` the lists of users do not count, unless there is no managed list.
    fn effective_lists(&self) -> Vec<&AllowList> {
        let managed = |list: &&AllowList| list.authority == Authority::Administrator;
        if self.managed_only.is_some() && self.allow.iter().any(|list| managed(&list)) {
            return self.allow.iter().filter(managed).collect();
        }
        self.allow.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::file::{FileShape, Layer, Naming};
    use crate::program::{ProgramQuery, server_program};
    use crate::settings::Settings;

    fn spec(name: &str, entry: &str) -> ServerSpec {
        let text = format!(r#"{{"mcpServers": {{"{name}": {entry}}}}}"#);
        let source = Source::file(Scope::Dynamic, "f");
        let layer = Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped);
        let definition = layer.definitions.into_iter().next().expect("one server");
        let name = definition.server_name.expect("a good name");
        let entry = definition.entry.expect("a good entry");
        entry.expand(name, &environment(), &mut BTreeSet::new())
    }

    fn environment() -> Environment {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        [pair("HOME", "/h"), pair("PATH", "/h/bin:/usr/bin")].into_iter().collect()
    }

    /// Finds `npx` in `/usr/bin`, and `uvx` in the user's `/h/bin` too.
    #[derive(Debug)]
    struct Programs;

    impl ProgramFinder for Programs {
        fn find(&self, query: &ProgramQuery<'_>) -> Option<PathBuf> {
            let files = ["/usr/bin/npx", "/usr/bin/uvx", "/h/bin/uvx", "/opt/tools/uvx", "/h/own"];
            let exists = |path: &str| files.contains(&path).then(|| PathBuf::from(path));
            match query.command.contains('/') {
                true => exists(query.command),
                false => query
                    .search_path
                    .split(':')
                    .find_map(|it| exists(&format!("{it}/{}", query.command))),
            }
        }
    }

    fn evaluate(policy: &Policy, spec: &ServerSpec) -> PolicyDecision {
        let environment = environment();
        let program = server_program(spec, &environment, &Programs);
        let context = PolicyContext {
            scope: Scope::User,
            environment: &environment,
            programs: Some(&Programs),
            program: program.as_deref(),
        };
        policy.evaluate(spec, &context)
    }

    /// Merges managed and user settings as the host does.
    fn policy(managed: &str, user: &str) -> Policy {
        let managed = Settings::read(
            &Source::file(Scope::Enterprise, "managed"),
            managed,
            Authority::Administrator,
        );
        let user = Settings::read(&Source::file(Scope::User, "user"), user, Authority::User);
        managed.policy.merge(user.policy)
    }

    #[track_caller]
    fn check(managed: &str, user: &str, (name, entry): (&str, &str), expected: &str) {
        let decision = evaluate(&policy(managed, user), &spec(name, entry));
        let found = match decision {
            PolicyDecision::Allowed { by: None } => "allowed".to_owned(),
            PolicyDecision::Allowed { by: Some(rule) } => format!("allowed by {}", rule.origin),
            PolicyDecision::Refused(Refusal::Denied(rule)) => format!("denied by {}", rule.origin),
            PolicyDecision::Refused(Refusal::NotAllowed { required, .. }) => {
                format!("needs {required:?}")
            }
            PolicyDecision::Refused(Refusal::CommandNotCovered { doubt, .. }) => match doubt {
                CommandDoubt::LoadingVariables(names) => format!("doubt: {}", names.join(" ")),
                CommandDoubt::WorkingFolder => "doubt: cwd".to_owned(),
                CommandDoubt::RelativePath => "doubt: relative".to_owned(),
                CommandDoubt::OtherProgram { runs, expected } => {
                    let expected = expected.unwrap_or_default();
                    format!("doubt: {} not {}", runs.display(), expected.display())
                }
            },
            PolicyDecision::Refused(Refusal::EmptyList(origin)) => format!("empty {origin}"),
            PolicyDecision::Refused(Refusal::Unreadable(source)) => format!("unreadable {source}"),
        };
        assert_eq!(found, expected);
    }

    const NPX: (&str, &str) = ("fs", r#"{"command": "npx", "args": ["-y", "server-fs", "$HOME"]}"#);
    const API: (&str, &str) = ("api", r#"{"type": "http", "url": "https://api.example.com/mcp"}"#);

    #[test]
    fn without_lists_everything_may_run() {
        check("{}", "{}", NPX, "allowed");
    }

    #[test]
    fn deny_wins_over_every_allow() {
        check(
            r#"{"allowedMcpServers": [{"serverName": "fs"}]}"#,
            r#"{"deniedMcpServers": [{"serverName": "fs"}]}"#,
            NPX,
            "denied by user:1",
        );
    }

    #[test]
    fn an_empty_allow_list_allows_nothing_even_beside_a_full_one() {
        check(r#"{"allowedMcpServers": []}"#, "{}", NPX, "empty managed:1");
        check(
            r#"{"allowedMcpServers": []}"#,
            r#"{"allowedMcpServers": [{"serverName": "fs"}]}"#,
            NPX,
            "empty managed:1",
        );
    }

    #[test]
    fn names_are_exact() {
        check(r#"{"allowedMcpServers": [{"serverName": "FS"}]}"#, "{}", NPX, "needs Any");
        check(r#"{"allowedMcpServers": [{"serverName": "f*"}]}"#, "{}", NPX, "needs Any");
        check(
            r#"{"allowedMcpServers": [{"serverName": "fs"}]}"#,
            "{}",
            NPX,
            "allowed by managed:1",
        );
    }

    #[test]
    fn commands_match_on_every_argument_after_expansion() {
        let exact =
            r#"{"allowedMcpServers": [{"serverCommand": ["npx", "-y", "server-fs", "${HOME}"]}]}"#;
        check(exact, "{}", NPX, "allowed by managed:1");
        for variation in [
            r#"{"command": "npx", "args": ["-y", "server-fs", "$HOME", "x"]}"#,
            r#"{"command": "npx", "args": ["-c", "server-fs"]}"#,
            r#"{"command": "npx", "args": ["-y", "server-fs $HOME"]}"#,
            r#"{"command": "sh", "args": ["-c", "npx -y server-fs $HOME"]}"#,
            r#"{"command": "/usr/bin/npx", "args": ["-y", "server-fs", "$HOME"]}"#,
            r#"{"command": "node", "args": ["-e", "0"]}"#,
            r#"{"command": "uvx", "args": ["--from", "evil", "server-fs"]}"#,
            r#"{"command": "docker", "args": ["run", "-v", "/:/", "server-fs"]}"#,
        ] {
            check(exact, "{}", ("fs", variation), "needs Command");
        }
    }

    #[test]
    fn an_allowed_command_means_the_program_that_the_administrator_would_find() {
        let allowed = r#"{"allowedMcpServers": [{"serverCommand": ["uvx", "x"]}, {"serverCommand": ["npx", "x"]}, {"serverCommand": ["./own", "x"]}, {"serverCommand": ["/h/own"]}]}"#;
        let check_entry =
            |entry: &str, expected: &str| check(allowed, "{}", ("s", entry), expected);
        check_entry(r#"{"command": "npx", "args": ["x"]}"#, "allowed by managed:1");
        check_entry(r#"{"command": "/h/own"}"#, "allowed by managed:1");
        check_entry(
            r#"{"command": "npx", "args": ["x"], "env": {"LOG": "1"}}"#,
            "allowed by managed:1",
        );
        check_entry(r#"{"command": "uvx", "args": ["x"]}"#, "doubt: /h/bin/uvx not /usr/bin/uvx");
        check_entry(
            r#"{"command": "npx", "args": ["x"], "env": {"PATH": "/evil"}}"#,
            "doubt: PATH",
        );
        let preload = r#"{"command": "npx", "args": ["x"], "env": {"LD_PRELOAD": "/evil.so"}}"#;
        check_entry(preload, "doubt: LD_PRELOAD");
        check_entry(r#"{"command": "npx", "args": ["x"], "cwd": "/evil"}"#, "doubt: cwd");
        check_entry(r#"{"command": "./own", "args": ["x"]}"#, "doubt: relative");
        let own_path = allowed.replacen('{', r#"{"commandPath": "/h/bin", "#, 1);
        check(
            &own_path,
            "{}",
            ("s", r#"{"command": "uvx", "args": ["x"]}"#),
            "allowed by managed:1",
        );
        // The user's own list means what the user's PATH finds.
        check("{}", allowed, ("s", r#"{"command": "uvx", "args": ["x"]}"#), "allowed by user:1");
        check("{}", allowed, ("s", preload), "doubt: LD_PRELOAD");
    }

    #[test]
    fn a_denied_command_is_denied_under_every_spelling_of_its_program() {
        let denied = r#"{"deniedMcpServers": [{"serverCommand": ["npx", "x"]}]}"#;
        for entry in [
            r#"{"command": "npx", "args": ["x"]}"#,
            r#"{"command": "/usr/bin/npx", "args": ["x"]}"#,
            r#"{"command": "npx", "args": ["x"], "env": {"PATH": "/evil"}, "cwd": "/evil"}"#,
        ] {
            check(denied, "{}", ("s", entry), "denied by managed:1");
        }
        check(denied, "{}", ("s", r#"{"command": "npx", "args": ["y"]}"#), "allowed");
    }

    #[test]
    fn with_a_command_entry_a_name_is_not_enough_for_a_program() {
        let both = r#"{"allowedMcpServers": [{"serverCommand": ["x"]}, {"serverName": "fs"}, {"serverName": "api"}]}"#;
        check(both, "{}", NPX, "needs Command");
        check(both, "{}", API, "allowed by managed:1");
    }

    #[test]
    fn with_a_url_entry_a_name_is_not_enough_for_a_remote_server() {
        let both = r#"{"allowedMcpServers": [{"serverUrl": "https://other.example/*"}, {"serverName": "api"}, {"serverName": "fs"}]}"#;
        check(both, "{}", API, "needs Url");
        check(both, "{}", NPX, "allowed by managed:1");
        check(
            r#"{"allowedMcpServers": [{"serverUrl": "https://*.example.com/*"}]}"#,
            "{}",
            API,
            "allowed by managed:1",
        );
    }

    #[test]
    fn a_proxied_connector_is_denied_by_the_vendors_address_and_never_allowed_by_it() {
        let proxied = (
            "api",
            r#"{"type": "http", "url": "https://proxy.example/?mcp_url=https%3A%2F%2Fapi.vendor.example%2F"}"#,
        );
        check(
            r#"{"deniedMcpServers": [{"serverUrl": "https://api.vendor.example/*"}]}"#,
            "{}",
            proxied,
            "denied by managed:1",
        );
        check(
            r#"{"allowedMcpServers": [{"serverUrl": "https://api.vendor.example/*"}]}"#,
            "{}",
            proxied,
            "needs Url",
        );
    }

    #[test]
    fn lists_of_all_files_are_merged_unless_only_the_managed_one_counts() {
        let user = r#"{"allowedMcpServers": [{"serverName": "fs"}]}"#;
        check(r#"{"allowedMcpServers": [{"serverName": "x"}]}"#, user, NPX, "allowed by user:1");
        let managed =
            r#"{"allowManagedMcpServersOnly": true, "allowedMcpServers": [{"serverName": "x"}]}"#;
        check(managed, user, NPX, "needs Any");
        check(r#"{"allowManagedMcpServersOnly": true}"#, user, NPX, "allowed by user:1");
    }

    #[test]
    fn a_bad_entry_matches_nothing_and_drops_no_other() {
        let bad = r#"{"serverName": "fs", "serverUrl": "https://x/"}"#;
        check(&format!(r#"{{"allowedMcpServers": [{bad}]}}"#), "{}", NPX, "needs Any");
        check(
            &format!(r#"{{"allowedMcpServers": [{bad}, {{"serverName": "fs"}}]}}"#),
            "{}",
            NPX,
            "allowed by managed:1",
        );
        check(
            &format!(
                r#"{{"deniedMcpServers": [{bad}, {{"name": 1}}, 5, {{"serverName": "fs"}}]}}"#
            ),
            "{}",
            NPX,
            "denied by managed:1",
        );
    }

    #[test]
    fn unreadable_lists_refuse_everything() {
        for broken in
            ["{", r#"{"deniedMcpServers": {}}"#, r#"{"allowManagedMcpServersOnly": "yes"}"#, "[]"]
        {
            check(broken, "{}", NPX, "unreadable managed");
        }
        check("{}", r#"{"deniedMcpServers": {}}"#, NPX, "unreadable user");
        for twice in [
            r#"{"theme": "dark", "theme": "light"}"#,
            r#"{"permissions": {"deny": ["mcp__a"], "deny": []}}"#,
            r#"{"deniedMcpServers": [{"serverName": "a", "serverName": "b"}]}"#,
        ] {
            check(twice, "{}", NPX, "unreadable managed");
        }
    }

    fn rule() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ab]".prop_map(|name| format!(r#"{{"serverName": "{name}"}}"#)),
            "[xy]".prop_map(|command| format!(r#"{{"serverCommand": ["{command}"]}}"#)),
            "[hi*]".prop_map(|host| format!(r#"{{"serverUrl": "https://{host}/*"}}"#)),
            Just("5".to_owned()),
        ]
    }

    fn settings() -> impl Strategy<Value = String> {
        let list = || prop::option::of(prop::collection::vec(rule(), 0..4));
        (list(), list()).prop_map(|(allow, deny)| {
            let part = |key: &str, list: Option<Vec<String>>| {
                list.map(|it| format!(r#""{key}": [{}]"#, it.join(",")))
            };
            let parts: Vec<String> =
                [part("allowedMcpServers", allow), part("deniedMcpServers", deny)]
                    .into_iter()
                    .flatten()
                    .collect();
            format!("{{{}}}", parts.join(","))
        })
    }

    fn server() -> impl Strategy<Value = ServerSpec> {
        prop_oneof![
            ("[ab]", "[xy]")
                .prop_map(|(name, command)| spec(&name, &format!(r#"{{"command": "{command}"}}"#))),
            ("[ab]", "[hi]").prop_map(|(name, host)| spec(
                &name,
                &format!(r#"{{"type": "http", "url": "https://{host}/"}}"#)
            )),
        ]
    }

    proptest! {
        /// A server that managed settings deny stays denied, whatever the user's settings are.
        #[test]
        fn no_settings_of_a_user_override_a_managed_deny(managed in settings(), user in settings(), server in server()) {
            let alone = evaluate(&policy(&managed, "{}"), &server);
            let together = evaluate(&policy(&managed, &user), &server);
            if matches!(alone, PolicyDecision::Refused(Refusal::Denied(_) | Refusal::EmptyList(_))) {
                prop_assert!(matches!(together, PolicyDecision::Refused(_)));
            }
        }

        /// With `allowManagedMcpServersOnly` a user's settings never allow more.
        #[test]
        fn under_managed_only_a_user_cannot_allow_more(managed in settings(), user in settings(), server in server()) {
            let locked = managed.replacen('{', r#"{"allowManagedMcpServersOnly": true, "#, 1).replace(", }", "}");
            let has_list = managed.contains("allowedMcpServers");
            let alone = evaluate(&policy(&locked, "{}"), &server);
            let together = evaluate(&policy(&locked, &user), &server);
            if has_list && matches!(alone, PolicyDecision::Refused(_)) {
                prop_assert!(matches!(together, PolicyDecision::Refused(_)));
            }
        }

        /// The order of entries has no effect.
        #[test]
        fn the_order_of_entries_has_no_effect(rules in prop::collection::vec(rule(), 1..5), server in server()) {
            let list = |rules: &[String]| format!(r#"{{"allowedMcpServers": [{}]}}"#, rules.join(","));
            let reversed: Vec<String> = rules.iter().rev().cloned().collect();
            let one = evaluate(&policy(&list(&rules), "{}"), &server);
            let other = evaluate(&policy(&list(&reversed), "{}"), &server);
            prop_assert_eq!(matches!(one, PolicyDecision::Allowed { .. }), matches!(other, PolicyDecision::Allowed { .. }));
        }
    }
}
