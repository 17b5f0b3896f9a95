//! Decides whether a history is a good one. Pure: takes values, gives complaints, and is tested with bad histories.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cause::{self, Cause};
use crate::fault::{Excuse, Kind};
use crate::history::{Call, Farewell, History, Hit, Manner, Outcome, Vitals};

/// The pauses before a lost connection is made anew, as `docs/guide/connections.md` states them.
const PAUSES: [u64; 5] = [1, 2, 4, 8, 16];
/// A connection that stood this long begins the pauses anew.
const STEADY: Duration = Duration::from_secs(30);
/// What a pause does not count: starting a program, or reaching a server, and one call. Where more want to run than there
/// are processors, everything takes longer in proportion.
pub const GRACE: Duration = Duration::from_secs(5);
/// How long an attempt may go on over a link that was cut meanwhile: the `timeout` of every server in the run.
pub const ATTEMPT: Duration = Duration::from_secs(8);
/// A call that ends this soon after a fault may still be one that the fault has hit.
const AFTERMATH: Duration = Duration::from_millis(250);
/// What may be held beyond what was held before.
pub const MORE_FILES: usize = 12;
/// Threads that wait for work end by themselves after ten seconds; these may be there for good.
pub const MORE_THREADS: usize = 4;
/// Kilobytes that may stay with the allocator.
pub const MORE_MEMORY: u64 = 48 * 1024;
/// So much of a command line is told.
const LINE: usize = 300;
/// Of each sort of complaint, so many are told.
const TOLD: usize = 5;

/// Everything that is wrong.
pub fn judge(history: &History) -> Vec<String> {
    let mut complaints = Complaints::default();
    for call in &history.calls {
        judge_call(call, history, &mut complaints);
    }
    for (call, times) in history.carried_out.iter().filter(|(_, times)| **times > 1) {
        complaints.add("carried out twice", format!("{call} was carried out {times} times"));
    }
    for (index, hit) in history.hits.iter().enumerate() {
        judge_hit(hit, bound(&history.hits, index), &mut complaints);
    }
    for missing in &history.rollcall {
        complaints.add("missing in the end", missing.clone());
    }
    judge_vitals(&history.vitals, &mut complaints);
    for farewell in &history.farewells {
        judge_farewell(farewell, &mut complaints);
    }
    complaints.told()
}

#[derive(Default)]
struct Complaints(BTreeMap<&'static str, Vec<String>>);

impl Complaints {
    fn add(&mut self, sort: &'static str, what: String) {
        self.0.entry(sort).or_default().push(what);
    }

    fn told(self) -> Vec<String> {
        let mut told = Vec::new();
        for (sort, all) in self.0 {
            told.extend(all.iter().take(TOLD).map(|it| format!("{sort}: {it}")));
            if all.len() > TOLD {
                told.push(format!("{sort}: and {} more", all.len() - TOLD));
            }
        }
        told
    }
}

fn judge_call(call: &Call, history: &History, complaints: &mut Complaints) {
    let Call { canary, server, answers, .. } = call;
    let at = call.ended.as_secs_f64();
    if *answers > 1 {
        complaints.add("answered twice", format!("{canary} of `{server}` has {answers} answers"));
    }
    match &call.outcome {
        Outcome::Echoed => {}
        Outcome::Never => {
            complaints.add("lost", format!("{canary} of `{server}`, given up at {at:.1} s"));
        }
        Outcome::Foreign(said) => {
            complaints.add("another's answer", format!("{canary} of `{server}`: {said}"));
        }
        Outcome::Broken(said) => {
            complaints.add("broken off", format!("{canary} of `{server}` at {at:.1} s: {said}"));
        }
        Outcome::Failed(said) => {
            if cause::of(said) == Cause::NoSuchTool && !is_strange(call, history) {
                let what =
                    format!("{canary} of `{server}` at {at:.1} s, whose server is configured");
                complaints.add("denied a tool that is there", what);
            }
            if let Some(lack) = cause::lacks(said, server) {
                let what = format!("{canary} of `{server}` at {at:.1} s {lack}: {said:?}");
                complaints.add("unexplained", what);
            }
            if !is_excused(call, history) {
                let what = format!("{canary} of `{server}` at {at:.1} s, no fault hit it: {said}");
                complaints.add("failed for no reason", what);
            }
        }
    }
}

/// Is it in the configuration only now and then?
fn is_strange(call: &Call, history: &History) -> bool {
    let comes_and_goes = |it: &Hit| it.kind == Kind::NewServer && it.servers.contains(&call.server);
    history.hits.iter().any(comes_and_goes)
}

/// Is the server a bad one, or was it hit by something that makes calls fail?
fn is_excused(call: &Call, history: &History) -> bool {
    let is_bad = history.manners.get(&call.server) == Some(&Manner::Bad);
    let is_hit = |hit: &Hit| {
        let until = hit.recovered.unwrap_or(Duration::MAX).saturating_add(AFTERMATH);
        hit.kind.excuse() == Excuse::Failures
            && hit.servers.contains(&call.server)
            && call.ended >= hit.began
            && call.sent <= until
    };
    is_bad || history.hits.iter().any(is_hit)
}

/// How long a server may take to be there again after the fault is over.
pub fn bound(hits: &[Hit], index: usize) -> Duration {
    let hit = &hits[index];
    let grace = GRACE * hit.crowd.max(100) / 100;
    let outage = hit.lifted.saturating_sub(hit.began);
    match hit.kind {
        // It answers as soon as it goes on, or as soon as the link carries.
        Kind::StopProgram
        | Kind::StopRemote
        | Kind::SlowLink
        | Kind::FullDisk
        | Kind::ClockAhead
        | Kind::ClockBack
        | Kind::BrokenFile
        | Kind::NewServer
        | Kind::ChangedServer
        | Kind::DeadTokens => grace,
        Kind::KillProgram => pause(row(hits, index)) + grace,
        Kind::KillRemote | Kind::NoTokens => pause_after(outage) + grace,
        Kind::SilentLink | Kind::NoLink => pause_after(outage) + ATTEMPT + grace,
    }
}

/// How often the same program was killed before, each time too soon for the pauses to begin anew.
fn row(hits: &[Hit], index: usize) -> usize {
    let (mut count, mut since) = (0, hits[index].began);
    let target = &hits[index].servers;
    for hit in hits[..index].iter().rev() {
        if hit.kind != Kind::KillProgram || &hit.servers != target {
            continue;
        }
        if since.saturating_sub(hit.recovered.unwrap_or(hit.lifted)) >= STEADY {
            break;
        }
        (count, since) = (count + 1, hit.began);
    }
    count
}

fn pause(failures: usize) -> Duration {
    Duration::from_secs(PAUSES[failures.min(PAUSES.len() - 1)])
}

/// The pause that may be under way when an outage of this length ends.
fn pause_after(outage: Duration) -> Duration {
    let mut begun = Duration::ZERO;
    for seconds in PAUSES {
        let pause = Duration::from_secs(seconds);
        if begun + pause > outage {
            return pause;
        }
        begun += pause;
    }
    Duration::from_secs(PAUSES[PAUSES.len() - 1])
}

fn judge_hit(hit: &Hit, bound: Duration, complaints: &mut Complaints) {
    let Hit { kind, servers, .. } = hit;
    let who = format!("{kind} ({}) at {:.1} s", servers.join(", "), hit.began.as_secs_f64());
    for objection in &hit.objections {
        complaints.add("a fault", format!("{who}: {objection}"));
    }
    match hit.recovered.map(|it| it.saturating_sub(hit.lifted)) {
        None => complaints.add("no recovery", format!("{who}: never answered again")),
        Some(took) if took > bound => {
            let what = format!("{who}: {:.1} s, not within {bound:?}", took.as_secs_f64());
            complaints.add("late recovery", what);
        }
        Some(_) => {}
    }
}

fn judge_vitals([before, after]: &[Vitals; 2], complaints: &mut Complaints) {
    let mut check = |what: &str, before: u64, after: u64, more: u64| {
        if after > before + more {
            let what = format!("{after} {what} after {before}, more than {more} beyond");
            complaints.add("leak", what);
        }
    };
    check("open files", before.files as u64, after.files as u64, MORE_FILES as u64);
    check("threads", before.threads as u64, after.threads as u64, MORE_THREADS as u64);
    check("kB of memory", before.memory, after.memory, MORE_MEMORY);
    check("calls in flight", 0, after.in_flight as u64, 0);
    check("sessions", before.sessions as u64, after.sessions as u64, 0);
    for (line, more) in surplus(before, after) {
        let line: String = line.chars().take(LINE).collect();
        complaints.add("leak", format!("{more} more of the process {line}"));
    }
}

/// The processes that there are more of than before. One of a kind is no surplus: a server that was just being started
/// anew before may be there now.
pub fn surplus<'a>(before: &Vitals, after: &'a Vitals) -> Vec<(&'a str, usize)> {
    let more = after.processes.iter().filter_map(|(line, now)| {
        let more = now.saturating_sub(before.processes.get(line).copied().unwrap_or(0).max(1));
        (more > 0).then_some((line.as_str(), more))
    });
    more.collect()
}

fn judge_farewell(farewell: &Farewell, complaints: &mut Complaints) {
    let how = farewell.how;
    if let Some(objection) = &farewell.objection {
        complaints.add("end", format!("{how}: {objection}"));
    }
    for process in &farewell.left {
        complaints.add("orphan", format!("{how}: {process}"));
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

    fn failed(said: &str) -> Call {
        call(Outcome::Failed(said.to_owned()))
    }

    fn hit(kind: Kind, began: u64, lifted: u64, recovered: Option<u64>) -> Hit {
        Hit {
            kind,
            servers: vec!["alpha".to_owned()],
            began: seconds(began),
            lifted: seconds(lifted),
            recovered: recovered.map(seconds),
            crowd: 100,
            objections: Vec::new(),
        }
    }

    const BROKE: &str = "the connection to `alpha` broke before the answer came";

    #[track_caller]
    fn check(history: History, expected: &[&str]) {
        assert_eq!(judge(&history), expected);
    }

    fn of_call(call: Call) -> History {
        let manners = BTreeMap::from([("alpha".to_owned(), Manner::Good)]);
        History { manners, calls: vec![call], ..History::default() }
    }

    #[test]
    fn nothing_is_wrong_with_a_call_that_is_answered_once() {
        check(of_call(call(Outcome::Echoed)), &[]);
    }

    #[test]
    fn a_call_without_an_answer_is_lost() {
        check(of_call(call(Outcome::Never)), &["lost: c1 of `alpha`, given up at 11.0 s"]);
    }

    #[test]
    fn a_call_with_two_answers_is_answered_twice() {
        let twice = Call { answers: 2, ..call(Outcome::Echoed) };
        check(of_call(twice), &["answered twice: c1 of `alpha` has 2 answers"]);
    }

    #[test]
    fn an_answer_with_another_canary_is_somebody_elses() {
        let foreign = call(Outcome::Foreign("c2".to_owned()));
        check(of_call(foreign), &["another's answer: c1 of `alpha`: c2"]);
    }

    #[test]
    fn a_gateway_that_hangs_up_is_no_answer() {
        let broken = call(Outcome::Broken("no answer in it".to_owned()));
        check(of_call(broken), &["broken off: c1 of `alpha` at 11.0 s: no answer in it"]);
    }

    #[test]
    fn a_failure_says_why_even_where_failing_is_expected() {
        let mut history = of_call(failed("internal error"));
        history.manners.insert("alpha".to_owned(), Manner::Bad);
        check(
            history,
            &["unexplained: c1 of `alpha` at 11.0 s does not name the server: \"internal error\""],
        );
    }

    #[test]
    fn that_there_is_no_such_tool_is_true_only_of_servers_that_come_and_go() {
        let mut history = of_call(failed("there is no tool `mcp__alpha__echo`"));
        history.manners.insert("alpha".to_owned(), Manner::Bad);
        let wrong =
            "denied a tool that is there: c1 of `alpha` at 11.0 s, whose server is configured";
        check(history.clone(), &[wrong]);
        history.hits.push(hit(Kind::NewServer, 11, 11, Some(12)));
        check(history, &[]);
    }

    #[test]
    fn a_good_server_fails_only_while_something_hits_it() {
        let during = |hits: Vec<Hit>| History { hits, ..of_call(failed(BROKE)) };
        let reason =
            format!("failed for no reason: c1 of `alpha` at 11.0 s, no fault hit it: {BROKE}");
        check(during(Vec::new()), &[&reason]);
        check(during(vec![hit(Kind::KillProgram, 11, 11, Some(12))]), &[]);
        check(during(vec![hit(Kind::KillProgram, 8, 8, Some(10))]), &[]);
        check(during(vec![hit(Kind::KillProgram, 8, 8, Some(9))]), &[&reason]);
        check(during(vec![hit(Kind::KillProgram, 12, 12, Some(13))]), &[&reason]);
        check(during(vec![hit(Kind::StopProgram, 10, 11, Some(12))]), &[&reason]);
        let mut other = hit(Kind::KillProgram, 11, 11, Some(12));
        other.servers = vec!["beta".to_owned()];
        check(during(vec![other]), &[&reason]);
    }

    #[test]
    fn what_is_carried_out_twice_is_found() {
        let carried_out = BTreeMap::from([("c1".to_owned(), 1), ("c2".to_owned(), 2)]);
        let history = History { carried_out, ..History::default() };
        check(history, &["carried out twice: c2 was carried out 2 times"]);
    }

    #[test]
    fn a_server_comes_back_within_the_pause_that_is_stated() {
        let history = |hit: Hit| History { hits: vec![hit], ..History::default() };
        check(history(hit(Kind::KillProgram, 10, 10, Some(16))), &[]);
        check(
            history(hit(Kind::KillProgram, 10, 10, Some(17))),
            &["late recovery: kill a program (alpha) at 10.0 s: 7.0 s, not within 6s"],
        );
        check(
            history(hit(Kind::StopProgram, 10, 12, None)),
            &["no recovery: stop a program, go on (alpha) at 10.0 s: never answered again"],
        );
    }

    #[test]
    fn pauses_grow_with_failures_in_a_row_and_with_the_outage() {
        let kill = |began: u64| hit(Kind::KillProgram, began, began, Some(began + 1));
        let mut hits = [kill(10), kill(20), kill(30), kill(90)];
        let bounds: Vec<Duration> = (0..hits.len()).map(|index| bound(&hits, index)).collect();
        assert_eq!(bounds, [seconds(6), seconds(7), seconds(9), seconds(6)]);
        hits[0].crowd = 300;
        assert_eq!(bound(&hits, 0), seconds(16), "three want each processor");
        let outages = [0, 1, 2, 3, 7, 15, 100].map(|it| pause_after(seconds(it)).as_secs());
        assert_eq!(outages, [1, 2, 2, 4, 8, 16, 16]);
    }

    #[test]
    fn what_is_held_beyond_the_bounds_is_a_leak() {
        let processes = |twins: usize, away: usize| {
            let all = [("twins".to_owned(), twins), ("away".to_owned(), away)];
            all.into_iter().filter(|it| it.1 > 0).collect()
        };
        let before = Vitals {
            files: 50,
            threads: 8,
            memory: 60_000,
            processes: processes(2, 0),
            ..Vitals::default()
        };
        let after = |vitals| History { vitals: [before.clone(), vitals], ..History::default() };
        check(after(before.clone()), &[]);
        check(after(Vitals { processes: processes(2, 1), ..before.clone() }), &[]);
        let leaking = Vitals {
            files: 63,
            threads: 13,
            memory: 60_000 + MORE_MEMORY + 1,
            in_flight: 1,
            sessions: 2,
            ..before.clone()
        };
        assert_eq!(judge(&after(leaking)).len(), 5);
        let orphaned = Vitals { processes: processes(3, 3), ..before.clone() };
        let told = ["leak: 2 more of the process away", "leak: 1 more of the process twins"];
        check(after(orphaned), &told);
        let files = Vitals { files: 63, ..before.clone() };
        check(after(files), &["leak: 63 open files after 50, more than 12 beyond"]);
    }

    #[test]
    fn who_does_not_answer_in_the_end_is_missing() {
        let history = History { rollcall: vec!["`alpha`: no".to_owned()], ..History::default() };
        check(history, &["missing in the end: `alpha`: no"]);
    }

    #[test]
    fn what_is_left_behind_is_an_orphan() {
        let farewell = Farewell {
            how: "SIGKILL",
            objection: Some("it did not end".to_owned()),
            left: vec!["scripted".to_owned()],
        };
        let history = History { farewells: vec![farewell], ..History::default() };
        check(history, &["end: SIGKILL: it did not end", "orphan: SIGKILL: scripted"]);
    }

    #[test]
    fn many_complaints_of_a_sort_are_told_in_short() {
        let calls = vec![call(Outcome::Never); 8];
        let told = judge(&History { calls, ..History::default() });
        assert_eq!(told.len(), TOLD + 1);
        assert_eq!(told[TOLD], "lost: and 3 more");
    }
}
