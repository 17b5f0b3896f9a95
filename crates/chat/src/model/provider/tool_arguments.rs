//! Tool arguments as the text of JSON that model APIs carry them in.

use serde_json::{Map, Value as Json};

/// Arguments travel as a text that holds JSON. What was none goes back as it came.
pub(crate) fn arguments_to_text(arguments: &Json) -> String {
    arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned)
}

/// Arguments of a text; an object where it is empty, and the text itself where it is no JSON.
pub(crate) fn arguments_from_text(text: &str) -> Json {
    match text.trim() {
        "" => Json::Object(Map::new()),
        text => serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_owned())),
    }
}
