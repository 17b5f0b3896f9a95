//! Values that a publisher describes: arguments, environment variables, headers and the variables inside them.

use serde_json::Value as Json;

use super::error::ListingError;
use super::fields::{Fields, entry_text};
use super::identifier::{is_environment_name, is_header_name};

/// The format of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    /// Any text.
    Text,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A path on the user's machine.
    Path,
}

impl InputFormat {
    /// The name in `server.json`.
    pub fn id(self) -> &'static str {
        match self {
            InputFormat::Text => "string",
            InputFormat::Number => "number",
            InputFormat::Boolean => "boolean",
            InputFormat::Path => "filepath",
        }
    }
}

/// A value and what its publisher says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The description for people; may be empty.
    pub description: String,
    /// Whether the server does not start without it.
    pub is_required: bool,
    /// Whether it is a secret.
    pub is_secret: bool,
    /// Whether it may be given several times.
    pub is_repeated: bool,
    /// The format, if it is named.
    pub format: Option<InputFormat>,
    /// The fixed value, which may contain `{variables}`.
    pub value: Option<String>,
    /// The default.
    pub default: Option<String>,
    /// An example.
    pub placeholder: Option<String>,
    /// The only accepted values; empty for any.
    pub choices: Vec<String>,
    /// The variables in the value, by name.
    pub variables: Vec<(String, Input)>,
}

/// A value with a name: an environment variable or a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedInput {
    /// The name.
    pub name: String,
    /// The value.
    pub input: Input,
}

/// An argument of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// A value at a position.
    Positional {
        /// What stands for the value in usage texts.
        hint: Option<String>,
        /// The value.
        input: Input,
    },
    /// A flag, with or without a value.
    Named {
        /// The flag with its dashes.
        name: String,
        /// The value.
        input: Input,
    },
}

/// Whether an input may have variables of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VariableDepth {
    WithVariables,
    Innermost,
}

impl Input {
    /// Reads the value of an argument, a variable or a header.
    pub(super) fn read(fields: Fields<'_>) -> Result<Input, ListingError> {
        Input::read_nested(fields, VariableDepth::WithVariables)
    }

    fn read_nested(fields: Fields<'_>, depth: VariableDepth) -> Result<Input, ListingError> {
        let format = match fields.text(&["format"])?.as_deref() {
            None => None,
            Some("number") => Some(InputFormat::Number),
            Some("boolean") => Some(InputFormat::Boolean),
            Some("filepath" | "file_path") => Some(InputFormat::Path),
            // Formats that are not known are texts.
            Some(_) => Some(InputFormat::Text),
        };
        let choices = fields.list(&["choices"])?.iter().map(|it| entry_text(it, "choices"));
        let variables = match depth {
            VariableDepth::WithVariables => read_variables(fields)?,
            VariableDepth::Innermost => Vec::new(),
        };
        Ok(Input {
            description: fields.prose(&["description"]).unwrap_or_default(),
            is_required: fields.flag(&["isRequired", "is_required"])?,
            is_secret: fields.flag(&["isSecret", "is_secret"])?,
            is_repeated: fields.flag(&["isRepeated", "is_repeated"])?,
            format,
            value: fields.text(&["value"])?,
            default: fields.text(&["default"])?,
            placeholder: fields.prose(&["placeholder"]),
            choices: choices.collect::<Result<_, _>>()?,
            variables,
        })
    }

    /// A value that is fixed to this text.
    pub(super) fn fixed(text: &str, variables: Vec<(String, Input)>) -> Input {
        Input {
            description: String::new(),
            is_required: false,
            is_secret: false,
            is_repeated: false,
            format: None,
            value: Some(text.to_owned()),
            default: None,
            placeholder: None,
            choices: Vec::new(),
            variables,
        }
    }

    /// Whether nothing says that a value belongs to it.
    pub(super) fn describes_no_value(&self) -> bool {
        self.value.is_none()
            && self.default.is_none()
            && self.placeholder.is_none()
            && self.format.is_none()
            && self.choices.is_empty()
            && !self.is_secret
            && !self.is_repeated
    }
}

/// Reads the variables of a value or of a URL.
pub(super) fn read_variables(fields: Fields<'_>) -> Result<Vec<(String, Input)>, ListingError> {
    let mut variables = Vec::new();
    for (name, value) in fields.pairs(&["variables"])? {
        let name = entry_text(&Json::String(name.clone()), "variables")?;
        let input =
            Input::read_nested(Fields::open(value, "variables")?, VariableDepth::Innermost)?;
        variables.push((name, input));
    }
    Ok(variables)
}

impl Argument {
    pub(super) fn read(value: &Json, key: &str) -> Result<Argument, ListingError> {
        let fields = Fields::open(value, key)?;
        let input = Input::read(fields)?;
        let name = fields.text(&["name"])?.filter(|it| !it.is_empty());
        let is_named = match fields.text(&["type"])?.as_deref() {
            Some("named") => true,
            Some("positional") => false,
            Some(_) => {
                return Err(ListingError::WrongType {
                    key: format!("{key}.type"),
                    expected: "`positional` or `named`",
                });
            }
            None => name.is_some(),
        };
        match (is_named, name) {
            (true, Some(name)) => Ok(Argument::Named { name, input }),
            (true, None) => Err(ListingError::Missing { key: format!("{key}.name") }),
            (false, _) => {
                let hint = fields.text(&["valueHint", "value_hint"])?;
                Ok(Argument::Positional { hint: hint.filter(|it| !it.is_empty()), input })
            }
        }
    }

    pub(super) fn read_list(
        fields: Fields<'_>,
        keys: &[&str],
    ) -> Result<Vec<Argument>, ListingError> {
        fields.list(keys)?.iter().map(|it| Argument::read(it, keys[0])).collect()
    }
}

impl NamedInput {
    pub(super) fn read_environment(fields: Fields<'_>) -> Result<Vec<NamedInput>, ListingError> {
        let keys = ["environmentVariables", "environment_variables"];
        NamedInput::read_list(fields, &keys, is_environment_name)
    }

    pub(super) fn read_headers(fields: Fields<'_>) -> Result<Vec<NamedInput>, ListingError> {
        NamedInput::read_list(fields, &["headers"], is_header_name)
    }

    fn read_list(
        fields: Fields<'_>,
        keys: &[&str],
        is_name: fn(&str) -> bool,
    ) -> Result<Vec<NamedInput>, ListingError> {
        let mut inputs: Vec<NamedInput> = Vec::new();
        for value in fields.list(keys)? {
            let fields = Fields::open(value, keys[0])?;
            let name = fields.required_text(&["name"])?;
            if !is_name(&name) {
                return Err(ListingError::Name { key: keys[0].to_owned(), name });
            }
            if inputs.iter().any(|it| it.name == name) {
                return Err(ListingError::Duplicate { key: keys[0].to_owned(), name });
            }
            inputs.push(NamedInput { name, input: Input::read(fields)? });
        }
        Ok(inputs)
    }
}
