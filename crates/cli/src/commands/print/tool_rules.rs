//! The permission rules of `--allowed-tools` and `--disallowed-tools`, in our notation and that of agent SDKs.

use switchboard::config::display::printable;
use switchboard::config::permission::{
    PermissionEffect, PermissionRules, RulePaths, SdkRule, parse_sdk_rule,
};

use crate::exit::Exit;
use crate::outcome::Failure;

/// Rules, and the names in them for which there is no tool.
#[derive(Debug, Default)]
pub struct ToolRules {
    /// The rules.
    pub rules: PermissionRules,
    /// Names of tools that other programs have built in.
    pub unknown_tools: Vec<String>,
}

impl ToolRules {
    /// Adds the rules of an option: texts of rules separated by commas.
    pub fn add(
        &mut self,
        (option, effect): (&str, PermissionEffect),
        texts: &[String],
        paths: &RulePaths,
    ) -> Result<(), Failure> {
        for rule in texts.iter().flat_map(|text| split_rules(text)) {
            let parsed = parse_sdk_rule(rule, effect, paths).map_err(|fault| {
                let message = format!("{option}: `{}` is not a valid rule", printable(rule));
                Failure::new(Exit::Usage, &message).caused_by(fault)
            })?;
            match parsed {
                SdkRule::AnyOf(rules) => {
                    for rule in rules {
                        self.rules.add_from_option(option, effect, rule);
                    }
                }
                SdkRule::UnknownTool(name) => self.unknown_tools.push(name),
            }
        }
        Ok(())
    }
}

/// Splits rules at commas. A comma in parentheses is part of a rule.
fn split_rules(text: &str) -> Vec<&str> {
    let (mut depth, mut is_quoted, mut is_escaped) = (0_usize, false, false);
    let is_comma = |c: char| {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = depth > 0 && !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(is_comma).map(str::trim).filter(|it| !it.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(split_rules(text), expected, "{text}");
    }

    #[test]
    fn rules_are_separated_by_commas_outside_of_parentheses() {
        check("a, b,,", &["a", "b"]);
        check("Bash(a, (b, c)),Read", &["Bash(a, (b, c))", "Read"]);
        check(r#"mcp__s(a="x), \"y"),b"#, &[r#"mcp__s(a="x), \"y")"#, "b"]);
        check("", &[]);
    }
}
