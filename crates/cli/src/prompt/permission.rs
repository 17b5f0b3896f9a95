//! The permission prompt for a tool call: the call, warnings about the tool, and the rules that would decide the next
//! one.
//! `terminal_prompt` and `commands::approvals` read the answer.

use std::fmt::Write;

use serde_json::Value as Json;
use switchboard::config::display::printable;
use switchboard::config::permission::{RuleCoverage, Suggestion};
use switchboard::permission::{DefinitionDiff, PermissionRequest};
use switchboard_gateway::PendingApproval;

use crate::output::definition_diff;
use crate::output::report;
use crate::output::style::{TextStyle, paint};
use crate::prompt::keyboard::Keyboard;

/// How many characters of the arguments are shown at first.
const MAX_SHOWN_ARGUMENTS: usize = 4000;

/// A call that needs a decision.
#[derive(Debug)]
pub struct ProposedCall<'a> {
    /// The client that requested it, if it is not this program.
    pub client: Option<&'a str>,
    /// The server.
    pub server: &'a str,
    /// The tool's name on its server.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: &'a Json,
    /// Warnings about the tool.
    pub flags: Vec<String>,
    /// How the tool changed since it was approved, if it did.
    pub alteration: Option<&'a DefinitionDiff>,
    /// Why the user is asked.
    pub reason: &'a str,
    /// The rules that would decide such calls from now on, narrowest first.
    pub suggestions: &'a [Suggestion],
}

impl<'a> ProposedCall<'a> {
    /// From a call of this program.
    pub fn from_request(ask: &'a PermissionRequest<'a>) -> ProposedCall<'a> {
        ProposedCall {
            client: None,
            server: &ask.tool.server,
            tool: &ask.tool.name,
            arguments: ask.arguments,
            flags: ask.tool.flags().iter().map(ToString::to_string).collect(),
            alteration: ask.definition_diff.as_ref(),
            reason: &ask.because,
            suggestions: &ask.suggestions,
        }
    }

    /// From a call that waits at a gateway.
    pub fn from_pending(waiting: &'a PendingApproval) -> ProposedCall<'a> {
        ProposedCall {
            client: Some(&waiting.caller),
            server: &waiting.server,
            tool: &waiting.tool,
            arguments: &waiting.arguments,
            flags: waiting.flags.clone(),
            alteration: waiting.definition_change.as_ref(),
            reason: &waiting.reason,
            suggestions: &waiting.suggestions,
        }
    }

    /// The suggested rule for the whole tool, if there is one.
    pub fn tool_rule(&self) -> Option<&'a Suggestion> {
        self.suggestions.iter().find(|it| it.coverage == RuleCoverage::Tool)
    }

    /// The prompt, with the keys that answer it.
    pub fn question_text(&self) -> String {
        let strong = |text: &str| paint(TextStyle::Bold, printable(text)).to_string();
        let (server, tool) = (strong(self.server), strong(self.tool));
        let mut text = match self.client {
            Some(client) => {
                format!("Allow {server} to run {tool}, requested by {}?\n", strong(client))
            }
            None => format!("Allow {server} to run {tool}?\n"),
        };
        text.push_str(&self.arguments_text(MAX_SHOWN_ARGUMENTS));
        for flag in &self.flags {
            let _infallible =
                writeln!(text, "{} {}", paint(TextStyle::Error, "warning:"), printable(flag));
        }
        if let Some(alteration) = self.alteration {
            text.push_str(&definition_diff::as_text(alteration));
        }
        let _infallible = writeln!(text, "({})", printable(self.reason));
        text.push_str("  y  once\n");
        if self.tool_rule().is_some() {
            if self.client.is_some() {
                text.push_str("  s  this tool, for this client, while the gateway runs\n");
            }
            text.push_str("  a  always, as a rule in your settings for this project\n");
        }
        text.push_str("  n  no (also Enter)\n");
        text
    }

    /// The arguments, up to `most` characters.
    pub fn arguments_text(&self, most: usize) -> String {
        let has_some = self.arguments.as_object().is_none_or(|members| !members.is_empty());
        let all = if has_some { format!("{:#}", self.arguments) } else { String::new() };
        let mut text = String::new();
        for line in all.chars().take(most).collect::<String>().lines() {
            let _infallible = writeln!(text, "  {}", printable(line));
        }
        let left = all.chars().count().saturating_sub(most);
        if left > 0 {
            let _infallible = writeln!(text, "  … {left} more characters; v shows them all");
        }
        text
    }
}

/// Asks which of the suggested rules to add.
pub async fn choose_rule(
    keyboard: &mut Keyboard,
    suggestions: &[Suggestion],
) -> Option<Suggestion> {
    let default_index = suggestions.iter().position(|it| it.coverage == RuleCoverage::Tool)?;
    let mut text = String::from("Which calls?\n");
    for (index, it) in suggestions.iter().enumerate() {
        let about = match it.coverage {
            RuleCoverage::Arguments => "with these arguments",
            RuleCoverage::Tool => "this tool",
            RuleCoverage::Server => "every tool of the server",
        };
        let _infallible = writeln!(text, "  {}  {about}: {}", index + 1, it.rule.to_printable());
    }
    report::print_stderr(&text);
    loop {
        report::print_stderr(&format!("[{}] ", default_index + 1));
        let line = keyboard.next_line().await?;
        let chosen = match line.trim() {
            "" => Some(default_index),
            number => number.parse::<usize>().ok().and_then(|it| it.checked_sub(1)),
        };
        match chosen.and_then(|it| suggestions.get(it)) {
            Some(suggestion) => return Some(suggestion.clone()),
            None => report::print_stderr("enter one of the numbers above\n"),
        }
    }
}
