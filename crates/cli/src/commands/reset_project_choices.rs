//! `swb reset-project-choices`: forgets the approvals and rejections of this project's servers.

use clap::Args;
use serde_json::json;
use switchboard::config::source::path_key;
use switchboard::sources::loader::FOREIGN_PLUGIN_SETTINGS;
use switchboard::sources::{PROJECT_FILE, project_approvals};

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use switchboard::config::display::pluralize;

/// Arguments of `swb reset-project-choices`: none.
#[derive(Debug, Args)]
pub struct ResetProjectChoicesArgs {}

/// Runs the command.
pub fn run(_: &ResetProjectChoicesArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let folders = invocation.env.working_folder.ancestors();
    let names = [&[PROJECT_FILE][..], &FOREIGN_PLUGIN_SETTINGS].concat();
    let files = folders.flat_map(|folder| names.iter().map(|name| folder.join(name)));
    let keys: Vec<String> = files.map(|file| path_key(&file)).collect();
    let forgotten = project_approvals::forget(&invocation.env.paths, &keys)?;
    if invocation.wants_json() {
        return Ok(json_output(&json!({"forgotten": forgotten})));
    }
    Ok(CommandOutput::text(match forgotten {
        0 => "Nothing was approved or rejected in this project.\n".to_owned(),
        count => format!(
            "Forgot {}; the project's servers wait for approval again.\n",
            pluralize(count, "choice", "choices")
        ),
    }))
}
