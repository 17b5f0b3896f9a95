//! The policy on servers as text: its allow and deny lists with their positions.

use switchboard::config::policy::{Policy, PolicyRule};

use crate::env::ProcessEnv;
use crate::output::server_text;

/// One line for each rule; empty if there are no lists.
pub fn lines(env: &ProcessEnv, policy: &Policy) -> String {
    let Policy { allow, deny, managed_only, command_path: _, unreadable } = policy;
    let mut text = String::new();
    if let Some(source) = unreadable {
        let file = env.display_source(source);
        text.push_str(&format!("{file} cannot be read, so every server is refused.\n"));
    }
    if let Some(origin) = managed_only {
        let place = env.display_origin(origin);
        text.push_str(&format!("Only the administrator's allow list counts ({place}).\n"));
    }
    let line = |word: &str, rule: &PolicyRule| {
        let place = env.display_origin(&rule.origin);
        format!("{word:<6} {} ({place})\n", server_text::rule_text(rule))
    };
    text.extend(deny.iter().map(|rule| line("deny", rule)));
    for list in allow {
        text.extend(list.rules.iter().map(|rule| line("allow", rule)));
        if list.rules.is_empty() {
            let place = env.display_origin(&list.origin);
            text.push_str(&format!("allow  nothing: the allow list is empty ({place})\n"));
        }
    }
    text
}
