//! Asks the user whether a call is permitted.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value as Json;
use switchboard_config::permission::{Approver, Suggestion, ToolRule};

use crate::elicitation::elicitor::DeclineAll;
use crate::permission::definition_diff::DefinitionDiff;
use crate::pool::tool::Tool;

/// Asks the user. Has no timeout.
pub trait PermissionPrompt: Send + Sync {
    /// Asks about one call.
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a>;

    /// Shows a warning to the user who permitted a call.
    fn warn(&self, text: &str) {
        let _not_shown = text;
    }
}

impl PermissionPrompt for DeclineAll {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(async { PermissionDecision::Deny(format!("{}, and {}", request.because, self.0)) })
    }
}

/// Resolves to the user's decision.
pub type DecisionFuture<'a> = Pin<Box<dyn Future<Output = PermissionDecision> + Send + 'a>>;

/// A call that needs the user's permission.
#[derive(Debug)]
#[non_exhaustive]
pub struct PermissionRequest<'a> {
    /// The caller: `cli`, or the name of a client, which may act for another user.
    pub caller: &'a str,
    /// The id of the call in the caller's conversation, if it has one.
    pub call_id: Option<&'a str>,
    /// The tool.
    pub tool: &'a Tool,
    /// The arguments.
    pub arguments: &'a Json,
    /// Why the user is asked.
    pub because: String,
    /// Rules that would permit such calls in future, the narrowest first. Empty where no rule would.
    pub suggestions: Vec<Suggestion>,
    /// The approver, if the caller is a client of a gateway.
    pub approver: Approver,
    /// The changes to the tool's definition since it was approved, if any.
    pub definition_diff: Option<DefinitionDiff>,
}

impl PermissionRequest<'_> {
    /// The same request for another reason.
    pub fn with_reason(&self, because: String) -> PermissionRequest<'_> {
        PermissionRequest {
            caller: self.caller,
            call_id: self.call_id,
            tool: self.tool,
            arguments: self.arguments,
            because,
            suggestions: self.suggestions.clone(),
            approver: self.approver,
            definition_diff: self.definition_diff.clone(),
        }
    }
}

/// The user's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionDecision {
    /// The call is permitted.
    Allow {
        /// The source of the decision, for the audit log.
        decided_by: String,
        /// How long the permission lasts.
        scope: GrantScope,
    },
    /// This call is permitted, with other arguments. They are checked like the original ones: against the tool's schema
    /// and the rules that deny.
    AllowChanged {
        /// The source of the decision, for the audit log.
        decided_by: String,
        /// The arguments to call the tool with.
        arguments: Json,
    },
    /// The call is denied, for this reason.
    Deny(String),
    /// The user denied the call and gave no reason.
    DeniedByUser,
    /// The prompt ended without the user's answer.
    NoAnswer,
}

impl PermissionDecision {
    /// The decision and how long it lasts, for logs.
    pub(crate) fn log_label(&self) -> &'static str {
        match self {
            PermissionDecision::Allow { scope: GrantScope::Once, .. } => "allow once",
            PermissionDecision::Allow { scope: GrantScope::Session(_), .. } => "allow for session",
            PermissionDecision::Allow { scope: GrantScope::Always(_), .. } => "allow always",
            PermissionDecision::AllowChanged { .. } => "allow once, with changed arguments",
            PermissionDecision::Deny(_) | PermissionDecision::DeniedByUser => "deny",
            PermissionDecision::NoAnswer => "no answer",
        }
    }
}

/// How long a permission lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantScope {
    /// For this call.
    Once,
    /// For calls that match this rule, during this session.
    Session(ToolRule),
    /// For calls that match this rule, permanently.
    Always(ToolRule),
}
