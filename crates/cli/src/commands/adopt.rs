//! `swb adopt`: moves the servers of other clients into Switchboard and leaves one entry there that runs
//! `swb serve --pool`. Shows a plan and the difference of each file first; `--undo` restores the files.

mod apply;
mod plan;
mod plan_output;
mod pool_program;
mod record;
mod server_removal;
mod status;
mod undo;

use clap::{Args, Subcommand};
use switchboard::config::display::pluralize;
use switchboard::config::import::HostApp;

use crate::commands::import::{SecretStorage, ask, parse_app};
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;

use apply::ApprovalChoice;
use plan::AdoptionPlan;

/// Arguments of `swb adopt`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AdoptArgs {
    /// The action; without one, the clients are adopted.
    #[command(subcommand)]
    pub action: Option<AdoptAction>,
    /// The clients: claude-code, claude-desktop, cursor, vscode, codex, gemini, opencode, zed, windsurf, goose
    /// [default: all that are found]
    #[arg(value_parser = parse_app, value_name = "CLIENT")]
    pub clients: Vec<HostApp>,
    /// Restore the files as they were before, and remove the servers that were added to Switchboard
    #[arg(long, conflicts_with_all = ["project", "yes", "secrets", "carry_approvals"])]
    pub undo: bool,
    /// With --undo: restore files that were changed since, too; a copy of the changed file is kept
    #[arg(long, requires = "undo")]
    pub force: bool,
    /// Also change the files of this project, which other people may share
    #[arg(long)]
    pub project: bool,
    /// Show the plan and the differences without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Change the files without confirmation
    #[arg(long, short, conflicts_with = "dry_run")]
    pub yes: bool,
    /// Where secrets in clear text go [default: asked at a terminal, otherwise keep]
    #[arg(long, value_enum, value_name = "PLACE")]
    pub secrets: Option<SecretStorage>,
    /// Also take over what was approved in the client: trusted servers, approved tools, servers of the project
    /// [default: asked at a terminal]
    #[arg(long)]
    pub carry_approvals: bool,
}

/// Actions on adopted clients.
#[derive(Debug, Subcommand)]
pub enum AdoptAction {
    /// List the adopted clients: since when, where the backups are, and whether the files were changed since
    Status,
}

/// Runs the command.
pub fn run(arguments: &AdoptArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    if let Some(AdoptAction::Status) = arguments.action {
        return status::run(invocation);
    }
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    if arguments.undo {
        return undo::run(arguments, invocation);
    }
    let mut plan = plan::make(arguments, &configuration, invocation)?;
    let text = if invocation.wants_json() { String::new() } else { plan.to_text(invocation) };
    if arguments.dry_run || plan.changes().count() == 0 {
        if invocation.wants_json() {
            return Ok(json_output(&plan.to_json(&[])));
        }
        return Ok(CommandOutput::text(format!("{text}\nNothing was changed.\n")));
    }
    if !arguments.yes && !confirm(&text, &plan, invocation)? {
        return Ok(CommandOutput::text("Nothing was changed.\n"));
    }
    let approvals = approval_choice(arguments, &plan, invocation)?;
    let done = apply::apply(&mut plan, arguments, approvals, invocation)?;
    if invocation.wants_json() {
        return Ok(json_output(&plan.to_json(&done.scopes)).note(done.notes));
    }
    let plan_text = if arguments.yes { format!("{text}\n") } else { String::new() };
    Ok(CommandOutput::text(format!("{plan_text}{}", done.text)).note(done.notes))
}

fn can_ask(arguments: &AdoptArgs, invocation: &Invocation) -> bool {
    invocation.env.terminal.is_interactive && !invocation.wants_json() && !arguments.yes
}

fn confirm(text: &str, plan: &AdoptionPlan, invocation: &Invocation) -> Result<bool, Failure> {
    if !invocation.env.terminal.is_interactive || invocation.wants_json() {
        return Err(Failure::new(
            Exit::Usage,
            "nothing was changed: confirmation needs a terminal",
        )
        .detail(text.to_owned())
        .hint("add --yes to change the files, or --dry-run to only show the plan"));
    }
    let files = pluralize(plan.changes().count(), "file", "files");
    let question = format!("{text}\nChange {files}? [y/N] ");
    Ok(matches!(ask(&question)?.as_str(), "y" | "yes"))
}

/// Are approvals of the clients taken over? Only if the user says so.
fn approval_choice(
    arguments: &AdoptArgs,
    plan: &AdoptionPlan,
    invocation: &Invocation,
) -> Result<ApprovalChoice, Failure> {
    if arguments.carry_approvals {
        return Ok(ApprovalChoice::Carry);
    }
    let approvals = plan.approvals();
    if approvals.is_empty() || !can_ask(arguments, invocation) {
        return Ok(ApprovalChoice::Drop);
    }
    let list: String = approvals.iter().map(|it| format!("  {it}\n")).collect();
    let question =
        format!("Approved in the clients:\n{list}Approve them in Switchboard too? [y/N] ");
    Ok(match ask(&question)?.as_str() {
        "y" | "yes" => ApprovalChoice::Carry,
        _ => ApprovalChoice::Drop,
    })
}
