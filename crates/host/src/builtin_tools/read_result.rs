//! `ReadMcpResult`: reads the rest of a truncated result, page by page.

use std::num::NonZeroU64;

use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message::Payload;

use super::{BuiltinCall, MAX_CHARACTERS, error_result, str_argument, text_result};
use crate::pool::tool::Tool;
use crate::tool_result::note::READ_RESULT;
use crate::tool_result::spill::{ResultId, SpillStore};
use crate::tool_result::{LineRange, OutputLimits};

/// The number of lines shown by default.
const DEFAULT_LINES: u64 = 200;
/// Characters reserved for the note about the remaining lines.
const NOTE_CHARACTERS: usize = 200;

/// The tool.
pub(crate) fn definition() -> Tool {
    let description =
        "Reads more of a truncated tool result, by the id in the note about the truncation.";
    let schema = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "the result's id"},
            "firstLine": {"type": "integer", "minimum": 1, "default": 1, "description": "the first line"},
            "lastLine": {"type": "integer", "minimum": 1, "description": "the last line; 200 lines if absent"},
        },
        "required": ["id"],
        "additionalProperties": false,
    });
    super::builtin_tool(READ_RESULT, description, &schema)
}

/// Reads a page of a result.
pub(super) async fn run(call: BuiltinCall<'_>) -> Payload {
    let max = max_characters(call.limits);
    let (spill, arguments) = (call.spill.clone(), call.arguments);
    let reading = tokio::task::spawn_blocking(move || page_result(&spill, &arguments, max)).await;
    reading.unwrap_or_else(|_| error_result("the result could not be read"))
}

/// The maximum length of a page, so that the result is not truncated again.
fn max_characters(limits: &OutputLimits) -> usize {
    limits.max_characters().min(MAX_CHARACTERS).saturating_sub(NOTE_CHARACTERS)
}

fn page_result(spill: &SpillStore, arguments: &Json, max: usize) -> Payload {
    let line = |name: &str| arguments[name].as_u64().and_then(NonZeroU64::new);
    let first = line("firstLine").unwrap_or(NonZeroU64::MIN);
    let last = line("lastLine").unwrap_or(first.saturating_add(DEFAULT_LINES - 1));
    let id = match ResultId::parse(str_argument(arguments, "id")) {
        Ok(id) => id,
        Err(error) => return error_result(&error.to_string()),
    };
    match spill.page_within(&id, LineRange { first, last }, max) {
        Err(_) => error_result(&format!("there is no result `{id}`; it may have been removed")),
        Ok(page) if page.more => {
            let next = page.last + 1;
            text_result(&[&page.text, &format!("more follows: `firstLine` {next}")])
        }
        Ok(page) if page.text.is_empty() => {
            text_result(&[&format!("the result ends with line {}", page.last)])
        }
        Ok(page) => text_result(&[&page.text]),
    }
}
