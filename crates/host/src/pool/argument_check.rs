//! Validates arguments against a tool's input schema before the call and describes each fault. The only module that
//! uses the `jsonschema` crate. Nothing is fetched.

use std::fmt;

use jsonschema::error::{TypeKind, ValidationError, ValidationErrorKind};
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{Draft, JsonType, PatternOptions, Validator};
use serde_json::Value as Json;
use switchboard_config::file::entry_decoder::nearest;
use switchboard_wire::jsonrpc::message::Payload;

/// The most faults that are told at once.
const MAX_FAULTS: usize = 20;
/// The backtracking limit of a pattern, so that a server's pattern cannot block the host.
const MAX_BACKTRACKS: usize = 10_000;
/// The maximum size of a compiled pattern in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// The maximum length of a list of allowed values, in characters.
const MAX_LIST_CHARS: usize = 300;

/// A fault in the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentFault {
    /// The path: names joined by dots, indices in brackets. Empty for the arguments as a whole.
    pub at: String,
    /// The kind of fault.
    pub kind: ArgumentFaultKind,
}

/// The kinds of faults. None contains the value, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentFaultKind {
    /// A required argument is missing.
    Missing,
    /// The argument does not exist.
    Unknown {
        /// The argument that was probably meant.
        nearest: Option<String>,
    },
    /// The value has the wrong type.
    Type {
        /// The expected type.
        expected: String,
        /// The actual type.
        actual: &'static str,
    },
    /// The value is not one of the allowed ones.
    NotListed {
        /// The allowed values as JSON.
        allowed: String,
    },
    /// Another fault.
    Invalid {
        /// The violated condition.
        expected: String,
    },
}

impl fmt::Display for ArgumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => f.write_str("the arguments")?,
            at => write!(f, "`{at}`")?,
        }
        match &self.kind {
            ArgumentFaultKind::Missing => f.write_str(" is missing"),
            ArgumentFaultKind::Unknown { nearest: None } => f.write_str(" is unknown"),
            ArgumentFaultKind::Unknown { nearest: Some(nearest) } => {
                write!(f, " is unknown, did you mean `{nearest}`?")
            }
            ArgumentFaultKind::Type { expected, actual } => {
                write!(f, " should be {expected}, not {actual}")
            }
            ArgumentFaultKind::NotListed { allowed } => write!(f, " should be one of {allowed}"),
            ArgumentFaultKind::Invalid { expected } => write!(f, " {expected}"),
        }
    }
}

impl std::error::Error for ArgumentFault {}

/// A compiled schema.
pub(super) struct ArgumentChecker {
    schema: Json,
    /// `None` if the schema cannot be compiled, for example because of an unsupported pattern. Then nothing is
    /// checked.
    validator: Option<Validator>,
}

impl fmt::Debug for ArgumentChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_ready = self.validator.is_some();
        f.debug_struct("ArgumentChecker").field("is_ready", &is_ready).finish_non_exhaustive()
    }
}

impl ArgumentChecker {
    pub(super) fn new(schema: &Payload) -> ArgumentChecker {
        let schema: Json = schema.decode().unwrap_or_default();
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(MAX_BACKTRACKS)
            .size_limit(MAX_PATTERN_BYTES);
        let options = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(patterns)
            .should_ignore_unknown_formats(true)
            .offline();
        let validator = options.build(&schema).ok();
        ArgumentChecker { schema, validator }
    }

    pub(super) fn faults(&self, arguments: &Json) -> Vec<ArgumentFault> {
        let Some(validator) = &self.validator else { return Vec::new() };
        let mut faults = Vec::new();
        for error in validator.iter_errors(arguments) {
            self.collect_faults(&error, &mut faults);
            if faults.len() >= MAX_FAULTS {
                break;
            }
        }
        faults.truncate(MAX_FAULTS);
        faults
    }

    fn collect_faults(&self, error: &ValidationError<'_>, faults: &mut Vec<ArgumentFault>) {
        let at = error.instance_path();
        let mut push = |at: String, kind| {
            let fault = ArgumentFault { at, kind };
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        };
        match error.kind() {
            // The schema is at fault, not the arguments. The server validates them again.
            ValidationErrorKind::BacktrackLimitExceeded { .. }
            | ValidationErrorKind::RegexEngineFailure { .. }
            | ValidationErrorKind::Referencing(_) => {}
            ValidationErrorKind::Required { property } => {
                let property = property.as_str().unwrap_or_default();
                push(display_path(at, Some(property)), ArgumentFaultKind::Missing);
            }
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                for name in unexpected {
                    let nearest = self.nearest(error.schema_path(), name);
                    push(display_path(at, Some(name)), ArgumentFaultKind::Unknown { nearest });
                }
            }
            ValidationErrorKind::Type { kind } => {
                let expected = expected_type(kind);
                let actual = JsonType::from(error.instance().as_ref()).as_str();
                push(display_path(at, None), ArgumentFaultKind::Type { expected, actual });
            }
            ValidationErrorKind::Enum { options } => {
                push(
                    display_path(at, None),
                    ArgumentFaultKind::NotListed { allowed: value_list(options) },
                );
            }
            ValidationErrorKind::Constant { expected_value } => {
                let allowed = value_list(expected_value);
                push(display_path(at, None), ArgumentFaultKind::NotListed { allowed });
            }
            ValidationErrorKind::AnyOf { context }
            | ValidationErrorKind::OneOfNotValid { context } => {
                self.collect_branch_faults(at, context, faults);
            }
            ValidationErrorKind::OneOfMultipleValid { .. } => {
                let expected = "matches several alternatives, but should match only one".to_owned();
                push(display_path(at, None), ArgumentFaultKind::Invalid { expected });
            }
            ValidationErrorKind::Not { .. } | ValidationErrorKind::FalseSchema => {
                let expected = "is not allowed".to_owned();
                push(display_path(at, None), ArgumentFaultKind::Invalid { expected });
            }
            kind @ (ValidationErrorKind::Minimum { .. }
            | ValidationErrorKind::Maximum { .. }
            | ValidationErrorKind::ExclusiveMinimum { .. }
            | ValidationErrorKind::ExclusiveMaximum { .. }
            | ValidationErrorKind::MinLength { .. }
            | ValidationErrorKind::MaxLength { .. }
            | ValidationErrorKind::MinItems { .. }
            | ValidationErrorKind::MaxItems { .. }
            | ValidationErrorKind::MinProperties { .. }
            | ValidationErrorKind::MaxProperties { .. }
            | ValidationErrorKind::UniqueItems
            | ValidationErrorKind::MultipleOf { .. }
            | ValidationErrorKind::Pattern { .. }
            | ValidationErrorKind::Format { .. }
            | ValidationErrorKind::AdditionalItems { .. }
            | ValidationErrorKind::UnevaluatedItems { .. }
            | ValidationErrorKind::Contains
            | ValidationErrorKind::ContentEncoding { .. }
            | ValidationErrorKind::ContentMediaType { .. }
            | ValidationErrorKind::FromUtf8 { .. }
            | ValidationErrorKind::PropertyNames { .. }
            | ValidationErrorKind::Custom { .. }) => {
                push(
                    display_path(at, None),
                    ArgumentFaultKind::Invalid { expected: violated_condition(kind) },
                );
            }
        }
    }

    /// Reports the faults of the alternative with the fewest errors, which was probably meant.
    fn collect_branch_faults(
        &self,
        at: &Location,
        branches: &[Vec<ValidationError<'static>>],
        faults: &mut Vec<ArgumentFault>,
    ) {
        let is_type = |error: &ValidationError<'_>| {
            error.instance_path() == at && matches!(error.kind(), ValidationErrorKind::Type { .. })
        };
        // Skip alternatives of another type, unless all are.
        let candidates = branches.iter().filter(|errors| !errors.iter().any(is_type));
        if let Some(errors) = candidates.min_by_key(|errors| errors.len()) {
            errors.iter().for_each(|error| self.collect_faults(error, faults));
            return;
        }
        let mut actual = "null";
        let mut types: Vec<String> = Vec::new();
        for error in branches.iter().flatten().filter(|error| is_type(error)) {
            actual = JsonType::from(error.instance().as_ref()).as_str();
            if let ValidationErrorKind::Type { kind } = error.kind() {
                types.push(expected_type(kind));
            }
        }
        types.dedup();
        let kind = ArgumentFaultKind::Type { expected: types.join(" or "), actual };
        faults.push(ArgumentFault { at: display_path(at, None), kind });
    }

    /// The argument that was probably meant.
    fn nearest(&self, keyword: &Location, name: &str) -> Option<String> {
        let (schema, _) = keyword.as_str().rsplit_once('/')?;
        let properties = self.schema.pointer(schema)?.get("properties")?.as_object()?;
        nearest(name, properties.keys().map(String::as_str)).map(str::to_owned)
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other kinds are described by their keyword")]
fn violated_condition(kind: &ValidationErrorKind) -> String {
    match kind {
        ValidationErrorKind::Minimum { limit } => {
            format!("should be at least {limit}")
        }
        ValidationErrorKind::Maximum { limit } => {
            format!("should be at most {limit}")
        }
        ValidationErrorKind::ExclusiveMinimum { limit } => {
            format!("should be more than {limit}")
        }
        ValidationErrorKind::ExclusiveMaximum { limit } => {
            format!("should be less than {limit}")
        }
        ValidationErrorKind::MinLength { limit } => {
            format!("should have at least {limit} characters")
        }
        ValidationErrorKind::MaxLength { limit } => {
            format!("should have at most {limit} characters")
        }
        ValidationErrorKind::MinItems { limit } => {
            format!("should have at least {limit} items")
        }
        ValidationErrorKind::MaxItems { limit } => {
            format!("should have at most {limit} items")
        }
        ValidationErrorKind::UniqueItems => "should have no duplicate items".to_owned(),
        ValidationErrorKind::MultipleOf { multiple_of } => {
            format!("should be a multiple of {multiple_of}")
        }
        ValidationErrorKind::Pattern { pattern } => {
            format!("should match `{}`", shortened(pattern))
        }
        ValidationErrorKind::Format { format } => {
            format!("should be in the format `{}`", shortened(format))
        }
        other => format!("does not satisfy `{}` of its schema", other.keyword()),
    }
}

fn expected_type(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(kind) => kind.as_str().to_owned(),
        TypeKind::Multiple(kinds) => {
            let kinds: Vec<&str> = kinds.iter().map(JsonType::as_str).collect();
            kinds.join(" or ")
        }
    }
}

fn value_list(values: &Json) -> String {
    let Some(values) = values.as_array() else { return shortened(&values.to_string()) };
    let values: Vec<String> = values.iter().map(Json::to_string).collect();
    shortened(&values.join(", "))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_LIST_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The path of an argument, as users write it.
fn display_path(at: &Location, last_name: Option<&str>) -> String {
    let mut text = String::new();
    let name = |text: &mut String, name: &str| {
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(&shortened(name));
    };
    for segment in at {
        match segment {
            LocationSegment::Property(property) => name(&mut text, &property),
            LocationSegment::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    if let Some(last_name) = last_name {
        name(&mut text, last_name);
    }
    text
}
