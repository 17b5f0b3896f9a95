//! Counts a call for the quotas of its principal, and records one that a quota refuses.

use serde_json::json;
use switchboard::audit::log::{AuditRecord, CallOutcome};
use switchboard::pool::Tool;
use switchboard_wire::jsonrpc::message::RpcError;

use super::Relay;
use super::errors::quota_exceeded;
use crate::downstream::request::InboundRequest;
use crate::quotas::QuotaSlot;

impl Relay {
    /// Counts a call. It counts as running until the returned slot is dropped.
    pub(super) async fn count_for_quotas(
        &self,
        request: &InboundRequest,
        (requested_name, tool): (&str, &Tool),
    ) -> Result<Option<QuotaSlot>, RpcError> {
        let principal = request.principal();
        let counted = self.quotas.start_call(principal, (&tool.prefix, &tool.rule_name())).await;
        let refusal = match counted {
            Ok(slot) => return Ok(slot),
            Err(refusal) => refusal,
        };
        self.metrics.count_limit(refusal.limit, principal, self.started.elapsed());
        self.principals.start_call(principal).finish(CallOutcome::Denied);
        let mut record = AuditRecord::begin(principal, requested_name);
        record.server.clone_from(&tool.server);
        record.tool.clone_from(&tool.name);
        CallOutcome::Denied.id().clone_into(&mut record.outcome);
        record.because.clone_from(&refusal.text);
        record.origin = request.origin();
        self.audit.record(record);
        let seconds = refusal.retry_after.as_millis().div_ceil(1000).max(1);
        let data = json!({"limit": refusal.limit.label(), "retryAfterSeconds": seconds});
        Err(quota_exceeded(&refusal.text, seconds, &data))
    }
}
