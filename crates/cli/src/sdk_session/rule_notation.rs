//! Rules in the notation of the SDKs, and ours. `config` translates them.

use serde_json::Value as Json;
use switchboard::config::permission::{
    PermissionEffect, RulePaths, SdkRule, SdkRuleText, ToolRule, parse_sdk_rule, sdk_rule_text,
    to_sdk_rule,
};
use switchboard_chat::control::permission_update::RuleText;

use crate::env::ProcessEnv;

/// The rules that a program names with one text; the error says what is wrong with it. A tool that does not exist has
/// none.
pub(super) fn parse(
    text: &RuleText,
    effect: PermissionEffect,
    env: &ProcessEnv,
) -> Result<Vec<ToolRule>, String> {
    let paths = RulePaths { folder: env.working_folder.clone(), home: Some(env.home.clone()) };
    let text = text.to_text();
    match parse_sdk_rule(&text, effect, &paths) {
        Ok(SdkRule::AnyOf(rules)) => Ok(rules),
        Ok(SdkRule::UnknownTool(_)) => Ok(Vec::new()),
        Err(error) => Err(format!("`{text}` is not a valid rule: {error}")),
    }
}

/// The rule that allows such a call from now on.
pub(super) fn suggestion(tool: &str, arguments: &Json) -> RuleText {
    let SdkRuleText { tool_name, rule_content } = sdk_rule_text(tool, arguments);
    RuleText { tool: tool_name, content: rule_content }
}

/// A rule as programs write it.
pub(super) fn to_text(rule: &ToolRule) -> RuleText {
    match to_sdk_rule(rule) {
        Some(SdkRuleText { tool_name, rule_content }) => {
            RuleText { tool: tool_name, content: rule_content }
        }
        None => RuleText::parse(&rule.to_string()),
    }
}
