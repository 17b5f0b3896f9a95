//! One tool call, from a name to a result: resolve, check, permit, perform, bound, record.
//! A call leaves only with a [`Permit`], and only this file makes one. Who performs it is left to `perform`.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use switchboard_config::entry::server::Fingerprint;
use switchboard_config::permission::{
    self, CallRequest, HintValue, PermissionEffect, PermissionMode, PermissionRules, RuleDecision,
    Suggestion, ToolHints, ToolRule, Trust,
};
use switchboard_wire::peer::Progress;
use thiserror::Error;
use tokio::sync::{mpsc, watch};

use crate::audit::log;
use crate::audit::log::{AuditLog, AuditRecord, CallOutcome};
use crate::call::executor::ToolExecution;
use crate::elicitation::elicitor::DeclineAll;
use crate::host::Host;
use crate::permission::active_rules::ActiveRules;
use crate::permission::tool_pins::{DefinitionDiff, PinStatus, ToolPins};
use crate::pool::Pool;
use crate::pool::argument_check::{self, ArgumentFault};
use crate::pool::naming;
use crate::pool::tool::{Tool, ToolKind};
use crate::request::send::RequestError;
use crate::sources::paths::Paths;
use crate::tool_result::spill::SpillStore;
use crate::tool_result::{OutputLimits, ToolOutput};

pub use crate::call::relay::RelayedCall;
pub(crate) use crate::tool_result::offload::MAX_CONCURRENT_IMAGE_DECODES;

/// Why a tool that is allowed asks nevertheless.
const CHANGED_SINCE_APPROVAL: &str = "its definition changed since it was approved";

/// What calls depend on, besides the servers.
#[derive(Clone)]
pub struct CallContext {
    /// The tools there are, now and later.
    pub pool: watch::Receiver<Arc<Pool>>,
    /// What is allowed, asked and denied.
    pub rules: ActiveRules,
    /// What tools looked like when they were approved.
    pub tool_pins: ToolPins,
    /// How much is asked.
    pub mode: PermissionMode,
    /// Servers whose tools are approved beforehand.
    pub trusted_servers: BTreeSet<String>,
    /// Who is asked.
    pub prompt: Arc<dyn PermissionPrompt>,
    /// Where calls are recorded.
    pub audit: AuditLog,
    /// How much of a result is passed on.
    pub limits: OutputLimits,
    /// Where the rest is kept.
    pub spill: SpillStore,
}

impl CallContext {
    /// A desk to begin with: no rules, and nobody to ask, so that only servers that are trusted are called. Records
    /// and results are kept where `paths` says.
    pub fn new(host: &Host, paths: &Paths) -> io::Result<CallContext> {
        Ok(CallContext {
            pool: host.watch_pool(),
            rules: ActiveRules::new(PermissionRules::default()),
            tool_pins: ToolPins::open(&paths.pins()),
            mode: PermissionMode::Default,
            trusted_servers: BTreeSet::new(),
            prompt: Arc::new(DeclineAll::default()),
            audit: AuditLog::open(&paths.audit())?,
            limits: OutputLimits::default(),
            spill: SpillStore::in_data_folder(&paths.data),
        })
    }

    /// The same, with the tools of a server approved beforehand.
    pub fn with_trusted_server(mut self, server: &str) -> CallContext {
        self.trusted_servers.insert(server.to_owned());
        self
    }

    /// The same, with somebody to ask.
    pub fn with_prompt(mut self, prompt: impl PermissionPrompt + 'static) -> CallContext {
        self.prompt = Arc::new(prompt);
        self
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// A call that somebody wants to make.
#[derive(Debug)]
pub struct ToolCall {
    /// Who.
    pub caller: String,
    /// The tool's exposed name.
    pub exposed_name: String,
    /// Its arguments.
    pub arguments: Json,
    /// How long the server may take; signs of progress begin the wait anew.
    pub timeout: Duration,
    /// Who hears of progress.
    pub progress: Option<mpsc::Sender<Progress>>,
}

impl ToolCall {
    /// How long a server may take, unless told otherwise.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

    /// A call that nobody watches, made by the program itself.
    pub fn new(exposed: &str, arguments: Json) -> ToolCall {
        ToolCall {
            caller: "program".to_owned(),
            exposed_name: exposed.to_owned(),
            arguments,
            timeout: ToolCall::DEFAULT_TIMEOUT,
            progress: None,
        }
    }
}

/// Asks somebody who may say yes or no. Takes as long as people take.
pub trait PermissionPrompt: Send + Sync {
    /// Asks about one call.
    fn decide<'a>(&'a self, permission_request: &'a PermissionRequest<'a>) -> DecisionFuture<'a>;

    /// Hears what somebody who said yes should know.
    fn warn(&self, text: &str) {
        let _nobody_listens = text;
    }
}

impl PermissionPrompt for DeclineAll {
    fn decide<'a>(&'a self, permission_request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(async {
            PermissionDecision::Deny(format!("{}, and {}", permission_request.because, self.0))
        })
    }
}

/// An answer that is being waited for.
pub type DecisionFuture<'a> = Pin<Box<dyn Future<Output = PermissionDecision> + Send + 'a>>;

/// What somebody is asked.
#[derive(Debug)]
pub struct PermissionRequest<'a> {
    /// Who wants to call: `cli`, or the name of a client behind which somebody else may stand.
    pub caller: &'a str,
    /// The tool.
    pub tool: &'a Tool,
    /// The arguments.
    pub arguments: &'a Json,
    /// Why it is asked.
    pub because: String,
    /// The rules that would answer it next time, narrowest first. None where no rule would.
    pub suggestions: Vec<Suggestion>,
    /// What changed about the tool since it was approved, where something did.
    pub definition_diff: Option<DefinitionDiff>,
}

/// What somebody answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionDecision {
    /// Yes.
    Allow {
        /// Who said so.
        decided_by: String,
        /// For how long.
        scope: GrantScope,
    },
    /// No, and why.
    Deny(String),
}

/// For how long a yes holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantScope {
    /// For this call.
    Once,
    /// For calls that this rule is about, while the session lasts.
    Session(ToolRule),
    /// For calls that this rule is about, from now on.
    Always(ToolRule),
}

/// Leave to make one call. Only [`Host::call`] makes it, and whoever performs the call takes it.
#[derive(Debug)]
pub struct Permit {
    pub(crate) because: String,
}

/// Why a call has no result.
#[derive(Debug, Error)]
pub enum ToolCallError {
    /// There is no such tool.
    #[error("there is no tool `{name}`")]
    UnknownTool {
        /// What was asked for.
        name: String,
        /// Names that are near.
        nearest: Vec<String>,
    },
    /// The arguments do not fit.
    #[error("the arguments of `{tool}` do not fit")]
    InvalidArguments {
        /// The tool.
        tool: String,
        /// What is wrong with them.
        faults: Vec<ArgumentFault>,
    },
    /// It is not permitted.
    #[error("`{tool}` is not permitted: {because}")]
    Denied {
        /// The tool.
        tool: String,
        /// Why.
        because: String,
    },
    /// The server did not do it.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl Host {
    /// Makes a call, and records it whatever becomes of it.
    pub async fn call(
        &self,
        context: &CallContext,
        call: ToolCall,
    ) -> Result<ToolOutput, ToolCallError> {
        let mut recording = PendingRecord::begin(context, &call.caller, &call.exposed_name);
        let outcome = self.run_call(context, call, &mut recording.record).await;
        let call_outcome = match &outcome {
            Ok(it) if it.is_error => CallOutcome::ToolError,
            Ok(_) => CallOutcome::Succeeded,
            Err(failure) => failure.into(),
        };
        recording.record.outcome = call_outcome.id().to_owned();
        if let Err(ToolCallError::Denied { because, .. }) = &outcome {
            recording.record.because.clone_from(because);
        }
        outcome
    }

    async fn run_call(
        &self,
        context: &CallContext,
        call: ToolCall,
        record: &mut AuditRecord,
    ) -> Result<ToolOutput, ToolCallError> {
        let tool = resolve(&context.pool.borrow(), &call.exposed_name)?;
        record.server.clone_from(&tool.server);
        record.tool.clone_from(&tool.name);
        record.arguments = log::digest(&call.arguments);
        check_arguments(&tool, &call.arguments)?;
        let fingerprint = self.connection(&tool.server).map(|it| it.view().fingerprint.clone());
        let (of_server, rule_verdict) = (fingerprint.as_ref(), &mut record.verdict);
        let check = PermissionCheck { caller: &call.caller, context, prompt: &*context.prompt };
        let permit = obtain_permit(check, &tool, of_server, &call.arguments, rule_verdict).await?;
        "allow".clone_into(&mut record.decision);
        record.because.clone_from(&permit.because);
        let work = ToolExecution { host: self, context, tool: &tool, call };
        let response = tool.executor.execute(permit, work).await?;
        Ok(self.bound_output(context, &tool, response).await)
    }
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

fn check_arguments(tool: &Tool, arguments: &Json) -> Result<(), ToolCallError> {
    argument_check::check(tool, arguments).map_err(|faults| ToolCallError::InvalidArguments {
        tool: tool.exposed_name.clone(),
        faults,
    })
}

/// Who wants to call, what that depends on, and who is asked.
#[derive(Clone, Copy)]
pub(crate) struct PermissionCheck<'a> {
    pub(crate) caller: &'a str,
    pub(crate) context: &'a CallContext,
    pub(crate) prompt: &'a dyn PermissionPrompt,
}

/// Rules first, then somebody. A tool that changed since it was approved is not the one that was approved.
pub(crate) async fn obtain_permit(
    check: PermissionCheck<'_>,
    tool: &Arc<Tool>,
    fingerprint: Option<&Fingerprint>,
    arguments: &Json,
    rule_verdict: &mut String,
) -> Result<Permit, ToolCallError> {
    let PermissionCheck { caller, context: context, prompt: prompt } = check;
    let (server, name) = (tool.prefix.as_str(), naming::sanitise_borrowed(&tool.name));
    let rules = context.rules.current();
    match tool.kind {
        ToolKind::BuiltIn => {
            // It only reads what other rules let the person's servers say; what they hide, it hides too.
            return Ok(Permit { because: "a read-only built-in tool".to_owned() });
        }
        ToolKind::LoginPlaceholder => return permit_login(&rules, tool),
        ToolKind::Server => {}
    }
    let request = rule_request(context, tool, (server, &name), arguments);
    let RuleDecision { effect: verdict, reason: because } =
        permission::decide(&rules, &request, context.mode);
    verdict.id().clone_into(rule_verdict);
    let pin_status =
        fingerprint.map_or(PinStatus::Unchanged, |it| context.tool_pins.status(it, tool));
    let denied = |because| ToolCallError::Denied { tool: tool.exposed_name.clone(), because };
    let because = because.to_string();
    let (because, definition_diff) = match (verdict, pin_status) {
        (PermissionEffect::Deny, _) => return Err(denied(because)),
        (PermissionEffect::Allow, PinStatus::Unchanged) => return Ok(Permit { because }),
        (PermissionEffect::Allow, PinStatus::New) => {
            pin_definition(check, fingerprint, tool).await;
            return Ok(Permit { because });
        }
        (PermissionEffect::Allow, PinStatus::Changed(definition_diff)) => {
            match rules.effective_mode(context.mode) {
                PermissionMode::Bypass => return Ok(Permit { because }),
                PermissionMode::DontAsk => {
                    return Err(denied(format!(
                        "{CHANGED_SINCE_APPROVAL}, and nothing asks in the mode `dontAsk`"
                    )));
                }
                PermissionMode::Plan | PermissionMode::Default | PermissionMode::AcceptEdits => {}
            }
            (CHANGED_SINCE_APPROVAL.to_owned(), Some(definition_diff))
        }
        (PermissionEffect::Ask, PinStatus::Changed(definition_diff)) => {
            (format!("{because}, and {CHANGED_SINCE_APPROVAL}"), Some(definition_diff))
        }
        (PermissionEffect::Ask, PinStatus::Unchanged | PinStatus::New) => (because, None),
    };
    let suggestions = useful_suggestions(&rules, &request, context.mode);
    let permission_request =
        PermissionRequest { caller, tool, arguments, because, suggestions, definition_diff };
    match prompt.decide(&permission_request).await {
        PermissionDecision::Allow { decided_by: decided_by, scope: scope } => {
            pin_definition(check, fingerprint, tool).await;
            record_grant(check, scope).await;
            Ok(Permit { because: decided_by })
        }
        PermissionDecision::Deny(because) => Err(denied(because)),
    }
}

/// Signing in is the person's own doing, in a browser: there is nothing to ask. A rule against the server holds.
fn permit_login(rules: &PermissionRules, tool: &Tool) -> Result<Permit, ToolCallError> {
    match permission::tool_hidden_by(rules, &tool.prefix, &tool.name) {
        None => Ok(Permit { because: "it only shows where to sign in".to_owned() }),
        Some(because) => Err(ToolCallError::Denied {
            tool: tool.exposed_name.clone(),
            because: because.to_string(),
        }),
    }
}

/// The rules that would really answer next time: none helps where another rule wants it asked.
fn useful_suggestions(
    rules: &PermissionRules,
    request: &CallRequest<'_>,
    mode: PermissionMode,
) -> Vec<Suggestion> {
    let helps = |suggestion: &Suggestion| {
        let mut with = rules.clone();
        with.add_for_session(PermissionEffect::Allow, suggestion.rule.clone());
        permission::decide(&with, request, mode).effect == PermissionEffect::Allow
    };
    permission::suggestions(request).into_iter().filter(helps).collect()
}

/// A definition that cannot be remembered is asked about once more than needed, or not noticed when it changes.
async fn pin_definition(
    PermissionCheck { context: context, prompt: prompt, .. }: PermissionCheck<'_>,
    fingerprint: Option<&Fingerprint>,
    tool: &Arc<Tool>,
) {
    let Some(fingerprint) = fingerprint.cloned() else { return };
    let (pins, tool) = (context.tool_pins.clone(), tool.clone());
    let work = move || pins.pin(&fingerprint, &tool);
    if let Ok(Err(error)) = tokio::task::spawn_blocking(work).await {
        prompt.warn(&format!("what the tool looks like could not be remembered: {error}"));
    }
}

async fn record_grant(
    PermissionCheck { context: context, prompt: prompt, .. }: PermissionCheck<'_>,
    scope: GrantScope,
) {
    let rules = context.rules.clone();
    match scope {
        GrantScope::Once => {}
        GrantScope::Session(rule) => rules.allow_for_session(rule),
        GrantScope::Always(rule) => {
            let written = tokio::task::spawn_blocking(move || rules.allow_always(rule)).await;
            if let Ok(Err(error)) = written {
                prompt.warn(&format!("the rule holds for this session only: {error}"));
            }
        }
    }
}

/// A call as the rules see it.
pub fn rule_request<'a>(
    context: &CallContext,
    tool: &Tool,
    names: (&'a str, &'a str),
    arguments: &'a Json,
) -> CallRequest<'a> {
    let claim = |rule_verdict: bool| if rule_verdict { HintValue::Yes } else { HintValue::No };
    let is_trusted = context.trusted_servers.contains(&tool.server);
    CallRequest {
        server: names.0,
        tool: names.1,
        arguments,
        hints: ToolHints {
            read_only: claim(tool.annotations.read_only),
            destructive: claim(tool.annotations.destructive),
            open_world: claim(tool.annotations.open_world),
        },
        trust: if is_trusted { Trust::Trusted } else { Trust::Untrusted },
    }
}

impl From<&ToolCallError> for CallOutcome {
    fn from(failure: &ToolCallError) -> CallOutcome {
        match failure {
            ToolCallError::UnknownTool { .. } | ToolCallError::InvalidArguments { .. } => {
                CallOutcome::Invalid
            }
            ToolCallError::Denied { .. } => CallOutcome::Denied,
            ToolCallError::Request(RequestError::Timeout { .. }) => CallOutcome::Timeout,
            ToolCallError::Request(_) => CallOutcome::Failed,
        }
    }
}

/// A record that is written when the call is over, also where nobody waits for it any more.
pub(crate) struct PendingRecord {
    pub(crate) record: AuditRecord,
    audit: AuditLog,
    began: Instant,
}

impl PendingRecord {
    pub(crate) fn begin(context: &CallContext, caller: &str, exposed: &str) -> PendingRecord {
        let record = AuditRecord::begin(caller, exposed);
        PendingRecord { record, audit: context.audit.clone(), began: Instant::now() }
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        let record = std::mem::take(&mut self.record);
        self.audit.record(record.with_duration(self.began.elapsed()));
    }
}
