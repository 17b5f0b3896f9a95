//! `swb result`: prints a stored result that was too long to be shown.

use std::num::NonZeroU64;

use clap::Args;
use serde_json::json;
use switchboard::config::display::printable;
use switchboard::tool_result::{LineRange, ResultId, SpillStore};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;

/// Arguments of `swb result`.
#[derive(Debug, Args)]
pub struct ResultArgs {
    /// The id, from the note under the truncated result
    pub id: String,
    /// The lines to print
    #[arg(long, value_name = "FIRST-LAST", default_value = "1-200", value_parser = parse_lines)]
    pub lines: LineRange,
}

fn parse_lines(text: &str) -> Result<LineRange, String> {
    let invalid = || "expected two line numbers, for example 1-200".to_owned();
    let (first, last) = text.split_once('-').ok_or_else(invalid)?;
    let number = |text: &str| text.parse::<NonZeroU64>().map_err(|_| invalid());
    let (first, last) = (number(first)?, number(last)?);
    if last < first {
        return Err(invalid());
    }
    Ok(LineRange { first, last })
}

/// Runs the command.
pub fn run(arguments: &ResultArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let id = ResultId::parse(&arguments.id).map_err(|error| {
        Failure::new(Exit::Usage, &format!("`{}` is not a result id", arguments.id))
            .caused_by(error)
    })?;
    let spill = SpillStore::in_data_folder(&invocation.env.paths.data);
    let page = spill.page(&id, arguments.lines).map_err(|error| {
        Failure::new(Exit::NotFound, "the result cannot be read")
            .caused_by(error)
            .hint("results are kept for 30 days")
    })?;
    if invocation.wants_json() {
        return Ok(json_output(&json!({"text": page.text, "last": page.last, "more": page.more})));
    }
    let text: String = page.text.lines().map(|line| printable(line) + "\n").collect();
    let done = CommandOutput::text(text);
    Ok(match page.more {
        false => done,
        true => done.note(format!(
            "\nmore: swb result {} --lines {}-{}\n",
            arguments.id,
            page.last + 1,
            page.last + 200
        )),
    })
}
