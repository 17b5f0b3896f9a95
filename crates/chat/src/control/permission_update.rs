//! Changes to permissions that a program makes when it answers a permission request. Pure: reads them and writes
//! suggestions. Rules in the SDKs' notation are translated by the session's backend.

use serde_json::{Value as Json, json};
use switchboard::config::permission::PermissionEffect;
use thiserror::Error;

/// A change to the permissions of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionUpdate {
    /// Adds rules.
    AddRules(RuleUpdate),
    /// Replaces the rules that updates added before to this destination.
    ReplaceRules(RuleUpdate),
    /// Removes rules.
    RemoveRules(RuleUpdate),
    /// Changes the permission mode.
    SetMode(String),
    /// Adds folders that the built-in tools may use.
    AddDirectories(Vec<String>),
    /// Removes such folders.
    RemoveDirectories(Vec<String>),
}

/// Rules and where they go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleUpdate {
    /// The rules.
    pub rules: Vec<RuleText>,
    /// The list that they belong to.
    pub behavior: PermissionEffect,
    /// Where they are kept.
    pub destination: Destination,
}

/// A rule in the notation of the SDKs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleText {
    /// The tool, or `mcp__server`.
    pub tool: String,
    /// The condition on its arguments.
    pub content: Option<String>,
}

/// Where an update is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Destination {
    /// For this session.
    Session,
    /// In the settings of this user for this project.
    LocalSettings,
    /// In the settings of this user.
    UserSettings,
    /// In the settings that the project shares.
    ProjectSettings,
}

/// An update that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("an update of permissions {0}")]
pub struct UpdateError(pub(crate) String);

/// Reads `updatedPermissions`. Null counts as absent.
pub fn parse_updates(updates: &Json) -> Result<Vec<PermissionUpdate>, UpdateError> {
    match updates {
        Json::Null => Ok(Vec::new()),
        Json::Array(updates) => updates.iter().map(parse_update).collect(),
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
            Err(UpdateError("is not in a list".to_owned()))
        }
    }
}

fn parse_update(update: &Json) -> Result<PermissionUpdate, UpdateError> {
    let texts = |list: &Json| -> Vec<String> {
        let items = list.as_array().into_iter().flatten();
        items.filter_map(|it| it.as_str().map(str::to_owned)).collect()
    };
    Ok(match update["type"].as_str() {
        Some("addRules") => PermissionUpdate::AddRules(rule_update(update)?),
        Some("replaceRules") => PermissionUpdate::ReplaceRules(rule_update(update)?),
        Some("removeRules") => PermissionUpdate::RemoveRules(rule_update(update)?),
        Some("setMode") => match update["mode"].as_str() {
            Some(mode) => PermissionUpdate::SetMode(mode.to_owned()),
            None => return Err(UpdateError("has no `mode`".to_owned())),
        },
        Some("addDirectories") => PermissionUpdate::AddDirectories(texts(&update["directories"])),
        Some("removeDirectories") => {
            PermissionUpdate::RemoveDirectories(texts(&update["directories"]))
        }
        Some(other) => return Err(UpdateError(format!("has the unknown type `{other}`"))),
        None => return Err(UpdateError("has no `type`".to_owned())),
    })
}

fn rule_update(update: &Json) -> Result<RuleUpdate, UpdateError> {
    let rules = update["rules"].as_array().into_iter().flatten().map(|rule| {
        let tool = rule["toolName"].as_str().filter(|it| !it.is_empty());
        let tool = tool.ok_or_else(|| UpdateError("has a rule without `toolName`".to_owned()))?;
        let content = rule["ruleContent"].as_str().filter(|it| !it.is_empty());
        Ok(RuleText { tool: tool.to_owned(), content: content.map(str::to_owned) })
    });
    Ok(RuleUpdate {
        rules: rules.collect::<Result<_, _>>()?,
        behavior: match update["behavior"].as_str() {
            Some("allow") | None => PermissionEffect::Allow,
            Some("ask") => PermissionEffect::Ask,
            Some("deny") => PermissionEffect::Deny,
            Some(other) => {
                return Err(UpdateError(format!("has the unknown behavior `{other}`")));
            }
        },
        destination: match update["destination"].as_str() {
            Some("session" | "cliArg") | None => Destination::Session,
            Some("localSettings") => Destination::LocalSettings,
            Some("userSettings") => Destination::UserSettings,
            Some("projectSettings") => Destination::ProjectSettings,
            Some(other) => {
                return Err(UpdateError(format!("has the unknown destination `{other}`")));
            }
        },
    })
}

impl RuleText {
    /// The rule as one text: `Bash(git status)`.
    pub fn to_text(&self) -> String {
        match &self.content {
            Some(content) => format!("{}({content})", self.tool),
            None => self.tool.clone(),
        }
    }

    /// Reads what [`RuleText::to_text`] writes.
    pub fn parse(text: &str) -> RuleText {
        match text.strip_suffix(')').and_then(|it| it.split_once('(')) {
            Some((tool, content)) => {
                RuleText { tool: tool.to_owned(), content: Some(content.to_owned()) }
            }
            None => RuleText { tool: text.to_owned(), content: None },
        }
    }
}

/// A suggestion that allows such calls from now on.
pub(crate) fn suggestion_json(rule: &RuleText) -> Json {
    let mut json = json!({"toolName": rule.tool});
    if let Some(content) = &rule.content {
        json["ruleContent"] = content.clone().into();
    }
    json!({
        "type": "addRules", "rules": [json], "behavior": "allow", "destination": "localSettings",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_counts_as_absent() {
        let update = json!([{"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": null}],
            "behavior": "allow", "destination": "localSettings", "mode": null, "directories": null}]);
        let rule = RuleText { tool: "Bash".to_owned(), content: None };
        let expected = PermissionUpdate::AddRules(RuleUpdate {
            rules: vec![rule],
            behavior: PermissionEffect::Allow,
            destination: Destination::LocalSettings,
        });
        assert_eq!(parse_updates(&update), Ok(vec![expected]));
        assert_eq!(parse_updates(&Json::Null), Ok(Vec::new()));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (update, expected) in [
            (json!([{"type": "dance"}]), "has the unknown type `dance`"),
            (json!([{}]), "has no `type`"),
            (json!({}), "is not in a list"),
            (json!([{"type": "addRules", "rules": [{}]}]), "has a rule without `toolName`"),
            (json!([{"type": "addRules", "destination": "moon"}]), "unknown destination `moon`"),
        ] {
            let error = parse_updates(&update).expect_err("it makes no sense").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_rule_and_its_text_are_the_same() {
        for text in ["Bash(git status)", "mcp__a__b", "Edit(src/(a))"] {
            assert_eq!(RuleText::parse(text).to_text(), text);
        }
    }
}
