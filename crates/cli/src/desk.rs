//! What calls from the command line depend on: the tools, the rules, and who is asked.

use std::sync::Arc;

use switchboard::audit::AuditLog;
use switchboard::calling::CallContext;
use switchboard::config::permission::PermissionMode;
use switchboard::config::shown::printable;
use switchboard::engine::Host;
use switchboard::load::Configuration;
use switchboard::pin::ToolPins;
use switchboard::rulebook::ActiveRules;
use switchboard::ruling::RuleFile;
use switchboard::yielded::OutputLimits;
use switchboard::yielded::keep::SpillStore;

use crate::exit::Exit;
use crate::live;
use crate::outcome::Failure;
use crate::report;
use crate::session::Invocation;
use crate::style::{TextStyle, paint};

/// Everything that a call needs. What somebody should know of it is printed.
pub fn call_context(
    session: &Invocation,
    configuration: &Configuration,
    host: &Host,
    mode: Option<PermissionMode>,
) -> Result<CallContext, Failure> {
    let (desk, warning) = call_context_with_warning(session, configuration, host, mode)?;
    report::print_stderr(&warning);
    Ok(desk)
}

/// The same; what somebody should know of it comes with it.
pub fn call_context_with_warning(
    session: &Invocation,
    configuration: &Configuration,
    host: &Host,
    mode: Option<PermissionMode>,
) -> Result<(CallContext, String), Failure> {
    let servers = configuration.effective.servers.iter();
    let trusted = servers.filter(|it| it.is_trusted()).map(|it| it.name.clone()).collect();
    let default_mode =
        configuration.rules.default_mode().map_or(PermissionMode::Default, |(mode, _)| mode);
    let audit = AuditLog::open(&session.env.paths.audit()).map_err(|error| {
        Failure::new(Exit::Failure, "the audit log cannot be kept").caused_by(error)
    })?;
    let tokens = live::max_output_tokens(session)?;
    let pins = ToolPins::open(&session.env.paths.pins());
    let warning = pins.load_error().map(|damage| {
        let path = session.display_path(&session.env.paths.pins());
        format!(
            "{} what tools looked like when they were approved is lost, so changes to them are not noticed: {path}: {}\n",
            paint(TextStyle::Warning, "warning:"),
            printable(damage)
        )
    });
    let project_root = configuration.project_root.clone();
    let desk = CallContext {
        pool: host.watch_pool(),
        rules: ActiveRules::new(configuration.rules.clone())
            .with_settings_file(session.env.paths.clone(), RuleFile::Local { project_root }),
        tool_pins: pins,
        mode: mode.unwrap_or(default_mode),
        trusted_servers: trusted,
        prompt: Arc::new(session.prompt.clone()),
        audit,
        limits: OutputLimits { tokens, ..OutputLimits::default() },
        spill: SpillStore::in_data_folder(&session.env.paths.data),
    };
    Ok((desk, warning.unwrap_or_default()))
}
