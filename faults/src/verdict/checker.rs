//! Checks a history for violations. Pure: takes values, returns violations, and is tested with bad histories.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fault::{CallFailures, FaultKind};
use crate::verdict::failure_cause;
use crate::verdict::failure_cause::FailureCause;
use crate::verdict::history::{
    Call, Expectation, History, InjectedFault, Outcome, ResourceUsage, Shutdown,
};

/// The reconnect backoff, as documented in `docs/guide/connections.md`.
const BACKOFF_SECONDS: [u64; 5] = [1, 2, 4, 8, 16];
/// A connection that lasted this long resets the backoff.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// Time allowed in addition to the backoff: starting a program or connecting to a server, and one call. Scaled up when
/// more processes want to run than there are processors.
pub const GRACE: Duration = Duration::from_secs(5);
/// How long an attempt may last on a link that was cut meanwhile: the `timeout` of every server in the run.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(8);
/// A call that ends this soon after a fault may still be affected by it.
const AFTERMATH: Duration = Duration::from_millis(250);
/// File descriptors that may be open in addition to those before the faults.
pub const EXTRA_FILES: usize = 12;
/// Additional threads that may remain. Idle worker threads end after ten seconds.
pub const EXTRA_THREADS: usize = 4;
/// Additional memory that the allocator may keep, in kilobytes.
pub const EXTRA_MEMORY_KB: u64 = 48 * 1024;
/// The maximum length of a command line in a violation.
const COMMAND_LINE_CHARS: usize = 300;
/// The maximum number of violations listed per kind.
const SHOWN_PER_KIND: usize = 5;

/// All violations of a history.
pub fn find_violations(history: &History) -> Vec<String> {
    let mut violations = Violations::default();
    for call in &history.calls {
        check_call(call, history, &mut violations);
    }
    for (call, times) in history.executions.iter().filter(|(_, times)| **times > 1) {
        violations.add("carried out twice", format!("{call} was carried out {times} times"));
    }
    for (index, hit) in history.faults.iter().enumerate() {
        check_recovery(hit, recovery_limit(&history.faults, index), &mut violations);
    }
    for missing in &history.unresponsive {
        violations.add("missing in the end", missing.clone());
    }
    check_leaks(&history.usage, &mut violations);
    for shutdown in &history.shutdowns {
        check_shutdown(shutdown, &mut violations);
    }
    violations.into_lines()
}

#[derive(Default)]
struct Violations(BTreeMap<&'static str, Vec<String>>);

impl Violations {
    fn add(&mut self, category: &'static str, what: String) {
        self.0.entry(category).or_default().push(what);
    }

    fn into_lines(self) -> Vec<String> {
        let mut lines = Vec::new();
        for (category, all) in self.0 {
            lines.extend(all.iter().take(SHOWN_PER_KIND).map(|it| format!("{category}: {it}")));
            if all.len() > SHOWN_PER_KIND {
                lines.push(format!("{category}: and {} more", all.len() - SHOWN_PER_KIND));
            }
        }
        lines
    }
}

fn check_call(call: &Call, history: &History, violations: &mut Violations) {
    let Call { canary, server, answers, .. } = call;
    let at = call.ended.as_secs_f64();
    if *answers > 1 {
        violations.add("answered twice", format!("{canary} of `{server}` has {answers} answers"));
    }
    match &call.outcome {
        Outcome::Answered => {}
        Outcome::TimedOut => {
            violations.add("lost", format!("{canary} of `{server}`, given up at {at:.1} s"));
        }
        Outcome::WrongAnswer(message) => {
            violations.add("another's answer", format!("{canary} of `{server}`: {message}"));
        }
        Outcome::ProtocolError(message) => {
            violations.add("broken off", format!("{canary} of `{server}` at {at:.1} s: {message}"));
        }
        Outcome::Failed(message) => {
            if failure_cause::classify(message) == FailureCause::NoSuchTool
                && !is_transient(call, history)
            {
                let what =
                    format!("{canary} of `{server}` at {at:.1} s, whose server is configured");
                violations.add("denied a tool that is there", what);
            }
            if let Some(lack) = failure_cause::missing_detail(message, server) {
                let what = format!("{canary} of `{server}` at {at:.1} s {lack}: {message:?}");
                violations.add("unexplained", what);
            }
            if !is_excused(call, history) {
                let what =
                    format!("{canary} of `{server}` at {at:.1} s, no fault hit it: {message}");
                violations.add("failed for no reason", what);
            }
        }
    }
}

/// Whether the server is in the configuration only part of the time.
fn is_transient(call: &Call, history: &History) -> bool {
    let comes_and_goes =
        |it: &InjectedFault| it.kind == FaultKind::NewServer && it.servers.contains(&call.server);
    history.faults.iter().any(comes_and_goes)
}

/// Whether a failure is excused: the server is a bad one, or a fault that makes calls fail affected it.
fn is_excused(call: &Call, history: &History) -> bool {
    let is_bad = history.expectations.get(&call.server) == Some(&Expectation::Unreliable);
    let is_hit = |hit: &InjectedFault| {
        let until = hit.recovered.unwrap_or(Duration::MAX).saturating_add(AFTERMATH);
        hit.kind.call_failures() == CallFailures::Allowed
            && hit.servers.contains(&call.server)
            && call.ended >= hit.began
            && call.sent <= until
    };
    is_bad || history.faults.iter().any(is_hit)
}

/// How long a server may take to respond again after the end of the fault.
pub fn recovery_limit(faults: &[InjectedFault], index: usize) -> Duration {
    let hit = &faults[index];
    let grace = GRACE * hit.load_percent.max(100) / 100;
    let outage = hit.ended.saturating_sub(hit.began);
    match hit.kind {
        // The server responds as soon as it resumes, or as soon as the link works.
        FaultKind::StopProgram
        | FaultKind::StopRemote
        | FaultKind::SlowLink
        | FaultKind::FullDisk
        | FaultKind::ClockAhead
        | FaultKind::ClockBack
        | FaultKind::BrokenFile
        | FaultKind::NewServer
        | FaultKind::ChangedServer
        | FaultKind::DeadTokens
        | FaultKind::StopHost
        | FaultKind::FullHostDisk => grace,
        FaultKind::KillProgram | FaultKind::KillHost | FaultKind::StaleSocket => {
            backoff(consecutive_kills(faults, index)) + grace
        }
        FaultKind::KillRemote | FaultKind::NoTokens => backoff_after(outage) + grace,
        FaultKind::SilentLink | FaultKind::NoLink => {
            backoff_after(outage) + ATTEMPT_TIMEOUT + grace
        }
    }
}

/// Whether a fault ends the processes of its servers at once.
fn ends_processes(kind: FaultKind) -> bool {
    [FaultKind::KillProgram, FaultKind::KillHost, FaultKind::StaleSocket].contains(&kind)
}

/// How often the same program, or the shared host, was ended before, each time too soon for the backoff to reset.
fn consecutive_kills(faults: &[InjectedFault], index: usize) -> usize {
    let (mut count, mut since) = (0, faults[index].began);
    let target = &faults[index].servers;
    for hit in faults[..index].iter().rev() {
        if !ends_processes(hit.kind) || &hit.servers != target {
            continue;
        }
        if since.saturating_sub(hit.recovered.unwrap_or(hit.ended)) >= STABLE_AFTER {
            break;
        }
        (count, since) = (count + 1, hit.began);
    }
    count
}

fn backoff(failures: usize) -> Duration {
    Duration::from_secs(BACKOFF_SECONDS[failures.min(BACKOFF_SECONDS.len() - 1)])
}

/// The longest backoff that can be pending when an outage of this length ends.
fn backoff_after(outage: Duration) -> Duration {
    let mut begun = Duration::ZERO;
    for seconds in BACKOFF_SECONDS {
        let pause = Duration::from_secs(seconds);
        if begun + pause > outage {
            return pause;
        }
        begun += pause;
    }
    Duration::from_secs(BACKOFF_SECONDS[BACKOFF_SECONDS.len() - 1])
}

fn check_recovery(hit: &InjectedFault, bound: Duration, violations: &mut Violations) {
    let InjectedFault { kind, servers, .. } = hit;
    let who = format!("{kind} ({}) at {:.1} s", servers.join(", "), hit.began.as_secs_f64());
    for objection in &hit.problems {
        violations.add("a fault", format!("{who}: {objection}"));
    }
    match hit.recovered.map(|it| it.saturating_sub(hit.ended)) {
        None => violations.add("no recovery", format!("{who}: never answered again")),
        Some(took) if took > bound => {
            let what = format!("{who}: {:.1} s, not within {bound:?}", took.as_secs_f64());
            violations.add("late recovery", what);
        }
        Some(_) => {}
    }
}

fn check_leaks([before, after]: &[ResourceUsage; 2], violations: &mut Violations) {
    let mut check = |what: &str, before: u64, after: u64, more: u64| {
        if after > before + more {
            let what = format!("{after} {what} after {before}, more than {more} beyond");
            violations.add("leak", what);
        }
    };
    check("open files", before.files as u64, after.files as u64, EXTRA_FILES as u64);
    check("threads", before.threads as u64, after.threads as u64, EXTRA_THREADS as u64);
    check("kB of memory", before.memory, after.memory, EXTRA_MEMORY_KB);
    check("calls in flight", 0, after.in_flight as u64, 0);
    check("sessions", before.sessions as u64, after.sessions as u64, 0);
    for (line, more) in extra_processes(before, after) {
        let line: String = line.chars().take(COMMAND_LINE_CHARS).collect();
        violations.add("leak", format!("{more} more of the process {line}"));
    }
}

/// Command lines with more processes than before. One additional process is accepted: a server that was restarting
/// at the first count may be running now.
pub fn extra_processes<'a>(
    before: &ResourceUsage,
    after: &'a ResourceUsage,
) -> Vec<(&'a str, usize)> {
    let more = after.processes.iter().filter_map(|(line, now)| {
        let more = now.saturating_sub(before.processes.get(line).copied().unwrap_or(0).max(1));
        (more > 0).then_some((line.as_str(), more))
    });
    more.collect()
}

fn check_shutdown(shutdown: &Shutdown, violations: &mut Violations) {
    let how = shutdown.signal;
    if let Some(objection) = &shutdown.problem {
        violations.add("end", format!("{how}: {objection}"));
    }
    for process in &shutdown.orphans {
        violations.add("orphan", format!("{how}: {process}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn call(outcome: Outcome) -> Call {
        Call {
            canary: "c1".to_owned(),
            server: "alpha".to_owned(),
            sent: seconds(10),
            ended: seconds(11),
            outcome,
            answers: 1,
        }
    }

    fn failed(message: &str) -> Call {
        call(Outcome::Failed(message.to_owned()))
    }

    fn hit(kind: FaultKind, began: u64, lifted: u64, recovered: Option<u64>) -> InjectedFault {
        InjectedFault {
            kind,
            servers: vec!["alpha".to_owned()],
            began: seconds(began),
            ended: seconds(lifted),
            recovered: recovered.map(seconds),
            load_percent: 100,
            problems: Vec::new(),
        }
    }

    const BROKE: &str = "the connection to `alpha` was lost before the response";

    #[track_caller]
    fn check(history: History, expected: &[&str]) {
        assert_eq!(find_violations(&history), expected);
    }

    fn of_call(call: Call) -> History {
        let manners = BTreeMap::from([("alpha".to_owned(), Expectation::Reliable)]);
        History { expectations: manners, calls: vec![call], ..History::default() }
    }

    #[test]
    fn a_call_with_one_response_is_no_violation() {
        check(of_call(call(Outcome::Answered)), &[]);
    }

    #[test]
    fn a_call_without_an_answer_is_lost() {
        check(of_call(call(Outcome::TimedOut)), &["lost: c1 of `alpha`, given up at 11.0 s"]);
    }

    #[test]
    fn a_call_with_two_answers_is_answered_twice() {
        let twice = Call { answers: 2, ..call(Outcome::Answered) };
        check(of_call(twice), &["answered twice: c1 of `alpha` has 2 answers"]);
    }

    #[test]
    fn a_response_with_another_calls_canary_is_a_violation() {
        let foreign = call(Outcome::WrongAnswer("c2".to_owned()));
        check(of_call(foreign), &["another's answer: c1 of `alpha`: c2"]);
    }

    #[test]
    fn a_closed_connection_is_not_a_response() {
        let broken = call(Outcome::ProtocolError("no answer in it".to_owned()));
        check(of_call(broken), &["broken off: c1 of `alpha` at 11.0 s: no answer in it"]);
    }

    #[test]
    fn a_failure_says_why_even_where_failing_is_expected() {
        let mut history = of_call(failed("internal error"));
        history.expectations.insert("alpha".to_owned(), Expectation::Unreliable);
        check(
            history,
            &["unexplained: c1 of `alpha` at 11.0 s does not name the server: \"internal error\""],
        );
    }

    #[test]
    fn unknown_tool_is_accepted_only_for_servers_that_are_added_and_removed() {
        let mut history = of_call(failed("there is no tool `mcp__alpha__echo`"));
        history.expectations.insert("alpha".to_owned(), Expectation::Unreliable);
        let wrong =
            "denied a tool that is there: c1 of `alpha` at 11.0 s, whose server is configured";
        check(history.clone(), &[wrong]);
        history.faults.push(hit(FaultKind::NewServer, 11, 11, Some(12)));
        check(history, &[]);
    }

    #[test]
    fn a_good_server_may_fail_only_during_a_fault() {
        let during = |faults: Vec<InjectedFault>| History { faults, ..of_call(failed(BROKE)) };
        let reason =
            format!("failed for no reason: c1 of `alpha` at 11.0 s, no fault hit it: {BROKE}");
        check(during(Vec::new()), &[&reason]);
        check(during(vec![hit(FaultKind::KillProgram, 11, 11, Some(12))]), &[]);
        check(during(vec![hit(FaultKind::KillProgram, 8, 8, Some(10))]), &[]);
        check(during(vec![hit(FaultKind::KillProgram, 8, 8, Some(9))]), &[&reason]);
        check(during(vec![hit(FaultKind::KillProgram, 12, 12, Some(13))]), &[&reason]);
        check(during(vec![hit(FaultKind::StopProgram, 10, 11, Some(12))]), &[&reason]);
        let mut other = hit(FaultKind::KillProgram, 11, 11, Some(12));
        other.servers = vec!["beta".to_owned()];
        check(during(vec![other]), &[&reason]);
    }

    #[test]
    fn calls_executed_twice_are_found() {
        let carried_out = BTreeMap::from([("c1".to_owned(), 1), ("c2".to_owned(), 2)]);
        let history = History { executions: carried_out, ..History::default() };
        check(history, &["carried out twice: c2 was carried out 2 times"]);
    }

    #[test]
    fn a_server_recovers_within_the_documented_backoff() {
        let history = |hit: InjectedFault| History { faults: vec![hit], ..History::default() };
        check(history(hit(FaultKind::KillProgram, 10, 10, Some(16))), &[]);
        check(
            history(hit(FaultKind::KillProgram, 10, 10, Some(17))),
            &["late recovery: kill a program (alpha) at 10.0 s: 7.0 s, not within 6s"],
        );
        check(
            history(hit(FaultKind::StopProgram, 10, 12, None)),
            &["no recovery: stop a program, go on (alpha) at 10.0 s: never answered again"],
        );
    }

    #[test]
    fn the_end_of_the_shared_host_may_break_calls_and_a_stopped_one_may_not() {
        let during =
            |kind| History { faults: vec![hit(kind, 10, 11, Some(12))], ..of_call(failed(BROKE)) };
        check(during(FaultKind::KillHost), &[]);
        check(during(FaultKind::StaleSocket), &[]);
        let reason =
            format!("failed for no reason: c1 of `alpha` at 11.0 s, no fault hit it: {BROKE}");
        check(during(FaultKind::StopHost), &[&reason]);
        check(during(FaultKind::FullHostDisk), &[&reason]);
    }

    #[test]
    fn servers_of_an_ended_host_recover_within_the_backoff_of_consecutive_ends() {
        let end = |kind, began: u64| hit(kind, began, began, Some(began + 1));
        let faults = [
            end(FaultKind::KillHost, 10),
            end(FaultKind::StopHost, 15),
            end(FaultKind::StaleSocket, 20),
            end(FaultKind::KillHost, 90),
        ];
        let bounds: Vec<Duration> =
            (0..faults.len()).map(|index| recovery_limit(&faults, index)).collect();
        assert_eq!(bounds, [seconds(6), seconds(5), seconds(7), seconds(6)]);
        let late = History {
            faults: vec![hit(FaultKind::FullHostDisk, 10, 12, Some(18))],
            ..History::default()
        };
        check(
            late,
            &["late recovery: shared host's disk full (alpha) at 10.0 s: 6.0 s, not within 5s"],
        );
    }

    #[test]
    fn backoff_grows_with_consecutive_failures_and_outage_length() {
        let kill = |began: u64| hit(FaultKind::KillProgram, began, began, Some(began + 1));
        let mut faults = [kill(10), kill(20), kill(30), kill(90)];
        let bounds: Vec<Duration> =
            (0..faults.len()).map(|index| recovery_limit(&faults, index)).collect();
        assert_eq!(bounds, [seconds(6), seconds(7), seconds(9), seconds(6)]);
        faults[0].load_percent = 300;
        assert_eq!(recovery_limit(&faults, 0), seconds(16), "three want each processor");
        let outages = [0, 1, 2, 3, 7, 15, 100].map(|it| backoff_after(seconds(it)).as_secs());
        assert_eq!(outages, [1, 2, 2, 4, 8, 16, 16]);
    }

    #[test]
    fn resources_beyond_the_bounds_are_a_leak() {
        let processes = |twins: usize, away: usize| {
            let all = [("twins".to_owned(), twins), ("away".to_owned(), away)];
            all.into_iter().filter(|it| it.1 > 0).collect()
        };
        let before = ResourceUsage {
            files: 50,
            threads: 8,
            memory: 60_000,
            processes: processes(2, 0),
            ..ResourceUsage::default()
        };
        let after = |vitals| History { usage: [before.clone(), vitals], ..History::default() };
        check(after(before.clone()), &[]);
        check(after(ResourceUsage { processes: processes(2, 1), ..before.clone() }), &[]);
        let leaking = ResourceUsage {
            files: 63,
            threads: 13,
            memory: 60_000 + EXTRA_MEMORY_KB + 1,
            in_flight: 1,
            sessions: 2,
            ..before.clone()
        };
        assert_eq!(find_violations(&after(leaking)).len(), 5);
        let orphaned = ResourceUsage { processes: processes(3, 3), ..before.clone() };
        let lines = ["leak: 2 more of the process away", "leak: 1 more of the process twins"];
        check(after(orphaned), &lines);
        let files = ResourceUsage { files: 63, ..before.clone() };
        check(after(files), &["leak: 63 open files after 50, more than 12 beyond"]);
    }

    #[test]
    fn a_server_that_does_not_respond_at_the_end_is_missing() {
        let history =
            History { unresponsive: vec!["`alpha`: no".to_owned()], ..History::default() };
        check(history, &["missing in the end: `alpha`: no"]);
    }

    #[test]
    fn a_process_left_after_exit_is_an_orphan() {
        let shutdown = Shutdown {
            signal: "SIGKILL",
            problem: Some("it did not end".to_owned()),
            orphans: vec!["scripted".to_owned()],
        };
        let history = History { shutdowns: vec![shutdown], ..History::default() };
        check(history, &["end: SIGKILL: it did not end", "orphan: SIGKILL: scripted"]);
    }

    #[test]
    fn many_violations_of_one_kind_are_summarized() {
        let calls = vec![call(Outcome::TimedOut); 8];
        let lines = find_violations(&History { calls, ..History::default() });
        assert_eq!(lines.len(), SHOWN_PER_KIND + 1);
        assert_eq!(lines[SHOWN_PER_KIND], "lost: and 3 more");
    }
}
