//! The steps of one call, from the tool's name to its bounded result.

use std::sync::Arc;
use std::time::Instant;

use crate::audit::log;
use crate::audit::log::{AuditLog, AuditRecord, CallOutcome};
use crate::builtin_tools;
use crate::call::executor;
use crate::call::services::CallServices;
use crate::permission::permit::obtain_permit;
use crate::pool::Pool;
use crate::pool::tool::Tool;
use crate::tool_result::{ToolOutput, offload};

pub use crate::call::context::CallContext;
pub use crate::call::relay::RelayedCall;
pub use crate::call::tool_call::{ToolCall, ToolCallError};
pub use crate::permission::permit::{Permit, rule_request};
pub use crate::permission::prompt::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};

/// Runs a call, and records it whatever its outcome.
pub(crate) async fn call(
    services: &CallServices,
    context: &CallContext,
    call: ToolCall,
) -> Result<ToolOutput, ToolCallError> {
    let mut pending = PendingRecord::begin(&context.audit, &call.caller, &call.exposed_name);
    let result = run(services, context, call, &mut pending.record).await;
    let outcome = match &result {
        Ok(it) if it.is_error => CallOutcome::ToolError,
        Ok(_) => CallOutcome::Succeeded,
        Err(error) => error.into(),
    };
    pending.set_outcome(outcome, result.as_ref().err());
    result
}

async fn run(
    services: &CallServices,
    context: &CallContext,
    call: ToolCall,
    record: &mut AuditRecord,
) -> Result<ToolOutput, ToolCallError> {
    let tool = resolve(&context.pool.borrow(), &call.exposed_name)?;
    record.server.clone_from(&tool.server);
    record.tool.clone_from(&tool.name);
    record.arguments = log::digest(&call.arguments);
    tool.check_arguments(&call.arguments).map_err(|faults| ToolCallError::InvalidArguments {
        tool: tool.exposed_name.clone(),
        faults,
    })?;
    let view = services.engine().connection(&tool.server).map(|it| it.view());
    let fingerprint = view.as_ref().map(|it| &it.fingerprint);
    let check = context.permission_check(&call.caller, &*context.prompt);
    let permit = obtain_permit(check, &tool, fingerprint, &call.arguments, &mut record.verdict)
        .await
        .map_err(|denied| ToolCallError::denied(&tool, denied))?;
    "allow".clone_into(&mut record.decision);
    permit.because().clone_into(&mut record.because);
    let response = executor::execute(services, permit, (context, &tool), call).await?;
    let mut limits = context.limits;
    if tool.is_built_in() {
        limits.characters = limits.characters.min(builtin_tools::MAX_CHARACTERS);
    }
    let storage = (limits, &context.spill);
    Ok(offload::bound_response(services.image_slots(), &tool.server, storage, response).await)
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
}

impl PendingRecord {
    pub(super) fn begin(audit: &AuditLog, caller: &str, exposed_name: &str) -> PendingRecord {
        let record = AuditRecord::begin(caller, exposed_name);
        PendingRecord { record, audit: audit.clone(), began: Instant::now() }
    }

    pub(super) fn set_outcome(&mut self, outcome: CallOutcome, error: Option<&ToolCallError>) {
        outcome.id().clone_into(&mut self.record.outcome);
        if let Some(ToolCallError::Denied { because, .. }) = error {
            self.record.because.clone_from(because);
        }
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        let record = std::mem::take(&mut self.record);
        self.audit.record(record.with_duration(self.began.elapsed()));
    }
}
