//! Work that takes its time, and results that take room.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::content::Output;
use crate::context::{Context, Level};
use crate::refusal::Stop;
use crate::tooling::Tool;

const MOST_STEPS: u64 = 1000;
const LONGEST_STEP: u64 = 60_000;
const MOST_LINES: u64 = 100_000;

#[derive(Deserialize)]
struct CountSlowly {
    steps: u64,
    #[serde(default = "usual_pause")]
    milliseconds: u64,
}

fn usual_pause() -> u64 {
    500
}

pub(super) fn count_slowly() -> Tool {
    Tool::new("count_slowly", "Counts, with a pause before every number.", count)
        .takes(
            json!({
                "steps": {"type": "integer", "minimum": 1, "maximum": MOST_STEPS},
                "milliseconds": {
                    "type": "integer", "minimum": 0, "maximum": LONGEST_STEP,
                    "default": usual_pause(), "description": "How long a pause is.",
                },
            }),
            &["steps"],
        )
        .reads()
}

async fn count(context: Context, it: CountSlowly) -> Result<Output, Stop> {
    if !(1..=MOST_STEPS).contains(&it.steps) || it.milliseconds > LONGEST_STEP {
        return Err(Stop::failed(format!(
            "at most {MOST_STEPS} steps of {LONGEST_STEP} milliseconds each"
        )));
    }
    context.log(Level::Debug, "the counting begins").await;
    for step in 1..=it.steps {
        tokio::time::sleep(Duration::from_millis(it.milliseconds)).await;
        context.progress(step, it.steps, &format!("counted to {step}")).await;
    }
    Ok(Output::text(format!("Counted to {}.", it.steps)))
}

#[derive(Deserialize)]
struct LongText {
    lines: u64,
}

pub(super) fn long_text() -> Tool {
    Tool::new("long_text", "Returns as many lines as you like.", lines)
        .takes(
            json!({"lines": {"type": "integer", "minimum": 1, "maximum": MOST_LINES}}),
            &["lines"],
        )
        .reads()
}

async fn lines(_: Context, it: LongText) -> Result<Output, Stop> {
    if !(1..=MOST_LINES).contains(&it.lines) {
        return Err(Stop::failed(format!("from 1 to {MOST_LINES} lines")));
    }
    let total = it.lines;
    let text: String = (1..=total)
        .map(|line| {
            format!("line {line} of {total}: the quick brown fox jumps over the lazy dog\n")
        })
        .collect();
    Ok(Output::text(text))
}
