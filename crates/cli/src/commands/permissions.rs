//! `swb permissions`: lists, explains, changes and simulates permission rules, and accepts changed tools.

mod accept;
mod change;
mod simulate;

use clap::{Args, Subcommand};
use serde_json::json;
use switchboard::config::display::printable;
use switchboard::config::merge::ResolvedServer;
use switchboard::config::permission::{
    self, CallRequest, ConsideredRule, Explanation, PermissionMode, RuleEntry, SeenTools,
    ToolHints, ToolRule, Trust,
};
use switchboard::permission::{DefinitionDiff, ToolPins};
use switchboard::pool::naming;

use crate::call_args;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::lookup;
use crate::invocation::lookup::{ToolOfServer, exposed_server_name};
use crate::invocation::options::parse_mode;
use crate::outcome::{CommandOutput, Failure};
use crate::output::definition_diff;
use crate::output::json::json_output;
use crate::output::report;
use crate::output::rule_table;
use crate::output::style::paint;

/// Arguments of `swb permissions`.
#[derive(Debug, Args)]
pub struct PermissionsArgs {
    /// The action; without one, `list`.
    #[command(subcommand)]
    pub action: Option<PermissionsAction>,
}

/// Actions on permission rules.
#[derive(Debug, Subcommand)]
pub enum PermissionsAction {
    /// List every rule with its file
    List,
    /// Explain which rule decides a call, and why the others do not
    Explain(ExplainArgs),
    /// Add rules to a settings file
    Add(change::AddRulesArgs),
    /// Remove a rule from a settings file
    Remove(change::RemoveRuleArgs),
    /// Accept the changed definition of a tool
    Accept(accept::AcceptArgs),
    /// Replay the audit log and show which calls other rules would decide differently
    Simulate(simulate::SimulateArgs),
}

/// Arguments of `swb permissions explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The tool: mcp__SERVER__TOOL, or SERVER/TOOL
    pub tool: String,
    /// Its arguments, as for `swb call`
    pub arguments: Vec<String>,
    /// A tool whose result the session has seen before: mcp__SERVER__TOOL; may be repeated
    #[arg(long, value_name = "TOOL")]
    pub after: Vec<String>,
    /// The permission mode: plan, dontAsk, default, acceptEdits, bypass
    #[arg(long = "permission-mode", visible_alias = "mode", value_name = "MODE", value_parser = parse_mode)]
    pub mode: Option<PermissionMode>,
}

/// Runs the command.
pub fn run(arguments: &PermissionsArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_with_problems()?;
    let done = match &arguments.action {
        None | Some(PermissionsAction::List) => match invocation.wants_json() {
            true => json_output(&rule_table::as_json(&invocation.env, &configuration.rules)),
            false => {
                CommandOutput::text(rule_table::as_text(&invocation.env, &configuration.rules))
            }
        },
        Some(PermissionsAction::Explain(it)) => explain(invocation, it, &configuration)?,
        Some(PermissionsAction::Add(it)) => change::add(invocation, it, &configuration)?,
        Some(PermissionsAction::Remove(it)) => change::remove(invocation, it, &configuration)?,
        Some(PermissionsAction::Accept(it)) => accept::run(invocation, it, &configuration)?,
        Some(PermissionsAction::Simulate(it)) => simulate::run(invocation, it, &configuration)?,
    };
    let problems = configuration.effective.problems.iter();
    Ok(done.note(report::problems(&invocation.env, problems)))
}

fn explain(
    invocation: &Invocation,
    arguments: &ExplainArgs,
    configuration: &switchboard::sources::loader::Configuration,
) -> Result<CommandOutput, Failure> {
    let call_arguments =
        call_args::parse(&arguments.arguments, &invocation.env.working_folder)?.into_json();
    let (server, tool) = resolve_tool_name(&arguments.tool, configuration)?;
    let winner =
        configuration.effective.servers.iter().find(|it| exposed_server_name(it) == server);
    let is_trusted = winner.is_some_and(|it| it.is_trusted());
    let mut seen = SeenTools::default();
    for name in &arguments.after {
        let (server, tool) = resolve_tool_name(name, configuration)?;
        seen.insert(&server, &tool);
    }
    let request = CallRequest {
        server: &server,
        tool: &tool,
        arguments: &call_arguments,
        hints: ToolHints::default(),
        trust: if is_trusted { Trust::Trusted } else { Trust::Untrusted },
        seen: &seen,
    };
    let default_mode =
        configuration.rules.default_mode().map_or(PermissionMode::Default, |(mode, _)| mode);
    let chosen = arguments.mode.unwrap_or(default_mode);
    let mut explanation = permission::explain(&configuration.rules, &request, chosen);
    let change = winner.and_then(|winner| changed_definition(invocation, winner, &tool));
    if change.is_some() {
        let mode = explanation.mode;
        explanation.decision = permission::for_changed_definition(explanation.decision, mode);
    }
    Ok(show(invocation, &arguments.tool, &explanation, change.as_ref()))
}

/// How the tool had changed at its last call since it was approved, if it had. `tool` is its name in rules.
fn changed_definition(
    invocation: &Invocation,
    server: &ResolvedServer,
    tool: &str,
) -> Option<DefinitionDiff> {
    let pins = ToolPins::open(&invocation.env.paths.pins());
    let changes = pins.changes(&server.name, server.fingerprint.as_ref()?);
    let change = changes.into_iter().find(|it| naming::sanitise(&it.tool) == tool)?;
    Some(change.diff)
}

fn show(
    invocation: &Invocation,
    tool: &str,
    explanation: &Explanation,
    change: Option<&DefinitionDiff>,
) -> CommandOutput {
    let decision = &explanation.decision;
    let because = decision.reason.to_string();
    if invocation.wants_json() {
        let looked_at = |it: &ConsideredRule| {
            json!({
                "effect": it.entry.effect.id(),
                "rule": it.entry.rule.to_string(),
                "after": after(&it.entry),
                "from": invocation.display_origin(&it.entry.origin),
                "fit": it.result.to_string(),
            })
        };
        return json_output(&json!({
            "tool": tool,
            "decision": decision.effect.id(),
            "because": because,
            "mode": explanation.mode.id(),
            "rules": explanation.considered.iter().map(looked_at).collect::<Vec<_>>(),
            "definitionChanges": change.map(definition_diff::as_json),
        }));
    }
    let style = rule_table::effect_style(decision.effect);
    let verdict = paint(style, decision.effect.id());
    let mut text = format!("{}: {verdict} ({})\n", printable(tool), printable(&because));
    for it in &explanation.considered {
        text.push_str(&format!(
            "  {} ({}): {}\n",
            rule_table::short_description(&it.entry),
            invocation.display_origin(&it.entry.origin),
            printable(&it.result.to_string())
        ));
    }
    if let Some(change) = change {
        let changes = definition_diff::as_text(change);
        text.extend(changes.lines().map(|line| format!("  {line}\n")));
        let tool = printable(tool);
        text.push_str(&format!("  `swb permissions accept {tool}` accepts the new definition\n"));
    }
    text.push_str("  the tool's annotations are not considered here; `swb tools` shows them\n");
    CommandOutput::text(text)
}

/// The results after which a rule applies; `None` if it always does.
fn after(entry: &RuleEntry) -> Option<Vec<String>> {
    (!entry.after.is_empty()).then(|| entry.after.iter().map(ToString::to_string).collect())
}

/// The server and the tool of an exposed name. Configured servers are tried first, because the name alone does not
/// say where the server's name ends.
fn resolve_tool_name(
    name: &str,
    configuration: &switchboard::sources::loader::Configuration,
) -> Result<(String, String), Failure> {
    if let Some(ToolOfServer { server, tool }) = lookup::server_of_tool(configuration, name)
        && !tool.is_empty()
    {
        return Ok((exposed_server_name(server), naming::sanitise(tool)));
    }
    let rest = name.strip_prefix("mcp__").unwrap_or(name);
    let known = configuration.effective.servers.iter().find_map(|server| {
        let server = exposed_server_name(server);
        let tool = rest.strip_prefix(&server)?.strip_prefix("__")?;
        Some((server, tool.to_owned()))
    });
    if let Some(known) = known.filter(|(_, tool)| !tool.is_empty()) {
        return Ok(known);
    }
    // A rule may be about a server that is not configured.
    if ToolRule::parse(name).is_ok()
        && let Some((server, tool)) = rest.split_once("__")
        && !tool.is_empty()
    {
        return Ok((server.to_owned(), tool.to_owned()));
    }
    Err(Failure::new(Exit::Usage, &format!("`{name}` is not a tool name"))
        .hint("tool names are mcp__SERVER__TOOL; `swb tools` lists them"))
}
