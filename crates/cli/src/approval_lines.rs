//! Calls that wait at a gateway, as one run of the program tells another of them, and the answers to them.

use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};
use switchboard::calling::{Consented, Holds};
use switchboard::config::permission::{Breadth, Suggestion, ToolRule};
use switchboard::logbook::stamp;
use switchboard::pin::{Alteration, Change};
use switchboard_gateway::{Waiting, WaitingRoom};

const BREADTHS: [(Breadth, &str); 3] =
    [(Breadth::Arguments, "arguments"), (Breadth::Tool, "tool"), (Breadth::Server, "server")];
const CHANGES: [(Change, &str); 3] =
    [(Change::Added, "added"), (Change::Removed, "removed"), (Change::Kept, "kept")];

/// Asks for everything that waits.
pub fn list() -> Json {
    json!({"approvals": "list"})
}

/// Answers for a call. None where it is a rule that nobody suggested.
pub fn decide(waiting: &Waiting, decision: &Consented) -> Option<Json> {
    let number = waiting.number;
    let (holds, rule) = match decision {
        Consented::No(reason) => {
            return Some(json!({"approvals": "deny", "number": number, "reason": reason}));
        }
        Consented::Yes { holds: Holds::Once, .. } => {
            return Some(json!({"approvals": "allow", "number": number}));
        }
        Consented::Yes { holds: Holds::Session(rule), .. } => ("session", rule),
        Consented::Yes { holds: Holds::Always(rule), .. } => ("always", rule),
    };
    let rule = waiting.suggestions.iter().position(|it| it.rule == *rule)?;
    Some(json!({"approvals": "allow", "number": number, "holds": holds, "rule": rule}))
}

/// What is said to another run of the program.
pub async fn answer(room: Option<&WaitingRoom>, wish: &str, request: &Json) -> Json {
    let queue = room.map(WaitingRoom::queue).unwrap_or_default();
    if wish == "list" {
        return json!({"waiting": queue.iter().map(|it| written(it)).collect::<Vec<_>>()});
    }
    let number = request["number"].as_u64().unwrap_or_default();
    let unknown = || json!({"unknown": number});
    let Some((room, waiting)) = room.zip(queue.iter().find(|it| it.number == number)) else {
        return unknown();
    };
    let Some(decision) = decision(waiting, wish, request) else {
        return json!({"error": "this request is not known"});
    };
    match room.decide(number, decision).await {
        Some(waiting) => json!({"decided": written(&waiting)}),
        None => unknown(),
    }
}

fn decision(waiting: &Waiting, wish: &str, request: &Json) -> Option<Consented> {
    if wish == "deny" {
        let because = &waiting.because;
        return Some(Consented::No(match request["reason"].as_str() {
            Some(reason) => format!("{because}, and whoever runs the gateway says: {reason}"),
            None => format!("{because}, and whoever runs the gateway said no"),
        }));
    }
    let rule = || {
        let index = request["rule"].as_u64().and_then(|it| usize::try_from(it).ok())?;
        waiting.suggestions.get(index).map(|it| it.rule.clone())
    };
    let holds = match request["holds"].as_str() {
        None => Holds::Once,
        Some("session") => Holds::Session(rule()?),
        Some("always") => Holds::Always(rule()?),
        Some(_) => return None,
    };
    let who = "whoever runs the gateway said yes".to_owned();
    (wish == "allow").then_some(Consented::Yes { who, holds })
}

/// A call, for programs.
pub fn written(waiting: &Waiting) -> Json {
    let waited = waiting.since.elapsed().unwrap_or_default().as_secs();
    let rule = |it: &Suggestion| json!({"breadth": word(&BREADTHS, it.breadth), "rule": it.rule.to_string()});
    let mut json = json!({
        "number": waiting.number, "caller": waiting.caller, "server": waiting.server,
        "tool": waiting.tool, "arguments": waiting.arguments, "because": waiting.because,
        "since": stamp(waiting.since), "waitedSeconds": waited,
        "rules": waiting.suggestions.iter().map(rule).collect::<Vec<_>>(),
    });
    if !waiting.flags.is_empty() {
        json["odd"] = waiting.flags.clone().into();
    }
    if let Some(alteration) = &waiting.alteration {
        let line = |(change, line): &(Change, String)| json!([word(&CHANGES, *change), line]);
        json["changes"] = alteration.lines.iter().map(line).collect();
    }
    json
}

/// A call that another run told of. None where it makes no sense.
pub fn read(json: &Json) -> Option<Waiting> {
    let text = |name: &str| json[name].as_str().map(str::to_owned);
    let waited = Duration::from_secs(json["waitedSeconds"].as_u64()?);
    let rule = |it: &Json| {
        let rule = ToolRule::parse(it["rule"].as_str()?).ok()?;
        Some(Suggestion { breadth: meant(&BREADTHS, &it["breadth"])?, rule })
    };
    let line = |it: &Json| Some((meant(&CHANGES, &it[0])?, it[1].as_str()?.to_owned()));
    let alteration = match json["changes"].as_array() {
        Some(lines) => Some(Alteration { lines: lines.iter().map(line).collect::<Option<_>>()? }),
        None => None,
    };
    let flags = json["odd"].as_array().map(Vec::as_slice).unwrap_or_default();
    Some(Waiting {
        number: json["number"].as_u64()?,
        caller: text("caller")?,
        server: text("server")?,
        tool: text("tool")?,
        arguments: json["arguments"].clone(),
        because: text("because")?,
        flags: flags.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect(),
        suggestions: json["rules"].as_array()?.iter().map(rule).collect::<Option<_>>()?,
        alteration,
        since: SystemTime::now().checked_sub(waited)?,
    })
}

fn word<T: PartialEq + Copy>(words: &[(T, &'static str)], meant: T) -> &'static str {
    words.iter().find(|it| it.0 == meant).map_or("", |it| it.1)
}

fn meant<T: Copy>(words: &[(T, &'static str)], word: &Json) -> Option<T> {
    words.iter().find(|it| *word == it.1).map(|it| it.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_call_is_what_the_other_side_reads() {
        let waiting = Waiting {
            number: 7,
            caller: "ada".to_owned(),
            server: "s".to_owned(),
            tool: "t".to_owned(),
            arguments: json!({"a": 1}),
            because: "a rule asks".to_owned(),
            flags: vec!["odd".to_owned()],
            suggestions: vec![Suggestion {
                breadth: Breadth::Tool,
                rule: ToolRule::parse("mcp__s__t").expect("a rule"),
            }],
            alteration: Some(Alteration { lines: vec![(Change::Added, "x".to_owned())] }),
            since: SystemTime::now(),
        };
        let heard = read(&written(&waiting)).expect("it makes sense");
        assert_eq!(Waiting { since: waiting.since, ..heard }, waiting);
        let rule = waiting.suggestions[0].rule.clone();
        let yes = Consented::Yes { who: String::new(), holds: Holds::Session(rule.clone()) };
        let request = decide(&waiting, &yes).expect("it was suggested");
        let Some(Consented::Yes { holds, .. }) = decision(&waiting, "allow", &request) else {
            panic!("{request}")
        };
        assert_eq!(holds, Holds::Session(rule));
        let other = ToolRule::parse("mcp__other").expect("a rule");
        let always = Consented::Yes { who: String::new(), holds: Holds::Always(other) };
        assert_eq!(decide(&waiting, &always), None);
    }
}
