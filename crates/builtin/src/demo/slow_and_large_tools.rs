//! Tools with long running times and large results: `count_slowly` and `long_text`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::kit::context::{HandlerContext, LogLevel};
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;

const MAX_STEPS: u64 = 1000;
const MAX_STEP_MILLISECONDS: u64 = 60_000;
const MAX_LINES: u64 = 100_000;

#[derive(Deserialize)]
struct CountSlowlyArguments {
    steps: u64,
    #[serde(default = "default_pause")]
    milliseconds: u64,
}

fn default_pause() -> u64 {
    500
}

pub(crate) fn count_slowly_tool() -> Tool {
    Tool::new("count_slowly", "Counts, with a pause before every number.", count)
        .input_schema(
            json!({
                "steps": {"type": "integer", "minimum": 1, "maximum": MAX_STEPS},
                "milliseconds": {
                    "type": "integer", "minimum": 0, "maximum": MAX_STEP_MILLISECONDS,
                    "default": default_pause(), "description": "How long a pause is.",
                },
            }),
            &["steps"],
        )
        .read_only()
}

async fn count(
    context: HandlerContext,
    it: CountSlowlyArguments,
) -> Result<ToolOutput, HandlerError> {
    if !(1..=MAX_STEPS).contains(&it.steps) || it.milliseconds > MAX_STEP_MILLISECONDS {
        return Err(HandlerError::failed(format!(
            "at most {MAX_STEPS} steps of {MAX_STEP_MILLISECONDS} milliseconds each"
        )));
    }
    context.log(LogLevel::Debug, "the counting begins").await;
    for step in 1..=it.steps {
        tokio::time::sleep(Duration::from_millis(it.milliseconds)).await;
        context.progress(step, it.steps, &format!("counted to {step}")).await;
    }
    Ok(ToolOutput::text(format!("Counted to {}.", it.steps)))
}

#[derive(Deserialize)]
struct LongTextArguments {
    lines: u64,
}

pub(crate) fn long_text_tool() -> Tool {
    Tool::new("long_text", "Returns as many lines as you like.", repeat_lines)
        .input_schema(
            json!({"lines": {"type": "integer", "minimum": 1, "maximum": MAX_LINES}}),
            &["lines"],
        )
        .read_only()
}

async fn repeat_lines(
    _: HandlerContext,
    it: LongTextArguments,
) -> Result<ToolOutput, HandlerError> {
    if !(1..=MAX_LINES).contains(&it.lines) {
        return Err(HandlerError::failed(format!("from 1 to {MAX_LINES} lines")));
    }
    let total = it.lines;
    let text: String = (1..=total)
        .map(|line| {
            format!("line {line} of {total}: the quick brown fox jumps over the lazy dog\n")
        })
        .collect();
    Ok(ToolOutput::text(text))
}
