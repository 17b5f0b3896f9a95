//! The tool `KillBash`: ends a background command.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;
use crate::workspace::session::WorkspaceSession;

#[derive(Deserialize)]
struct KillBashArguments {
    #[serde(alias = "shell_id")]
    bash_id: String,
}

pub(crate) fn tool(session: &Arc<WorkspaceSession>) -> Tool {
    let session = session.clone();
    let kill = move |_: HandlerContext, it: KillBashArguments| {
        let session = session.clone();
        async move { kill(&session, &it).await }
    };
    let description = "Ends a command in the background, and everything that it started.";
    Tool::new("KillBash", description, kill)
        .title("End a command in the background")
        .input_schema(
            json!({"bash_id": {"type": "string", "description": "The name that Bash gave it."}}),
            &["bash_id"],
        )
        .output_schema(json!({
            "type": "object",
            "properties": {
                "bashId": {"type": "string"},
                "exitCode": {"type": ["integer", "null"]},
                "signal": {"type": ["integer", "null"]},
            },
            "required": ["bashId", "exitCode", "signal"],
            "additionalProperties": false,
        }))
        .destructive()
        .idempotent()
}

async fn kill(
    session: &Arc<WorkspaceSession>,
    it: &KillBashArguments,
) -> Result<ToolOutput, HandlerError> {
    let exit = session.jobs.kill(&it.bash_id).await?;
    let how = exit.describe().unwrap_or_else(|| "it had exited successfully".to_owned());
    let structured = json!({"bashId": it.bash_id, "exitCode": exit.code, "signal": exit.signal});
    Ok(ToolOutput::structured(structured, format!("`{}` is over: {how}", it.bash_id)))
}
