//! Permission rules as a table and as JSON.

use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::config::permission::{
    PermissionEffect, PermissionMode, PermissionRules, RuleEntry,
};

use crate::env::ProcessEnv;
use crate::output::style::TextStyle;
use crate::output::table;
use crate::output::table::{Cell, Truncate};

/// Every rule as JSON, with the default mode.
pub fn as_json(env: &ProcessEnv, rules: &PermissionRules) -> Json {
    let rows: Vec<Json> = rules
        .entries()
        .iter()
        .map(|it| {
            let from = env.display_origin(&it.origin);
            let mut row =
                json!({"effect": it.effect.id(), "rule": it.rule.to_string(), "from": from});
            if !it.after.is_empty() {
                row["after"] = it.after.iter().map(ToString::to_string).collect();
            }
            row
        })
        .collect();
    json!({"defaultMode": default_mode(rules).id(), "rules": rows})
}

/// Every rule as a table, under the default mode.
pub fn as_text(env: &ProcessEnv, rules: &PermissionRules) -> String {
    let mut text = format!("mode: {}\n", default_mode(rules));
    if rules.entries().is_empty() {
        text.push_str(
            "No rules: every tool asks at its first use, unless its server is trusted.\n",
        );
        return text;
    }
    let cells: Vec<Vec<Cell>> = rules
        .entries()
        .iter()
        .map(|it| {
            vec![
                Cell::styled(effect_style(it.effect), it.effect.id()),
                Cell::plain(rule_text(it)),
                Cell::plain(env.display_origin(&it.origin)),
            ]
        })
        .collect();
    let truncated_columns = [Truncate::End(1), Truncate::Start(2)];
    let width = env.terminal.width;
    text.push_str(&table::render(&["EFFECT", "RULE", "FROM"], &cells, width, &truncated_columns));
    text
}

/// A rule with its effect and the results after which it applies.
pub fn short_description(entry: &RuleEntry) -> String {
    let rule = printable(&entry.rule.to_string());
    format!("{} `{rule}`{}", entry.effect.id(), condition(entry))
}

fn rule_text(entry: &RuleEntry) -> String {
    format!("{}{}", printable(&entry.rule.to_string()), condition(entry))
}

fn condition(entry: &RuleEntry) -> String {
    let sources: Vec<String> =
        entry.after.iter().map(|it| printable(&it.to_string()).to_string()).collect();
    if sources.is_empty() { String::new() } else { format!(" after {}", sources.join(" or ")) }
}

/// The color of an effect.
pub fn effect_style(effect: PermissionEffect) -> TextStyle {
    match effect {
        PermissionEffect::Allow => TextStyle::Success,
        PermissionEffect::Ask => TextStyle::Warning,
        PermissionEffect::Deny => TextStyle::Error,
    }
}

fn default_mode(rules: &PermissionRules) -> PermissionMode {
    rules.default_mode().map_or(PermissionMode::Default, |(mode, _)| mode)
}
