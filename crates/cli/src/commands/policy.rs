//! `swb policy why`: explains which policy rule allows or refuses a server.

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::config::merge::ResolvedServer;
use switchboard::config::policy::{PolicyDecision, PolicyRule, Refusal};
use switchboard::sources::loader::Configuration;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::server_json;
use crate::output::server_text;

/// Arguments of `swb policy`.
#[derive(Debug, Args)]
pub struct PolicyArgs {
    /// The action.
    #[command(subcommand)]
    pub action: PolicyAction,
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
        PolicyAction::Why { name } => why(name, invocation),
    }
}

fn why(name: &str, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let definitions = invocation.definitions(&configuration, name)?;
    if invocation.wants_json() {
        let json: Vec<Json> =
            definitions.iter().map(|it| as_json(it, &configuration, invocation)).collect();
        return Ok(json_output(&json!({"name": name, "definitions": json})));
    }
    let lines = definitions.iter().map(|server| {
        let decision = decision(server, &configuration, invocation);
        format!(
            "`{}` of the {} scope ({}): {}\n",
            printable(&server.name),
            server.scope(),
            invocation.display_origin(&server.origin),
            decision_text(decision.as_ref(), &configuration, invocation)
        )
    });
    Ok(CommandOutput::text(lines.collect::<String>()))
}

fn decision(
    server: &ResolvedServer,
    configuration: &Configuration,
    invocation: &Invocation,
) -> Option<PolicyDecision> {
    let spec = server.spec.as_ref()?;
    Some(configuration.policy.evaluate(spec, &invocation.env.template_environment()))
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

fn as_json(
    server: &ResolvedServer,
    configuration: &Configuration,
    invocation: &Invocation,
) -> Json {
    let place = server_json::origin_json(&server.origin);
    let (word, rule, reason) = match decision(server, configuration, invocation) {
        None => ("invalid", None, None),
        Some(PolicyDecision::Allowed { by }) => ("allowed", by, None),
        Some(PolicyDecision::Refused(refusal)) => {
            let reason = server_text::refusal_text(&invocation.env, &refusal);
            let rule = match refusal {
                Refusal::Denied(rule) => Some(rule),
                Refusal::NotAllowed { .. } | Refusal::EmptyList(_) | Refusal::Unreadable(_) => None,
            };
            ("refused", rule, Some(reason))
        }
    };
    let rule_json = |rule: &PolicyRule| {
        let mut json = server_json::origin_json(&rule.origin);
        json.insert("rule".to_owned(), server_text::rule_text(rule).into());
        Json::Object(json)
    };
    json!({
        "scope": server.scope().id(),
        "definedIn": place,
        "verdict": word,
        "decidedBy": rule.as_ref().map(rule_json),
        "reason": reason,
    })
}
