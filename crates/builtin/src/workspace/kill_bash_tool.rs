//! `KillBash`: ends a command in the background.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::bash_tool::ending_words;
use super::workplace::Workplace;
use crate::content::Output;
use crate::context::Context;
use crate::refusal::Stop;
use crate::tooling::Tool;

#[derive(Deserialize)]
struct KillBash {
    #[serde(alias = "shell_id")]
    bash_id: String,
}

pub(super) fn tool(place: &Arc<Workplace>) -> Tool {
    let place = place.clone();
    let kill = move |_: Context, it: KillBash| {
        let place = place.clone();
        async move { kill(&place, &it).await }
    };
    let description = "Ends a command in the background, and everything that it started.";
    Tool::new("KillBash", description, kill)
        .title("End a command in the background")
        .takes(
            json!({"bash_id": {"type": "string", "description": "The name that Bash gave it."}}),
            &["bash_id"],
        )
        .gives(json!({
            "type": "object",
            "properties": {
                "bashId": {"type": "string"},
                "exitCode": {"type": ["integer", "null"]},
                "signal": {"type": ["integer", "null"]},
            },
            "required": ["bashId", "exitCode", "signal"],
            "additionalProperties": false,
        }))
        .idempotent()
}

async fn kill(place: &Arc<Workplace>, it: &KillBash) -> Result<Output, Stop> {
    let ending = place.jobs.kill(&it.bash_id).await?;
    let how = ending_words(&ending).unwrap_or_else(|| "it had ended well already".to_owned());
    let about = json!({"bashId": it.bash_id, "exitCode": ending.code, "signal": ending.signal});
    Ok(Output::value(about, format!("`{}` is over: {how}", it.bash_id)))
}
