//! The tool `Bash`: runs a shell command, in the foreground or in the background.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;
use crate::workspace::session::WorkspaceSession;
use crate::workspace::shell::command::{CommandResult, CommandSpec, ExitCause};

/// The default and maximum timeout, in milliseconds.
const DEFAULT_TIMEOUT_MILLISECONDS: u64 = 120_000;
const MAX_TIMEOUT_MILLISECONDS: u64 = 600_000;
/// The maximum size of the shown output, in bytes.
const MAX_SHOWN_BYTES: u64 = 30_000;
/// The maximum length of a command; the system limits one argument.
const MAX_COMMAND_LENGTH: usize = 100_000;

#[derive(Deserialize)]
struct BashArguments {
    command: String,
    timeout: Option<u64>,
    #[serde(default)]
    run_in_background: bool,
    /// For display only.
    #[serde(default, rename = "description")]
    _description: Option<String>,
}

pub(crate) fn tool(session: &Arc<WorkspaceSession>) -> Tool {
    let session = session.clone();
    let bash = move |context: HandlerContext, it: BashArguments| {
        let session = session.clone();
        async move { bash(&session, &context, &it).await }
    };
    let description = "Runs a command with bash, with no terminal and no input. The working folder is kept \
        from one command to the next while it is an allowed one; variables are not. What a command leaves running ends with \
        it: set `run_in_background` for a command that is to go on, and read it with BashOutput. A long output is shown in \
        part; all of it is in the file that is named.";
    Tool::new("Bash", description, bash)
        .title("Run a command")
        .input_schema(
            json!({
                "command": {"type": "string", "description": "The command."},
                "timeout": {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT_MILLISECONDS, "default": DEFAULT_TIMEOUT_MILLISECONDS, "description": "How long it may take, in milliseconds; in the background it may take as long as it likes."},
                "run_in_background": {"type": "boolean", "default": false},
                "description": {"type": "string", "description": "A short description for the user."},
            }),
            &["command"],
        )
        .output_schema(json!({
            "type": "object",
            "properties": {
                "output": {"type": "string", "description": "Standard output and standard error, combined."},
                "exitCode": {"type": ["integer", "null"]},
                "signal": {"type": ["integer", "null"]},
                "timedOut": {"type": "boolean"},
                "truncated": {"type": "boolean"},
                "outputFile": {"type": "string", "description": "Where all of the output is, where not all is shown."},
                "folder": {"type": "string", "description": "Where the next command begins."},
                "bashId": {"type": "string", "description": "The name of a command in the background."},
            },
            "anyOf": [{"required": ["output", "exitCode", "timedOut", "truncated", "folder"]}, {"required": ["bashId"]}],
            "additionalProperties": false,
        }))
        .destructive()
        .open_world()
}

async fn bash(
    session: &Arc<WorkspaceSession>,
    context: &HandlerContext,
    it: &BashArguments,
) -> Result<ToolOutput, HandlerError> {
    if it.command.trim().is_empty()
        || it.command.len() > MAX_COMMAND_LENGTH
        || it.command.contains('\0')
    {
        return Err(HandlerError::failed(format!(
            "a command has from 1 to {MAX_COMMAND_LENGTH} bytes, none of them zero; put a longer one in a file"
        )));
    }
    let roots = session.allowed_roots(context).await?;
    let command = CommandSpec {
        command: it.command.clone(),
        working_dir: session.shell_dir(&roots)?,
        output_dir: session.output_dir()?.to_owned(),
    };
    let timeout = it.timeout.map(|it| Duration::from_millis(it.clamp(1, MAX_TIMEOUT_MILLISECONDS)));
    if it.run_in_background {
        let name = session.jobs.start_background(&command, None)?;
        let text =
            format!("`{name}` runs in the background; BashOutput reads it, KillBash ends it");
        return Ok(ToolOutput::structured(json!({"bashId": name}), text));
    }
    let timeout = timeout.unwrap_or(Duration::from_millis(DEFAULT_TIMEOUT_MILLISECONDS));
    let result = session.jobs.run(&command, timeout).await?;
    let mut notes = String::new();
    if let Some(folder) = &result.working_dir
        && !session.set_shell_dir(&roots, folder)
    {
        notes = format!(
            "({} is not an allowed folder; the next command begins in the first one)\n",
            folder.display()
        );
    }
    let folder = session.shell_dir(&roots)?.display().to_string();
    Ok(to_output(&result, &notes, &folder))
}

fn to_output(result: &CommandResult, notes: &str, folder: &str) -> ToolOutput {
    let excerpt = result.output.head_and_tail(MAX_SHOWN_BYTES);
    let is_cut = excerpt.omitted_bytes > 0;
    let mut structured = json!({
        "output": excerpt.text,
        "exitCode": result.exit.code,
        "signal": result.exit.signal,
        "timedOut": result.exit.cause == ExitCause::Timeout,
        "truncated": is_cut,
        "folder": folder,
    });
    let mut text = excerpt.text;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if is_cut {
        let path = result.output.path().display().to_string();
        text.push_str(&format!("(all {} bytes are in `{path}`)\n", result.output.total_bytes()));
        structured["outputFile"] = Json::from(path);
    } else {
        let _gone_already = std::fs::remove_file(result.output.path());
    }
    text.push_str(notes);
    if let Some(end) = result.exit.describe() {
        text.push_str(&format!("({end})\n"));
    }
    if text.is_empty() {
        text.push_str("(no output)\n");
    }
    ToolOutput::structured(structured, text)
}
