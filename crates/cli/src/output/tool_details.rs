//! One tool in full: its description, its arguments and its annotations.

use serde_json::{Map, Value as Json};
use switchboard::config::display::printable;
use switchboard::pool::{Pool, Tool};

use crate::env::ProcessEnv;
use crate::output::entry_text::DetailsText;
use crate::output::table;
use crate::output::table::{Cell, Truncate};
use crate::output::tool_table;

/// The most arguments that the text lists.
const MAX_ARGUMENTS: usize = 200;

/// The tool as text.
pub fn as_text(env: &ProcessEnv, tool: &Tool) -> String {
    let mut details = DetailsText::new(&printable(&tool.exposed_name));
    if let Some(title) = &tool.title {
        details.line("Title", &printable(title));
    }
    if !tool.is_built_in() {
        details.line("Server", &printable(&tool.server));
        details.line("Tool", &printable(&tool.name));
    }
    let annotations = &tool.annotations;
    let kind = match (annotations.read_only, annotations.destructive) {
        (true, _) => "read-only",
        (false, false) => "writes",
        (false, true) => "destructive",
    };
    details.line("Kind", kind);
    for flag in tool.flags() {
        details.line("Warning", &printable(&flag.to_string()));
    }
    let mut text = details.text;
    text.push('\n');
    text.extend(tool.description.lines().map(|line| printable(line) + "\n"));
    text.push_str(&arguments_text(env, tool));
    text
}

/// The tool as JSON: what `swb tools` prints, and the output schema.
pub fn as_json(pool: &Pool, tool: &Tool) -> Json {
    let mut json = tool_table::tool_json(pool, tool);
    json["outputSchema"] =
        tool.output_schema.as_ref().and_then(|it| it.decode::<Json>().ok()).unwrap_or_default();
    json
}

fn arguments_text(env: &ProcessEnv, tool: &Tool) -> String {
    let schema: Json = tool.input_schema.decode().unwrap_or_default();
    let no_properties = Map::new();
    let properties = schema.get("properties").and_then(Json::as_object).unwrap_or(&no_properties);
    if properties.is_empty() {
        return "\nNo arguments are described.\n".to_owned();
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    let row = |(name, property): (&String, &Json)| {
        let is_required = required.contains(&name.as_str());
        let about = property.get("description").and_then(Json::as_str).unwrap_or_default();
        vec![
            Cell::plain(printable(name)),
            Cell::plain(printable(&type_text(property))),
            Cell::plain(if is_required { "required" } else { "" }),
            Cell::plain(printable(about.lines().next().unwrap_or_default())),
        ]
    };
    let rows: Vec<Vec<Cell>> = properties.iter().take(MAX_ARGUMENTS).map(row).collect();
    let header = ["ARGUMENT", "TYPE", "", "ABOUT"];
    let table = table::render(&header, &rows, env.terminal.width, &[Truncate::End(3)]);
    match properties.len().saturating_sub(MAX_ARGUMENTS) {
        0 => format!("\n{table}"),
        more => format!("\n{table}… and {more} more\n"),
    }
}

/// The types or the values that a schema allows, in a few words.
fn type_text(schema: &Json) -> String {
    const MAX_VALUES: usize = 5;
    let words = |values: &[Json]| {
        let shown: Vec<String> = values.iter().take(MAX_VALUES).map(plain_text).collect();
        match values.len() > MAX_VALUES {
            true => format!("{}, …", shown.join(", ")),
            false => shown.join(", "),
        }
    };
    if let Some(values) = schema.get("enum").and_then(Json::as_array) {
        return format!("one of {}", words(values));
    }
    match schema.get("type") {
        Some(Json::String(only)) => only.clone(),
        Some(Json::Array(several)) => words(several).replace(", ", " or "),
        Some(_) | None => {
            let alternatives = ["anyOf", "oneOf"].iter().find_map(|it| schema.get(*it)?.as_array());
            let alternatives = alternatives.into_iter().flatten().take(MAX_VALUES);
            let types: Vec<String> =
                alternatives.filter_map(|it| it.get("type")).map(plain_text).collect();
            match types.is_empty() {
                true => "any".to_owned(),
                false => types.join(" or "),
            }
        }
    }
}

fn plain_text(value: &Json) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    }
}
