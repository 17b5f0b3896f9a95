//! No process that we started survives us, no matter how we exit.

use std::time::Duration;

use testkit::processes::{processes_with_environment, wait_until};
use testkit::{Quirk, Script, ScriptedProgram};

use crate::status::Watch;
use crate::support::{USER, scene};

#[test]
fn after_a_kill_no_process_survives_not_even_grandchildren_in_their_own_sessions() {
    let scene = scene();
    let family = Script::legacy()
        .quirk(Quirk::ForksGrandchildren { n: 2 })
        .quirk(Quirk::IgnoresStdinClose)
        .quirk(Quirk::IgnoresSigterm);
    let plain = Script::legacy().quirk(Quirk::IgnoresStdinClose);
    scene.write_servers(
        USER,
        &format!(
            "\"family\": {}, \"plain\": {}",
            ScriptedProgram::config_entry(&family),
            ScriptedProgram::config_entry(&plain)
        ),
    );
    let watch = Watch::start(&scene);
    watch.wait_for("the family is connected", |line| {
        line["name"] == "family" && line["state"] == "connected"
    });
    let mark = format!("SWITCHBOARD_OWNER={}.", watch.pid());
    wait_until(Duration::from_secs(10), "all five are there", || {
        (processes_with_environment(&mark).len() >= 5).then_some(())
    });
    watch.kill();
    wait_until(Duration::from_secs(5), "all are gone", || {
        processes_with_environment(&mark).is_empty().then_some(())
    });
}

#[test]
fn processes_of_an_earlier_run_are_ended_at_the_next_start() {
    let scene = scene();
    scene.write_servers(
        USER,
        &format!("\"plain\": {}", ScriptedProgram::config_entry(&Script::legacy())),
    );
    // The mark of an owner that no longer runs: no process has this id and start time.
    let mark = format!("4194303.1/{}", std::process::id());
    let mut orphan = std::process::Command::new("sleep")
        .arg("1000")
        .env("SWITCHBOARD_OWNER", &mark)
        .spawn()
        .expect("it can be started");
    // A process with the mark of a running owner is not killed.
    let own = own_owner_mark();
    let mut kept = std::process::Command::new("sleep")
        .arg("1000")
        .env("SWITCHBOARD_OWNER", &own)
        .spawn()
        .expect("it can be started");
    scene.swb(&["ping", "plain"]).expect_success();
    wait_until(Duration::from_secs(5), "the orphan is gone", || orphan.try_wait().ok().flatten());
    assert!(
        kept.try_wait().expect("it can be asked").is_none(),
        "the child of a running owner was killed"
    );
    kept.kill().expect("it can be killed");
    kept.wait().expect("it ends");
}

/// The mark of this process: its id and start time.
fn own_owner_mark() -> String {
    let number = std::process::id();
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).expect("it is there");
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    let began = fields.split(' ').nth(19).expect("a beginning");
    format!("{number}.{began}/0")
}
