//! `swb audit`: prints the audit log of tool calls. `verify` checks its chain.

mod verify;

use clap::{Args, Subcommand};
use serde_json::json;
use switchboard::audit::log;
use switchboard::audit::log::AuditRecord;
use switchboard::config::display::printable;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::style::TextStyle;
use crate::output::table;
use crate::output::table::{Cell, Truncate};

/// Arguments of `swb audit`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AuditArgs {
    /// What to do; without it, the calls are listed.
    #[command(subcommand)]
    pub command: Option<AuditCommand>,
    /// Only calls to this server
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Only calls of this caller: cli, or the name of a gateway client
    #[arg(long, value_name = "NAME")]
    pub caller: Option<String>,
    /// Only calls with this outcome: ok, tool-error, denied, invalid, failed, timeout, cancelled
    #[arg(long, value_name = "WORD")]
    pub outcome: Option<String>,
    /// Show the last N calls; 0 shows all
    #[arg(long, short = 'n', default_value_t = 50)]
    pub count: usize,
}

/// What `swb audit` does besides listing calls.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that no record was changed, removed, added or moved
    Verify(verify::VerifyArgs),
    /// Print the public key of the signatures, to check the log elsewhere
    Key,
}

/// Runs the command.
pub fn run(arguments: &AuditArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    match &arguments.command {
        Some(AuditCommand::Verify(arguments)) => return verify::run(arguments, invocation),
        Some(AuditCommand::Key) => return verify::print_key(invocation),
        None => {}
    }
    let path = invocation.env.paths.audit();
    let mut records = log::read(&path).map_err(|error| {
        Failure::new(Exit::Failure, "the audit log cannot be read").caused_by(error)
    })?;
    records.retain(|it| arguments.server.as_ref().is_none_or(|name| it.server == *name));
    records.retain(|it| arguments.caller.as_ref().is_none_or(|name| it.caller == *name));
    records.retain(|it| arguments.outcome.as_ref().is_none_or(|word| it.outcome == *word));
    if arguments.count > 0 {
        records.drain(..records.len().saturating_sub(arguments.count));
    }
    if invocation.wants_json() {
        return Ok(json_output(&json!({"calls": records})));
    }
    if records.is_empty() {
        return Ok(CommandOutput::text("No calls.\n"));
    }
    let header = ["TIME", "CALLER", "SERVER", "TOOL", "OUTCOME", "TOOK", "DECIDED BY"];
    let rows: Vec<Vec<Cell>> = records.iter().map(row).collect();
    let truncated_columns = [Truncate::End(6), Truncate::End(3), Truncate::End(2)];
    Ok(CommandOutput::text(table::render(
        &header,
        &rows,
        invocation.env.terminal.width,
        &truncated_columns,
    )))
}

fn row(record: &AuditRecord) -> Vec<Cell> {
    let style = match record.outcome.as_str() {
        "ok" => TextStyle::Success,
        "denied" | "cancelled" => TextStyle::Warning,
        _ => TextStyle::Error,
    };
    vec![
        Cell::plain(printable(&record.time)),
        Cell::plain(printable(&record.caller)),
        Cell::plain(printable(&record.server)),
        Cell::plain(printable(&record.tool)),
        Cell::styled(style, printable(&record.outcome)),
        Cell::plain(format!("{} ms", record.duration_ms)),
        Cell::plain(printable(&record.because)),
    ]
}
