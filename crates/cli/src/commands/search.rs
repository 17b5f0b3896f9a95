//! `swb search`: finds tools by what they are called and what they do.

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::pool::tool::Tool;

use super::tools;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::runtime::host;
use crate::runtime::host::ConnectedServers;

/// Arguments of `swb search`.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Words to look for
    #[arg(required = true)]
    pub words: Vec<String>,
    /// Show at most so many
    #[arg(long, short = 'n', default_value_t = 10)]
    pub count: usize,
}

/// Runs the command.
pub fn run(arguments: &SearchArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = session.load()?;
    let ConnectedServers { pool, notes, .. } = host::connect_once(session, &configuration, &[])?;
    let found = pool.search(&arguments.words.join(" "), arguments.count);
    let done = match session.wants_json() {
        true => {
            let list: Vec<Json> = found
                .iter()
                .map(|it| {
                    let mut json = tools::tool_json(&pool, &it.tool);
                    json["score"] = it.score.into();
                    json
                })
                .collect();
            super::json_output(&json!({"tools": list}))
        }
        false => {
            let list: Vec<&Tool> = found.iter().map(|it| it.tool.as_ref()).collect();
            CommandOutput::text(tools::as_text(session, &list))
        }
    };
    Ok(done.note(notes))
}
