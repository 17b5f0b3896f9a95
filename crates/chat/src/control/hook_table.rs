//! The hook callbacks that a program registered, by event and tool. Pure: calling them is left to `callbacks`.

use std::time::Duration;

use regex::Regex;
use serde_json::Value as Json;

/// How long a callback may take, unless the program says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// The most callbacks of one event.
const MAX_CALLBACKS: usize = 100;

/// The events that callbacks are called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookEvent {
    PreToolUse,
    PostToolUse,
    PostToolUseFailure,
    UserPromptSubmit,
    Stop,
}

impl HookEvent {
    pub(crate) const ALL: [HookEvent; 5] = [
        HookEvent::PreToolUse,
        HookEvent::PostToolUse,
        HookEvent::PostToolUseFailure,
        HookEvent::UserPromptSubmit,
        HookEvent::Stop,
    ];

    pub(crate) fn id(self) -> &'static str {
        match self {
            HookEvent::PreToolUse => "PreToolUse",
            HookEvent::PostToolUse => "PostToolUse",
            HookEvent::PostToolUseFailure => "PostToolUseFailure",
            HookEvent::UserPromptSubmit => "UserPromptSubmit",
            HookEvent::Stop => "Stop",
        }
    }
}

/// A callback that failed or took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// Goes on as if it had said nothing.
    Continue,
    /// Denies the call or the prompt.
    Block,
}

/// Callbacks for the tools that a pattern matches.
#[derive(Debug)]
pub(crate) struct Matcher {
    event: HookEvent,
    tools: ToolPattern,
    callbacks: Vec<String>,
    pub(crate) timeout: Duration,
    pub(crate) on_failure: OnFailure,
}

/// The tools that callbacks are called for.
#[derive(Debug)]
enum ToolPattern {
    All,
    Matching(Regex),
    /// A pattern that is no regular expression.
    Named(String),
}

impl ToolPattern {
    fn parse(matcher: &Json) -> ToolPattern {
        match matcher.as_str() {
            None | Some("" | "*") => ToolPattern::All,
            Some(text) => match Regex::new(&format!("^(?:{text})$")) {
                Ok(regex) => ToolPattern::Matching(regex),
                Err(_) => ToolPattern::Named(text.to_owned()),
            },
        }
    }

    fn matches(&self, tool: &str) -> bool {
        match self {
            ToolPattern::All => true,
            ToolPattern::Matching(regex) => regex.is_match(tool),
            ToolPattern::Named(name) => name == tool,
        }
    }
}

/// The callbacks that the program registered.
#[derive(Debug, Default)]
pub(crate) struct HookTable {
    matchers: Vec<Matcher>,
    /// Events that never happen here.
    pub(crate) unsupported: Vec<String>,
}

impl HookTable {
    /// Reads `hooks` of `initialize`.
    pub(crate) fn parse(hooks: &Json) -> HookTable {
        let mut table = HookTable::default();
        for (name, matchers) in hooks.as_object().into_iter().flatten() {
            let Some(event) = HookEvent::ALL.into_iter().find(|it| it.id() == name) else {
                table.unsupported.push(name.clone());
                continue;
            };
            for matcher in matchers.as_array().into_iter().flatten() {
                let ids = matcher["hookCallbackIds"].as_array().into_iter().flatten();
                let callbacks = ids.filter_map(|it| it.as_str().map(str::to_owned));
                let seconds = matcher["timeout"].as_f64().filter(|it| it.is_finite() && *it > 0.0);
                table.matchers.push(Matcher {
                    event,
                    tools: ToolPattern::parse(&matcher["matcher"]),
                    callbacks: callbacks.take(MAX_CALLBACKS).collect(),
                    timeout: seconds
                        .and_then(|it| Duration::try_from_secs_f64(it).ok())
                        .unwrap_or(DEFAULT_TIMEOUT),
                    on_failure: match matcher["onFailure"].as_str() {
                        Some("block") => OnFailure::Block,
                        Some(_) | None => OnFailure::Continue,
                    },
                });
            }
        }
        table
    }

    /// The callbacks for an event, in the order in which they were registered. Events without a tool have no pattern.
    pub(crate) fn find<'a>(
        &'a self,
        event: HookEvent,
        tool: Option<&str>,
    ) -> impl Iterator<Item = (&'a str, &'a Matcher)> {
        let matches = move |it: &&Matcher| {
            it.event == event && tool.is_none_or(|tool| it.tools.matches(tool))
        };
        let found: Vec<&Matcher> = self.matchers.iter().filter(matches).collect();
        found.into_iter().flat_map(|it| it.callbacks.iter().map(move |id| (id.as_str(), it)))
    }

    pub(crate) fn has(&self, event: HookEvent) -> bool {
        self.matchers.iter().any(|it| it.event == event)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(matcher: &Json, tool: &str, expected: &[&str]) {
        let hooks = json!({"PreToolUse": [{"matcher": matcher, "hookCallbackIds": ["h1", "h2"]}]});
        let table = HookTable::parse(&hooks);
        let found: Vec<&str> =
            table.find(HookEvent::PreToolUse, Some(tool)).map(|it| it.0).collect();
        assert_eq!(found, expected, "{matcher} {tool}");
        assert_eq!(table.find(HookEvent::Stop, None).count(), 0);
    }

    #[test]
    fn a_pattern_matches_whole_names_and_null_matches_all() {
        let both = &["h1", "h2"];
        check(&Json::Null, "Bash", both);
        check(&json!("*"), "Bash", both);
        check(&json!("Bash"), "Bash", both);
        check(&json!("Bash"), "BashOutput", &[]);
        check(&json!("Write|Edit"), "Edit", both);
        check(&json!("mcp__.*"), "mcp__a__b", both);
        check(&json!("("), "Bash", &[]);
    }

    #[test]
    fn events_that_never_happen_are_named() {
        let table = HookTable::parse(&json!({"PreCompact": [], "Stop": [], "Notification": null}));
        assert_eq!(table.unsupported, ["PreCompact", "Notification"]);
        assert!(HookTable::parse(&Json::Null).matchers.is_empty());
    }
}
