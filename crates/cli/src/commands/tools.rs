//! `swb tools`: lists the tools of servers under their exposed names.

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::config::permission::{PermissionEffect, RuleEntry};
use switchboard::config::source::Authority;
use switchboard::pool::Tool;
use switchboard::sources::loader::Configuration;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::tool_table;
use crate::output::unusable_files;
use crate::runtime::servers;
use crate::runtime::servers::{KnownTools, ListSource};

/// Arguments of `swb tools`.
#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// Only tools of these servers
    pub servers: Vec<String>,
    /// Connect to the servers instead of using the lists of their last connection
    #[arg(long)]
    pub refresh: bool,
    /// Also list the rules that leave tools out, and those of administrators and organisations that always ask
    #[arg(long, short)]
    pub all: bool,
}

/// Runs the command.
pub fn run(arguments: &ToolsArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let source = match arguments.refresh {
        true => ListSource::Servers,
        false => ListSource::Remembered,
    };
    let KnownTools { pool, remembered, notes } =
        servers::known_tools(invocation, &configuration, &arguments.servers, source)?;
    // Built-in tools are listed only if no server is named.
    let is_meant = |tool: &&Tool| arguments.servers.is_empty() || !tool.is_built_in();
    let tools: Vec<&Tool> = pool.tools().iter().map(AsRef::as_ref).filter(is_meant).collect();
    let done = match invocation.wants_json() {
        true => {
            let mut json = tool_table::as_json(&pool, &tools);
            json["remembered"] = remembered.into();
            if arguments.all {
                json["restricted"] =
                    restrictions(&configuration).map(|it| rule_json(invocation, it)).collect();
            }
            json_output(&json)
        }
        false => {
            let mut text = tool_table::as_text(&invocation.env, &tools);
            if arguments.all {
                text.push_str(&restrictions_text(invocation, &configuration));
            }
            CommandOutput::text(text).note(tool_table::quarantined(&pool))
        }
    };
    Ok(match arguments.servers.is_empty() {
        true => unusable_files::incomplete(&configuration, done.note(notes)),
        false => done.note(notes),
    })
}

/// The rules that leave tools out of the pool whatever their arguments are, and those that no mode of the user overrides.
fn restrictions(configuration: &Configuration) -> impl Iterator<Item = &RuleEntry> {
    configuration.rules.entries().iter().filter(|it| {
        it.is_unconditional()
            && match it.effect {
                PermissionEffect::Deny => true,
                PermissionEffect::Ask => it.authority == Authority::Administrator,
                PermissionEffect::Allow => false,
            }
    })
}

fn restrictions_text(invocation: &Invocation, configuration: &Configuration) -> String {
    let lines: String = restrictions(configuration)
        .map(|it| {
            let what = match it.effect {
                PermissionEffect::Deny => "left out",
                PermissionEffect::Ask | PermissionEffect::Allow => "always asks",
            };
            let place = printable(&invocation.display_origin(&it.origin));
            format!("  {}: {what} ({place})\n", it.rule.to_printable())
        })
        .collect();
    match lines.is_empty() {
        true => "\nNo rule leaves tools out.\n".to_owned(),
        false => format!("\nBy rules:\n{lines}"),
    }
}

fn rule_json(invocation: &Invocation, entry: &RuleEntry) -> Json {
    json!({
        "rule": entry.rule.to_string(),
        "effect": entry.effect.id(),
        "origin": invocation.display_origin(&entry.origin),
    })
}
