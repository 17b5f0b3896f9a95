//! What happened in a run, as plain values: calls, faults, and what the system said before and after. `judge` decides.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fault::FaultKind;

/// What is expected of a server while nothing hits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// Every call is answered.
    Reliable,
    /// Calls may fail at any time, as long as they say why.
    Unreliable,
}

/// How a call ended. Times are since the beginning of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// With its own canary.
    Answered,
    /// With a result in which its canary is not.
    WrongAnswer(String),
    /// With an error, or a result that is one: what it says.
    Failed(String),
    /// Not as the protocol has it: the gateway hung up, or said what is no answer.
    ProtocolError(String),
    /// Not at all, in the time that we waited.
    TimedOut,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What only this call says.
    pub canary: String,
    /// Whom it was for.
    pub server: String,
    /// When it was sent.
    pub sent: Duration,
    /// When it ended.
    pub ended: Duration,
    /// How it ended.
    pub outcome: Outcome,
    /// How many answers came, wherever they came.
    pub answers: usize,
}

/// One fault as it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectedFault {
    /// What went wrong.
    pub kind: FaultKind,
    /// Whom it hit.
    pub servers: Vec<String>,
    /// When it began.
    pub began: Duration,
    /// When it was over.
    pub ended: Duration,
    /// When everybody that was hit answered again.
    pub recovered: Option<Duration>,
    /// How many wanted each processor meanwhile, in hundredths.
    pub load_percent: u32,
    /// What is wrong with the fault itself, or was seen to be wrong during it.
    pub problems: Vec<String>,
}

/// What a process holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Open files, with everything that counts as one.
    pub files: usize,
    /// Those of them that are connections.
    pub sockets: usize,
    /// Those of them that are pipes to programs.
    pub pipes: usize,
    /// Threads.
    pub threads: usize,
    /// Memory, in kilobytes.
    pub memory: u64,
    /// How many processes below it there are of each command line.
    pub processes: BTreeMap<String, usize>,
    /// Calls that it says are under way.
    pub in_flight: usize,
    /// Sessions and calls that wait for somebody.
    pub sessions: usize,
}

/// How the program ended, and what it left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shutdown {
    /// How it was ended.
    pub signal: &'static str,
    /// What is wrong with how it ended.
    pub problem: Option<String>,
    /// Processes that were still there, as they call themselves.
    pub orphans: Vec<String>,
}

/// Everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// What is expected of which server.
    pub expectations: BTreeMap<String, Expectation>,
    /// All calls.
    pub calls: Vec<Call>,
    /// All faults.
    pub faults: Vec<InjectedFault>,
    /// How often servers were told to do what may not be done twice, by canary and server.
    pub executions: BTreeMap<String, usize>,
    /// The good servers that do not answer in the end, and how.
    pub unresponsive: Vec<String>,
    /// What the program said on standard error.
    pub stderr: String,
    /// The process before the faults, and after them.
    pub usage: [ResourceUsage; 2],
    /// How it ended, each time.
    pub shutdowns: Vec<Shutdown>,
}
