//! The calls inside a call of a batch tool. The tool's definition says where they are, so rules see each of them as a call of
//! its own. A definition can only add checks this way, never avoid one.

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::pool::naming::sanitise_borrowed;
use crate::pool::tool::Tool;

/// The key in `_meta` of a definition.
const META_KEY: &str = "switchboard/batch";

/// One call inside another one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BatchItem {
    /// The name of the tool, as rules have it.
    pub(super) tool: String,
    pub(super) arguments: Json,
}

#[derive(Deserialize)]
struct Definition<'a> {
    #[serde(rename = "_meta", borrow)]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(rename = "switchboard/batch", borrow)]
    batch: Option<BatchPlace<'a>>,
}

/// The names of the members that describe the calls.
#[derive(Deserialize)]
struct BatchPlace<'a> {
    #[serde(borrow)]
    list: Cow<'a, str>,
    #[serde(borrow)]
    tool: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Cow<'a, str>,
}

/// The calls inside a call; none for tools that are no batch.
pub(super) fn batch_items(tool: &Tool, arguments: &Json) -> Vec<BatchItem> {
    let raw = tool.raw.as_bytes();
    if memmem::find(raw, META_KEY.as_bytes()).is_none() {
        return Vec::new();
    }
    let definition: Option<Definition<'_>> = serde_json::from_slice(raw).ok();
    let Some(place) = definition.and_then(|it| it.meta).and_then(|it| it.batch) else {
        return Vec::new();
    };
    items_at(&place, arguments)
}

fn items_at(place: &BatchPlace<'_>, arguments: &Json) -> Vec<BatchItem> {
    let list = arguments.get(&*place.list).and_then(Json::as_array);
    let item = |it: &Json| {
        let tool = it.get(&*place.tool)?.as_str()?;
        let arguments = it.get(&*place.arguments).cloned();
        let arguments = arguments.unwrap_or_else(|| Json::Object(Map::new()));
        Some(BatchItem { tool: sanitise_borrowed(tool).into_owned(), arguments })
    };
    list.into_iter().flatten().filter_map(item).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_step_is_a_call_with_its_own_arguments() {
        let place =
            BatchPlace { list: "steps".into(), tool: "tool".into(), arguments: "arguments".into() };
        let arguments = json!({"steps": [
            {"tool": "click", "arguments": {"ref": "e1"}},
            {"tool": "screenshot"},
            {"no": "tool"},
            {"tool": 7},
        ]});
        let item = |tool: &str, arguments| BatchItem { tool: tool.to_owned(), arguments };
        assert_eq!(
            items_at(&place, &arguments),
            [item("click", json!({"ref": "e1"})), item("screenshot", json!({}))]
        );
        assert_eq!(items_at(&place, &json!({"steps": 1})), []);
    }
}
