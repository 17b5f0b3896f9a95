//! Nothing of ours outlives us, however we die.

use std::time::Duration;

use testkit::processes::{processes_with_environment, wait_until};
use testkit::{Quirk, Script, ScriptedProgram};

use crate::status::Watch;
use crate::support::{USER, scene};

#[test]
fn killed_without_mercy_nothing_survives_not_even_grandchildren_in_sessions_of_their_own() {
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
fn what_a_predecessor_left_behind_is_ended_at_the_next_start() {
    let scene = scene();
    scene.write_servers(
        USER,
        &format!("\"plain\": {}", ScriptedProgram::config_entry(&Script::legacy())),
    );
    // As if an owner and its guard had both been killed: nobody has this number and this beginning.
    let mark = format!("4194303.1/{}", std::process::id());
    let mut orphan = std::process::Command::new("sleep")
        .arg("1000")
        .env("SWITCHBOARD_OWNER", &mark)
        .spawn()
        .expect("it can be started");
    // One that carries the mark of somebody who lives is left alone.
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
        "somebody else's child was killed"
    );
    kept.kill().expect("it can be killed");
    kept.wait().expect("it ends");
}

/// This process as an owner: its number and when it began.
fn own_owner_mark() -> String {
    let number = std::process::id();
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).expect("it is there");
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    let began = fields.split(' ').nth(19).expect("a beginning");
    format!("{number}.{began}/0")
}
