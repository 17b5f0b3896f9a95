//! Control messages about calls that wait for approval at a gateway.

use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};
use switchboard::config::permission::{RuleCoverage, Suggestion, ToolRule};
use switchboard::permission::{DefinitionDiff, LineChange};
use switchboard::permission::{GrantScope, PermissionDecision};
use switchboard::utc_timestamp;
use switchboard_gateway::{ApprovalQueue, PendingApproval};

const BREADTH_NAMES: [(RuleCoverage, &str); 3] = [
    (RuleCoverage::Arguments, "arguments"),
    (RuleCoverage::Tool, "tool"),
    (RuleCoverage::Server, "server"),
];
const CHANGE_NAMES: [(LineChange, &str); 3] = [
    (LineChange::Added, "added"),
    (LineChange::Removed, "removed"),
    (LineChange::Unchanged, "kept"),
];

/// The request for all waiting calls.
pub fn list_request() -> Json {
    json!({"approvals": "list"})
}

/// The request that decides a call; `None` if there is no decision, or if it names a rule that was not suggested.
pub fn decision_request(waiting: &PendingApproval, decision: &PermissionDecision) -> Option<Json> {
    let number = waiting.id;
    let (scope, rule) = match decision {
        PermissionDecision::Deny(reason) => {
            return Some(json!({"approvals": "deny", "number": number, "reason": reason}));
        }
        PermissionDecision::DeniedByUser => {
            return Some(json!({"approvals": "deny", "number": number}));
        }
        // The queue's commands cannot change arguments.
        PermissionDecision::NoAnswer | PermissionDecision::AllowChanged { .. } => return None,
        PermissionDecision::Allow { scope: GrantScope::Once, .. } => {
            return Some(json!({"approvals": "allow", "number": number}));
        }
        PermissionDecision::Allow { scope: GrantScope::Session(rule), .. } => ("session", rule),
        PermissionDecision::Allow { scope: GrantScope::Always(rule), .. } => ("always", rule),
    };
    let rule = waiting.suggestions.iter().position(|it| it.rule == *rule)?;
    Some(json!({"approvals": "allow", "number": number, "holds": scope, "rule": rule}))
}

/// Handles an approval request.
pub async fn respond(approvals: Option<&ApprovalQueue>, action: &str, request: &Json) -> Json {
    let queue = approvals.map(ApprovalQueue::pending).unwrap_or_default();
    if action == "list" {
        return json!({"waiting": queue.iter().map(|it| to_json(it)).collect::<Vec<_>>()});
    }
    let number = request["number"].as_u64().unwrap_or_default();
    let unknown = || json!({"unknown": number});
    let Some((approvals, waiting)) = approvals.zip(queue.iter().find(|it| it.id == number)) else {
        return unknown();
    };
    let Some(decision) = parse_decision(waiting, action, request) else {
        return json!({"error": "unknown request"});
    };
    match approvals.decide(number, decision).await {
        Some(waiting) => json!({"decided": to_json(&waiting)}),
        None => unknown(),
    }
}

fn parse_decision(
    waiting: &PendingApproval,
    action: &str,
    request: &Json,
) -> Option<PermissionDecision> {
    if action == "deny" {
        let because = &waiting.reason;
        return Some(PermissionDecision::Deny(match request["reason"].as_str() {
            Some(reason) => format!("{because}, and the gateway's operator says: {reason}"),
            None => format!("{because}, and the gateway's operator denied it"),
        }));
    }
    let rule = || {
        let index = request["rule"].as_u64().and_then(|it| usize::try_from(it).ok())?;
        waiting.suggestions.get(index).map(|it| it.rule.clone())
    };
    let scope = match request["holds"].as_str() {
        None => GrantScope::Once,
        Some("session") => GrantScope::Session(rule()?),
        Some("always") => GrantScope::Always(rule()?),
        Some(_) => return None,
    };
    let decided_by = "the gateway's operator allowed it".to_owned();
    (action == "allow").then_some(PermissionDecision::Allow { decided_by, scope })
}

/// A waiting call as JSON.
pub fn to_json(waiting: &PendingApproval) -> Json {
    let waited = waiting.requested_at.elapsed().unwrap_or_default().as_secs();
    let rule = |it: &Suggestion| json!({"breadth": name_of(&BREADTH_NAMES, it.coverage), "rule": it.rule.to_string()});
    let mut json = json!({
        "number": waiting.id, "caller": waiting.caller, "server": waiting.server,
        "tool": waiting.tool, "arguments": waiting.arguments, "because": waiting.reason,
        "since": utc_timestamp(waiting.requested_at), "waitedSeconds": waited,
        "rules": waiting.suggestions.iter().map(rule).collect::<Vec<_>>(),
    });
    if !waiting.flags.is_empty() {
        json["odd"] = waiting.flags.clone().into();
    }
    if let Some(diff) = &waiting.definition_change {
        let line =
            |(change, line): &(LineChange, String)| json!([name_of(&CHANGE_NAMES, *change), line]);
        json["changes"] = diff.lines.iter().map(line).collect();
    }
    json
}

/// Parses a waiting call; `None` if it is malformed.
pub fn from_json(json: &Json) -> Option<PendingApproval> {
    let text = |name: &str| json[name].as_str().map(str::to_owned);
    let waited = Duration::from_secs(json["waitedSeconds"].as_u64()?);
    let rule = |it: &Json| {
        let rule = ToolRule::parse(it["rule"].as_str()?).ok()?;
        Some(Suggestion { coverage: value_of(&BREADTH_NAMES, &it["breadth"])?, rule })
    };
    let line = |it: &Json| Some((value_of(&CHANGE_NAMES, &it[0])?, it[1].as_str()?.to_owned()));
    let diff = match json["changes"].as_array() {
        Some(lines) => {
            Some(DefinitionDiff { lines: lines.iter().map(line).collect::<Option<_>>()? })
        }
        None => None,
    };
    let flags = json["odd"].as_array().map(Vec::as_slice).unwrap_or_default();
    Some(PendingApproval {
        id: json["number"].as_u64()?,
        caller: text("caller")?,
        server: text("server")?,
        tool: text("tool")?,
        arguments: json["arguments"].clone(),
        reason: text("because")?,
        flags: flags.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect(),
        suggestions: json["rules"].as_array()?.iter().map(rule).collect::<Option<_>>()?,
        definition_change: diff,
        requested_at: SystemTime::now().checked_sub(waited)?,
    })
}

fn name_of<T: PartialEq + Copy>(words: &[(T, &'static str)], meant: T) -> &'static str {
    words.iter().find(|it| it.0 == meant).map_or("", |it| it.1)
}

fn value_of<T: Copy>(words: &[(T, &'static str)], word: &Json) -> Option<T> {
    words.iter().find(|it| *word == it.1).map(|it| it.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_call_is_what_the_other_side_reads() {
        let waiting = PendingApproval {
            id: 7,
            caller: "ada".to_owned(),
            server: "s".to_owned(),
            tool: "t".to_owned(),
            arguments: json!({"a": 1}),
            reason: "a rule asks".to_owned(),
            flags: vec!["odd".to_owned()],
            suggestions: vec![Suggestion {
                coverage: RuleCoverage::Tool,
                rule: ToolRule::parse("mcp__s__t").expect("a rule"),
            }],
            definition_change: Some(DefinitionDiff {
                lines: vec![(LineChange::Added, "x".to_owned())],
            }),
            requested_at: SystemTime::now(),
        };
        let parsed = from_json(&to_json(&waiting)).expect("it makes sense");
        assert_eq!(PendingApproval { requested_at: waiting.requested_at, ..parsed }, waiting);
        let rule = waiting.suggestions[0].rule.clone();
        let yes = PermissionDecision::Allow {
            decided_by: String::new(),
            scope: GrantScope::Session(rule.clone()),
        };
        let request = decision_request(&waiting, &yes).expect("it was suggested");
        let Some(PermissionDecision::Allow { scope, .. }) =
            parse_decision(&waiting, "allow", &request)
        else {
            panic!("{request}")
        };
        assert_eq!(scope, GrantScope::Session(rule));
        let other = ToolRule::parse("mcp__other").expect("a rule");
        let always = PermissionDecision::Allow {
            decided_by: String::new(),
            scope: GrantScope::Always(other),
        };
        assert_eq!(decision_request(&waiting, &always), None);
    }
}
