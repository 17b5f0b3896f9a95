//! Calls the hooks of a conversation and joins what several of them say. What a hook is, is left to `hooks`.

use std::future::Future;
use std::sync::Arc;

use serde_json::Value as Json;
use switchboard::CallContext;
use switchboard::config::permission::{PermissionEffect, PermissionMode, ToolRule};
use switchboard::permission::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};

use tokio::sync::watch;

use super::AgentLoop;
use super::channel::LoopChannel;
use crate::conversation::hooks::{
    AfterCall, CallDecision, ConversationHooks, EndAttempt, FinishedCall, TurnEnding,
};
use crate::message::{ContentBlock, ToolUse};

/// What all hooks say about a call.
pub(super) struct CheckedCall {
    pub(super) verdict: HookVerdict,
    /// Arguments that replace those of the model.
    pub(super) arguments: Option<Json>,
    pub(super) context: Vec<String>,
    pub(super) stop_because: Option<String>,
}

/// Whether the hooks let a call be made.
pub(super) enum HookVerdict {
    /// It is made; with this call context, if a hook decided whether the user is asked.
    Run(Option<Box<CallContext>>),
    /// It is not made; the model gets this text.
    Denied(String),
}

/// Calls the hooks before a call. One that denies has the last word, then one that asks, then one that allows.
pub(super) async fn before_call(
    hooks: &[Arc<dyn ConversationHooks>],
    call: &ToolUse,
    contexts: &watch::Receiver<Arc<CallContext>>,
) -> CheckedCall {
    let mut checked = CheckedCall {
        verdict: HookVerdict::Run(None),
        arguments: None,
        context: Vec::new(),
        stop_because: None,
    };
    let mut decision = CallDecision::ByRules;
    for hook in hooks {
        let changed = match &checked.arguments {
            Some(arguments) => &ToolUse { arguments: arguments.clone(), ..call.clone() },
            None => call,
        };
        let said = hook.before_call(changed).await;
        checked.arguments = said.arguments.or(checked.arguments);
        checked.context.extend(said.context);
        checked.stop_because = checked.stop_because.or(said.stop_because);
        if rank(&said.decision) > rank(&decision) {
            decision = said.decision;
        }
    }
    if let Some(why) = &checked.stop_because {
        checked.verdict = HookVerdict::Denied(format!("a hook ended the turn: {why}"));
        return checked;
    }
    // Hooks may take long; the mode and the rules are those that hold now.
    let call_context = contexts.borrow().clone();
    checked.verdict = match decision {
        CallDecision::ByRules => HookVerdict::Run(None),
        CallDecision::Deny { message } => HookVerdict::Denied(message),
        CallDecision::Allow { decided_by } => {
            let prompt = Arc::new(AllowedByHook { decided_by, inner: call_context.prompt.clone() });
            HookVerdict::Run(Some(Box::new(CallContext {
                prompt,
                ..CallContext::clone(&call_context)
            })))
        }
        CallDecision::Ask { because } => {
            HookVerdict::Run(Some(Box::new(asking_context(&call_context, call, because))))
        }
    };
    checked
}

/// Calls the hooks after a call. The last replaced result counts.
pub(super) async fn after_call(
    hooks: &[Arc<dyn ConversationHooks>],
    call: FinishedCall<'_>,
) -> AfterCall {
    let mut joined = AfterCall::default();
    for hook in hooks {
        let said = hook.after_call(call).await;
        joined.replaced_result = said.replaced_result.or(joined.replaced_result);
        joined.context.extend(said.context);
        joined.stop_because = joined.stop_because.or(said.stop_because);
        joined.withheld_because = joined.withheld_because.or(said.withheld_because);
    }
    joined
}

fn rank(decision: &CallDecision) -> u8 {
    match decision {
        CallDecision::ByRules => 0,
        CallDecision::Allow { .. } => 1,
        CallDecision::Ask { .. } => 2,
        CallDecision::Deny { .. } => 3,
    }
}

/// Allows what the rules would ask about, because a hook said so.
struct AllowedByHook {
    decided_by: String,
    inner: Arc<dyn PermissionPrompt>,
}

impl PermissionPrompt for AllowedByHook {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        // Hooks decide about calls, not about a tool that has become another one since it was approved.
        if request.definition_diff.is_some() {
            return self.inner.decide(request);
        }
        let decided_by = self.decided_by.clone();
        Box::pin(async { PermissionDecision::Allow { decided_by, scope: GrantScope::Once } })
    }

    fn warn(&self, text: &str) {
        self.inner.warn(text);
    }
}

/// A call context in which the rules ask about this tool.
fn asking_context(context: &CallContext, call: &ToolUse, because: String) -> CallContext {
    let mut asking = context.clone();
    // That mode skips every question but an administrator's.
    if asking.mode == PermissionMode::Bypass {
        asking.mode = PermissionMode::Default;
    }
    let tool = context.pool.borrow().find(&call.tool).cloned();
    if let Some(tool) = tool
        && let Ok(rule) = ToolRule::parse(&format!("mcp__{}__{}", tool.prefix, tool.rule_name()))
    {
        asking.rules = context.rules.with_rule(PermissionEffect::Ask, rule);
    }
    asking.prompt = Arc::new(AskedByHook { because, inner: context.prompt.clone() });
    asking
}

/// Tells the user why a hook wants the question.
struct AskedByHook {
    because: String,
    inner: Arc<dyn PermissionPrompt>,
}

impl PermissionPrompt for AskedByHook {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(async move {
            let asked = request.with_reason(self.because.clone());
            self.inner.decide(&asked).await
        })
    }

    fn warn(&self, text: &str) {
        self.inner.warn(text);
    }
}

impl AgentLoop {
    /// The message with what hooks add to it, or why a hook refuses it.
    pub(super) async fn submit(
        &self,
        mut message: Vec<ContentBlock>,
        channel: &mut LoopChannel,
    ) -> Result<Vec<ContentBlock>, String> {
        for hook in self.hooks.iter() {
            let submitted = while_receiving(hook.message_submitted(&message), channel).await;
            let Some(submitted) = submitted else { break };
            if let Some(why) = submitted.refused_because {
                return Err(why);
            }
            message.extend(submitted.context);
        }
        Ok(message)
    }

    /// The same for messages of channels.
    pub(super) async fn submit_from_channels(
        &self,
        mut messages: Vec<ContentBlock>,
        channel: &mut LoopChannel,
    ) -> Result<Vec<ContentBlock>, String> {
        for hook in self.hooks.iter() {
            let submitted = hook.channel_messages_submitted(&messages);
            let Some(submitted) = while_receiving(submitted, channel).await else { break };
            if let Some(why) = submitted.refused_because {
                return Err(why);
            }
            messages.extend(submitted.context);
        }
        Ok(messages)
    }

    /// What hooks add to the results of a round of calls.
    pub(super) async fn round_context(&self, channel: &mut LoopChannel) -> Vec<ContentBlock> {
        let mut context = Vec::new();
        for hook in self.hooks.iter() {
            context.extend(while_receiving(hook.after_round(), channel).await.unwrap_or_default());
        }
        context
    }

    /// The message with which a hook continues the turn.
    pub(super) async fn continuation(
        &self,
        attempt: EndAttempt,
        channel: &mut LoopChannel,
    ) -> Option<String> {
        for hook in self.hooks.iter() {
            match while_receiving(hook.turn_ending(attempt), channel).await? {
                TurnEnding::End => {}
                TurnEnding::Continue(text) => return Some(text),
            }
        }
        None
    }
}

/// Waits for a hook and receives commands meanwhile; `None` if the turn is stopped first.
async fn while_receiving<T>(hook: impl Future<Output = T>, channel: &mut LoopChannel) -> Option<T> {
    let mut hook = std::pin::pin!(hook);
    while channel.stop_cause().is_none() {
        tokio::select! {
            biased;
            said = &mut hook => return Some(said),
            () = channel.receive() => {}
        }
    }
    None
}
