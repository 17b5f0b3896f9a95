//! Asks for permission in the channels of the session and wherever else it is asked for, at the same time. The first answer
//! counts, once: a channel grants no rule.

use std::sync::Arc;
use std::time::Duration;

use switchboard::Host;
use switchboard::channel::{PermissionQuestion, RelayAnswer, RelayVerdict};
use switchboard::config::display::printable;
use switchboard::permission::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};

use super::input_preview::input_preview;

/// How long a call waits for the answer of a channel where no user can be asked otherwise.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A permission prompt that asks the channels of the session besides.
pub struct RelayPrompt {
    inner: Arc<dyn PermissionPrompt>,
    host: Host,
    local: LocalPrompt,
}

/// What the prompt beside the channels does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalPrompt {
    /// It asks a user or a program, and takes as long as they do.
    Asks,
    /// It refuses at once, because it cannot ask.
    Refuses,
}

impl RelayPrompt {
    /// The same prompt with the channels of a host beside it.
    pub fn new(inner: Arc<dyn PermissionPrompt>, host: Host, local: LocalPrompt) -> RelayPrompt {
        RelayPrompt { inner, host, local }
    }

    /// The decision of the prompt. One that refuses at once must not be faster than every channel.
    async fn decide_locally(&self, request: &PermissionRequest<'_>) -> PermissionDecision {
        match self.local {
            LocalPrompt::Asks => {}
            LocalPrompt::Refuses => tokio::time::sleep(ANSWER_TIMEOUT).await,
        }
        self.inner.decide(request).await
    }
}

impl PermissionPrompt for RelayPrompt {
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        Box::pin(async move {
            // A channel does not see what changed, and its answer would approve the new definition.
            if request.definition_diff.is_some() {
                return self.inner.decide(request).await;
            }
            let question = question(request);
            let relayed = self.host.relay_permission_request(&request.tool.server, &question);
            let Some(mut relayed) = relayed else { return self.inner.decide(request).await };
            // Dropping either withdraws it: the dialog closes, and later answers of channels do not count.
            tokio::select! {
                biased;
                decision = self.decide_locally(request) => decision,
                answer = relayed.answer() => {
                    self.inner.warn(&told(&question.tool_name, &answer));
                    decision_of(&answer)
                }
            }
        })
    }

    fn warn(&self, text: &str) {
        self.inner.warn(text);
    }
}

fn question(request: &PermissionRequest<'_>) -> PermissionQuestion {
    let tool = request.tool;
    PermissionQuestion {
        tool_name: printable(&tool.exposed_name),
        description: format!(
            "A conversation asks to call the tool `{}` of the server `{}`.",
            printable(&tool.name),
            printable(&tool.server)
        ),
        input_preview: input_preview(request.arguments),
    }
}

/// What the user is told whose dialog closes.
fn told(tool: &str, answer: &RelayAnswer) -> String {
    let verdict = match answer.verdict {
        RelayVerdict::Allow => "allowed",
        RelayVerdict::Deny => "denied",
    };
    format!("`{tool}` was {verdict} through the channel `{}`", printable(&answer.server))
}

fn decision_of(answer: &RelayAnswer) -> PermissionDecision {
    let server = &answer.server;
    match answer.verdict {
        RelayVerdict::Allow => PermissionDecision::Allow {
            decided_by: format!("allowed through the channel `{server}`"),
            scope: GrantScope::Once,
        },
        RelayVerdict::Deny => {
            PermissionDecision::Deny(format!("denied through the channel `{server}`"))
        }
    }
}
