//! The ways that every message or call goes, each so that it can be gone so many times with nothing besides.
//! `instructions` counts what they cost; what is prepared beforehand costs the same however often they are gone.

mod call_checks;
mod gateway_calls;
mod messages;
mod peer_calls;

use std::ffi::OsString;

use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// The word that makes this program go one way: `NAME TIMES`.
pub const SUBCOMMAND: &str = "__hot";

/// One way.
#[derive(Debug)]
pub struct HotPath {
    /// What it is called, here and in the record.
    pub name: &'static str,
    /// How often it is gone at least, so that one time more or less can be seen.
    pub times: usize,
    run: fn(usize) -> Result<(), Failure>,
}

const fn path(name: &'static str, times: usize, go: fn(usize) -> Result<(), Failure>) -> HotPath {
    HotPath { name, times, run: go }
}

/// All of them, from the wire upwards. Searching is not among them: words are hashed with keys drawn by chance, which
/// makes a difference of 5 % from run to run.
pub const ALL: &[HotPath] = &[
    path("message-read-100B", 10_000, messages::read_small),
    path("message-read-10KB", 500, messages::read_large),
    path("message-write-100B", 10_000, messages::write_small),
    path("message-write-10KB", 3_000, messages::write_large),
    path("line-read-100B", 10_000, messages::lines_small),
    path("line-read-10KB", 500, messages::lines_large),
    path("event-read-100B", 10_000, messages::events_small),
    path("event-read-10KB", 3_000, messages::events_large),
    path("peer-call-handed-over", 1_000, peer_calls::in_memory),
    path("peer-call-as-bytes", 1_000, peer_calls::as_bytes),
    path("client-call-http", 1_000, peer_calls::over_http),
    path("permission-100-rules", 1_000, call_checks::hundred_rules),
    path("permission-1000-rules", 200, call_checks::thousand_rules),
    path("arguments-checked", 5_000, call_checks::arguments),
    path("result-bounded-10KB", 100, call_checks::result_within),
    path("result-bounded-200KB", 20, call_checks::result_beyond),
    path("host-call", 1_000, peer_calls::host_call),
    path("gateway-call-link", 1_000, gateway_calls::in_memory),
    path("gateway-call-http", 1_000, gateway_calls::over_http),
];

/// Goes one way.
pub fn run(words: &[OsString]) -> Result<(), Failure> {
    let [name, times] = words else { return Err(Failure::InvalidHotPath) };
    let path = ALL.iter().find(|it| name == it.name).ok_or(Failure::InvalidHotPath)?;
    let times = times.to_str().and_then(|it| it.parse().ok()).ok_or(Failure::InvalidHotPath)?;
    (path.run)(times)
}

/// One thread, so that the same happens in the same order every time.
fn runtime() -> Result<Runtime, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::client("a runtime", error))
}
