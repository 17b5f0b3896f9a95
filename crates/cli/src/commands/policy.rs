//! `swb policy`: shows the policy, and explains which of its rules allows or refuses a server.

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::config::policy::{Policy, PolicyDecision, PolicyRule, Refusal};
use switchboard::sources::loader::Configuration;

use crate::invocation::Invocation;
use crate::invocation::lookup;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::policy_text;
use crate::output::server_json;
use crate::output::server_text;

/// Arguments of `swb policy`.
#[derive(Debug, Args)]
pub struct PolicyArgs {
    /// The action; without one, the rules and the servers that they refuse.
    #[command(subcommand)]
    pub action: Option<PolicyAction>,
}

/// Actions on policies.
#[derive(Debug, Subcommand)]
pub enum PolicyAction {
    /// Show which rule of which file allows or refuses a server
    Why {
        /// The server's name
        name: String,
    },
}

/// Runs the command.
pub fn run(arguments: &PolicyArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    match &arguments.action {
        Some(PolicyAction::Why { name }) => why(name, invocation),
        None => show(invocation),
    }
}

/// Every rule, and the servers that are refused.
fn show(invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let Policy { allow, deny, managed_only, command_path: _, unreadable } = &configuration.policy;
    let is_refused = |it: &&ResolvedServer| matches!(it.state, ServerState::Refused(_));
    let servers = configuration.effective.servers.iter();
    let refused: Vec<&str> = servers.filter(is_refused).map(|it| it.name.as_str()).collect();
    let exclusive = configuration.effective.exclusive_source.as_ref();
    if invocation.wants_json() {
        let allow: Option<Vec<Json>> = (!allow.is_empty())
            .then(|| allow.iter().flat_map(|list| &list.rules).map(rule_json).collect());
        return Ok(json_output(&json!({
            "enterpriseControl": exclusive.map(ToString::to_string),
            "managedOnly": managed_only.is_some(),
            "unreadable": unreadable.as_ref().map(ToString::to_string),
            "allow": allow,
            "deny": deny.iter().map(rule_json).collect::<Vec<_>>(),
            "refused": refused,
        })));
    }
    let mut text = String::new();
    if let Some(source) = exclusive {
        let file = invocation.display_source(source);
        text.push_str(&format!("{} ({file}).\n", lookup::ENTERPRISE_LOCK));
    }
    text.push_str(&policy_text::lines(&invocation.env, &configuration.policy));
    if text.is_empty() {
        text.push_str("No policy: there are no allow and no deny lists.\n");
    }
    match &refused[..] {
        [] => text.push_str("No server is refused.\n"),
        [first, ..] => text.push_str(&format!(
            "Refused: {}; `swb policy why {}` explains it\n",
            refused.iter().map(|it| printable(it)).collect::<Vec<_>>().join(", "),
            printable(first)
        )),
    }
    Ok(CommandOutput::text(text))
}

fn rule_json(rule: &PolicyRule) -> Json {
    let mut json = server_json::origin_json(&rule.origin);
    json.insert("rule".to_owned(), server_text::rule_text(rule).into());
    Json::Object(json)
}

fn why(name: &str, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let definitions = invocation.definitions(&configuration, name)?;
    if invocation.wants_json() {
        let json: Vec<Json> = definitions.iter().map(|it| as_json(it, invocation)).collect();
        return Ok(json_output(&json!({"name": name, "definitions": json})));
    }
    let lines = definitions.iter().map(|server| {
        format!(
            "`{}` of the {} scope ({}): {}\n",
            printable(&server.name),
            server.scope(),
            invocation.display_origin(&server.origin),
            decision_text(server.policy.as_ref(), &configuration, invocation)
        )
    });
    Ok(CommandOutput::text(lines.collect::<String>()))
}

fn decision_text(
    decision: Option<&PolicyDecision>,
    configuration: &Configuration,
    invocation: &Invocation,
) -> String {
    match decision {
        None => "its entry is invalid, so no policy was checked".to_owned(),
        Some(PolicyDecision::Refused(refusal)) => {
            format!("refused\n  {}", server_text::refusal_text(&invocation.env, refusal))
        }
        Some(PolicyDecision::Allowed { by: Some(rule) }) => {
            let place = invocation.display_origin(&rule.origin);
            format!("allowed\n  by {place} ({})", server_text::rule_text(rule))
        }
        Some(PolicyDecision::Allowed { by: None }) if configuration.policy.deny.is_empty() => {
            "allowed\n  there are no allow and no deny lists".to_owned()
        }
        Some(PolicyDecision::Allowed { by: None }) => {
            "allowed\n  there is no allow list, and no deny entry matches".to_owned()
        }
    }
}

fn as_json(server: &ResolvedServer, invocation: &Invocation) -> Json {
    let place = server_json::origin_json(&server.origin);
    let (word, rule, reason) = match server.policy.clone() {
        None => ("invalid", None, None),
        Some(PolicyDecision::Allowed { by }) => ("allowed", by, None),
        Some(PolicyDecision::Refused(refusal)) => {
            let reason = server_text::refusal_text(&invocation.env, &refusal);
            let rule = match refusal {
                Refusal::Denied(rule) | Refusal::CommandNotCovered { rule, .. } => Some(rule),
                Refusal::NotAllowed { .. } | Refusal::EmptyList(_) | Refusal::Unreadable(_) => None,
            };
            ("refused", rule, Some(reason))
        }
    };
    json!({
        "scope": server.scope().id(),
        "definedIn": place,
        "verdict": word,
        "decidedBy": rule.as_ref().map(rule_json),
        "reason": reason,
    })
}
