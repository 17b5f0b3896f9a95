//! Elicitation: questions to the user, as a form or as a URL to visit, and their results. Results are checked
//! against the requested fields.

use serde_json::{Map, Value as Json, json};

use crate::kit::handler_error::HandlerError;

/// The maximum length of a text field, in characters.
const MAX_TEXT_LENGTH: usize = 4000;

/// A question to the user.
#[derive(Debug, Clone)]
pub struct Elicitation {
    message: String,
    kind: ElicitationMode,
}

#[derive(Debug, Clone)]
enum ElicitationMode {
    Form(Vec<FormField>),
    Url { url: String, id: String },
}

/// One field of a form.
#[derive(Debug, Clone)]
pub struct FormField {
    name: String,
    title: String,
    kind: FormFieldKind,
    is_required: bool,
    default: Option<Json>,
}

#[derive(Debug, Clone)]
enum FormFieldKind {
    Text,
    Date,
    Integer { minimum: i64, maximum: i64 },
    Choice(Vec<String>),
    Boolean,
}

/// The user's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationResult {
    /// Accepted, with the content of the form. Empty for a URL.
    Accepted(Map<String, Json>),
    /// Declined.
    Declined,
    /// Dismissed without an answer.
    Cancelled,
}

impl Elicitation {
    /// A form.
    pub fn form(message: &str, fields: Vec<FormField>) -> Elicitation {
        Elicitation { message: message.to_owned(), kind: ElicitationMode::Form(fields) }
    }

    /// A URL to visit, for data that must not pass through the client. `id` identifies the elicitation.
    pub fn url(message: &str, url: &str, id: &str) -> Elicitation {
        let kind = ElicitationMode::Url { url: url.to_owned(), id: id.to_owned() };
        Elicitation { message: message.to_owned(), kind }
    }

    /// The mode that the client's capabilities must name.
    pub(crate) fn mode(&self) -> &'static str {
        match &self.kind {
            ElicitationMode::Form(_) => "form",
            ElicitationMode::Url { .. } => "url",
        }
    }

    pub(crate) fn params(&self) -> Json {
        match &self.kind {
            ElicitationMode::Form(fields) => {
                let properties: Map<String, Json> =
                    fields.iter().map(|it| (it.name.clone(), it.schema())).collect();
                let required: Vec<&str> =
                    fields.iter().filter(|it| it.is_required).map(|it| it.name.as_str()).collect();
                let schema =
                    json!({"type": "object", "properties": properties, "required": required});
                json!({"mode": "form", "message": self.message, "requestedSchema": schema})
            }
            ElicitationMode::Url { url, id } => {
                json!({"mode": "url", "message": self.message, "url": url, "elicitationId": id})
            }
        }
    }

    /// Parses a result. Unknown members are dropped; invalid ones are an error.
    pub(crate) fn parse_result(&self, response: &Json) -> Result<ElicitationResult, HandlerError> {
        match response["action"].as_str() {
            Some("accept") => {}
            Some("decline") => return Ok(ElicitationResult::Declined),
            Some("cancel") => return Ok(ElicitationResult::Cancelled),
            Some(_) | None => {
                return Err(HandlerError::failed("the response neither accepts nor declines"));
            }
        }
        let mut content = Map::new();
        let ElicitationMode::Form(fields) = &self.kind else {
            return Ok(ElicitationResult::Accepted(content));
        };
        for field in fields {
            match response["content"].get(&field.name).filter(|it| !it.is_null()) {
                Some(value) if field.accepts(value) => {
                    content.insert(field.name.clone(), value.clone());
                }
                None if !field.is_required => {}
                Some(_) | None => {
                    let expected = field.expected();
                    return Err(HandlerError::failed(format!(
                        "`{}` has to be {expected}",
                        field.name
                    )));
                }
            }
        }
        Ok(ElicitationResult::Accepted(content))
    }
}

impl FormField {
    fn new(name: &str, title: &str, kind: FormFieldKind) -> FormField {
        FormField {
            name: name.to_owned(),
            title: title.to_owned(),
            kind,
            is_required: true,
            default: None,
        }
    }

    /// A required text.
    pub fn text(name: &str, title: &str) -> FormField {
        FormField::new(name, title, FormFieldKind::Text)
    }

    /// A date such as `2026-07-28`.
    pub fn date(name: &str, title: &str) -> FormField {
        FormField::new(name, title, FormFieldKind::Date)
    }

    /// An integer in a range.
    pub fn integer(name: &str, title: &str, range: std::ops::RangeInclusive<i64>) -> FormField {
        let (minimum, maximum) = range.into_inner();
        FormField::new(name, title, FormFieldKind::Integer { minimum, maximum })
    }

    /// One of several options.
    pub fn choice(name: &str, title: &str, options: &[&str]) -> FormField {
        let options = options.iter().map(|it| (*it).to_owned()).collect();
        FormField::new(name, title, FormFieldKind::Choice(options))
    }

    /// A boolean.
    pub fn boolean(name: &str, title: &str) -> FormField {
        FormField::new(name, title, FormFieldKind::Boolean)
    }

    /// Makes the field optional.
    pub fn optional(mut self) -> FormField {
        self.is_required = false;
        self
    }

    /// Sets a default value, which makes the field optional.
    pub fn with_default(mut self, value: impl Into<Json>) -> FormField {
        self.default = Some(value.into());
        self.optional()
    }

    fn schema(&self) -> Json {
        let mut schema = match &self.kind {
            FormFieldKind::Text => json!({"type": "string", "maxLength": MAX_TEXT_LENGTH}),
            FormFieldKind::Date => json!({"type": "string", "format": "date"}),
            FormFieldKind::Integer { minimum, maximum } => {
                json!({"type": "integer", "minimum": minimum, "maximum": maximum})
            }
            FormFieldKind::Choice(options) => json!({"type": "string", "enum": options}),
            FormFieldKind::Boolean => json!({"type": "boolean"}),
        };
        schema["title"] = json!(self.title);
        if let Some(default) = &self.default {
            schema["default"] = default.clone();
        }
        schema
    }

    fn accepts(&self, value: &Json) -> bool {
        match &self.kind {
            FormFieldKind::Text => {
                value.as_str().is_some_and(|it| it.chars().count() <= MAX_TEXT_LENGTH)
            }
            FormFieldKind::Date => value.as_str().is_some_and(is_date),
            FormFieldKind::Integer { minimum, maximum } => {
                as_integer(value).is_some_and(|it| (*minimum..=*maximum).contains(&it))
            }
            FormFieldKind::Choice(options) => {
                value.as_str().is_some_and(|it| options.iter().any(|option| option == it))
            }
            FormFieldKind::Boolean => value.is_boolean(),
        }
    }

    fn expected(&self) -> String {
        match &self.kind {
            FormFieldKind::Text => format!("a text of at most {MAX_TEXT_LENGTH} characters"),
            FormFieldKind::Date => "a day, as 2026-07-28".to_owned(),
            FormFieldKind::Integer { minimum, maximum } => {
                format!("an integer from {minimum} to {maximum}")
            }
            FormFieldKind::Choice(options) => format!("one of {}", options.join(", ")),
            FormFieldKind::Boolean => "true or false".to_owned(),
        }
    }
}

/// An integer, also when written as `4.0`.
fn as_integer(value: &Json) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|it| it.fract() == 0.0 && it.abs() < 1e15)?;
        format!("{number:.0}").parse().ok()
    })
}

/// Whether a text is a date: `YYYY-MM-DD` with a month from 1 to 12 and a day from 1 to 31.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let number = |text: &str, digits: usize| {
        let plain = text.len() == digits && text.bytes().all(|it| it.is_ascii_digit());
        plain.then(|| text.parse::<u32>().ok()).flatten()
    };
    number(year, 4).is_some()
        && number(month, 2).is_some_and(|it| (1..=12).contains(&it))
        && number(day, 2).is_some_and(|it| (1..=31).contains(&it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Elicitation {
        let fields = vec![
            FormField::text("name", "Name"),
            FormField::date("day", "Day"),
            FormField::integer("guests", "Guests", 1..=12),
            FormField::choice("seat", "Seat", &["in", "out"]).optional(),
            FormField::boolean("news", "News").with_default(false),
        ];
        Elicitation::form("A table?", fields)
    }

    #[track_caller]
    fn check(content: Json, expected: Result<Json, &str>) {
        let read = form().parse_result(&json!({"action": "accept", "content": content}));
        let read = match read {
            Ok(ElicitationResult::Accepted(content)) => Ok(Json::Object(content)),
            Ok(other) => panic!("it was accepted: {other:?}"),
            Err(HandlerError(crate::kit::handler_error::HandlerErrorKind::Failed(why))) => Err(why),
            Err(other) => panic!("it failed: {other:?}"),
        };
        assert_eq!(read.as_ref().map_err(String::as_str), expected.as_ref().map_err(|it| *it));
    }

    #[test]
    fn a_response_must_match_the_form() {
        let good = json!({"name": "Ada", "day": "2026-07-28", "guests": 4, "news": true});
        let with = |key: &str, value: Json| {
            let mut changed = good.clone();
            changed[key] = value;
            changed
        };
        check(good.clone(), Ok(good.clone()));
        check(with("evil", json!(1)), Ok(good.clone()));
        check(with("guests", json!(4.0)), Ok(with("guests", json!(4.0))));
        check(with("guests", json!(13)), Err("`guests` has to be an integer from 1 to 12"));
        check(with("guests", json!(1.5)), Err("`guests` has to be an integer from 1 to 12"));
        check(with("day", json!("2026-13-01")), Err("`day` has to be a day, as 2026-07-28"));
        check(with("seat", json!("roof")), Err("`seat` has to be one of in, out"));
        check(with("news", json!("yes")), Err("`news` has to be true or false"));
        check(with("name", Json::Null), Err("`name` has to be a text of at most 4000 characters"));
        let long = json!("x".repeat(MAX_TEXT_LENGTH + 1));
        check(with("name", long), Err("`name` has to be a text of at most 4000 characters"));
    }

    #[test]
    fn declining_is_not_cancelling_and_neither_is_nonsense() {
        let read = |action: Json| form().parse_result(&json!({"action": action}));
        assert!(matches!(read(json!("decline")), Ok(ElicitationResult::Declined)));
        assert!(matches!(read(json!("cancel")), Ok(ElicitationResult::Cancelled)));
        assert!(read(json!("shrug")).is_err());
        assert!(read(json!("accept")).is_err());
    }
}
