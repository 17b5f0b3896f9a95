//! Tells in one pass, and without building anything, whether a schema is fine as it came. Most are, and are then
//! shown byte for byte. A doubt is a no: the long way decides.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::dialect::TYPES;
use super::{MAX_DEPTH, is_argument_name};

/// Is there nothing to do, and nothing to refuse?
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

/// What a keyword's value must be for the schema to be plain.
#[derive(Clone, Copy)]
enum ExpectedValue {
    Type,
    Properties,
    Schema,
    Schemas,
    Combination,
    Texts,
    Text,
    Number,
    Count,
    Truth,
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
        "required" => ExpectedValue::Texts,
        "title" | "description" | "format" | "pattern" => ExpectedValue::Text,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => ExpectedValue::Number,
        "minLength" | "maxLength" | "minItems" | "maxItems" => ExpectedValue::Count,
        "uniqueItems" => ExpectedValue::Truth,
        "enum" | "examples" => ExpectedValue::Values,
        // Older drafts say the same in the keywords that are known here.
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
                ExpectedValue::Texts => map.next_value_seed(Texts)?,
                ExpectedValue::Text => map.next_value_seed(Scalar::Text)?,
                ExpectedValue::Number => map.next_value_seed(Scalar::Number)?,
                ExpectedValue::Count => map.next_value_seed(Scalar::Count)?,
                ExpectedValue::Truth => map.next_value_seed(Scalar::Truth)?,
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

/// A type, or several; is it an object and nothing else?
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
                Some(at) if !seen[at] => seen[at] = true,
                Some(_) | None => return Err(not_plain()),
            }
        }
        // At the root even an object among others is for the long way.
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

/// Texts, each of them once. Long lists are left to the long way.
struct Texts;

seed!(Texts, ());

impl<'de> Visitor<'de> for Texts {
    type Value = ();

    expecting!("texts");

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
    Truth,
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
        self.is(&[Scalar::Truth])
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
