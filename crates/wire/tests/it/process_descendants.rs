//! Descendants that hide: with an empty environment, in a session of their own, without their parents.

use std::path::{Path, PathBuf};
use std::process::Command;

use switchboard_wire::process::child::{DescendantSearch, ProcessOptions, Program, StopStep};
use switchboard_wire::process::command::{RunningCommand, Supervision};
use switchboard_wire::process::{
    CgroupUse, ProcessSet, SetDescendants, WatchdogProgram, child, command,
};
use tokio::net::unix::pipe::Receiver;

use crate::process::{is_alive, wait_for_file, wait_until_dead};

/// A process that neither the mark nor the process group finds. Its parent is the shell.
const HIDDEN: &str = "env -i setsid sh -c 'echo $$ > hidden; exec sleep 1000' &";

/// The same, and its parent exits at once.
const ORPHAN: &str = "(env -i setsid sh -c 'echo $$ > hidden; exec sleep 1000' &);";

/// Waits in a shell until the hidden process runs.
const UNTIL_HIDDEN: &str = "while [ ! -s hidden ]; do sleep 0.01; done";

fn shell_program(script: &str, folder: &Path) -> Program {
    Program {
        command: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env: vec![("PATH".into(), std::env::var_os("PATH").unwrap_or_default())],
        cwd: Some(folder.to_owned()),
    }
}

fn options(cgroups: CgroupUse) -> ProcessOptions {
    ProcessOptions { cgroups, ..ProcessOptions::default() }
}

async fn hidden_pid(folder: &Path) -> String {
    wait_for_file(folder.join("hidden")).await.trim().to_owned()
}

/// The example program of this crate that can be an owner, a watchdog and a supervisor.
fn process_roles() -> PathBuf {
    let test_program = std::env::current_exe().expect("a test knows its own path");
    let folders = test_program.ancestors().skip(1);
    let found = folders.map(|folder| folder.join("examples/process_roles")).find(|it| it.is_file());
    found.expect("the examples of this crate are built with its tests")
}

fn supervisor() -> WatchdogProgram {
    WatchdogProgram {
        command: process_roles().into(),
        args: vec!["watch".into()],
        supervisor_args: vec!["supervise".into()],
    }
}

fn spawn_supervised(script: &str, folder: &Path) -> (Receiver, RunningCommand) {
    let supervisor = supervisor();
    let supervision = Supervision::Supervised(&supervisor);
    let program = shell_program(script, folder);
    command::spawn(&program, &options(CgroupUse::Never), supervision)
        .expect("a shell can be started")
}

#[tokio::test]
async fn a_server_s_hidden_descendant_is_found_by_its_parent() {
    let home = tempfile::tempdir().expect("a temp folder");
    let program = shell_program(&format!("{HIDDEN} read -r line"), home.path());
    let (transport, mut process) =
        child::spawn(&program, &options(CgroupUse::Never)).expect("it starts");
    let (other_transport, other) =
        child::spawn(&shell_program("read -r line", home.path()), &options(CgroupUse::Never))
            .expect("it starts");
    let hidden = hidden_pid(home.path()).await;
    process.note_descendants(DescendantSearch::Now).await;
    drop(transport);
    process.stop(DescendantSearch::Now).await;
    wait_until_dead(&hidden).await;
    assert!(is_alive(&other.pid().expect("it runs").to_string()), "another program is left alone");
    drop(other_transport);
    other.stop(DescendantSearch::Now).await;
}

#[tokio::test]
async fn a_dropped_server_leaves_no_hidden_descendant() {
    let home = tempfile::tempdir().expect("a temp folder");
    let program = shell_program(&format!("{HIDDEN} sleep 1000"), home.path());
    let running = child::spawn(&program, &options(CgroupUse::Never)).expect("it starts");
    let hidden = hidden_pid(home.path()).await;
    drop(running);
    wait_until_dead(&hidden).await;
}

#[tokio::test]
async fn the_descendants_of_a_set_are_found_before_and_killed_after_its_programs_stop() {
    let home = tempfile::tempdir().expect("a temp folder");
    let process_set = ProcessSet::new();
    let options = ProcessOptions { process_set, ..options(CgroupUse::Never) };
    let program = shell_program(&format!("{HIDDEN} read -r line"), home.path());
    let (transport, process) = child::spawn(&program, &options).expect("it starts");
    let hidden = hidden_pid(home.path()).await;
    let descendants = SetDescendants::find(process_set);
    drop(transport);
    process.stop(DescendantSearch::Deferred).await;
    assert!(is_alive(&hidden), "the search was deferred");
    descendants.kill();
    wait_until_dead(&hidden).await;
}

#[tokio::test]
async fn a_cgroup_holds_a_descendant_without_any_link() {
    if !CgroupUse::WherePossible.is_effective() {
        return; // this system gives us no cgroup
    }
    let home = tempfile::tempdir().expect("a temp folder");
    let until_moved = "until grep -q switchboard- /proc/self/cgroup; do sleep 0.01; done;";
    let program = shell_program(&format!("{until_moved} {ORPHAN} read -r line"), home.path());
    let (transport, process) =
        child::spawn(&program, &options(CgroupUse::WherePossible)).expect("it starts");
    let hidden = hidden_pid(home.path()).await;
    let cgroup = std::fs::read_to_string(format!("/proc/{hidden}/cgroup")).expect("it runs");
    assert!(cgroup.contains(&format!("/switchboard-{}.", std::process::id())), "{cgroup}");
    drop(transport);
    process.stop(DescendantSearch::Now).await;
    wait_until_dead(&hidden).await;
}

#[tokio::test]
async fn a_supervised_command_ends_with_every_descendant() {
    let home = tempfile::tempdir().expect("a temp folder");
    let script = format!("{ORPHAN} {UNTIL_HIDDEN}; exit 3");
    let (_output, mut running) = spawn_supervised(&script, home.path());
    assert_eq!(running.wait().await.expect("it ends").code(), Some(3));
    assert!(!is_alive(&hidden_pid(home.path()).await), "it is gone before the command is over");
}

#[tokio::test]
async fn a_supervised_command_is_stopped_with_every_descendant() {
    let home = tempfile::tempdir().expect("a temp folder");
    for (trap, step) in [("", StopStep::Terminate), ("trap '' TERM;", StopStep::Kill)] {
        let _earlier = std::fs::remove_file(home.path().join("hidden"));
        let script = format!("{trap} {ORPHAN} while :; do sleep 1000; done");
        let (_output, running) = spawn_supervised(&script, home.path());
        let hidden = hidden_pid(home.path()).await;
        let ended = running.stop().await;
        assert_eq!(ended.step, step);
        wait_until_dead(&hidden).await;
    }
}

#[tokio::test]
async fn a_supervised_command_ends_by_the_signal_that_ended_it() {
    use std::os::unix::process::ExitStatusExt;
    let home = tempfile::tempdir().expect("a temp folder");
    let (_output, mut running) = spawn_supervised("kill -KILL $$", home.path());
    assert_eq!(running.wait().await.expect("it ends").signal(), Some(9));
}

#[tokio::test]
async fn the_watchdog_kills_hidden_descendants_of_an_owner_that_was_killed() {
    let home = tempfile::tempdir().expect("a temp folder");
    let mut owner = Command::new(process_roles())
        .args(["own", &format!("{HIDDEN} sleep 1000")])
        .current_dir(home.path())
        .spawn()
        .expect("it starts");
    let hidden = hidden_pid(home.path()).await;
    owner.kill().expect("it runs");
    owner.wait().expect("it ends");
    wait_until_dead(&hidden).await;
}
