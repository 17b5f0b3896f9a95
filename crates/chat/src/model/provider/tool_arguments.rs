//! Tool arguments as JSON text, which is how model APIs carry them.

use serde_json::{Map, Value as Json};

/// Arguments as JSON text. A string is returned as it is: it is text that was not valid JSON.
pub(crate) fn arguments_to_text(arguments: &Json) -> String {
    arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned)
}

/// Parses arguments: an empty object for an empty text, a string for a text that is not JSON.
pub(crate) fn arguments_from_text(text: &str) -> Json {
    match text.trim() {
        "" => Json::Object(Map::new()),
        text => serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_owned())),
    }
}
