//! One tool call, from a name to a result: resolve, check, permit, send, bound, record.
//! A call made here leaves only with a [`Permit`], and only this file makes one. `Host::ask` is below that wall:
//! whoever uses it to call a tool has decided by themselves.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use switchboard_config::permission::{
    self, Claim, Decision, Effect, Hints, Mode, Request, Rules, Suggestion, Trust,
};
use switchboard_wire::message::Payload;
use switchboard_wire::peer::Progress;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::ask::{AskError, Question, Repeat};
use crate::audit::{self, Audit, Record};
use crate::engine::Host;
use crate::pool::Pool;
use crate::pool::argument_check::{self, ArgumentFault};
use crate::pool::naming;
use crate::pool::tool::Tool;
use crate::yielded::keep::Keep;
use crate::yielded::{self, Limits, Yield};

/// What calls depend on, besides the servers.
#[derive(Clone)]
pub struct Desk {
    /// The tools there are.
    pub pool: Arc<Pool>,
    /// What is allowed, asked and denied.
    pub rules: Rules,
    /// How much is asked.
    pub mode: Mode,
    /// Servers whose tools are approved beforehand.
    pub trusted: BTreeSet<String>,
    /// Who is asked.
    pub consent: Arc<dyn Consent>,
    /// Where calls are recorded.
    pub audit: Audit,
    /// How much of a result is passed on.
    pub limits: Limits,
    /// Where the rest is kept.
    pub keep: Keep,
}

impl fmt::Debug for Desk {
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
    pub exposed: String,
    /// Its arguments.
    pub arguments: Json,
    /// How long the server may take; signs of progress begin the wait anew.
    pub patience: Duration,
    /// Who hears of progress.
    pub progress: Option<mpsc::Sender<Progress>>,
}

/// Asks somebody who may say yes or no. Takes as long as people take.
pub trait Consent: Send + Sync {
    /// Asks about one call.
    fn consent<'a>(&'a self, ask: &'a PermissionQuestion<'a>) -> Consenting<'a>;
}

/// An answer that is being waited for.
pub type Consenting<'a> = Pin<Box<dyn Future<Output = Consented> + Send + 'a>>;

/// What somebody is asked.
#[derive(Debug)]
pub struct PermissionQuestion<'a> {
    /// The tool.
    pub tool: &'a Tool,
    /// The arguments.
    pub arguments: &'a Json,
    /// Why it is asked.
    pub because: String,
    /// The rules that would answer it next time.
    pub suggestions: Vec<Suggestion>,
}

/// What somebody answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consented {
    /// Yes, and who said so.
    Yes(String),
    /// No, and why.
    No(String),
}

/// Leave to make one call. Only [`Host::call`] makes it.
#[derive(Debug)]
struct Permit {
    because: String,
}

/// Why a call has no result.
#[derive(Debug, Error)]
pub enum CallFailure {
    /// There is no such tool.
    #[error("there is no tool `{name}`")]
    NoTool {
        /// What was asked for.
        name: String,
        /// Names that are near.
        nearest: Vec<String>,
    },
    /// The arguments do not fit.
    #[error("the arguments of `{tool}` do not fit")]
    Arguments {
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
    Ask(#[from] AskError),
}

impl Host {
    /// Makes a call, and records it whatever becomes of it.
    pub async fn call(&self, desk: &Desk, call: ToolCall) -> Result<Yield, CallFailure> {
        let mut recording = Recording::begin(desk, &call);
        let outcome = self.made(desk, call, &mut recording.record).await;
        recording.record.outcome = word(&outcome).to_owned();
        if let Err(CallFailure::Denied { because, .. }) = &outcome {
            recording.record.because.clone_from(because);
        }
        outcome
    }

    async fn made(
        &self,
        desk: &Desk,
        call: ToolCall,
        record: &mut Record,
    ) -> Result<Yield, CallFailure> {
        let tool = resolve(&desk.pool, &call.exposed)?;
        record.server.clone_from(&tool.server);
        record.tool.clone_from(&tool.name);
        record.arguments = audit::digest(&call.arguments);
        check(&tool, &call.arguments)?;
        let permit = permit(desk, &tool, &call.arguments, &mut record.verdict).await?;
        "allow".clone_into(&mut record.decision);
        record.because.clone_from(&permit.because);
        let server = tool.server.clone();
        let answer = self.send(permit, &tool, call).await?;
        Ok(bound(desk, server, answer).await)
    }

    async fn send(&self, _leave: Permit, tool: &Tool, call: ToolCall) -> Result<Payload, AskError> {
        let arguments = Payload::from_json(call.arguments.to_string().into());
        let mirrored = Some(&tool.mirror).filter(|mirror| !mirror.is_empty());
        let mirrored = mirrored.map(|mirror| mirror.headers(&arguments));
        let params = json!({"name": tool.name, "arguments": call.arguments});
        let may_repeat = tool.annotations.read_only || tool.annotations.idempotent;
        let question = Question {
            method: "tools/call".to_owned(),
            params: Some(Payload::from_json(params.to_string().into())),
            repeat: if may_repeat { Repeat::Harmless } else { Repeat::Harmful },
            patience: call.patience,
            progress: call.progress,
            mirrored,
        };
        self.ask(&tool.server, question).await
    }
}

fn resolve(pool: &Pool, name: &str) -> Result<Arc<Tool>, CallFailure> {
    const NEAR: usize = 3;
    pool.find(name).cloned().ok_or_else(|| CallFailure::NoTool {
        name: name.to_owned(),
        nearest: pool.nearest(name, NEAR).into_iter().map(|it| it.exposed.clone()).collect(),
    })
}

fn check(tool: &Tool, arguments: &Json) -> Result<(), CallFailure> {
    argument_check::check(tool, arguments)
        .map_err(|faults| CallFailure::Arguments { tool: tool.exposed.clone(), faults })
}

/// Rules first, then somebody.
async fn permit(
    desk: &Desk,
    tool: &Tool,
    arguments: &Json,
    said: &mut String,
) -> Result<Permit, CallFailure> {
    let (server, name) = (naming::sanitised(&tool.server), naming::sanitised(&tool.name));
    let request = request(desk, tool, (&server, &name), arguments);
    let Decision { verdict, because } = permission::decide(&desk.rules, &request, desk.mode);
    verdict.id().clone_into(said);
    let because = because.to_string();
    let denied = |because| CallFailure::Denied { tool: tool.exposed.clone(), because };
    match verdict {
        Effect::Allow => Ok(Permit { because }),
        Effect::Deny => Err(denied(because)),
        Effect::Ask => {
            let suggestions = permission::suggestions(&request);
            let ask = PermissionQuestion { tool, arguments, because, suggestions };
            match desk.consent.consent(&ask).await {
                Consented::Yes(because) => Ok(Permit { because }),
                Consented::No(because) => Err(denied(because)),
            }
        }
    }
}

/// A call as the rules see it.
pub fn request<'a>(
    desk: &Desk,
    tool: &Tool,
    names: (&'a str, &'a str),
    arguments: &'a Json,
) -> Request<'a> {
    let claim = |said: bool| if said { Claim::Yes } else { Claim::No };
    let is_trusted = desk.trusted.contains(&tool.server);
    Request {
        server: names.0,
        tool: names.1,
        arguments,
        hints: Hints {
            read_only: claim(tool.annotations.read_only),
            destructive: claim(tool.annotations.destructive),
            open_world: claim(tool.annotations.open_world),
        },
        trust: if is_trusted { Trust::Given } else { Trust::Withheld },
    }
}

/// What is passed on of an answer. Pictures take time, so this happens off the runtime's threads.
async fn bound(desk: &Desk, server: String, answer: Payload) -> Yield {
    let (limits, keep) = (desk.limits, desk.keep.clone());
    let work = move || yielded::of_call(&answer, &server, &limits, &keep);
    match tokio::task::spawn_blocking(work).await {
        Ok(bounded) => bounded,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn word(outcome: &Result<Yield, CallFailure>) -> &'static str {
    match outcome {
        Ok(it) if it.is_error => "tool-error",
        Ok(_) => "ok",
        Err(CallFailure::NoTool { .. } | CallFailure::Arguments { .. }) => "invalid",
        Err(CallFailure::Denied { .. }) => "denied",
        Err(CallFailure::Ask(AskError::Timeout { .. })) => "timeout",
        Err(CallFailure::Ask(_)) => "failed",
    }
}

/// A record that is written when the call is over, also where nobody waits for it any more.
struct Recording {
    record: Record,
    audit: Audit,
    began: Instant,
}

impl Recording {
    fn begin(desk: &Desk, call: &ToolCall) -> Recording {
        let record = Record::begin(&call.caller, &call.exposed);
        Recording { record, audit: desk.audit.clone(), began: Instant::now() }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.audit.record(self.record.clone().after(self.began.elapsed()));
    }
}
