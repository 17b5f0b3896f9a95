//! The events of a run as plain values: calls, faults, and the state of the process before and after. `checker` judges.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fault::FaultKind;

/// The expected behaviour of a server while no fault affects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// Every call succeeds.
    Reliable,
    /// Calls may fail at any time, with a reason.
    Unreliable,
}

/// How a call ended. Times are relative to the start of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A result that contains the call's canary.
    Answered,
    /// A result that lacks the call's canary.
    WrongAnswer(String),
    /// An error, or a result marked as error, with its message.
    Failed(String),
    /// A protocol violation: the gateway closed the connection or sent something other than a response.
    ProtocolError(String),
    /// No response within the timeout.
    TimedOut,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The unique text of this call.
    pub canary: String,
    /// The name of the server.
    pub server: String,
    /// When it was sent.
    pub sent: Duration,
    /// When it ended.
    pub ended: Duration,
    /// How it ended.
    pub outcome: Outcome,
    /// How many responses arrived, on any stream.
    pub answers: usize,
}

/// One injected fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectedFault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The names of the affected servers.
    pub servers: Vec<String>,
    /// When it began.
    pub began: Duration,
    /// When it ended.
    pub ended: Duration,
    /// When all affected servers responded again.
    pub recovered: Option<Duration>,
    /// The load per processor during the fault, in hundredths.
    pub load_percent: u32,
    /// Problems with the injection itself, or observed during the fault.
    pub problems: Vec<String>,
}

/// The resources of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Open file descriptors of every kind.
    pub files: usize,
    /// File descriptors that are sockets.
    pub sockets: usize,
    /// File descriptors that are pipes.
    pub pipes: usize,
    /// Threads.
    pub threads: usize,
    /// Memory, in kilobytes.
    pub memory: u64,
    /// The number of descendant processes by command line.
    pub processes: BTreeMap<String, usize>,
    /// Calls in flight, from its metrics.
    pub in_flight: usize,
    /// Sessions and pending calls, from its metrics.
    pub sessions: usize,
}

/// How the program ended, and which processes remained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shutdown {
    /// The signal that ended it.
    pub signal: &'static str,
    /// What was wrong with its exit.
    pub problem: Option<String>,
    /// The command lines of processes that remained.
    pub orphans: Vec<String>,
}

/// The complete history of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The expected behaviour of each server.
    pub expectations: BTreeMap<String, Expectation>,
    /// All calls.
    pub calls: Vec<Call>,
    /// All faults.
    pub faults: Vec<InjectedFault>,
    /// How often servers executed calls that must not run twice, by canary and server.
    pub executions: BTreeMap<String, usize>,
    /// The good servers that did not respond at the end, and their errors.
    pub unresponsive: Vec<String>,
    /// The program's standard error.
    pub stderr: String,
    /// The process before and after the faults.
    pub usage: [ResourceUsage; 2],
    /// How the program ended, for each run.
    pub shutdowns: Vec<Shutdown>,
}
