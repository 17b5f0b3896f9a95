//! `swb policy why`: which line of which file lets a server run, or does not.

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use switchboard::config::cascade::Server;
use switchboard::config::policy::{Refusal, Rule, Verdict};
use switchboard::config::shown::printable;
use switchboard::load::Configuration;

use crate::describe;
use crate::outcome::{Done, Failure};
use crate::session::Session;

/// Arguments of `swb policy`.
#[derive(Debug, Args)]
pub struct PolicyCommand {
    /// What to explain.
    #[command(subcommand)]
    pub what: What,
}

/// What to explain of policies.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Say which line of which file decides on a server
    Why {
        /// The server's name
        name: String,
    },
}

/// Runs the command.
pub fn run(arguments: &PolicyCommand, session: &Session) -> Result<Done, Failure> {
    match &arguments.what {
        What::Why { name } => why(name, session),
    }
}

fn why(name: &str, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    let definitions = session.definitions(&configuration, name)?;
    if session.wants_json() {
        let json: Vec<Json> =
            definitions.iter().map(|it| as_json(it, &configuration, session)).collect();
        return Ok(super::json(&json!({"name": name, "definitions": json})));
    }
    let lines = definitions.iter().map(|server| {
        let verdict = verdict(server, &configuration, session);
        format!(
            "`{}` of the {} scope ({}): {}\n",
            printable(&server.name),
            server.scope(),
            session.shown_origin(&server.origin),
            in_words(verdict.as_ref(), &configuration, session)
        )
    });
    Ok(Done::text(lines.collect::<String>()))
}

fn verdict(server: &Server, configuration: &Configuration, session: &Session) -> Option<Verdict> {
    let spec = server.spec.as_ref()?;
    Some(configuration.policy.verdict(spec, &session.machine.environment()))
}

fn in_words(verdict: Option<&Verdict>, configuration: &Configuration, session: &Session) -> String {
    match verdict {
        None => "its entry is invalid, so no policy was asked".to_owned(),
        Some(Verdict::Refused(refusal)) => {
            format!("refused\n  {}", describe::refusal_text(session, refusal))
        }
        Some(Verdict::Allowed { by: Some(rule) }) => {
            let place = session.shown_origin(&rule.origin);
            format!("allowed\n  by {place} ({})", describe::rule_text(rule))
        }
        Some(Verdict::Allowed { by: None }) if configuration.policy.deny.is_empty() => {
            "allowed\n  there are no allow and no deny lists".to_owned()
        }
        Some(Verdict::Allowed { by: None }) => {
            "allowed\n  there is no allow list, and no deny entry matches".to_owned()
        }
    }
}

fn as_json(server: &Server, configuration: &Configuration, session: &Session) -> Json {
    let place = describe::origin_json(&server.origin);
    let (word, rule, reason) = match verdict(server, configuration, session) {
        None => ("invalid", None, None),
        Some(Verdict::Allowed { by }) => ("allowed", by, None),
        Some(Verdict::Refused(refusal)) => {
            let reason = describe::refusal_text(session, &refusal);
            let rule = match refusal {
                Refusal::Denied(rule) => Some(rule),
                Refusal::NotAllowed { .. } | Refusal::EmptyList(_) | Refusal::Unreadable(_) => None,
            };
            ("refused", rule, Some(reason))
        }
    };
    let rule_json = |rule: &Rule| {
        let mut json = describe::origin_json(&rule.origin);
        json.insert("rule".to_owned(), describe::rule_text(rule).into());
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
