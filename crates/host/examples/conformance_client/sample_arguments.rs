//! Builds arguments from a schema: the default, the first choice, or the smallest value of the type.

use serde_json::{Map, Value as Json, json};

/// The maximum depth.
const MAX_DEPTH: usize = 8;

/// Builds arguments for the tools of one server.
#[derive(Debug)]
pub struct Samples {
    definitions: Vec<Json>,
}

impl Samples {
    /// From the tools as listed by the server.
    pub fn new(definitions: impl Iterator<Item = Json>) -> Samples {
        Samples { definitions: definitions.collect() }
    }

    /// Arguments for a tool: all required ones.
    pub fn for_tool(&self, name: &str) -> Json {
        let tool = self.definitions.iter().find(|it| it["name"] == name);
        self.object(tool.map_or(&Json::Null, |it| &it["inputSchema"]), name, MAX_DEPTH)
    }

    fn object(&self, schema: &Json, tool: &str, depth: usize) -> Json {
        let required = schema["required"].as_array().into_iter().flatten();
        let mut made = Map::new();
        for name in required.filter_map(Json::as_str) {
            let value = match name {
                // A tool that takes a schema gets a real one: that of another tool.
                "schema" => self.schema_of_another(tool),
                _ => None,
            };
            let property = &schema["properties"][name];
            let value = value.unwrap_or_else(|| self.value(property, tool, depth));
            made.insert(name.to_owned(), value);
        }
        Json::Object(made)
    }

    fn schema_of_another(&self, tool: &str) -> Option<Json> {
        let another = self.definitions.iter().find(|it| it["name"] != tool)?;
        another.get("inputSchema").cloned()
    }

    fn value(&self, schema: &Json, tool: &str, depth: usize) -> Json {
        if let Some(value) = schema.get("default").or_else(|| schema.get("const")) {
            return value.clone();
        }
        if let Some(first) = schema["enum"].as_array().and_then(|choices| choices.first()) {
            return first.clone();
        }
        let kind = match schema["type"].as_array() {
            Some(kinds) => kinds.first().and_then(Json::as_str),
            None => schema["type"].as_str(),
        };
        match kind {
            Some("integer") => json!(schema["minimum"].as_i64().unwrap_or(1)),
            Some("number") => json!(schema["minimum"].as_f64().unwrap_or(1.5)),
            Some("boolean") => json!(true),
            Some("null") => Json::Null,
            Some("array") => json!([]),
            Some("object") if depth > 0 => self.object(schema, tool, depth - 1),
            Some("object") => json!({}),
            Some(_) | None => json!("sample"),
        }
    }
}

/// Arguments for a prompt: all of them, since they are strings.
pub fn for_prompt(definition: &Json) -> Json {
    let arguments = definition["arguments"].as_array().into_iter().flatten();
    let names = arguments.filter_map(|it| it["name"].as_str());
    Json::Object(names.map(|name| (name.to_owned(), json!("sample"))).collect())
}
