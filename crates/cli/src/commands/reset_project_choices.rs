//! `swb reset-project-choices`: forgets what was approved and rejected for this project's servers.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use switchboard::consent;
use switchboard::places::PROJECT_FILE;

use crate::describe::counted;
use crate::outcome::{Done, Failure};
use crate::session::Session;

/// Arguments of `swb reset-project-choices`: none.
#[derive(Debug, Args)]
pub struct ResetProjectChoices {}

/// Runs the command.
pub fn run(_: &ResetProjectChoices, session: &Session) -> Result<Done, Failure> {
    let folders = session.machine.working_folder.ancestors();
    let files: Vec<PathBuf> = folders.map(|folder| folder.join(PROJECT_FILE)).collect();
    let files: Vec<_> = files.iter().map(PathBuf::as_path).collect();
    let forgotten = consent::forget(&session.machine.places, &files)?;
    if session.wants_json() {
        return Ok(super::json(&json!({"forgotten": forgotten})));
    }
    Ok(Done::text(match forgotten {
        0 => "Nothing was approved or rejected in this project.\n".to_owned(),
        count => format!(
            "Forgot {}; the project's servers wait for approval again.\n",
            counted(count, "choice", "choices")
        ),
    }))
}
