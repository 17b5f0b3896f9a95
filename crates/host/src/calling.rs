//! One tool call, from a name to a result: resolve, check, permit, perform, bound, record.
//! A call leaves only with a [`Permit`], and only this file makes one. Who performs it is left to `perform`.

mod bounding;
mod relaying;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use switchboard_config::entry::Fingerprint;
use switchboard_config::permission::{
    self, Claim, Decision, Effect, Hints, Mode, Request, Rules, Suggestion, ToolRule, Trust,
};
use switchboard_wire::peer::Progress;
use thiserror::Error;
use tokio::sync::{mpsc, watch};

use crate::ask::AskError;
use crate::audit::{self, Audit, Ended, Record};
use crate::engine::Host;
use crate::inquiry::Nobody;
use crate::perform::Work;
use crate::pin::{Alteration, Pins, Standing};
use crate::places::Places;
use crate::pool::Pool;
use crate::pool::argument_check::{self, ArgumentFault};
use crate::pool::naming;
use crate::pool::tool::{Tool, ToolKind};
use crate::rulebook::Rulebook;
use crate::yielded::keep::Keep;
use crate::yielded::{Limits, Yield};

pub(crate) use bounding::PICTURES_AT_ONCE;
pub use relaying::RelayedCall;

/// Why a tool that is allowed asks nevertheless.
const CHANGED: &str = "its definition changed since it was approved";

/// What calls depend on, besides the servers.
#[derive(Clone)]
pub struct Desk {
    /// The tools there are, now and later.
    pub pool: watch::Receiver<Arc<Pool>>,
    /// What is allowed, asked and denied.
    pub rules: Rulebook,
    /// What tools looked like when they were approved.
    pub pins: Pins,
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

impl Desk {
    /// A desk to begin with: no rules, and nobody to ask, so that only servers that are trusted are called. Records
    /// and results are kept where `places` says.
    pub fn new(host: &Host, places: &Places) -> io::Result<Desk> {
        Ok(Desk {
            pool: host.watch_pool(),
            rules: Rulebook::new(Rules::default()),
            pins: Pins::open(&places.pins()),
            mode: Mode::Default,
            trusted: BTreeSet::new(),
            consent: Arc::new(Nobody::default()),
            audit: Audit::open(&places.audit())?,
            limits: Limits::default(),
            keep: Keep::below(&places.data),
        })
    }

    /// The same, with the tools of a server approved beforehand.
    pub fn trusting(mut self, server: &str) -> Desk {
        self.trusted.insert(server.to_owned());
        self
    }

    /// The same, with somebody to ask.
    pub fn asking(mut self, consent: impl Consent + 'static) -> Desk {
        self.consent = Arc::new(consent);
        self
    }
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

impl ToolCall {
    /// How long a server may take, unless told otherwise.
    pub const USUAL_PATIENCE: Duration = Duration::from_secs(600);

    /// A call that nobody watches, made by the program itself.
    pub fn new(exposed: &str, arguments: Json) -> ToolCall {
        ToolCall {
            caller: "program".to_owned(),
            exposed: exposed.to_owned(),
            arguments,
            patience: ToolCall::USUAL_PATIENCE,
            progress: None,
        }
    }
}

/// Asks somebody who may say yes or no. Takes as long as people take.
pub trait Consent: Send + Sync {
    /// Asks about one call.
    fn consent<'a>(&'a self, ask: &'a PermissionQuestion<'a>) -> Consenting<'a>;

    /// Hears what somebody who said yes should know.
    fn note(&self, text: &str) {
        let _nobody_listens = text;
    }
}

impl Consent for Nobody {
    fn consent<'a>(&'a self, ask: &'a PermissionQuestion<'a>) -> Consenting<'a> {
        Box::pin(async { Consented::No(format!("{}, and {}", ask.because, self.0)) })
    }
}

/// An answer that is being waited for.
pub type Consenting<'a> = Pin<Box<dyn Future<Output = Consented> + Send + 'a>>;

/// What somebody is asked.
#[derive(Debug)]
pub struct PermissionQuestion<'a> {
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
    pub alteration: Option<Alteration>,
}

/// What somebody answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consented {
    /// Yes.
    Yes {
        /// Who said so.
        who: String,
        /// For how long.
        holds: Holds,
    },
    /// No, and why.
    No(String),
}

/// For how long a yes holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holds {
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
        let mut recording = Recording::begin(desk, &call.caller, &call.exposed);
        let outcome = self.made(desk, call, &mut recording.record).await;
        let ended = match &outcome {
            Ok(it) if it.is_error => Ended::ToolError,
            Ok(_) => Ended::Done,
            Err(failure) => failure.into(),
        };
        recording.record.outcome = ended.id().to_owned();
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
        let fingerprint = self.handle(&tool.server).map(|it| it.view().fingerprint.clone());
        let (of_server, said) = (fingerprint.as_ref(), &mut record.verdict);
        let applicant = Applicant { caller: &call.caller, desk, consent: &*desk.consent };
        let permit = permit(applicant, &tool, of_server, &call.arguments, said).await?;
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

/// Who wants to call, what that depends on, and who is asked.
#[derive(Clone, Copy)]
struct Applicant<'a> {
    caller: &'a str,
    desk: &'a Desk,
    consent: &'a dyn Consent,
}

/// Rules first, then somebody. A tool that changed since it was approved is not the one that was approved.
async fn permit(
    applicant: Applicant<'_>,
    tool: &Arc<Tool>,
    fingerprint: Option<&Fingerprint>,
    arguments: &Json,
    said: &mut String,
) -> Result<Permit, CallFailure> {
    let Applicant { caller, desk, consent } = applicant;
    let (server, name) = (tool.prefix.as_str(), naming::as_in_rules(&tool.name));
    let rules = desk.rules.now();
    match tool.kind {
        ToolKind::BuiltIn => {
            // It only reads what other rules let the person's servers say; what they hide, it hides too.
            return Ok(Permit { because: "a built-in tool that only reads".to_owned() });
        }
        ToolKind::StandIn => return permit_login(&rules, tool),
        ToolKind::Served => {}
    }
    let request = request(desk, tool, (server, &name), arguments);
    let Decision { verdict, because } = permission::decide(&rules, &request, desk.mode);
    verdict.id().clone_into(said);
    let standing = fingerprint.map_or(Standing::Same, |it| desk.pins.standing(it, tool));
    let denied = |because| CallFailure::Denied { tool: tool.exposed.clone(), because };
    let because = because.to_string();
    let (because, alteration) = match (verdict, standing) {
        (Effect::Deny, _) => return Err(denied(because)),
        (Effect::Allow, Standing::Same) => return Ok(Permit { because }),
        (Effect::Allow, Standing::New) => {
            pin(applicant, fingerprint, tool).await;
            return Ok(Permit { because });
        }
        (Effect::Allow, Standing::Changed(alteration)) => {
            match rules.mode_that_counts(desk.mode) {
                Mode::Bypass => return Ok(Permit { because }),
                Mode::DontAsk => {
                    return Err(denied(format!(
                        "{CHANGED}, and nothing asks in the mode `dontAsk`"
                    )));
                }
                Mode::Plan | Mode::Default | Mode::AcceptEdits => {}
            }
            (CHANGED.to_owned(), Some(alteration))
        }
        (Effect::Ask, Standing::Changed(alteration)) => {
            (format!("{because}, and {CHANGED}"), Some(alteration))
        }
        (Effect::Ask, Standing::Same | Standing::New) => (because, None),
    };
    let suggestions = useful(&rules, &request, desk.mode);
    let ask = PermissionQuestion { caller, tool, arguments, because, suggestions, alteration };
    match consent.consent(&ask).await {
        Consented::Yes { who, holds } => {
            pin(applicant, fingerprint, tool).await;
            remember(applicant, holds).await;
            Ok(Permit { because: who })
        }
        Consented::No(because) => Err(denied(because)),
    }
}

/// Signing in is the person's own doing, in a browser: there is nothing to ask. A rule against the server holds.
fn permit_login(rules: &Rules, tool: &Tool) -> Result<Permit, CallFailure> {
    match permission::hides(rules, &tool.prefix, &tool.name) {
        None => Ok(Permit { because: "it only shows where to sign in".to_owned() }),
        Some(because) => {
            Err(CallFailure::Denied { tool: tool.exposed.clone(), because: because.to_string() })
        }
    }
}

/// The rules that would really answer next time: none helps where another rule wants it asked.
fn useful(rules: &Rules, request: &Request<'_>, mode: Mode) -> Vec<Suggestion> {
    let helps = |suggestion: &Suggestion| {
        let mut with = rules.clone();
        with.add_for_session(Effect::Allow, suggestion.rule.clone());
        permission::decide(&with, request, mode).verdict == Effect::Allow
    };
    permission::suggestions(request).into_iter().filter(helps).collect()
}

/// A definition that cannot be remembered is asked about once more than needed, or not noticed when it changes.
async fn pin(
    Applicant { desk, consent, .. }: Applicant<'_>,
    fingerprint: Option<&Fingerprint>,
    tool: &Arc<Tool>,
) {
    let Some(fingerprint) = fingerprint.cloned() else { return };
    let (pins, tool) = (desk.pins.clone(), tool.clone());
    let work = move || pins.pin(&fingerprint, &tool);
    if let Ok(Err(error)) = tokio::task::spawn_blocking(work).await {
        consent.note(&format!("what the tool looks like could not be remembered: {error}"));
    }
}

async fn remember(Applicant { desk, consent, .. }: Applicant<'_>, holds: Holds) {
    let rules = desk.rules.clone();
    match holds {
        Holds::Once => {}
        Holds::Session(rule) => rules.allow_for_session(rule),
        Holds::Always(rule) => {
            let written = tokio::task::spawn_blocking(move || rules.allow_for_good(rule)).await;
            if let Ok(Err(error)) = written {
                consent.note(&format!("the rule holds for this session only: {error}"));
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

impl From<&CallFailure> for Ended {
    fn from(failure: &CallFailure) -> Ended {
        match failure {
            CallFailure::NoTool { .. } | CallFailure::Arguments { .. } => Ended::Invalid,
            CallFailure::Denied { .. } => Ended::Denied,
            CallFailure::Ask(AskError::Timeout { .. }) => Ended::Timeout,
            CallFailure::Ask(_) => Ended::Failed,
        }
    }
}

/// A record that is written when the call is over, also where nobody waits for it any more.
struct Recording {
    record: Record,
    audit: Audit,
    began: Instant,
}

impl Recording {
    fn begin(desk: &Desk, caller: &str, exposed: &str) -> Recording {
        let record = Record::begin(caller, exposed);
        Recording { record, audit: desk.audit.clone(), began: Instant::now() }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let record = std::mem::take(&mut self.record);
        self.audit.record(record.after(self.began.elapsed()));
    }
}
