//! `swb permissions add` and `remove`: changes one list of one settings file and keeps everything else.

use std::path::Path;

use clap::{Args, ValueEnum};
use serde_json::json;
use switchboard::config::display::printable;
use switchboard::config::permission::{PermissionEffect, ToolRule};
use switchboard::permission::settings_file;
use switchboard::permission::settings_file::RuleFile;
use switchboard::sources::loader::Configuration;
use switchboard::sources::project_root;

use crate::edit::file;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::lookup::exposed_server_name;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::style::{TextStyle, paint};

/// A list of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RuleList {
    /// Allow calls without asking.
    Allow,
    /// Always ask.
    Ask,
    /// Never allow.
    Deny,
}

impl RuleList {
    fn effect(self) -> PermissionEffect {
        match self {
            RuleList::Allow => PermissionEffect::Allow,
            RuleList::Ask => PermissionEffect::Ask,
            RuleList::Deny => PermissionEffect::Deny,
        }
    }
}

/// Arguments of `swb permissions add`.
#[derive(Debug, Args)]
pub struct AddRulesArgs {
    /// The scope to write to
    #[arg(long, short, value_enum, default_value_t = WritableScope::Local)]
    pub scope: WritableScope,
    /// The list to add to
    #[arg(value_enum)]
    pub list: RuleList,
    /// Rules: mcp__SERVER, mcp__SERVER__TOOL or mcp__SERVER__TOOL(argument=value)
    #[arg(required = true, value_name = "RULE")]
    pub rules: Vec<String>,
}

/// Arguments of `swb permissions remove`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub struct RemoveRuleArgs {
    /// The scope to remove it from, if several have it
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
    /// The list to remove it from; all lists by default
    #[arg(value_enum)]
    pub list: Option<RuleList>,
    /// The rule
    #[arg(required = true, value_name = "RULE")]
    pub rule: String,
}

/// Adds rules.
pub fn add(
    invocation: &Invocation,
    arguments: &AddRulesArgs,
    before: &Configuration,
) -> Result<CommandOutput, Failure> {
    let effect = arguments.list.effect();
    let rules: Vec<ToolRule> =
        arguments.rules.iter().map(|text| parse_rule(text)).collect::<Result<_, _>>()?;
    if (arguments.scope, effect) == (WritableScope::Project, PermissionEffect::Allow) {
        let message = "a project file may deny and ask, but not allow: anyone who can change the project would decide for every user";
        return Err(Failure::new(Exit::Policy, message)
            .hint("omit --scope to add the rule for yourself, in this project"));
    }
    let path = invocation.scope_file(arguments.scope);
    file::expect_inside(invocation, arguments.scope, &path)?;
    let file = rule_file(invocation, arguments.scope);
    let ruled = settings_file::add_rules(&invocation.env.paths, &file, effect, &rules)?;
    let done = match invocation.wants_json() {
        true => json_output(&json!({
            "file": ruled.file,
            "scope": arguments.scope.scope().id(),
            "list": effect.id(),
            "added": ruled.changed,
            "alreadyThere": ruled.unchanged,
        })),
        false => {
            let place = file::scope_location(invocation, arguments.scope, &ruled.file);
            let there = invocation.display_path(&ruled.file);
            let mut text: String = ruled
                .changed
                .iter()
                .map(|rule| format!("{effect} `{}` added to {place}\n", printable(rule)))
                .collect();
            text.extend(
                ruled
                    .unchanged
                    .iter()
                    .map(|rule| format!("{effect} `{}` is already in {there}\n", printable(rule))),
            );
            CommandOutput::text(text)
        }
    };
    Ok(done.note(
        rules
            .iter()
            .map(|rule| rule_warnings(invocation, before, effect, rule))
            .collect::<String>(),
    ))
}

/// Warnings about rules that have no effect.
fn rule_warnings(
    invocation: &Invocation,
    before: &Configuration,
    effect: PermissionEffect,
    rule: &ToolRule,
) -> String {
    let mut text = String::new();
    if let Some(other) = before.rules.find_overriding(effect, rule) {
        let place = invocation.display_origin(&other.origin);
        let theirs = format!("{} `{}` ({place})", other.effect, other.rule.to_printable());
        text.push_str(&match other.effect == effect {
            true => {
                format!(
                    "note: {theirs} already covers it, so `{}` has no effect\n",
                    rule.to_printable()
                )
            }
            false => format!(
                "{} `{}` has no effect while {theirs} exists, which takes precedence\n",
                paint(TextStyle::Warning, "warning:"),
                rule.to_printable()
            ),
        });
    }
    let servers = &before.effective.servers;
    if !servers.iter().any(|server| rule.names_server(&exposed_server_name(server))) {
        text.push_str(&format!("note: `{}` names no configured server\n", rule.to_printable()));
    }
    text
}

/// Removes a rule.
pub fn remove(
    invocation: &Invocation,
    arguments: &RemoveRuleArgs,
    before: &Configuration,
) -> Result<CommandOutput, Failure> {
    let rule = parse_rule(&arguments.rule)?;
    let effects = match arguments.list {
        Some(list) => vec![list.effect()],
        None => vec![PermissionEffect::Allow, PermissionEffect::Ask, PermissionEffect::Deny],
    };
    let scope = chosen_scope(invocation, arguments, before, (&rule, &effects))?;
    let path = invocation.scope_file(scope);
    file::expect_inside(invocation, scope, &path)?;
    let file = rule_file(invocation, scope);
    let found = settings_file::remove_rule(&invocation.env.paths, &file, &effects, &rule)?;
    if found.is_empty() {
        return Err(not_found(invocation, before, &rule, &path));
    }
    if invocation.wants_json() {
        let lists: Vec<&str> = found.iter().map(|it| it.id()).collect();
        return Ok(json_output(&json!({"file": path, "rule": rule.to_string(), "lists": lists})));
    }
    let place = invocation.display_path(&path);
    let line = |effect: &PermissionEffect| {
        format!("{effect} `{}` removed from {place}\n", rule.to_printable())
    };
    Ok(CommandOutput::text(found.iter().map(line).collect::<String>()))
}

/// The scope of `--scope`, or the only one whose file has the rule.
fn chosen_scope(
    invocation: &Invocation,
    arguments: &RemoveRuleArgs,
    before: &Configuration,
    (rule, effects): (&ToolRule, &[PermissionEffect]),
) -> Result<WritableScope, Failure> {
    if let Some(scope) = arguments.scope {
        return Ok(scope);
    }
    let listed = before.rules.entries().iter();
    let mut scopes: Vec<WritableScope> = listed
        .filter(|it| it.rule == *rule && effects.contains(&it.effect))
        .filter_map(|it| {
            let scope = WritableScope::from_scope(it.origin.scope())?;
            (it.origin.source.path() == Some(invocation.scope_file(scope).as_path()))
                .then_some(scope)
        })
        .collect();
    scopes.dedup();
    match scopes[..] {
        [] => Ok(WritableScope::Local),
        [scope] => Ok(scope),
        [_, ..] => {
            let words: Vec<&str> = scopes.iter().map(|it| it.scope().id()).collect();
            let message = format!("`{rule}` is in several scopes: {}", words.join(", "));
            Err(Failure::new(Exit::Conflict, &message).hint("choose one with --scope"))
        }
    }
}

fn not_found(
    invocation: &Invocation,
    before: &Configuration,
    rule: &ToolRule,
    path: &Path,
) -> Failure {
    let message = format!("`{rule}` is not in {}", invocation.display_path(path));
    let failure = Failure::new(Exit::NotFound, &message);
    match before.rules.entries().iter().find(|it| it.rule == *rule) {
        Some(it) => {
            let place = invocation.display_origin(&it.origin);
            failure.hint(&format!("it is in {place}, under {}", it.effect))
        }
        None => failure.hint("`swb permissions list` shows every rule and its file"),
    }
}

fn rule_file(invocation: &Invocation, scope: WritableScope) -> RuleFile {
    match scope {
        WritableScope::Local => {
            RuleFile::Local { project_root: project_root(&invocation.env.working_folder) }
        }
        WritableScope::User => RuleFile::User,
        WritableScope::Project => RuleFile::Project { file: invocation.scope_file(scope) },
    }
}

/// Parses a rule; the failure marks the position of the error.
fn parse_rule(text: &str) -> Result<ToolRule, Failure> {
    ToolRule::parse(text).map_err(|fault| {
        let before = printable(&text[..text.floor_char_boundary(fault.at)]);
        let mark = " ".repeat(before.chars().count());
        let detail = format!("  {}\n  {mark}{}\n", printable(text), paint(TextStyle::Error, "^"));
        let hint = fault.kind.hint();
        let failure =
            Failure::new(Exit::Usage, &format!("`{text}` is not a valid rule")).caused_by(fault);
        let failure = failure.detail(detail);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}
