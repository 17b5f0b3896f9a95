//! How long a start counts against the connect window: until it is connected, or until it clearly waits for something
//! other than this machine. The decision is pure; [`until_waiting`] samples and asks it.

use std::time::Duration;

use switchboard_wire::process::activity;
use switchboard_wire::process::activity::ProcessActivity;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often a start is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);
/// A start that does nothing for this long waits for the network or is idle.
const QUIET_PERIOD: Duration = Duration::from_secs(1);
/// The processor time that a waiting program may use during the quiet period, such as for timers.
const QUIET_CPU: Duration = Duration::from_millis(20);
/// A program that used this much processor time without a response does not only start.
const MAX_START_CPU: Duration = Duration::from_secs(10);

/// One sample of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartSample {
    /// A program runs.
    Program(ProcessActivity),
    /// There is no program to look at: the server is remote or in this process, or its program has not been started.
    NoProgram,
}

/// Whether a start still counts against the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowDecision {
    Hold,
    Release,
}

/// What the samples of a start have shown so far.
#[derive(Debug, Clone, Copy)]
struct StartWatch {
    /// When the current quiet period began, and the processor time used until then.
    quiet_since: (Instant, Duration),
}

impl StartWatch {
    fn new(now: Instant) -> StartWatch {
        StartWatch { quiet_since: (now, Duration::ZERO) }
    }

    fn on_sample(&mut self, now: Instant, sample: StartSample) -> WindowDecision {
        let (since, cpu_before) = self.quiet_since;
        if let StartSample::Program(ProcessActivity { cpu_time, is_running }) = sample {
            if cpu_time >= MAX_START_CPU {
                return WindowDecision::Release;
            }
            // A program that was restarted begins at zero.
            let is_quiet = cpu_before <= cpu_time && cpu_time <= cpu_before + QUIET_CPU;
            if is_running || !is_quiet {
                self.quiet_since = (now, cpu_time);
                return WindowDecision::Hold;
            }
        }
        match now.duration_since(since) >= QUIET_PERIOD {
            true => WindowDecision::Release,
            false => WindowDecision::Hold,
        }
    }
}

/// Waits until a start need not be counted against the window any more. `program` is the process id of the server's
/// program, once there is one.
pub(super) async fn until_waiting(program: watch::Receiver<Option<u32>>) {
    let mut watch = StartWatch::new(Instant::now());
    let mut samples = interval(SAMPLE_INTERVAL);
    samples.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let now = samples.tick().await;
        let pid = *program.borrow();
        let sample = match pid.and_then(activity::sample) {
            Some(activity) => StartSample::Program(activity),
            None => StartSample::NoProgram,
        };
        if watch.on_sample(now, sample) == WindowDecision::Release {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a sample every 200 ms, and compares which one releases the start.
    #[track_caller]
    fn check(samples: impl IntoIterator<Item = StartSample>, held: Option<usize>) {
        let start = Instant::now();
        let mut watch = StartWatch::new(start);
        let mut at = start;
        let released = samples.into_iter().position(|sample| {
            let decision = watch.on_sample(at, sample);
            at += SAMPLE_INTERVAL;
            decision == WindowDecision::Release
        });
        assert_eq!(released, held, "the sample that releases it");
    }

    fn running(cpu_ms: u64) -> StartSample {
        let cpu_time = Duration::from_millis(cpu_ms);
        StartSample::Program(ProcessActivity { cpu_time, is_running: true })
    }

    fn waiting(cpu_ms: u64) -> StartSample {
        let cpu_time = Duration::from_millis(cpu_ms);
        StartSample::Program(ProcessActivity { cpu_time, is_running: false })
    }

    #[test]
    fn a_program_that_works_is_held_however_long_it_takes() {
        check((0..200).map(|it| running(it * 40)), None);
        // Also while it only waits for a processor.
        check((0..200).map(|_| running(30)), None);
        // Also where the samples never meet a running thread.
        check((0..200).map(|it| waiting(it * 40)), None);
    }

    #[test]
    fn a_program_that_waits_is_released_after_a_quiet_second() {
        check((0..20).map(|_| waiting(10)), Some(5));
        check((0..20).map(|it| waiting(10 + it)), Some(5));
        let worked = (0..7).map(|it| running(it * 100));
        check(worked.chain((0..20).map(|_| waiting(600))), Some(11));
        // A restart is work.
        let restarted = [waiting(500), waiting(500), waiting(30)];
        check(restarted.into_iter().chain((0..20).map(|_| waiting(30))), Some(7));
    }

    #[test]
    fn a_program_that_only_burns_processor_time_is_released() {
        check((0..100).map(|it| running(it * 200)), Some(50));
    }

    #[test]
    fn a_server_without_a_program_is_released_after_a_second() {
        check((0..20).map(|_| StartSample::NoProgram), Some(5));
    }
}
