//! The definitions of options, read leniently: what is wrong with one is a problem of that option only.

use serde_json::{Map, Value as Json};

use super::option::{OptionKind, UserOption};
use super::value::{check_value, value_of_text};
use super::{OptionProblem, OptionProblemKind};

/// How many options are read; the manifests of packages have a handful.
const MAX_OPTIONS: usize = 256;
/// The maximum length of a key.
const MAX_KEY_LENGTH: usize = 256;

/// The options of a package, in the order of its manifest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UserConfig {
    /// The options.
    pub options: Vec<UserOption>,
}

impl UserConfig {
    /// Reads the object `userConfig` or `user_config`; `null` stands for none.
    pub fn parse(json: &Json) -> (UserConfig, Vec<OptionProblem>) {
        let mut problems = Vec::new();
        let Json::Object(members) = json else {
            if !json.is_null() {
                problems.push(OptionProblem::new("", OptionProblemKind::NotAnObject));
            }
            return (UserConfig::default(), problems);
        };
        let mut options = Vec::new();
        for (key, definition) in members {
            if options.len() == MAX_OPTIONS {
                problems.push(OptionProblem::new(key, OptionProblemKind::TooMany));
                break;
            }
            options.extend(UserOption::parse(key, definition, &mut problems));
        }
        (UserConfig { options }, problems)
    }

    /// The option with this key.
    pub fn find(&self, key: &str) -> Option<&UserOption> {
        self.options.iter().find(|it| it.key == key)
    }

    /// Are there no options?
    pub fn is_empty(&self) -> bool {
        self.options.is_empty()
    }
}

impl UserOption {
    fn parse(
        key: &str,
        definition: &Json,
        problems: &mut Vec<OptionProblem>,
    ) -> Option<UserOption> {
        let mut report = |kind| problems.push(OptionProblem::new(key, kind));
        if !is_valid_key(key) {
            report(OptionProblemKind::InvalidKey);
            return None;
        }
        let Json::Object(members) = definition else {
            report(OptionProblemKind::NotAnObject);
            return None;
        };
        let kind = members.get("type").and_then(Json::as_str).and_then(|word| {
            OptionKind::NAMES.into_iter().find(|(name, _)| *name == word).map(|(_, kind)| kind)
        });
        if kind.is_none() {
            report(OptionProblemKind::UnknownType);
        }
        let mut text = |name: &'static str| {
            let text = members.get(name).and_then(Json::as_str).filter(|it| !it.trim().is_empty());
            if text.is_none() {
                report(OptionProblemKind::MissingText(name));
            }
            text.map(str::to_owned)
        };
        let title = text("title").unwrap_or_else(|| key.to_owned());
        let description = text("description").unwrap_or_default();
        let required = flag(members, "required", InDoubt::No, &mut report);
        // In doubt a value is kept where secrets are.
        let sensitive = flag(members, "sensitive", InDoubt::Yes, &mut report);
        let multiple = flag(members, "multiple", InDoubt::No, &mut report);
        let mut option = UserOption {
            key: key.to_owned(),
            kind: kind.unwrap_or(OptionKind::String),
            title,
            description,
            required,
            default: None,
            sensitive,
            multiple,
            min: limit(members, "min", &mut report),
            max: limit(members, "max", &mut report),
        };
        if let Some(default) = members.get("default").filter(|it| !it.is_null()) {
            match check_value(&option, default) {
                Ok(()) => option.default = Some(default.clone()),
                Err(_) => report(OptionProblemKind::InvalidDefault),
            }
        }
        Some(option)
    }

    /// Checks a value: its type, its range, and whether it may be a list.
    pub fn check(&self, value: &Json) -> Result<(), OptionProblem> {
        check_value(self, value).map_err(|kind| OptionProblem::new(&self.key, kind))
    }

    /// The value that a user typed: one text, or several for an option with several values.
    pub fn value_from_text(&self, texts: &[String]) -> Result<Json, OptionProblem> {
        let value = value_of_text(self, texts);
        value.map_err(|kind| OptionProblem::new(&self.key, kind))
    }
}

/// What a member means if it has the wrong type.
enum InDoubt {
    Yes,
    No,
}

fn flag(
    members: &Map<String, Json>,
    name: &'static str,
    in_doubt: InDoubt,
    report: &mut dyn FnMut(OptionProblemKind),
) -> bool {
    match members.get(name) {
        None | Some(Json::Null) => false,
        Some(Json::Bool(value)) => *value,
        Some(Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_)) => {
            report(OptionProblemKind::InvalidMember(name));
            matches!(in_doubt, InDoubt::Yes)
        }
    }
}

fn limit(
    members: &Map<String, Json>,
    name: &'static str,
    report: &mut dyn FnMut(OptionProblemKind),
) -> Option<f64> {
    let member = members.get(name).filter(|it| !it.is_null())?;
    let limit = member.as_f64();
    if limit.is_none() {
        report(OptionProblemKind::InvalidMember(name));
    }
    limit
}

/// A key ends at a brace in a reference and at an equals sign on the command line.
fn is_valid_key(key: &str) -> bool {
    let fits = !key.is_empty() && key.len() <= MAX_KEY_LENGTH;
    fits && !key.contains(|c: char| c == '}' || c == '=' || c.is_control())
}
