//! One tool call, from a name to a result: resolve, check, permit, perform, bound, record.
//! A call leaves only with a [`Permit`], and only this file makes one. Who performs it is left to `perform`.

mod bounding;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use switchboard_config::permission::{
    self, Claim, Decision, Effect, Hints, Mode, Request, Rules, Suggestion, Trust,
};
use switchboard_wire::peer::Progress;
use thiserror::Error;
use tokio::sync::{mpsc, watch};

use crate::ask::AskError;
use crate::audit::{self, Audit, Record};
use crate::engine::Host;
use crate::perform::Work;
use crate::pool::Pool;
use crate::pool::argument_check::{self, ArgumentFault};
use crate::pool::naming;
use crate::pool::tool::Tool;
use crate::yielded::keep::Keep;
use crate::yielded::{Limits, Yield};

pub(crate) use bounding::PICTURES_AT_ONCE;

/// What calls depend on, besides the servers.
#[derive(Clone)]
pub struct Desk {
    /// The tools there are, now and later.
    pub pool: watch::Receiver<Arc<Pool>>,
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

/// Leave to make one call. Only [`Host::call`] makes it, and whoever performs the call takes it.
#[derive(Debug)]
pub struct Permit {
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
        let tool = resolve(&desk.pool.borrow(), &call.exposed)?;
        record.server.clone_from(&tool.server);
        record.tool.clone_from(&tool.name);
        record.arguments = audit::digest(&call.arguments);
        check(&tool, &call.arguments)?;
        let permit = permit(desk, &tool, &call.arguments).await?;
        "allow".clone_into(&mut record.decision);
        record.because.clone_from(&permit.because);
        let work = Work { host: self, desk, tool: &tool, call };
        let answer = tool.performer.perform(permit, work).await?;
        Ok(self.bound(desk, &tool, answer).await)
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
async fn permit(desk: &Desk, tool: &Tool, arguments: &Json) -> Result<Permit, CallFailure> {
    if tool.is_built_in() {
        // It only reads what other rules let the person's servers say; what they hide, it hides too.
        return Ok(Permit { because: "a built-in tool that only reads".to_owned() });
    }
    let (server, name) = (naming::as_in_rules(&tool.server), naming::as_in_rules(&tool.name));
    let request = request(desk, tool, (&server, &name), arguments);
    let Decision { verdict, because } = permission::decide(&desk.rules, &request, desk.mode);
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
        let record = std::mem::take(&mut self.record);
        self.audit.record(record.after(self.began.elapsed()));
    }
}
