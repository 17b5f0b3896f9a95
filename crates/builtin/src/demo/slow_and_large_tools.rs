//! Tools with long running times and large results: `count_slowly` and `long_text`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::kit::context::{HandlerContext, LogLevel};
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;

const MAX_STEPS: u64 = 1000;
const MAX_STEP_MILLISECONDS: u64 = 60_000;
const MAX_LINES: u64 = 100_000;

#[derive(Deserialize, JsonSchema)]
struct CountSlowlyArguments {
    #[schemars(range(min = 1, max = MAX_STEPS))]
    steps: u64,
    /// How long a pause is.
    #[serde(default = "default_pause")]
    #[schemars(range(max = MAX_STEP_MILLISECONDS))]
    milliseconds: u64,
}

fn default_pause() -> u64 {
    500
}

pub(crate) fn count_slowly_tool() -> Tool {
    Tool::typed("count_slowly", "Counts, with a pause before every number.", count).read_only()
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

#[derive(Deserialize, JsonSchema)]
struct LongTextArguments {
    #[schemars(range(min = 1, max = MAX_LINES))]
    lines: u64,
}

pub(crate) fn long_text_tool() -> Tool {
    Tool::typed("long_text", "Returns as many lines as you like.", repeat_lines).read_only()
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
