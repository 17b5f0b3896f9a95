//! A tool through which the model gives its answer as JSON that matches a schema of the program. The agent loop offers it,
//! and ends the turn once it was called with a valid value.

use std::sync::Arc;

use serde_json::Value as Json;
use switchboard::pool::value_faults;

use crate::model::language_model::ToolDefinition;

/// The name of the tool. Exposed names of servers' tools have a prefix, so none is equal to it.
pub const STRUCTURED_OUTPUT_TOOL: &str = "StructuredOutput";
/// How often the model is reminded to call the tool, or told that its output is wrong.
pub(crate) const MAX_REMINDERS: u32 = 4;
/// The message that reminds the model.
pub(crate) const REMINDER: &str =
    "Give your answer by calling the tool StructuredOutput; it must match the schema of the tool.";

/// The schema of the answer.
#[derive(Debug, Clone)]
pub struct StructuredOutput {
    schema: Arc<Json>,
}

impl StructuredOutput {
    /// Answers that match this JSON schema, whose root is an object.
    pub fn new(schema: Json) -> StructuredOutput {
        StructuredOutput { schema: Arc::new(schema) }
    }

    pub(crate) fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: STRUCTURED_OUTPUT_TOOL.to_owned(),
            description:
                "Returns the final answer. Call it once, at the end, with the whole answer."
                    .to_owned(),
            input_schema: Json::clone(&self.schema),
        }
    }

    /// The text of the result of a call; the error names what does not match.
    pub(crate) fn check(&self, value: &Json) -> Result<String, String> {
        let faults = value_faults(&self.schema, value);
        match faults.is_empty() {
            true => Ok("The structured output was accepted.".to_owned()),
            false => {
                let faults: Vec<String> = faults.iter().map(|it| format!("- {it}")).collect();
                Err(format!("The output does not match the schema:\n{}", faults.join("\n")))
            }
        }
    }
}
