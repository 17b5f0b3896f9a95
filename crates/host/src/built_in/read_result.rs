//! `ReadMcpResult`: the rest of a result that was too long to be shown, page by page.

use std::num::NonZeroU64;

use serde_json::{Value as Json, json};
use switchboard_wire::message::Payload;

use super::{MOST_CHARACTERS, failure, text_of, texts};
use crate::calling::{Desk, Permit};
use crate::perform::{Perform, Performing, Work};
use crate::pool::tool::Tool;
use crate::yielded::Lines;
use crate::yielded::keep::{Keep, ResultId};

/// What it is called by.
pub const NAME: &str = "ReadMcpResult";
/// How many lines are shown where nobody says.
const USUAL: u64 = 200;
/// What of an answer is left for the words about what follows.
const ROOM: usize = 200;

#[derive(Debug)]
struct ReadResult;

/// The tool.
pub(super) fn definition() -> Tool {
    let about =
        "Reads more of a tool's result that was cut, by the id that the note about the cut names.";
    let schema = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "the result's id"},
            "firstLine": {"type": "integer", "minimum": 1, "default": 1, "description": "where to begin"},
            "lastLine": {"type": "integer", "minimum": 1, "description": "where to end, 200 lines on unless said"},
        },
        "required": ["id"],
        "additionalProperties": false,
    });
    super::tool(NAME, about, &schema, &ReadResult)
}

impl Perform for ReadResult {
    fn perform<'a>(&'a self, _leave: Permit, work: Work<'a>) -> Performing<'a> {
        Box::pin(async move {
            let most = most_characters(work.desk);
            let (keep, arguments) = (work.desk.keep.clone(), work.call.arguments);
            let read = move || page(&keep, &arguments, most);
            let read = tokio::task::spawn_blocking(read).await;
            Ok(read.unwrap_or_else(|_| failure("the result could not be read")))
        })
    }
}

/// What fits an answer, so that it is not cut itself.
fn most_characters(desk: &Desk) -> usize {
    desk.limits.most_characters().min(MOST_CHARACTERS).saturating_sub(ROOM)
}

fn page(keep: &Keep, arguments: &Json, most: usize) -> Payload {
    let line = |name: &str| arguments[name].as_u64().and_then(NonZeroU64::new);
    let first = line("firstLine").unwrap_or(NonZeroU64::MIN);
    let last = line("lastLine").unwrap_or(first.saturating_add(USUAL - 1));
    let id = match ResultId::parse(text_of(arguments, "id")) {
        Ok(id) => id,
        Err(error) => return failure(&error.to_string()),
    };
    match keep.page_within(&id, Lines { first, last }, most) {
        Err(_) => failure(&format!("there is no result `{id}`, or not any more")),
        Ok(page) if page.more => {
            let next = page.last + 1;
            texts(&[&page.text, &format!("more follows: `firstLine` {next}")])
        }
        Ok(page) if page.text.is_empty() => {
            texts(&[&format!("the result ends with line {}", page.last)])
        }
        Ok(page) => texts(&[&page.text]),
    }
}
