//! Values as JSON Schema sees them: types, equality and numbers. `1` and `1.0` are the same value and an integer.

use std::cmp::Ordering;
use std::fmt::Write;

use serde_json::{Map, Number, Value as Json};

use super::work::{Work, WorkLimitError};

/// The validated instance: a value, or the name of a member.
#[derive(Debug, Clone, Copy)]
pub(super) enum Instance<'a> {
    Value(&'a Json),
    Name(&'a str),
}

/// The identity of an instance during a check. Two names at the same address are the same text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum InstanceKey {
    Value(usize),
    Name(usize),
}

/// A type of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonKind {
    Array,
    Boolean,
    Integer,
    Null,
    Number,
    Object,
    String,
}

impl JsonKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            JsonKind::Array => "array",
            JsonKind::Boolean => "boolean",
            JsonKind::Integer => "integer",
            JsonKind::Null => "null",
            JsonKind::Number => "number",
            JsonKind::Object => "object",
            JsonKind::String => "string",
        }
    }

    pub(super) fn parse(name: &str) -> Option<JsonKind> {
        let all = [
            JsonKind::Array,
            JsonKind::Boolean,
            JsonKind::Integer,
            JsonKind::Null,
            JsonKind::Number,
            JsonKind::Object,
            JsonKind::String,
        ];
        all.into_iter().find(|it| it.name() == name)
    }
}

impl<'a> Instance<'a> {
    pub(super) fn key(self) -> InstanceKey {
        match self {
            Instance::Value(value) => InstanceKey::Value(std::ptr::from_ref(value).addr()),
            Instance::Name(name) => InstanceKey::Name(name.as_ptr().addr()),
        }
    }

    /// Whether the instance is of a type. An integer is also a number.
    pub(super) fn is_a(self, kind: JsonKind) -> bool {
        match (self, kind) {
            (Instance::Name(_), kind) => kind == JsonKind::String,
            (Instance::Value(Json::Number(number)), JsonKind::Integer) => is_integer(number),
            (Instance::Value(value), kind) => match value {
                Json::Null => kind == JsonKind::Null,
                Json::Bool(_) => kind == JsonKind::Boolean,
                Json::Number(_) => kind == JsonKind::Number,
                Json::String(_) => kind == JsonKind::String,
                Json::Array(_) => kind == JsonKind::Array,
                Json::Object(_) => kind == JsonKind::Object,
            },
        }
    }

    /// The type, as it is told to users.
    pub(super) fn kind_name(self) -> &'static str {
        let kind = match self {
            Instance::Name(_) | Instance::Value(Json::String(_)) => JsonKind::String,
            Instance::Value(Json::Null) => JsonKind::Null,
            Instance::Value(Json::Bool(_)) => JsonKind::Boolean,
            Instance::Value(Json::Number(_)) => JsonKind::Number,
            Instance::Value(Json::Array(_)) => JsonKind::Array,
            Instance::Value(Json::Object(_)) => JsonKind::Object,
        };
        kind.name()
    }

    pub(super) fn text(self) -> Option<&'a str> {
        match self {
            Instance::Value(value) => value.as_str(),
            Instance::Name(name) => Some(name),
        }
    }

    pub(super) fn number(self) -> Option<&'a Number> {
        self.value().and_then(Json::as_number)
    }

    pub(super) fn items(self) -> Option<&'a [Json]> {
        self.value().and_then(Json::as_array).map(Vec::as_slice)
    }

    pub(super) fn members(self) -> Option<&'a Map<String, Json>> {
        self.value().and_then(Json::as_object)
    }

    fn value(self) -> Option<&'a Json> {
        match self {
            Instance::Value(value) => Some(value),
            Instance::Name(_) => None,
        }
    }

    /// A text that is the same for equal values only.
    pub(super) fn canonical(self, work: &mut Work) -> Result<String, WorkLimitError> {
        let mut text = String::new();
        match self {
            Instance::Value(value) => write_canonical(value, &mut text, work)?,
            Instance::Name(name) => write_text(name, &mut text, work)?,
        }
        Ok(text)
    }
}

fn write_canonical(value: &Json, text: &mut String, work: &mut Work) -> Result<(), WorkLimitError> {
    work.enter()?;
    match value {
        Json::Null => text.push('n'),
        Json::Bool(true) => text.push('t'),
        Json::Bool(false) => text.push('f'),
        Json::Number(number) => write_number(number, text),
        Json::String(string) => write_text(string, text, work)?,
        Json::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(item, text, work)?;
            }
            text.push(']');
        }
        Json::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            // Sorting compares each name with some others.
            work.spend(u64::try_from(names.len() / 4).unwrap_or(u64::MAX))?;
            names.sort_unstable();
            text.push('{');
            for name in names {
                write_text(name, text, work)?;
                write_canonical(&members[name], text, work)?;
            }
            text.push('}');
        }
    }
    work.leave();
    Ok(())
}

/// The length goes first, so that no text can look like another value.
fn write_text(string: &str, text: &mut String, work: &mut Work) -> Result<(), WorkLimitError> {
    work.spend_on_text(string)?;
    let _infallible = write!(text, "s{}:{string}", string.len());
    Ok(())
}

fn write_number(number: &Number, text: &mut String) {
    let _infallible = match (as_integer(number), number.as_f64()) {
        (Some(integer), _) => write!(text, "#{integer};"),
        (None, Some(float)) => write!(text, "#{float:e};"),
        (None, None) => write!(text, "#{number};"),
    };
}

fn is_integer(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|it| it.fract() == 0.0)
}

/// The number as an integer, where it is one and not far beyond 64 bits.
fn as_integer(number: &Number) -> Option<i128> {
    /// Every integral float below this is exact in 128 bits.
    const MAX_FLOAT: f64 = 1e30;
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and is within bounds")]
    let from_float = |it: f64| (it.fract() == 0.0 && it.abs() < MAX_FLOAT).then_some(it as i128);
    integer.or_else(|| number.as_f64().and_then(from_float))
}

/// Compares two numbers exactly.
pub(super) fn compare(left: &Number, right: &Number) -> Ordering {
    match (as_integer(left), as_integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(integer), None) => compare_to_float(integer, right),
        (None, Some(integer)) => compare_to_float(integer, left).reverse(),
        (None, None) => {
            let (left, right) = (left.as_f64(), right.as_f64());
            left.partial_cmp(&right).unwrap_or(Ordering::Equal)
        }
    }
}

/// The float has a fraction or is far larger than any integer.
fn compare_to_float(integer: i128, float: &Number) -> Ordering {
    let float = float.as_f64().unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "casts to integers saturate")]
    let by_floor = integer.cmp(&(float.floor() as i128));
    let has_fraction = float.fract() != 0.0;
    by_floor.then(if has_fraction { Ordering::Less } else { Ordering::Equal })
}

/// Whether a number is a multiple of another, in decimal: 0.3 is a multiple of 0.1.
pub(super) fn is_multiple_of(number: &Number, divisor: &Number) -> bool {
    exact_remainder_is_zero(number, divisor).unwrap_or_else(|| {
        let quotient = number.as_f64().unwrap_or_default() / divisor.as_f64().unwrap_or(1.0);
        quotient.fract() == 0.0
    })
}

/// `None` if the calculation exceeds 128 bits.
fn exact_remainder_is_zero(number: &Number, divisor: &Number) -> Option<bool> {
    let (number, exponent) = decimal(number)?;
    let (divisor, divisor_exponent) = decimal(divisor)?;
    let scale = |it: i128, digits: i32| {
        let power = 10_i128.checked_pow(u32::try_from(digits).ok()?)?;
        it.checked_mul(power)
    };
    let difference = exponent.checked_sub(divisor_exponent)?;
    let remainder = match difference >= 0 {
        true => scale(number, difference)?.checked_rem(divisor)?,
        false => number.checked_rem(scale(divisor, -difference)?)?,
    };
    Some(remainder == 0)
}

/// The digits of a number and the power of ten that they are multiplied by.
fn decimal(number: &Number) -> Option<(i128, i32)> {
    let text = number.to_string();
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let exponent: i32 = exponent.parse().ok()?;
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn number(value: &Json) -> &Number {
        value.as_number().expect("a number")
    }

    #[test]
    fn equal_values_have_the_same_canonical_text_and_others_have_not() {
        let canonical = |value: &Json| {
            Instance::Value(value).canonical(&mut Work::limited_to(1000)).expect("few steps")
        };
        for (left, right) in [
            (json!(1), json!(1.0)),
            (json!(-0.0), json!(0)),
            (json!({"a": 1, "b": [2]}), json!({"b": [2.0], "a": 1})),
        ] {
            assert_eq!(canonical(&left), canonical(&right));
        }
        for (left, right) in [
            (json!(1), json!("1")),
            (json!(1), json!(true)),
            (json!([1, 2]), json!([12])),
            (json!(["a", "b"]), json!(["as1:b"])),
            (json!({}), json!([])),
            (json!(0.1), json!(0.2)),
            (json!(u64::MAX), json!(u64::MAX - 1)),
        ] {
            assert_ne!(canonical(&left), canonical(&right));
        }
        assert_eq!(canonical(&json!("n")), {
            Instance::Name("n").canonical(&mut Work::limited_to(9)).expect("few steps")
        });
    }

    #[test]
    fn numbers_are_compared_exactly() {
        for (left, right, ordering) in [
            (json!(1), json!(1.0), Ordering::Equal),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0), Ordering::Greater),
            (json!(-3), json!(-2.5), Ordering::Less),
            (json!(u64::MAX), json!(1e300), Ordering::Less),
            (json!(i64::MIN), json!(-1e300), Ordering::Greater),
            (json!(0.1), json!(0.2), Ordering::Less),
        ] {
            assert_eq!(compare(number(&left), number(&right)), ordering, "{left} {right}");
            assert_eq!(compare(number(&right), number(&left)), ordering.reverse());
        }
    }

    #[test]
    fn multiples_are_decimal() {
        for (value, divisor, expected) in [
            (json!(0.3), json!(0.1), true),
            (json!(19.99), json!(0.01), true),
            (json!(7), json!(2), false),
            (json!(7.5), json!(2.5), true),
            (json!(1e30), json!(10), true),
            (json!(0.35), json!(0.1), false),
            (json!(1e-7), json!(1e-8), true),
        ] {
            assert_eq!(
                is_multiple_of(number(&value), number(&divisor)),
                expected,
                "{value} {divisor}"
            );
        }
    }
}
