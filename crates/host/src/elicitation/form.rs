//! Form elicitations: fields, validation of answers, defaults. Pure: `Elicitor` implementations ask the user.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use thiserror::Error;
use url::Url;

/// The maximum number of fields in a form.
const MAX_FIELDS: usize = 100;
/// The maximum number of choices of a field.
const MAX_CHOICES: usize = 1000;

/// A form that the user is asked to fill in.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// The server's message to the user.
    pub message: String,
    /// The fields, in the server's order.
    pub fields: Vec<FormField>,
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
pub struct FormField {
    /// The key in the answer.
    pub name: String,
    /// The label for the user.
    pub title: Option<String>,
    /// A description for the user.
    pub description: Option<String>,
    /// Whether an answer is required.
    pub requirement: FieldRequirement,
    /// The value if the user enters none.
    pub default: Option<Json>,
    /// The type and the limits of the value.
    pub kind: FieldKind,
}

/// Whether a field must be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldRequirement {
    /// An answer is required.
    Required,
    /// The field may be left out.
    Optional,
}

/// The type of a field with its limits.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    /// Text.
    Text {
        /// The minimum length in characters.
        min_length: Option<usize>,
        /// The maximum length in characters.
        max_length: Option<usize>,
        /// The required format.
        format: Option<TextFormat>,
    },
    /// A number.
    Number {
        /// Whether only integers are allowed.
        number_kind: NumberKind,
        /// The minimum.
        least: Option<f64>,
        /// The maximum.
        most: Option<f64>,
    },
    /// Yes or no.
    Boolean,
    /// One choice.
    SingleSelect(Vec<Choice>),
    /// Several choices.
    MultiSelect {
        /// The choices.
        choices: Vec<Choice>,
        /// The minimum number of choices.
        least: Option<usize>,
        /// The maximum number of choices.
        most: Option<usize>,
    },
}

/// Whether a number must be an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberKind {
    /// Only integers.
    Integer,
    /// Integers and decimals.
    Any,
}

/// A choice of a select field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The value in the answer.
    pub value: String,
    /// The label for the user.
    pub title: String,
}

/// A text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the format of the same name in JSON Schema")]
pub enum TextFormat {
    Email,
    Uri,
    Date,
    DateTime,
}

/// Why a schema is not a valid form.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormError {
    /// The schema has no properties.
    #[error("the form has no fields")]
    NoFields,
    /// The form has too many fields or choices.
    #[error("the form has too many fields or choices")]
    TooLarge,
    /// A field has an unsupported type.
    #[error("the field `{0}` has a type that forms do not support")]
    UnsupportedField(String),
}

/// Why an answer is invalid.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum InvalidAnswer {
    /// The answer is missing.
    #[error("an answer is required")]
    Missing,
    /// The value has the wrong type.
    #[error("expected {0}")]
    Type(&'static str),
    /// The text is too short.
    #[error("expected at least {0} characters")]
    TooShort(usize),
    /// The text is too long.
    #[error("expected at most {0} characters")]
    TooLong(usize),
    /// The number is too small.
    #[error("expected at least {0}")]
    TooSmall(f64),
    /// The number is too large.
    #[error("expected at most {0}")]
    TooLarge(f64),
    /// The text does not have the format.
    #[error("expected {0}")]
    Format(TextFormat),
    /// The value is not one of the choices.
    #[error("expected one of {0}")]
    NotAChoice(String),
    /// Too few values are chosen.
    #[error("choose at least {0}")]
    TooFew(usize),
    /// Too many values are chosen.
    #[error("choose at most {0}")]
    TooMany(usize),
}

impl fmt::Display for TextFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TextFormat::Email => "an e-mail address",
            TextFormat::Uri => "a URL",
            TextFormat::Date => "a date like 2026-11-30",
            TextFormat::DateTime => "a time like 2026-11-30T12:00:00Z",
        })
    }
}

impl FieldKind {
    /// The expected input, for a prompt: "a whole number 1 to 5". Empty for text of any length.
    pub fn expected_input(&self) -> String {
        let range = |least: Option<String>, most: Option<String>| match (least, most) {
            (Some(least), Some(most)) => format!(" {least} to {most}"),
            (Some(least), None) => format!(" from {least}"),
            (None, Some(most)) => format!(" up to {most}"),
            (None, None) => String::new(),
        };
        let text = |it: Option<f64>| it.map(|it| it.to_string());
        match self {
            FieldKind::Text { format: Some(format), .. } => format.to_string(),
            FieldKind::Text { min_length: shortest, max_length: longest, format: None } => {
                let length =
                    range(shortest.map(|it| it.to_string()), longest.map(|it| it.to_string()));
                if length.is_empty() { length } else { format!("{} characters", length.trim()) }
            }
            FieldKind::Number { number_kind: NumberKind::Integer, least, most } => {
                format!("a whole number{}", range(text(*least), text(*most)))
            }
            FieldKind::Number { number_kind: NumberKind::Any, least, most } => {
                format!("a number{}", range(text(*least), text(*most)))
            }
            FieldKind::Boolean => "yes or no".to_owned(),
            FieldKind::SingleSelect(_) => "one of these".to_owned(),
            FieldKind::MultiSelect { .. } => "some of these, with commas".to_owned(),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchemaProperty {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    default: Option<Json>,
    #[serde(default)]
    format: Option<String>,
    #[serde(default)]
    min_length: Option<usize>,
    #[serde(default)]
    max_length: Option<usize>,
    #[serde(default)]
    minimum: Option<f64>,
    #[serde(default)]
    maximum: Option<f64>,
    #[serde(default)]
    min_items: Option<usize>,
    #[serde(default)]
    max_items: Option<usize>,
    #[serde(default, rename = "enum")]
    values: Option<Vec<String>>,
    #[serde(default)]
    enum_names: Option<Vec<String>>,
    #[serde(default)]
    one_of: Option<Vec<TitledOption>>,
    #[serde(default)]
    any_of: Option<Vec<TitledOption>>,
    #[serde(default)]
    items: Option<Box<SchemaProperty>>,
}

#[derive(Deserialize)]
struct TitledOption {
    #[serde(rename = "const")]
    value: String,
    #[serde(default)]
    title: Option<String>,
}

impl Form {
    /// Parses the params of `elicitation/create`.
    pub fn parse(params: &Json) -> Result<Form, FormError> {
        let schema = &params["requestedSchema"];
        let properties = schema["properties"].as_object().ok_or(FormError::NoFields)?;
        if properties.len() > MAX_FIELDS {
            return Err(FormError::TooLarge);
        }
        let is_required = |name: &str| {
            let required = schema["required"].as_array().into_iter().flatten();
            required.into_iter().any(|it| it == name)
        };
        let fields: Result<Vec<FormField>, FormError> = properties
            .iter()
            .map(|(name, property)| {
                let requirement = if is_required(name) {
                    FieldRequirement::Required
                } else {
                    FieldRequirement::Optional
                };
                FormField::from_schema(name, property, requirement)
            })
            .collect();
        let message = params["message"].as_str().unwrap_or_default().to_owned();
        Ok(Form { message, fields: fields? })
    }

    /// Completes and validates an answer: missing fields get their defaults, unknown fields are left out. An error
    /// names the field.
    pub fn complete(
        &self,
        values: &Map<String, Json>,
    ) -> Result<Map<String, Json>, (String, InvalidAnswer)> {
        let mut answer = Map::new();
        for field in &self.fields {
            let fail = |invalid| (field.name.clone(), invalid);
            match values.get(&field.name).or(field.default.as_ref()) {
                Some(value) => {
                    field.check(value).map_err(fail)?;
                    answer.insert(field.name.clone(), value.clone());
                }
                None if field.requirement == FieldRequirement::Required => {
                    return Err(fail(InvalidAnswer::Missing));
                }
                None => {}
            }
        }
        Ok(answer)
    }
}

impl FormField {
    fn from_schema(
        name: &str,
        property: &Json,
        requirement: FieldRequirement,
    ) -> Result<FormField, FormError> {
        let unsupported = || FormError::UnsupportedField(name.to_owned());
        let property: SchemaProperty =
            serde_json::from_value(property.clone()).map_err(|_| unsupported())?;
        let kind = property.kind().ok_or_else(unsupported)?;
        if kind.choices().len() > MAX_CHOICES {
            return Err(FormError::TooLarge);
        }
        let field = FormField {
            name: name.to_owned(),
            title: property.title,
            description: property.description,
            requirement,
            default: None,
            kind,
        };
        // An invalid default is ignored.
        let default = property.default.filter(|default| field.check(default).is_ok());
        Ok(FormField { default, ..field })
    }

    /// The label for the user: the title, or the name.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Parses the user's input.
    pub fn parse(&self, input: &str) -> Result<Json, InvalidAnswer> {
        let value = match &self.kind {
            FieldKind::Text { .. } => Json::from(input),
            FieldKind::Number { number_kind, .. } => parse_number(input.trim(), *number_kind)?,
            FieldKind::Boolean => match input.trim().to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" | "1" => Json::Bool(true),
                "n" | "no" | "false" | "0" => Json::Bool(false),
                _ => return Err(InvalidAnswer::Type("yes or no")),
            },
            FieldKind::SingleSelect(choices) => parse_choice(input.trim(), choices)?.into(),
            FieldKind::MultiSelect { choices, .. } => {
                let parts = input.split(',').map(str::trim).filter(|part| !part.is_empty());
                let values: Result<Vec<String>, InvalidAnswer> =
                    parts.map(|part| parse_choice(part, choices)).collect();
                values?.into()
            }
        };
        self.check(&value)?;
        Ok(value)
    }

    /// Validates a value.
    pub fn check(&self, value: &Json) -> Result<(), InvalidAnswer> {
        match &self.kind {
            FieldKind::Text { min_length, max_length, format } => {
                let text = value.as_str().ok_or(InvalidAnswer::Type("text"))?;
                let length = text.chars().count();
                if let Some(min_length) = min_length.filter(|it| length < *it) {
                    return Err(InvalidAnswer::TooShort(min_length));
                }
                if let Some(max_length) = max_length.filter(|it| length > *it) {
                    return Err(InvalidAnswer::TooLong(max_length));
                }
                match format.filter(|format| !format.matches(text)) {
                    Some(format) => Err(InvalidAnswer::Format(format)),
                    None => Ok(()),
                }
            }
            FieldKind::Number { number_kind, least, most } => {
                let number = value.as_f64().ok_or(InvalidAnswer::Type("a number"))?;
                if *number_kind == NumberKind::Integer && number.fract() != 0.0 {
                    return Err(InvalidAnswer::Type("a whole number"));
                }
                match (least.filter(|it| number < *it), most.filter(|it| number > *it)) {
                    (Some(least), _) => Err(InvalidAnswer::TooSmall(least)),
                    (None, Some(most)) => Err(InvalidAnswer::TooLarge(most)),
                    (None, None) => Ok(()),
                }
            }
            FieldKind::Boolean => {
                value.as_bool().map(|_| ()).ok_or(InvalidAnswer::Type("yes or no"))
            }
            FieldKind::SingleSelect(choices) => {
                let text = value.as_str().ok_or(InvalidAnswer::Type("one of the choices"))?;
                is_choice(text, choices)
            }
            FieldKind::MultiSelect { choices, least, most } => {
                let values = value.as_array().ok_or(InvalidAnswer::Type("a list of choices"))?;
                for value in values {
                    is_choice(
                        value.as_str().ok_or(InvalidAnswer::Type("a list of choices"))?,
                        choices,
                    )?;
                }
                match (least.filter(|it| values.len() < *it), most.filter(|it| values.len() > *it))
                {
                    (Some(least), _) => Err(InvalidAnswer::TooFew(least)),
                    (None, Some(most)) => Err(InvalidAnswer::TooMany(most)),
                    (None, None) => Ok(()),
                }
            }
        }
    }
}

impl SchemaProperty {
    fn kind(&self) -> Option<FieldKind> {
        match self.kind.as_deref() {
            Some("boolean") => Some(FieldKind::Boolean),
            Some("number") => Some(self.number(NumberKind::Any)),
            Some("integer") => Some(self.number(NumberKind::Integer)),
            Some("array") => Some(FieldKind::MultiSelect {
                choices: self.items.as_ref()?.choices()?,
                least: self.min_items,
                most: self.max_items,
            }),
            Some("string") => Some(match self.choices() {
                Some(choices) => FieldKind::SingleSelect(choices),
                None => FieldKind::Text {
                    min_length: self.min_length,
                    max_length: self.max_length,
                    format: self.format.as_deref().and_then(TextFormat::parse),
                },
            }),
            Some(_) => None,
            None => self.choices().map(FieldKind::SingleSelect),
        }
    }

    fn number(&self, number_kind: NumberKind) -> FieldKind {
        FieldKind::Number { number_kind, least: self.minimum, most: self.maximum }
    }

    fn choices(&self) -> Option<Vec<Choice>> {
        if let Some(titled) = self.one_of.as_ref().or(self.any_of.as_ref()) {
            let choice = |it: &TitledOption| {
                let title = it.title.clone().unwrap_or_else(|| it.value.clone());
                Choice { value: it.value.clone(), title }
            };
            return Some(titled.iter().map(choice).collect());
        }
        let names = self.enum_names.as_deref().unwrap_or_default();
        let choice = |(index, value): (usize, &String)| {
            let title = names.get(index).unwrap_or(value).clone();
            Choice { value: value.clone(), title }
        };
        self.values.as_ref().map(|values| values.iter().enumerate().map(choice).collect())
    }
}

impl FieldKind {
    /// The choices of a select field; empty for other types.
    pub fn choices(&self) -> &[Choice] {
        match self {
            FieldKind::SingleSelect(choices) | FieldKind::MultiSelect { choices, .. } => choices,
            FieldKind::Text { .. } | FieldKind::Number { .. } | FieldKind::Boolean => &[],
        }
    }
}

impl TextFormat {
    /// Parses a format name. Unknown formats are ignored.
    fn parse(text: &str) -> Option<TextFormat> {
        match text {
            "email" => Some(TextFormat::Email),
            "uri" => Some(TextFormat::Uri),
            "date" => Some(TextFormat::Date),
            "date-time" => Some(TextFormat::DateTime),
            _ => None,
        }
    }

    fn matches(self, text: &str) -> bool {
        match self {
            TextFormat::Email => {
                let parts = text.split_once('@');
                parts.is_some_and(|(user, host)| {
                    let is_plain = !text.contains(char::is_whitespace) && !host.contains('@');
                    !user.is_empty() && !host.is_empty() && is_plain
                })
            }
            TextFormat::Uri => Url::parse(text).is_ok(),
            TextFormat::Date => is_date(text),
            TextFormat::DateTime => {
                let parts = text.split_once(['T', 't', ' ']);
                parts.is_some_and(|(date, time)| is_date(date) && is_time(time))
            }
        }
    }
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let within = |part: &str, digits: usize, least: u32, most: u32| {
        part.len() == digits && part.parse().is_ok_and(|it: u32| (least..=most).contains(&it))
    };
    within(year, 4, 0, 9999) && within(month, 2, 1, 12) && within(day, 2, 1, 31)
}

fn is_time(text: &str) -> bool {
    let end = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (clock, zone) = text.split_at(end);
    let hms = clock.split('.').next().unwrap_or_default();
    let parts: Vec<&str> = hms.split(':').collect();
    let [hour, minute, second] = parts[..] else { return false };
    let within =
        |part: &str, most: u32| part.len() == 2 && part.parse().is_ok_and(|it: u32| it <= most);
    within(hour, 23) && within(minute, 59) && within(second, 60) && !zone.is_empty()
}

fn parse_number(input: &str, number_kind: NumberKind) -> Result<Json, InvalidAnswer> {
    let (integer, float) = (input.parse::<i64>().ok(), input.parse::<f64>().ok());
    match (number_kind, integer, float) {
        (_, Some(number), _) => Ok(number.into()),
        (NumberKind::Integer, None, _) => Err(InvalidAnswer::Type("a whole number")),
        (NumberKind::Any, None, Some(number)) if number.is_finite() => Ok(number.into()),
        (NumberKind::Any, None, Some(_) | None) => Err(InvalidAnswer::Type("a number")),
    }
}

/// Finds a choice by value, title or one-based number.
fn parse_choice(input: &str, choices: &[Choice]) -> Result<String, InvalidAnswer> {
    let by_value = choices.iter().find(|it| it.value == input);
    let by_title = || choices.iter().find(|it| it.title.eq_ignore_ascii_case(input));
    let by_number = || choices.get(input.parse::<usize>().ok()?.checked_sub(1)?);
    let found = by_value.or_else(by_title).or_else(by_number);
    found.map(|it| it.value.clone()).ok_or_else(|| not_a_choice(choices))
}

fn is_choice(value: &str, choices: &[Choice]) -> Result<(), InvalidAnswer> {
    match choices.iter().any(|it| it.value == value) {
        true => Ok(()),
        false => Err(not_a_choice(choices)),
    }
}

fn not_a_choice(choices: &[Choice]) -> InvalidAnswer {
    const MAX_SHOWN_CHOICES: usize = 10;
    let mut names: Vec<&str> =
        choices.iter().take(MAX_SHOWN_CHOICES).map(|it| it.value.as_str()).collect();
    if choices.len() > MAX_SHOWN_CHOICES {
        names.push("…");
    }
    InvalidAnswer::NotAChoice(names.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(property: &Json) -> FormField {
        FormField::from_schema("f", property, FieldRequirement::Optional).expect("a field")
    }

    #[track_caller]
    fn check(property: Json, input: &str, expected: Result<Json, &str>) {
        let parsed = field(&property).parse(input).map_err(|invalid| invalid.to_string());
        assert_eq!(parsed, expected.map_err(str::to_owned), "{input}");
    }

    #[test]
    fn input_is_parsed_to_the_fields_type_or_rejected_with_a_reason() {
        let text = || json!({"type": "string", "minLength": 2, "maxLength": 3});
        check(text(), "äö", Ok(json!("äö")));
        check(text(), "a", Err("expected at least 2 characters"));
        check(text(), "abcd", Err("expected at most 3 characters"));
        let integer = || json!({"type": "integer", "minimum": 1, "maximum": 9});
        check(integer(), " 5 ", Ok(json!(5)));
        check(integer(), "5.5", Err("expected a whole number"));
        check(integer(), "0", Err("expected at least 1"));
        check(integer(), "10", Err("expected at most 9"));
        check(json!({"type": "number"}), "1.5", Ok(json!(1.5)));
        check(json!({"type": "number"}), "inf", Err("expected a number"));
        check(json!({"type": "boolean"}), "Yes", Ok(json!(true)));
        check(json!({"type": "boolean"}), "maybe", Err("expected yes or no"));
    }

    #[test]
    fn choices_are_found_by_value_title_or_number() {
        let old = || json!({"type": "string", "enum": ["a", "b"], "enumNames": ["Apple", "Bear"]});
        let new = || json!({"type": "string", "oneOf": [{"const": "a", "title": "Apple"}, {"const": "b"}]});
        for input in ["a", "apple", "1"] {
            check(old(), input, Ok(json!("a")));
            check(new(), input, Ok(json!("a")));
        }
        check(old(), "c", Err("expected one of a, b"));
        let multi_select = || {
            json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"anyOf": [
                {"const": "a"}, {"const": "b"}, {"const": "c"}
            ]}})
        };
        check(multi_select(), "a, 3", Ok(json!(["a", "c"])));
        check(multi_select(), "", Err("choose at least 1"));
        check(multi_select(), "a,b,c", Err("choose at most 2"));
    }

    #[test]
    fn formats_are_checked() {
        for (format, good, bad) in [
            ("email", "a@b.c", "a b@c"),
            ("uri", "https://h/", "nowhere"),
            ("date", "2026-02-28", "28.2.2026"),
            ("date-time", "2026-02-28T12:00:00.5+01:00", "2026-02-28 noon"),
        ] {
            let field = field(&json!({"type": "string", "format": format}));
            assert!(field.parse(good).is_ok(), "{format}");
            assert!(field.parse(bad).is_err(), "{format}");
        }
        assert!(field(&json!({"type": "string", "format": "of tomorrow"})).parse("x").is_ok());
    }

    #[test]
    fn an_answer_is_completed_with_defaults_and_loses_unknown_fields() {
        let form = Form::parse(&json!({"message": "who?", "requestedSchema": {
            "type": "object", "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "age": {"type": "integer", "default": 7},
                "bad": {"type": "integer", "default": "seven"},
            },
        }}))
        .expect("a form");
        let values = |json: Json| json.as_object().expect("an object").clone();
        let answer = form.complete(&values(json!({"name": "n", "x": 1})));
        assert_eq!(answer, Ok(values(json!({"name": "n", "age": 7}))));
        assert_eq!(
            form.complete(&values(json!({}))),
            Err(("name".to_owned(), InvalidAnswer::Missing))
        );
        let wrong = form.complete(&values(json!({"name": 5})));
        assert_eq!(wrong, Err(("name".to_owned(), InvalidAnswer::Type("text"))));
    }

    #[test]
    fn invalid_schemas_are_rejected() {
        let read =
            |schema: Json| Form::parse(&json!({"requestedSchema": schema})).expect_err("no form");
        assert_eq!(read(json!({"type": "object"})), FormError::NoFields);
        let nested = json!({"properties": {"a": {"type": "object"}}});
        assert_eq!(read(nested), FormError::UnsupportedField("a".to_owned()));
        let many: Map<String, Json> =
            (0..101).map(|it| (it.to_string(), json!({"type": "string"}))).collect();
        assert_eq!(read(json!({"properties": many})), FormError::TooLarge);
    }
}
