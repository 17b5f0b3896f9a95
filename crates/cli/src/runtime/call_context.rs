//! The call context of the command line: pool, rules, audit log, prompts.

use std::sync::Arc;

use switchboard::audit::log::AuditLog;
use switchboard::call::pipeline::CallContext;
use switchboard::config::display::printable;
use switchboard::config::permission::PermissionMode;
use switchboard::host::Host;
use switchboard::permission::active_rules::ActiveRules;
use switchboard::permission::settings_file::RuleFile;
use switchboard::permission::tool_pins::ToolPins;
use switchboard::sources::loader::Configuration;
use switchboard::tool_result::OutputLimits;
use switchboard::tool_result::spill::SpillStore;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::report;
use crate::output::style::{TextStyle, paint};
use crate::runtime::variables;

/// The call context. Prints warnings.
pub fn call_context(
    invocation: &Invocation,
    configuration: &Configuration,
    host: &Host,
    mode: Option<PermissionMode>,
) -> Result<CallContext, Failure> {
    let (context, warning) = call_context_with_warning(invocation, configuration, host, mode)?;
    report::print_stderr(&warning);
    Ok(context)
}

/// The call context and its warnings.
pub fn call_context_with_warning(
    invocation: &Invocation,
    configuration: &Configuration,
    host: &Host,
    mode: Option<PermissionMode>,
) -> Result<(CallContext, String), Failure> {
    let servers = configuration.effective.servers.iter();
    let trusted = servers.filter(|it| it.is_trusted()).map(|it| it.name.clone()).collect();
    let default_mode =
        configuration.rules.default_mode().map_or(PermissionMode::Default, |(mode, _)| mode);
    let audit = AuditLog::open(&invocation.env.paths.audit()).map_err(|error| {
        Failure::new(Exit::Failure, "the audit log cannot be written").caused_by(error)
    })?;
    let tokens = variables::max_output_tokens(invocation)?;
    let pins = ToolPins::open(&invocation.env.paths.pins());
    let warning = pins.load_error().map(|damage| {
        let path = invocation.display_path(&invocation.env.paths.pins());
        format!(
            "{} the approved tool definitions cannot be read, so changes to them are not detected: {path}: {}\n",
            paint(TextStyle::Warning, "warning:"),
            printable(damage)
        )
    });
    let project_root = configuration.project_root.clone();
    let context = CallContext {
        pool: host.watch_pool(),
        rules: ActiveRules::new(configuration.rules.clone())
            .with_settings_file(invocation.env.paths.clone(), RuleFile::Local { project_root }),
        tool_pins: pins,
        mode: mode.unwrap_or(default_mode),
        trusted_servers: trusted,
        prompt: Arc::new(invocation.prompt.clone()),
        audit,
        limits: OutputLimits { tokens, ..OutputLimits::default() },
        spill: SpillStore::in_data_folder(&invocation.env.paths.data),
    };
    Ok((context, warning.unwrap_or_default()))
}
