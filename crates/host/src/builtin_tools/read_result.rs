//! `ReadMcpResult`: reads the rest of a truncated result, page by page.

use std::num::NonZeroU64;

use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message::Payload;

use super::{MAX_CHARACTERS, error_result, str_argument, text_result};
use crate::call::executor::{ExecutionFuture, ToolExecution, ToolExecutor};
use crate::call::pipeline::{CallContext, Permit};
use crate::pool::tool::Tool;
use crate::tool_result::LineRange;
use crate::tool_result::spill::{ResultId, SpillStore};

/// The tool's name.
pub const NAME: &str = "ReadMcpResult";
/// The number of lines if `lastLine` is absent.
const DEFAULT_LINES: u64 = 200;
/// Characters reserved for the note about the remaining lines.
const NOTE_CHARACTERS: usize = 200;

#[derive(Debug)]
struct ReadResult;

/// The tool's definition.
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
    super::builtin_tool(NAME, description, &schema, &ReadResult)
}

impl ToolExecutor for ReadResult {
    fn execute<'a>(&'a self, _permit: Permit, work: ToolExecution<'a>) -> ExecutionFuture<'a> {
        Box::pin(async move {
            let max = max_characters(work.context);
            let (spill, arguments) = (work.context.spill.clone(), work.call.arguments);
            let read = move || page_result(&spill, &arguments, max);
            let read = tokio::task::spawn_blocking(read).await;
            Ok(read.unwrap_or_else(|_| error_result("the result could not be read")))
        })
    }
}

/// The page size that fits a result without being truncated again.
fn max_characters(context: &CallContext) -> usize {
    context.limits.max_characters().min(MAX_CHARACTERS).saturating_sub(NOTE_CHARACTERS)
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
