//! Tool arguments that are repeated in headers (`x-mcp-header`), so that proxies can route without reading bodies.

use http::{HeaderMap, HeaderName};
use serde_json::Value as Json;
use thiserror::Error;

use super::headers::{decode_header_value, encode_header_value, header_mismatch};
use crate::jsonrpc::message::{Payload, RpcError};

const ANNOTATION: &str = "x-mcp-header";

/// The annotated arguments of a tool, each with its path and header name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParamHeaders(Vec<(Vec<String>, HeaderName)>);

/// Why the annotations of a tool are invalid. The tool must not be used then.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParamHeaderError {
    /// The annotation is not on a property that is reached through `properties` alone.
    #[error("`x-mcp-header` is not on an argument")]
    Misplaced,
    /// The annotation is not a valid header name.
    #[error("`x-mcp-header` of `{property}` is not a header name")]
    InvalidName {
        /// The property.
        property: String,
    },
    /// Two properties use the same header.
    #[error("`x-mcp-header` of `{property}` is used by another argument")]
    Duplicate {
        /// The second property.
        property: String,
    },
    /// The property is not a string, integer or boolean.
    #[error("`x-mcp-header` of `{property}`, which is not a string, integer or boolean")]
    NotPrimitive {
        /// The property.
        property: String,
    },
}

impl ParamHeaders {
    /// Reads the annotations in a tool's input schema.
    pub fn from_schema(schema: &Json) -> Result<ParamHeaders, ParamHeaderError> {
        if !is_annotated(schema) {
            return Ok(ParamHeaders::default());
        }
        let mut param_headers = ParamHeaders::default();
        let mut seen = 0;
        param_headers.collect(schema, &mut Vec::new(), &mut seen)?;
        // Every annotation in the schema must be one that `collect` found on a property.
        match seen == count_annotations(schema) {
            true => Ok(param_headers),
            false => Err(ParamHeaderError::Misplaced),
        }
    }

    /// Whether no argument is repeated.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn collect(
        &mut self,
        schema: &Json,
        path: &mut Vec<String>,
        seen: &mut usize,
    ) -> Result<(), ParamHeaderError> {
        let Some(properties) = schema.get("properties").and_then(Json::as_object) else {
            return Ok(());
        };
        for (name, property) in properties {
            path.push(name.clone());
            if let Some(annotation) = property.get(ANNOTATION) {
                *seen += 1;
                self.add(annotation, property, path)?;
            }
            self.collect(property, path, seen)?;
            path.pop();
        }
        Ok(())
    }

    fn add(&mut self, name: &Json, schema: &Json, path: &[String]) -> Result<(), ParamHeaderError> {
        let property = path.join(".");
        // The complete header name is checked: the part after the prefix may be any token.
        let name = name.as_str().filter(|name| !name.is_empty());
        let header = name.and_then(|name| format!("mcp-param-{name}").parse::<HeaderName>().ok());
        let Some(header) = header else { return Err(ParamHeaderError::InvalidName { property }) };
        if self.0.iter().any(|(_, other)| *other == header) {
            return Err(ParamHeaderError::Duplicate { property });
        }
        match schema.get("type").and_then(Json::as_str) {
            Some("string" | "integer" | "boolean") => {}
            Some(_) | None => return Err(ParamHeaderError::NotPrimitive { property }),
        }
        self.0.push((path.to_vec(), header));
        Ok(())
    }

    /// Checks that the headers of a call match its arguments.
    pub fn check(&self, arguments: &Payload, headers: &HeaderMap) -> Result<(), RpcError> {
        let expected = self.headers(arguments);
        for (_, name) in &self.0 {
            let mut values = headers.get_all(name).iter();
            let (received, more) = (values.next().map(decode_header_value), values.next());
            let expected_value = expected.get(name).map(decode_header_value);
            if received != expected_value || received == Some(None) || more.is_some() {
                return Err(header_mismatch(name));
            }
        }
        Ok(())
    }

    /// The headers for a call with these arguments. Absent and null arguments have none.
    pub fn headers(&self, arguments: &Payload) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.0.is_empty() {
            return headers;
        }
        let Ok(arguments) = arguments.decode::<Json>() else { return headers };
        for (path, name) in &self.0 {
            let found = path.iter().try_fold(&arguments, |at, step| at.get(step));
            let text = match found {
                Some(Json::String(text)) => text.clone(),
                Some(Json::Bool(truth)) => truth.to_string(),
                Some(Json::Number(number)) => number.to_string(),
                Some(Json::Null | Json::Array(_) | Json::Object(_)) | None => continue,
            };
            headers.insert(name, encode_header_value(&text));
        }
        headers
    }
}

/// Counts annotations anywhere except in sample data.
fn count_annotations(schema: &Json) -> usize {
    match schema {
        Json::Object(map) => map
            .iter()
            .map(|(name, value)| match name.as_str() {
                ANNOTATION => 1,
                "default" | "const" | "enum" | "examples" => 0,
                "properties" => {
                    // A property may have the same name as the annotation.
                    value
                        .as_object()
                        .into_iter()
                        .flatten()
                        .map(|(_, it)| count_annotations(it))
                        .sum()
                }
                _ => count_annotations(value),
            })
            .sum(),
        Json::Array(items) => items.iter().map(count_annotations).sum(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => 0,
    }
}

fn is_annotated(schema: &Json) -> bool {
    count_annotations(schema) > 0
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn object(properties: &Json) -> Json {
        json!({"type": "object", "properties": properties})
    }

    fn headers(schema: &Json, arguments: &Json) -> Vec<(String, String)> {
        let param_headers = ParamHeaders::from_schema(schema).expect("valid annotations");
        let headers = param_headers.headers(&Payload::encode(arguments).expect("JSON"));
        let text = |value: &HeaderValue| value.to_str().expect("text").to_owned();
        headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    }

    #[test]
    fn annotated_arguments_become_headers() {
        let schema = object(&json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "on": {"type": "boolean", "x-mcp-header": "On"},
            "plain": {"type": "string"},
        }));
        let given = json!({"region": "eu", "deep": {"n": 7}, "on": null, "plain": "x"});
        assert_eq!(
            headers(&schema, &given),
            [("mcp-param-region".into(), "eu".into()), ("mcp-param-n".into(), "7".into())]
        );
    }

    #[test]
    fn values_that_are_not_valid_headers_are_base64_encoded() {
        let schema = object(&json!({"v": {"type": "string", "x-mcp-header": "V"}}));
        for (value, expected) in [
            ("a b", "a b"),
            ("", ""),
            (" a", "=?base64?IGE=?="),
            ("é", "=?base64?w6k=?="),
            ("a\nb", "=?base64?YQpi?="),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ] {
            let found = headers(&schema, &json!({"v": value}));
            assert_eq!(found, [("mcp-param-v".to_owned(), expected.to_owned())], "{value}");
        }
    }

    #[test]
    fn invalid_annotations_are_errors() {
        let of = |properties: Json| {
            ParamHeaders::from_schema(&object(&properties)).expect_err("it is wrong")
        };
        let property = || "a".to_owned();
        let with = |kind: &str, name: Json| json!({"a": {"type": kind, "x-mcp-header": name}});
        assert_eq!(
            of(with("string", json!(""))),
            ParamHeaderError::InvalidName { property: property() }
        );
        assert_eq!(
            of(with("string", json!("a b"))),
            ParamHeaderError::InvalidName { property: property() }
        );
        assert_eq!(
            of(with("string", json!(5))),
            ParamHeaderError::InvalidName { property: property() }
        );
        assert_eq!(
            of(with("number", json!("A"))),
            ParamHeaderError::NotPrimitive { property: property() }
        );
        let twice = json!({
            "a": {"type": "string", "x-mcp-header": "X"}, "b": {"type": "string", "x-mcp-header": "x"}
        });
        assert_eq!(of(twice), ParamHeaderError::Duplicate { property: "b".to_owned() });
        let in_a_list = json!({
            "a": {"type": "array", "items": {"type": "string", "x-mcp-header": "X"}}
        });
        assert_eq!(of(in_a_list), ParamHeaderError::Misplaced);
        let at_the_root = json!({"type": "object", "x-mcp-header": "X", "properties": {}});
        assert_eq!(ParamHeaders::from_schema(&at_the_root), Err(ParamHeaderError::Misplaced));
    }

    #[test]
    fn sample_data_and_property_names_are_not_annotations() {
        let schema = object(&json!({
            "x-mcp-header": {"type": "string", "default": {"x-mcp-header": "no"}},
        }));
        assert_eq!(ParamHeaders::from_schema(&schema), Ok(ParamHeaders::default()));
    }
}
