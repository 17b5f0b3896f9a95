//! Finds servers that permission rules could not tell apart: `plugin:a:b_c` and `plugin:a_b:c` are both `plugin_a_b_c`
//! there. A rule for one must never apply to the other.

use std::collections::HashMap;

use super::effective::{ResolvedServer, ServerState};
use crate::permission::rule_name;
use crate::plugin::PluginProblem;
use crate::problem::{Problem, ProblemKind};
use crate::scope::Scope;

/// Leaves out every server of a plugin or a connector whose name in rules is that of another server. If only one of them
/// may start, it stays.
pub(super) fn mark_name_clashes(servers: &mut [ResolvedServer]) {
    let mut names: HashMap<String, Vec<usize>> = HashMap::new();
    let counts =
        |it: &ResolvedServer| it.is_selected() && !matches!(it.state, ServerState::Invalid);
    for (index, server) in servers.iter().enumerate().filter(|(_, it)| counts(it)) {
        names.entry(rule_name(&server.name)).or_default().push(index);
    }
    for (rule_name, indices) in names {
        let has_plugin = indices.iter().any(|it| servers[*it].scope() == Scope::Plugin);
        let first = &servers[indices[0]].name;
        let differ = indices.iter().any(|it| servers[*it].name != *first);
        if !has_plugin || !differ {
            continue;
        }
        let ready: Vec<usize> =
            indices.iter().copied().filter(|it| servers[*it].is_ready()).collect();
        for index in &indices {
            if ready == [*index] {
                continue;
            }
            let others = indices.iter().map(|it| &servers[*it].name);
            let other = others.filter(|it| **it != servers[*index].name).min().cloned();
            let server = &mut servers[*index];
            let problem = PluginProblem::NameClash {
                other: other.unwrap_or_default(),
                rule_name: rule_name.clone(),
            };
            server.state = ServerState::Invalid;
            server.problems.push(Problem {
                origin: server.origin.clone(),
                server: Some(server.name.clone()),
                key: None,
                kind: ProblemKind::Plugin(problem),
                excerpt: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::file::{FileShape, Layer, Naming};
    use crate::merge::{MergeInputs, resolve};
    use crate::scope::Scope;
    use crate::source::Source;

    #[track_caller]
    fn check(plugins: &[(&str, &str)], expected: &[&str]) {
        let layers = plugins.iter().map(|(plugin, servers)| {
            let text = format!("{{\"mcpServers\": {{{servers}}}}}");
            let source = Source::file(Scope::Plugin, format!("/{plugin}"));
            Layer::read(&source, &text, Naming::Plugin(plugin), FileShape::Wrapped)
        });
        let inputs = MergeInputs { layers: layers.collect(), ..MergeInputs::default() };
        let servers = resolve(inputs).servers;
        let lines: Vec<String> = servers
            .iter()
            .map(|it| {
                let problems: Vec<String> =
                    it.problems.iter().map(|it| it.kind.to_string()).collect();
                format!("{} {}{}", it.name, it.is_ready(), problems.join(";"))
            })
            .collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn two_names_that_rules_cannot_tell_apart_are_both_left_out() {
        check(
            &[
                ("a", r#""b_c": {"command": "1"}"#),
                ("a_b", r#""c": {"command": "2"}, "d": {"command": "3"}"#),
            ],
            &[
                "plugin:a:b_c falsein permission rules and tool names it is `plugin_a_b_c`, and so is `plugin:a_b:c`",
                "plugin:a_b:c falsein permission rules and tool names it is `plugin_a_b_c`, and so is `plugin:a:b_c`",
                "plugin:a_b:d true",
            ],
        );
    }

    #[test]
    fn a_disabled_one_takes_no_name_from_another() {
        check(
            &[
                ("a", r#""b_c": {"command": "1", "disabled": true}"#),
                ("a_b", r#""c": {"command": "2"}"#),
            ],
            &[
                "plugin:a:b_c falsein permission rules and tool names it is `plugin_a_b_c`, and so is `plugin:a_b:c`",
                "plugin:a_b:c true",
            ],
        );
    }
}
