//! `swb search`: finds tools by name and description.

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::pool::Tool;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::tool_table;
use crate::output::unusable_files;
use crate::runtime::servers;
use crate::runtime::servers::{KnownTools, ListSource};

/// Arguments of `swb search`.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// The words to search for
    #[arg(required = true)]
    pub words: Vec<String>,
    /// The most results
    #[arg(long, short = 'n', default_value_t = 10)]
    pub count: usize,
    /// Connect to the servers instead of using the lists of their last connection
    #[arg(long)]
    pub refresh: bool,
}

/// Runs the command.
pub fn run(arguments: &SearchArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let source = match arguments.refresh {
        true => ListSource::Servers,
        false => ListSource::Remembered,
    };
    let KnownTools { pool, remembered, notes } =
        servers::known_tools(invocation, &configuration, &[], source)?;
    let found = pool.search(&arguments.words.join(" "), arguments.count);
    let done = match invocation.wants_json() {
        true => {
            let list: Vec<Json> = found
                .iter()
                .map(|it| {
                    let mut json = tool_table::tool_json(&pool, &it.tool);
                    json["score"] = it.score.into();
                    json
                })
                .collect();
            json_output(&json!({"tools": list, "remembered": remembered}))
        }
        false => {
            let list: Vec<&Tool> = found.iter().map(|it| it.tool.as_ref()).collect();
            CommandOutput::text(tool_table::as_text(&invocation.env, &list))
        }
    };
    Ok(unusable_files::incomplete(&configuration, done.note(notes)))
}
