//! The steps of one call, from the tool's name to its bounded result.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value as Json;
use tracing::{debug, info};

use crate::audit::log;
use crate::audit::log::{AuditLog, AuditRecord, CallOutcome, QueueSlot};
use crate::builtin_tools;
use crate::call::executor;
use crate::call::services::CallServices;
use crate::permission::permit::{PermissionCheck, obtain_permit};
use crate::pool::Pool;
use crate::pool::argument_check::{ArgumentFault, ArgumentFaultKind};
use crate::pool::tool::Tool;
use crate::tool_result::{ToolOutput, offload};

pub(crate) use crate::call::context::CallContext;
pub(crate) use crate::call::tool_call::{ToolCall, ToolCallError};

/// Runs a call, and records it whatever its outcome.
pub(crate) async fn call(
    services: &CallServices,
    context: &CallContext,
    call: ToolCall,
) -> Result<ToolOutput, ToolCallError> {
    let mut pending = PendingRecord::begin(&context.audit, &call.caller, &call.exposed_name);
    let result = run(services, context, call, &mut pending).await;
    let outcome = match &result {
        Ok(it) if it.is_error => CallOutcome::ToolError,
        Ok(_) => CallOutcome::Succeeded,
        Err(error) => error.into(),
    };
    pending.set_outcome(outcome, result.as_ref().err());
    pending.finish().await;
    result
}

async fn run(
    services: &CallServices,
    context: &CallContext,
    mut call: ToolCall,
    pending: &mut PendingRecord,
) -> Result<ToolOutput, ToolCallError> {
    let record = &mut pending.record;
    let tool = resolve(&context.pool.borrow(), &call.exposed_name)?;
    record.server.clone_from(&tool.server);
    record.tool.clone_from(&tool.name);
    record.arguments = log::digest(&call.arguments);
    check_arguments(&tool, &mut call.arguments).await.map_err(|faults| {
        ToolCallError::InvalidArguments { tool: tool.exposed_name.clone(), faults }
    })?;
    let view = services.engine().connection(&tool.server).map(|it| it.view());
    let fingerprint = view.as_ref().and_then(|it| it.pin_fingerprint());
    let check = PermissionCheck {
        call_id: call.call_id.as_deref(),
        ..context.permission_check(&call.caller, &*context.prompt)
    };
    let mut permit = obtain_permit(check, &tool, fingerprint, &call.arguments, &mut record.verdict)
        .await
        .map_err(|denied| ToolCallError::denied(&tool, denied))?;
    "allow".clone_into(&mut record.decision);
    permit.because().clone_into(&mut record.because);
    if let Some(arguments) = permit.take_changed_arguments() {
        record.arguments = log::digest(&arguments);
        call.arguments = arguments;
        check_arguments(&tool, &mut call.arguments).await.map_err(|faults| {
            ToolCallError::InvalidArguments { tool: tool.exposed_name.clone(), faults }
        })?;
    }
    pending.record_start(&tool).await?;
    // Whatever the server sends from now on may be in later calls.
    context.record_seen(&tool, &call.arguments).await?;
    let response = executor::execute(services, permit, (context, &tool), call).await?;
    let mut limits = context.limits;
    if tool.is_built_in() {
        limits.characters = limits.characters.min(builtin_tools::MAX_CHARACTERS);
    }
    let storage = (limits, &context.spill);
    Ok(offload::bound_response(services.image_slots(), &tool.server, storage, response).await)
}

/// Checks arguments, on a thread of its own if that may take long: other tasks and signals do not wait for it.
async fn check_arguments(tool: &Arc<Tool>, arguments: &mut Json) -> Result<(), Vec<ArgumentFault>> {
    if let Some(checked) = tool.check_arguments_quickly(arguments) {
        return checked;
    }
    let (tool, moved) = (tool.clone(), std::mem::take(arguments));
    let check = move || (tool.check_arguments(&moved), moved);
    let Ok((checked, returned)) = tokio::task::spawn_blocking(check).await else {
        let kind = ArgumentFaultKind::Invalid { expected: "could not be checked".to_owned() };
        return Err(vec![ArgumentFault { at: String::new(), kind }]);
    };
    *arguments = returned;
    checked
}

fn resolve(pool: &Pool, name: &str) -> Result<Arc<Tool>, ToolCallError> {
    const MAX_SUGGESTIONS: usize = 3;
    pool.find(name).cloned().ok_or_else(|| ToolCallError::UnknownTool {
        name: name.to_owned(),
        nearest: pool
            .nearest(name, MAX_SUGGESTIONS)
            .into_iter()
            .map(|it| it.exposed_name.clone())
            .collect(),
    })
}

/// An audit record that is written when it is dropped, also where the caller cancels the call.
pub(super) struct PendingRecord {
    pub(super) record: AuditRecord,
    audit: AuditLog,
    began: Instant,
    /// The room in the queue that [`PendingRecord::finish`] waited for.
    slot: Option<QueueSlot>,
}

impl PendingRecord {
    pub(super) fn begin(audit: &AuditLog, caller: &str, exposed_name: &str) -> PendingRecord {
        let record = AuditRecord::begin(caller, exposed_name);
        PendingRecord { record, audit: audit.clone(), began: Instant::now(), slot: None }
    }

    pub(super) fn set_outcome(&mut self, outcome: CallOutcome, error: Option<&ToolCallError>) {
        outcome.id().clone_into(&mut self.record.outcome);
        if let Some(ToolCallError::Denied { because, .. }) = error {
            self.record.because.clone_from(because);
        }
        if let Some(ToolCallError::Unrecorded { .. }) = error {
            "deny".clone_into(&mut self.record.decision);
            "the audit log could not be written".clone_into(&mut self.record.because);
        }
    }

    /// Records the start of the call where the settings refuse calls without a record. The tool may run only after it.
    pub(super) async fn record_start(&mut self, tool: &Tool) -> Result<(), ToolCallError> {
        self.audit
            .record_start(&mut self.record)
            .await
            .map_err(|error| ToolCallError::Unrecorded { tool: tool.exposed_name.clone(), error })
    }

    /// Queues the record, and waits where the disk does not keep up.
    pub(super) async fn finish(mut self) {
        self.slot = self.audit.slot_if_full().await;
    }
}

/// Logs a call without its arguments.
fn log_call(record: &AuditRecord) {
    let AuditRecord { caller, server, tool, exposed, outcome, because, duration_ms, .. } = record;
    if *outcome == CallOutcome::Denied.id() {
        info!(caller, server, tool, because, "call denied");
    } else {
        debug!(caller, server, tool, exposed, outcome, duration_ms, "call finished");
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        let record = std::mem::take(&mut self.record).with_duration(self.began.elapsed());
        log_call(&record);
        match self.slot.take() {
            Some(slot) => slot.record(record),
            None => self.audit.record(record),
        }
    }
}
