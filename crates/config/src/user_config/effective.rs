//! The values that count, defaults first and then the user's, and the texts that refer to them.

use serde_json::{Map, Value as Json};

use super::definition::UserConfig;
use super::option::UserOption;
use super::value::{check_value, is_missing, number_text};
use super::{OptionProblem, OptionProblemKind};
use crate::template::Template;

/// What a reference to an option begins with.
const PREFIX: &str = "user_config.";

/// How the user's values are read. Defaults of a package are always literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueSyntax {
    /// As they are.
    Literal,
    /// With variables and references to secrets, as in every entry of a configuration file.
    Template,
}

/// What decides the values of options.
#[derive(Debug, Clone, Copy)]
pub struct OptionInputs<'a> {
    /// The user's values.
    pub given: &'a Map<String, Json>,
    /// How they are read.
    pub syntax: ValueSyntax,
    /// Other names that texts and defaults may refer to, such as `HOME`, and their values.
    pub variables: &'a [(String, String)],
}

/// The value of an option as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValue {
    /// One text.
    One(Template),
    /// A list.
    Many(Vec<Template>),
}

/// The values that count.
#[derive(Debug, Clone)]
pub struct EffectiveOptions {
    values: Vec<(String, OptionValue)>,
    unset: Vec<String>,
    variables: Vec<(String, String)>,
    /// The options that the user must set before the server can start: required ones without a value, and ones whose
    /// value does not fit.
    pub missing: Vec<String>,
    /// What is wrong with the values.
    pub problems: Vec<OptionProblem>,
}

impl UserConfig {
    /// Decides the values that count.
    pub fn effective(&self, inputs: &OptionInputs<'_>) -> EffectiveOptions {
        let mut effective = EffectiveOptions {
            values: Vec::new(),
            unset: Vec::new(),
            variables: inputs.variables.to_vec(),
            missing: Vec::new(),
            problems: Vec::new(),
        };
        for option in &self.options {
            effective.add(option, inputs);
        }
        for key in inputs.given.keys().filter(|key| self.find(key).is_none()) {
            let problem = OptionProblem::new(key, OptionProblemKind::UnknownOption);
            effective.problems.push(problem);
        }
        effective
    }
}

impl EffectiveOptions {
    /// Must the user set something before the server can start?
    pub fn needs_config(&self) -> bool {
        !self.missing.is_empty()
    }

    fn add(&mut self, option: &UserOption, inputs: &OptionInputs<'_>) {
        let key = &option.key;
        let given = inputs.given.get(key);
        let value = given.or(option.default.as_ref()).unwrap_or(&Json::Null);
        if let Some(given) = given
            && !has_reference(given, inputs.syntax)
            && let Err(kind) = check_value(option, given)
        {
            self.problems.push(OptionProblem::new(key, kind));
            self.missing.push(key.clone());
            self.unset.push(key.clone());
            return;
        }
        if option.required && is_missing(value) {
            self.missing.push(key.clone());
        }
        let read = |text: &str| match (given, inputs.syntax) {
            (Some(_), ValueSyntax::Template) => Template::parse(text),
            (Some(_), ValueSyntax::Literal) => Template::from_literal(text),
            (None, _) => Template::from_literal(text).fill(&mut |name| self.variable(name)),
        };
        let one = |value: &Json| {
            let text = match value {
                Json::Null => Template::from_literal(""),
                Json::Bool(value) => Template::from_literal(&value.to_string()),
                Json::Number(number) => Template::from_literal(&number_text(number)),
                Json::String(text) => read(text),
                // A value of these types fits no option.
                Json::Array(_) | Json::Object(_) => Template::from_literal(&value.to_string()),
            };
            match text.as_literal() {
                Some(literal) if option.sensitive && !literal.is_empty() => {
                    Template::from_masked(&format!("{PREFIX}{key}"), literal)
                }
                Some(_) | None => text,
            }
        };
        let value = match value {
            Json::Null => {
                self.unset.push(key.clone());
                return;
            }
            Json::Array(items) => OptionValue::Many(items.iter().map(one).collect()),
            Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
                OptionValue::One(one(value))
            }
        };
        if option.sensitive && given.is_some_and(|it| has_plain_text(it, inputs.syntax)) {
            self.problems.push(OptionProblem::new(key, OptionProblemKind::PlainSecret));
        }
        self.values.push((key.clone(), value));
    }

    fn variable(&self, name: &str) -> Option<Template> {
        let (_, value) = self.variables.iter().find(|(known, _)| known == name)?;
        Some(Template::from_literal(value))
    }

    /// The value of an option.
    pub fn value(&self, key: &str) -> Option<&OptionValue> {
        self.values.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Inserts the values into a text. A reference to a list, or to an option without a value, stays as written.
    pub fn fill(&self, text: &Template, problems: &mut Vec<OptionProblem>) -> Template {
        text.fill(&mut |name| {
            let Some(key) = name.strip_prefix(PREFIX) else { return self.variable(name) };
            let kind = match self.value(key) {
                Some(OptionValue::One(text)) => return Some(text.clone()),
                Some(OptionValue::Many(_)) => OptionProblemKind::ListInText,
                None if self.unset.iter().any(|it| it == key) => OptionProblemKind::Unset,
                None => OptionProblemKind::UnknownOption,
            };
            let problem = OptionProblem::new(key, kind);
            if !problems.contains(&problem) {
                problems.push(problem);
            }
            None
        })
    }

    /// Inserts the values into a list of texts. An item that is exactly a reference to a list becomes the items of that
    /// list.
    pub fn fill_items(
        &self,
        items: &[Template],
        problems: &mut Vec<OptionProblem>,
    ) -> Vec<Template> {
        let mut filled = Vec::with_capacity(items.len());
        for item in items {
            match self.exact_list(item) {
                Some(list) => filled.extend(list.iter().cloned()),
                None => filled.push(self.fill(item, problems)),
            }
        }
        filled
    }

    fn exact_list(&self, item: &Template) -> Option<&[Template]> {
        let name = item.as_literal()?.strip_prefix("${")?.strip_suffix('}')?;
        match self.value(name.strip_prefix(PREFIX)?)? {
            OptionValue::Many(list) => Some(list),
            OptionValue::One(_) => None,
        }
    }
}

/// Does a value, or an item of a list, refer to a variable or a secret? What it refers to is not known here, so it fits
/// an option of any type.
fn has_reference(value: &Json, syntax: ValueSyntax) -> bool {
    let refers = |value: &Json| value.as_str().is_some_and(|it| !Template::parse(it).is_literal());
    syntax == ValueSyntax::Template
        && match value {
            Json::Array(items) => items.iter().any(refers),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
                refers(value)
            }
        }
}

/// Is a value, or an item of a list, written in plain text in a configuration file?
fn has_plain_text(value: &Json, syntax: ValueSyntax) -> bool {
    let is_plain = |value: &Json| {
        value.as_str().is_some_and(|it| !it.is_empty() && Template::parse(it).is_literal())
    };
    syntax == ValueSyntax::Template
        && match value {
            Json::Array(items) => items.iter().any(is_plain),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
                is_plain(value)
            }
        }
}
