//! `swb acp`: an agent for editors that speak the Agent Client Protocol, over standard input and output. Only protocol
//! messages go to standard output.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use switchboard::config::permission::PermissionMode;
use switchboard::wire::process::child;
use switchboard_acp::AgentOptions;
use switchboard_builtin::workspace;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::options::parse_mode;
use crate::outcome::{CommandOutput, Failure};
use crate::output::report;
use crate::runtime::editor_sessions::EditorSessions;
use crate::runtime::interrupts::{self, Interrupts};
use crate::runtime::stdio;

/// How long everything may take after the editor has gone. What has not ended by then is left to the watchdog.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(1500);

/// Arguments of `swb acp`.
#[derive(Debug, Args)]
pub struct AcpArgs {
    /// The model: PROVIDER/NAME, or NAME
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The permission mode that sessions start with: plan, dontAsk, default, acceptEdits, bypass
    #[arg(long = "permission-mode", visible_alias = "mode", value_name = "MODE", value_parser = parse_mode)]
    pub mode: Option<PermissionMode>,
    /// Do not give sessions the workspace tools for files and commands
    #[arg(long)]
    pub no_workspace: bool,
}

/// Runs the command. The exit code is 0 whether the editor disconnects or the process is interrupted.
pub fn run(arguments: &AcpArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    child::raise_file_limit();
    if invocation.env.terminal.can_prompt {
        report::print_stderr("waiting for an editor on standard input\n");
    }
    let options = AgentOptions {
        name: "switchboard".to_owned(),
        title: "Switchboard".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        shutdown_limit: SHUTDOWN_LIMIT,
        workspace_server: (!arguments.no_workspace).then(|| workspace::NAME.to_owned()),
    };
    let source = EditorSessions::new(
        invocation.non_interactive(),
        arguments.model.clone(),
        arguments.mode,
        options.workspace_server.clone(),
    );
    let runtime = interrupts::tokio_runtime()?;
    let outcome = runtime.block_on(async {
        // Kills server processes that a killed run left behind; awaited at the end.
        let cleanup = tokio::task::spawn_blocking(child::kill_orphans);
        let mut interrupts = Interrupts::listen();
        let (transport, written) = stdio::transport().map_err(|error| {
            Failure::new(Exit::Failure, "threads cannot be started").caused_by(error)
        })?;
        switchboard_acp::serve(transport, Arc::new(source), options, interrupts.next()).await;
        written.wait().await;
        let _panicked = cleanup.await;
        Ok(CommandOutput::default())
    });
    // The reader thread may still wait for standard input.
    runtime.shutdown_background();
    outcome
}
