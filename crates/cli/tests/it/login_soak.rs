//! Ten processes share one login whose tokens expire after two seconds, rotate, and end the login when one is used
//! twice. The authorization server is unavailable at times, and processes are killed.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::authorization_server::{AuthorizationConfig, Endpoint, ResponseFault};
use testkit::{AuthorizationServer, Sandbox, Script};

use crate::login_support::{log_in, setup, state};
use crate::support::json;

const PROGRAMS: usize = 10;
const RUN: Duration = Duration::from_secs(20);
/// The time without a refresh before a process is killed, and after it was stopped.
const IDLE_TIME: Duration = Duration::from_millis(60);

fn signal(name: &str, child: &Child) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status();
    status.expect("kill can be run");
}

/// A seeded pseudo-random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % sides
    }
}

/// Kills a process unless a refresh is in progress. A token that was issued but not yet stored is lost with its
/// process, which no program can prevent.
fn kill_when_idle(authority: &AuthorizationServer, child: &mut Child) -> bool {
    let renewals = || authority.counters().requests.get(&Endpoint::Refresh).copied().unwrap_or(0);
    let before = renewals();
    thread::sleep(IDLE_TIME); // waits for another process
    signal("-STOP", child);
    thread::sleep(IDLE_TIME); // waits for another process
    if renewals() == before {
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
        return true;
    }
    signal("-CONT", child);
    false
}

#[derive(Default)]
struct Counters {
    good: AtomicUsize,
    out: AtomicUsize,
    killed: AtomicUsize,
}

fn run_programs(authority: &AuthorizationServer, scene: &Sandbox, count: &Counters, seed: u64) {
    let mut dice = Random(seed);
    let end = Instant::now() + RUN;
    while Instant::now() < end {
        let mut command = scene.command(&scene.project(), &["ping", "web", "-n", "200", "--json"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("it starts");
        if dice.below(3) == 0 {
            thread::sleep(Duration::from_millis(dice.below(1500))); // waits for another process
            if kill_when_idle(authority, &mut child) {
                count.killed.fetch_add(1, Ordering::Relaxed);
                continue;
            }
        }
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => count.good.fetch_add(1, Ordering::Relaxed),
            // The authorization server was unavailable: the program reports that and does not ask the user to log in.
            Some(10) => count.out.fetch_add(1, Ordering::Relaxed),
            code => panic!("{code:?}: {said}"),
        };
    }
}

#[test]
fn one_login_is_enough_for_any_number_of_processes() {
    let charter = AuthorizationConfig {
        token_lifetime: 2,
        script: Script::modern(),
        ..AuthorizationConfig::compliant()
    };
    let (authority, scene) = setup(charter);
    log_in(&scene);
    authority.reconfigure(|it| {
        *it = it.clone().fault(Endpoint::Refresh, ResponseFault::UnavailableOnceIn(4))
    });
    let (authority, scene) = (Arc::new(authority), Arc::new(scene));
    let count = Arc::new(Counters::default());
    let workers: Vec<_> = (0..PROGRAMS)
        .map(|number| {
            let (authority, scene, count) = (authority.clone(), scene.clone(), count.clone());
            thread::spawn(move || run_programs(&authority, &scene, &count, number as u64))
        })
        .collect();
    for worker in workers {
        worker.join().expect("no process needs another login");
    }
    authority.reconfigure(|it| it.faults.clear());
    assert_eq!(state(&scene), "connected");
    let tally = authority.counters();
    assert_eq!(
        (tally.logins, tally.refresh_tokens_reused, tally.peak_concurrent_refreshes),
        (1, 0, 1)
    );
    let login = &json(&scene, &["auth", "status", "--json"])["logins"][0];
    assert_eq!(login["standing"], "good");
    let counted = |it: &AtomicUsize| it.load(Ordering::Relaxed);
    let (good, killed) = (counted(&count.good), counted(&count.killed));
    assert!(good > PROGRAMS && killed > 2 && tally.refreshes > 4, "{good} {killed} {tally:?}");
    println!(
        "{good} well, {killed} killed, {} out, {} renewals",
        counted(&count.out),
        tally.refreshes
    );
}
