//! The form for a tool's arguments: fields from its JSON schema, and arguments from the values of the fields. What a field
//! cannot express is written as JSON. Pure.

use serde_json::{Map, Value as Json};

/// The most fields of a form. Tools with more arguments are called with JSON.
const MAX_FIELDS: usize = 60;
/// The most values that are offered for a choice.
const MAX_CHOICES: usize = 200;
/// Texts that may be longer than this get several lines.
const LINE_CHARS: u64 = 120;

/// A field for one argument.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    /// The argument. Untrusted.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) is_required: bool,
    pub(crate) kind: FieldKind,
    pub(crate) default: Option<Json>,
}

/// How a value is entered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FieldKind {
    Line,
    Text,
    Number,
    Boolean,
    Choice(Vec<Json>),
    /// Any value, as JSON.
    Json,
}

/// Why a value is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    pub(crate) name: String,
    pub(crate) expected: &'static str,
}

/// The fields of a schema. None where a form cannot express it: then the arguments are written as JSON.
pub(crate) fn fields(schema: &Json) -> Option<Vec<Field>> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let properties = match schema.get("properties") {
        None => return Some(Vec::new()),
        Some(properties) => properties.as_object()?,
    };
    let is_expressible = properties.len() <= MAX_FIELDS
        && required.iter().all(|name| properties.contains_key(*name));
    let field = |(name, property): (&String, &Json)| Field {
        name: name.clone(),
        description: property["description"].as_str().unwrap_or_default().to_owned(),
        is_required: required.contains(&name.as_str()),
        kind: kind(property),
        default: property.get("default").cloned(),
    };
    is_expressible.then(|| properties.iter().map(field).collect())
}

fn kind(property: &Json) -> FieldKind {
    if let Some(choices) = property["enum"].as_array()
        && (1..=MAX_CHOICES).contains(&choices.len())
        && choices.iter().all(|it| !it.is_object() && !it.is_array())
    {
        return FieldKind::Choice(choices.clone());
    }
    let named = match &property["type"] {
        Json::String(name) => Some(name.as_str()),
        Json::Array(names) => {
            let mut names = names.iter().filter_map(Json::as_str).filter(|it| *it != "null");
            // Of several types, only JSON says which one is meant.
            match (names.next(), names.next()) {
                (Some(name), None) => Some(name),
                (Some(_) | None, _) => None,
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => None,
    };
    match named {
        Some("string") if property["maxLength"].as_u64().is_some_and(|it| it <= LINE_CHARS) => {
            FieldKind::Line
        }
        Some("string") if property.get("format").is_some() => FieldKind::Line,
        Some("string") => FieldKind::Text,
        Some("integer" | "number") => FieldKind::Number,
        Some("boolean") => FieldKind::Boolean,
        Some(_) | None => FieldKind::Json,
    }
}

/// The name of the input of the field at a position.
pub(crate) fn input_name(position: usize) -> String {
    format!("argument-{position}")
}

/// The arguments from the values of the inputs. Empty optional fields are left out.
pub(crate) fn arguments<'a>(
    fields: &[Field],
    value: impl Fn(&str) -> Option<&'a str>,
) -> Result<Json, FieldError> {
    let mut arguments = Map::new();
    for (position, field) in fields.iter().enumerate() {
        // Browsers send line breaks as CR LF.
        let text = value(&input_name(position)).unwrap_or_default().replace("\r\n", "\n");
        if let Some(argument) = argument(field, &text)? {
            arguments.insert(field.name.clone(), argument);
        }
    }
    Ok(Json::Object(arguments))
}

fn argument(field: &Field, text: &str) -> Result<Option<Json>, FieldError> {
    let error = |expected| Err(FieldError { name: field.name.clone(), expected });
    let is_text = matches!(field.kind, FieldKind::Line | FieldKind::Text);
    if text.is_empty() {
        return match (field.is_required, is_text) {
            (false, _) => Ok(None),
            (true, true) => Ok(Some(Json::String(String::new()))),
            (true, false) => error("a value"),
        };
    }
    match &field.kind {
        FieldKind::Line | FieldKind::Text => Ok(Some(text.into())),
        FieldKind::Number => match serde_json::from_str::<Json>(text.trim()) {
            Ok(number @ Json::Number(_)) => Ok(Some(number)),
            Ok(_) | Err(_) => error("a number"),
        },
        FieldKind::Boolean => match text {
            "true" => Ok(Some(true.into())),
            "false" => Ok(Some(false.into())),
            _ => error("true or false"),
        },
        FieldKind::Choice(choices) => {
            let chosen = text.parse::<usize>().ok().and_then(|at| choices.get(at));
            chosen.map_or_else(|| error("one of the choices"), |it| Ok(Some(it.clone())))
        }
        FieldKind::Json => match serde_json::from_str(text) {
            Ok(json) => Ok(Some(json)),
            Err(_) => error("JSON"),
        },
    }
}

/// A JSON text of the arguments for the first edit: required arguments, with their defaults.
pub(crate) fn example(schema: &Json) -> Json {
    let mut example = Map::new();
    for field in fields(schema).unwrap_or_default().into_iter().filter(|it| it.is_required) {
        let value = field.default.unwrap_or_else(|| match &field.kind {
            FieldKind::Line | FieldKind::Text => "".into(),
            FieldKind::Number => 0.into(),
            FieldKind::Boolean => false.into(),
            FieldKind::Choice(choices) => choices[0].clone(),
            FieldKind::Json => Json::Null,
        });
        example.insert(field.name, value);
    }
    Json::Object(example)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Json {
        json!({"type": "object", "required": ["text", "count"], "properties": {
            "text": {"type": "string", "description": "What to say"},
            "count": {"type": ["integer", "null"], "default": 3},
            "loud": {"type": "boolean"},
            "way": {"enum": ["up", 2, null]},
            "more": {"type": "object"},
        }})
    }

    #[track_caller]
    fn check(values: [&str; 5], expected: Result<Json, &str>) {
        let fields = fields(&schema()).expect("a form can express it");
        let value = |name: &str| {
            let at: usize = name.strip_prefix("argument-")?.parse().ok()?;
            values.get(at).copied()
        };
        let found = arguments(&fields, value).map_err(|it| format!("{}: {}", it.name, it.expected));
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn arguments_have_the_types_of_the_schema_and_empty_optional_ones_are_left_out() {
        check(["a\r\nb", "2", "", "", ""], Ok(json!({"text": "a\nb", "count": 2})));
        let all = json!({"text": "", "count": -1.5, "loud": true, "way": 2, "more": {"a": [1]}});
        check(["", "-1.5", "true", "1", "{\"a\": [1]}"], Ok(all));
        check(["a", "", "", "", ""], Err("count: a value"));
        check(["a", "x", "", "", ""], Err("count: a number"));
        check(["a", "\"1\"", "", "", ""], Err("count: a number"));
        check(["a", "1", "yes", "", ""], Err("loud: true or false"));
        check(["a", "1", "", "7", ""], Err("way: one of the choices"));
        check(["a", "1", "", "", "{"], Err("more: JSON"));
    }

    #[test]
    fn a_schema_that_a_form_cannot_express_has_none() {
        assert_eq!(fields(&json!({"type": "object"})), Some(Vec::new()));
        assert_eq!(fields(&json!({"required": ["a"], "properties": {}})), None);
        assert_eq!(fields(&json!({"properties": [1]})), None);
        let many: Map<String, Json> =
            (0..=MAX_FIELDS).map(|it| (it.to_string(), json!({}))).collect();
        assert_eq!(fields(&json!({"properties": many})), None);
    }

    #[test]
    fn the_example_has_what_is_required() {
        assert_eq!(example(&schema()), json!({"text": "", "count": 3}));
    }
}
