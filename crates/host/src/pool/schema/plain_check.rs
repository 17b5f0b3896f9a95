//! Checks in one pass, without allocation, whether a schema needs no normalisation. Most do not and are shown byte
//! for byte. In doubt the answer is no, and the full normalisation decides.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::dialect::TYPES;
use super::{MAX_DEPTH, is_argument_name};

/// Whether the schema needs no change and no rejection.
pub(crate) fn is_plain(text: &str) -> bool {
    let mut reader = serde_json::Deserializer::from_str(text);
    let root = Schema { level: SchemaLevel::Root, depth: 1 };
    root.deserialize(&mut reader).is_ok() && reader.end().is_ok()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaLevel {
    Root,
    Below,
}

/// The kind of value that a plain schema has for a keyword.
#[derive(Clone, Copy)]
enum ExpectedValue {
    Type,
    Properties,
    Schema,
    Schemas,
    Combination,
    UniqueStrings,
    Text,
    Number,
    Count,
    Boolean,
    Values,
    Anything,
    Unknown,
}

fn expected_value(keyword: &str) -> ExpectedValue {
    match keyword {
        "type" => ExpectedValue::Type,
        "properties" => ExpectedValue::Properties,
        "items" | "additionalProperties" | "contains" | "propertyNames" => ExpectedValue::Schema,
        "anyOf" | "oneOf" | "allOf" => ExpectedValue::Combination,
        "prefixItems" => ExpectedValue::Schemas,
        "required" => ExpectedValue::UniqueStrings,
        "title" | "description" | "format" | "pattern" => ExpectedValue::Text,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => ExpectedValue::Number,
        "minLength" | "maxLength" | "minItems" | "maxItems" => ExpectedValue::Count,
        "uniqueItems" => ExpectedValue::Boolean,
        "enum" | "examples" => ExpectedValue::Values,
        // Older drafts write these the same way.
        "$schema" | "default" | "const" | "nullable" | "x-mcp-header" => ExpectedValue::Anything,
        _ => ExpectedValue::Unknown,
    }
}

fn not_plain<E: Error>() -> E {
    E::custom("not plain")
}

macro_rules! seed {
    ($seed:ty, $value:ty) => {
        impl<'de> DeserializeSeed<'de> for $seed {
            type Value = $value;

            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<$value, D::Error> {
                from.deserialize_any(self)
            }
        }
    };
}

macro_rules! expecting {
    ($what:literal) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str($what)
        }
    };
}

struct Schema {
    level: SchemaLevel,
    depth: usize,
}

seed!(Schema, ());

impl<'de> Visitor<'de> for Schema {
    type Value = ();

    expecting!("a schema");

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        match self.level {
            SchemaLevel::Root => Err(not_plain()),
            SchemaLevel::Below => Ok(()),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.depth > MAX_DEPTH {
            return Err(not_plain());
        }
        let (mut is_object, mut has_properties) = (false, false);
        while let Some(expected) = map.next_key_seed(Keyword)? {
            let child = || Schema { level: SchemaLevel::Below, depth: self.depth + 1 };
            match expected {
                ExpectedValue::Type => is_object = map.next_value_seed(Type)?,
                ExpectedValue::Properties => {
                    has_properties = true;
                    map.next_value_seed(Properties { level: self.level, depth: self.depth + 1 })?;
                }
                ExpectedValue::Schema => map.next_value_seed(child())?,
                ExpectedValue::Combination if self.level == SchemaLevel::Root => {
                    return Err(not_plain());
                }
                ExpectedValue::Combination | ExpectedValue::Schemas => {
                    map.next_value_seed(Schemas { depth: self.depth + 1 })?;
                }
                ExpectedValue::UniqueStrings => map.next_value_seed(UniqueStrings)?,
                ExpectedValue::Text => map.next_value_seed(Scalar::Text)?,
                ExpectedValue::Number => map.next_value_seed(Scalar::Number)?,
                ExpectedValue::Count => map.next_value_seed(Scalar::Count)?,
                ExpectedValue::Boolean => map.next_value_seed(Scalar::Boolean)?,
                ExpectedValue::Values => drop(map.next_value::<Vec<IgnoredAny>>()?),
                ExpectedValue::Anything => drop(map.next_value::<IgnoredAny>()?),
                ExpectedValue::Unknown => return Err(not_plain()),
            }
        }
        match self.level == SchemaLevel::Below || (is_object && has_properties) {
            true => Ok(()),
            false => Err(not_plain()),
        }
    }
}

struct Keyword;

impl<'de> DeserializeSeed<'de> for Keyword {
    type Value = ExpectedValue;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<ExpectedValue, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Keyword {
    type Value = ExpectedValue;

    expecting!("a keyword");

    fn visit_str<E: Error>(self, keyword: &str) -> Result<ExpectedValue, E> {
        Ok(expected_value(keyword))
    }
}

/// A type or a list of types; returns whether it is exactly `object`.
struct Type;

seed!(Type, bool);

impl<'de> Visitor<'de> for Type {
    type Value = bool;

    expecting!("a type");

    fn visit_str<E: Error>(self, kind: &str) -> Result<bool, E> {
        match TYPES.contains(&kind) {
            true => Ok(kind == "object"),
            false => Err(not_plain()),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut kinds: A) -> Result<bool, A::Error> {
        let mut seen = [false; TYPES.len()];
        while let Some(kind) = kinds.next_element::<&'de str>()? {
            match TYPES.iter().position(|it| *it == kind) {
                Some(index) if !seen[index] => seen[index] = true,
                Some(_) | None => return Err(not_plain()),
            }
        }
        // At the root, a list that includes `object` needs the full normalisation.
        if seen.contains(&true) { Ok(false) } else { Err(not_plain()) }
    }
}

struct Properties {
    level: SchemaLevel,
    depth: usize,
}

seed!(Properties, ());

impl<'de> Visitor<'de> for Properties {
    type Value = ();

    expecting!("properties");

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(Name(self.level))?.is_some() {
            map.next_value_seed(Schema { level: SchemaLevel::Below, depth: self.depth + 1 })?;
        }
        Ok(())
    }
}

struct Name(SchemaLevel);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = ();

    expecting!("a property's name");

    fn visit_str<E: Error>(self, name: &str) -> Result<(), E> {
        match self.0 == SchemaLevel::Below || is_argument_name(name) {
            true => Ok(()),
            false => Err(not_plain()),
        }
    }
}

struct Schemas {
    depth: usize,
}

seed!(Schemas, ());

impl<'de> Visitor<'de> for Schemas {
    type Value = ();

    expecting!("schemas");

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        let child = || Schema { level: SchemaLevel::Below, depth: self.depth + 1 };
        let mut count = 0;
        while all.next_element_seed(child())?.is_some() {
            count += 1;
        }
        if count > 0 { Ok(()) } else { Err(not_plain()) }
    }
}

/// Unique strings. Longer lists need the full normalisation.
struct UniqueStrings;

seed!(UniqueStrings, ());

impl<'de> Visitor<'de> for UniqueStrings {
    type Value = ();

    expecting!("unique strings");

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        let mut seen: [&str; 16] = [""; 16];
        let mut count = 0;
        while let Some(text) = all.next_element::<&'de str>()? {
            if count == seen.len() || seen[..count].contains(&text) {
                return Err(not_plain());
            }
            seen[count] = text;
            count += 1;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scalar {
    Text,
    Number,
    Count,
    Boolean,
}

impl Scalar {
    fn is<E: Error>(self, allowed: &[Scalar]) -> Result<(), E> {
        if allowed.contains(&self) { Ok(()) } else { Err(not_plain()) }
    }
}

seed!(Scalar, ());

impl Visitor<'_> for Scalar {
    type Value = ();

    expecting!("a plain value");

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.is(&[Scalar::Text])
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.is(&[Scalar::Boolean])
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.is(&[Scalar::Number, Scalar::Count])
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.is(&[Scalar::Number])
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.is(&[Scalar::Number])
    }
}
