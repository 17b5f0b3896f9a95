//! The call context of the command line: pool, rules, audit log, prompts.

use std::sync::Arc;

use switchboard::audit::log::{AuditLog, AuditOptions, UnrecordedCalls};
use switchboard::config::display::printable;
use switchboard::config::permission::PermissionMode;
use switchboard::permission::ReasonDetail;
use switchboard::permission::settings_file::RuleFile;
use switchboard::permission::{ActiveRules, ToolPins};
use switchboard::sources::loader::Configuration;
use switchboard::tool_result::{OutputLimits, SpillStore};
use switchboard::{CallContext, Host, ToolCall};

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
    let audit = AuditLog::open_with(
        &invocation.env.paths.audit(),
        AuditOptions::from(&configuration.audit),
    )
    .map_err(|error| {
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
        reason_detail: ReasonDetail::WithPaths,
        tool_timeout: variables::duration_variable(
            invocation,
            "MCP_TOOL_TIMEOUT",
            ToolCall::DEFAULT_TIMEOUT,
        )?,
    };
    Ok((context, warning.unwrap_or_default()))
}

/// Warns about calls that could not be written to the audit log. Flush it first.
pub fn warn_about_lost_records(invocation: &Invocation, audit: &AuditLog) {
    let status = audit.status();
    let calls = match status.lost {
        0 => return,
        1 => "1 call is".to_owned(),
        lost => format!("{lost} calls are"),
    };
    let path = invocation.display_path(&invocation.env.paths.audit());
    let reason = status.failure.map(|it| format!(": {}", printable(&it.to_string())));
    report::print_stderr(&format!(
        "{} {calls} not in the audit log: {path} could not be written{}\n",
        paint(TextStyle::Warning, "warning:"),
        reason.unwrap_or_default()
    ));
}

/// Tells the operator when the audit log cannot be written, and when it can again. Runs until it is dropped.
pub async fn announce_audit_failures(invocation: &Invocation, audit: &AuditLog) {
    let path = invocation.display_path(&invocation.env.paths.audit());
    let mut changes = audit.watch_status();
    let mut had_failed = false;
    while changes.changed().await.is_ok() {
        let status = changes.borrow_and_update().clone();
        match (&status.failure, had_failed) {
            (Some(error), false) => report::print_stderr(&format!(
                "{} the audit log cannot be written, so calls {}: {path}: {}\n",
                paint(TextStyle::Warning, "warning:"),
                match audit.unrecorded_calls() {
                    UnrecordedCalls::Allow => "run without a record",
                    UnrecordedCalls::Refuse => "are refused",
                },
                printable(&error.to_string())
            )),
            (None, true) => report::print_stderr(&format!(
                "note: the audit log can be written again; records lost so far: {}\n",
                status.lost
            )),
            (Some(_), true) | (None, false) => {}
        }
        had_failed = status.failure.is_some();
    }
    std::future::pending().await
}
