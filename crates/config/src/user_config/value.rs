//! Values of options: what counts as missing, which values fit an option, and how a value becomes text.

use serde_json::{Number, Value as Json};

use super::OptionProblemKind;
use super::option::{OptionKind, UserOption};

/// Is there no value? Zero and `false` are values; `null`, an empty text, an empty list and a list with an empty item are
/// not.
pub fn is_missing(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty() || items.iter().any(is_missing),
        Json::Bool(_) | Json::Number(_) | Json::Object(_) => false,
    }
}

/// Checks that a value fits its option. A missing one fits.
pub(super) fn check_value(option: &UserOption, value: &Json) -> Result<(), OptionProblemKind> {
    match value {
        Json::Null => Ok(()),
        Json::String(text) if text.is_empty() => Ok(()),
        Json::Array(_) if !option.multiple => Err(OptionProblemKind::OneValue),
        Json::Array(items) => items.iter().try_for_each(|item| check_one(option, item)),
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
            check_one(option, value)
        }
    }
}

fn check_one(option: &UserOption, value: &Json) -> Result<(), OptionProblemKind> {
    let expected = expected(option.kind);
    let fits = match option.kind {
        OptionKind::String | OptionKind::Directory | OptionKind::File => {
            value.as_str().is_some_and(|text| !text.contains('\0'))
        }
        OptionKind::Boolean => value.is_boolean(),
        OptionKind::Number => {
            let Some(number) = value.as_f64() else {
                return Err(OptionProblemKind::WrongType { expected });
            };
            return check_range(option, number);
        }
    };
    match fits {
        true => Ok(()),
        false => Err(OptionProblemKind::WrongType { expected }),
    }
}

fn expected(kind: OptionKind) -> &'static str {
    match kind {
        OptionKind::String => "text",
        OptionKind::Number => "a number",
        OptionKind::Boolean => "true or false",
        OptionKind::Directory => "the path of a folder",
        OptionKind::File => "the path of a file",
    }
}

fn check_range(option: &UserOption, number: f64) -> Result<(), OptionProblemKind> {
    let is_low = option.min.is_some_and(|min| number < min);
    let is_high = option.max.is_some_and(|max| number > max);
    if !is_low && !is_high {
        return Ok(());
    }
    Err(OptionProblemKind::OutOfRange(match (option.min, option.max) {
        (Some(min), Some(max)) => format!("a number from {min} to {max}"),
        (Some(min), None) => format!("a number of at least {min}"),
        (None, Some(max)) => format!("a number of at most {max}"),
        (None, None) => "a number".to_owned(),
    }))
}

/// The value that typed texts stand for.
pub(super) fn value_of_text(
    option: &UserOption,
    texts: &[String],
) -> Result<Json, OptionProblemKind> {
    let one = |text: &String| match option.kind {
        OptionKind::String | OptionKind::Directory | OptionKind::File => {
            Ok(Json::String(text.clone()))
        }
        OptionKind::Boolean => match text.as_str() {
            "true" => Ok(Json::Bool(true)),
            "false" => Ok(Json::Bool(false)),
            _ => Err(OptionProblemKind::WrongType { expected: expected(option.kind) }),
        },
        OptionKind::Number => serde_json::from_str::<Number>(text.trim())
            .map(Json::Number)
            .map_err(|_| OptionProblemKind::WrongType { expected: expected(option.kind) }),
    };
    let value = match texts {
        texts if option.multiple => Json::Array(texts.iter().map(one).collect::<Result<_, _>>()?),
        [text] => one(text)?,
        _ => return Err(OptionProblemKind::OneValue),
    };
    check_value(option, &value)?;
    Ok(value)
}

/// A number as decimal text, without an exponent and without a fraction that is zero.
pub(super) fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if !number.is_i64() && !number.is_u64() => float.to_string(),
        Some(_) | None => number.to_string(),
    }
}
