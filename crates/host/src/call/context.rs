//! The call context: the dependencies of calls besides the servers.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use switchboard_config::permission::{PermissionMode, PermissionRules};
use tokio::sync::watch;

use crate::audit::log::AuditLog;
use crate::call::tool_call::{ToolCall, ToolCallError};
use crate::elicitation::elicitor::DeclineAll;
use crate::permission::active_rules::ActiveRules;
use crate::permission::permit::{PermissionCheck, PermitDenial, ReasonDetail};
use crate::permission::prompt::PermissionPrompt;
use crate::permission::seen_store::SeenTool;
use crate::permission::tool_pins::ToolPins;
use crate::pool::naming::NameOrigin;
use crate::pool::tool::{Tool, ToolKind};
use crate::pool::{Pool, naming};
use crate::sources::paths::Paths;
use crate::tool_result::OutputLimits;
use crate::tool_result::spill::SpillStore;

/// The dependencies of calls besides the servers.
#[derive(Clone)]
pub struct CallContext {
    /// The tools.
    pub pool: watch::Receiver<Arc<Pool>>,
    /// The permission rules.
    pub rules: ActiveRules,
    /// The definitions of tools that were approved.
    pub tool_pins: ToolPins,
    /// The permission mode.
    pub mode: PermissionMode,
    /// Servers whose tools are permitted without asking.
    pub trusted_servers: BTreeSet<String>,
    /// Asks the user.
    pub prompt: Arc<dyn PermissionPrompt>,
    /// Records calls.
    pub audit: AuditLog,
    /// The limits of results.
    pub limits: OutputLimits,
    /// Stores results beyond the limits.
    pub spill: SpillStore,
    /// The detail of denial reasons.
    pub reason_detail: ReasonDetail,
    /// The timeout of the calls that a model makes.
    pub tool_timeout: Duration,
}

impl CallContext {
    /// A context without rules and without a user to ask, so that only tools of trusted servers are permitted.
    pub fn new(pool: watch::Receiver<Arc<Pool>>, paths: &Paths) -> io::Result<CallContext> {
        Ok(CallContext {
            pool,
            rules: ActiveRules::new(PermissionRules::default()),
            tool_pins: ToolPins::open(&paths.pins()),
            mode: PermissionMode::Default,
            trusted_servers: BTreeSet::new(),
            prompt: Arc::new(DeclineAll::default()),
            audit: AuditLog::open(&paths.audit())?,
            limits: OutputLimits::default(),
            spill: SpillStore::in_data_folder(&paths.data),
            reason_detail: ReasonDetail::default(),
            tool_timeout: ToolCall::DEFAULT_TIMEOUT,
        })
    }

    /// The same with one more trusted server.
    pub fn with_trusted_server(mut self, server: &str) -> CallContext {
        self.trusted_servers.insert(server.to_owned());
        self
    }

    /// The same with a prompt that asks the user.
    pub fn with_prompt(mut self, prompt: impl PermissionPrompt + 'static) -> CallContext {
        self.prompt = Arc::new(prompt);
        self
    }

    /// Records that the caller sees results of a tool from now on. Fails if other processes depend on it and cannot be told.
    pub(super) async fn record_seen(
        &self,
        tool: &Tool,
        arguments: &Json,
    ) -> Result<(), ToolCallError> {
        let seen: Vec<SeenTool> = match tool.kind {
            ToolKind::Server | ToolKind::Embedded | ToolKind::ExtensionMethod => {
                vec![(tool.prefix.clone(), tool.rule_name().into_owned())]
            }
            // It reads from a server that the arguments name.
            ToolKind::BuiltIn => {
                let server = arguments["server"].as_str();
                let name = |server| {
                    [NameOrigin::Configured, NameOrigin::Connector]
                        .map(|origin| (naming::prefix(server, origin), tool.name.clone()))
                };
                server.into_iter().flat_map(name).collect()
            }
            ToolKind::LoginPlaceholder => Vec::new(),
        };
        for (server, tool) in &seen {
            self.rules.record_seen(server, tool);
        }
        let shared = self.rules.share_seen(&seen).await;
        shared.map_err(|error| ToolCallError::denied(tool, PermitDenial::by(error.to_string())))
    }

    /// The permission check for a caller, with this prompt instead of the context's.
    pub(super) fn permission_check<'a>(
        &'a self,
        caller: &'a str,
        prompt: &'a dyn PermissionPrompt,
    ) -> PermissionCheck<'a> {
        PermissionCheck {
            caller,
            call_id: None,
            rules: &self.rules,
            pins: &self.tool_pins,
            mode: self.mode,
            trusted_servers: &self.trusted_servers,
            prompt,
            reason_detail: self.reason_detail,
        }
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext").field("mode", &self.mode).finish_non_exhaustive()
    }
}
