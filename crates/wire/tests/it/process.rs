//! Programs: started, read from, and stopped with all their descendants.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::{CallError, Delivery, Peer};
use switchboard_wire::process::child::{
    DescendantSearch, Process, ProcessOptions, ProcessTransport, Program, StopStep,
};
use switchboard_wire::process::command::Supervision;
use switchboard_wire::process::{child, command};
use switchboard_wire::transport::CloseReason;
use tokio::io::AsyncReadExt;

fn shell_program(script: &str, folder: &Path) -> Program {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Program {
        command: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env: vec![("PATH".into(), path), ("GREETING".into(), "hello".into())],
        cwd: Some(folder.to_owned()),
    }
}

fn spawn_shell(script: &str, folder: &Path) -> (ProcessTransport, Process) {
    child::spawn(&shell_program(script, folder), &ProcessOptions::default())
        .expect("a shell can be started")
}

/// Responds to every line, with as much JSON as a shell can do.
const ECHO: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  printf '{"jsonrpc":"2.0","id":%s,"result":"%s %s"}\n' "$id" "$GREETING" "$(pwd)"
done"#;

#[tokio::test]
async fn a_program_runs_with_the_given_environment_and_folder() {
    let home = tempfile::tempdir().expect("a temp folder");
    let folder = home.path().canonicalize().expect("it is there");
    let (transport, process) = spawn_shell(ECHO, &folder);
    let connection = Peer::spawn(transport);
    let result = connection.peer.call("x").await;
    let expected = format!("\"hello {}\"", folder.display());
    assert_eq!(result, Ok(Payload::from_json(Bytes::from(expected))));
    drop(connection.peer);
    connection.task.await.expect("it ends");
    let ended = process.stop(DescendantSearch::Now).await;
    assert_eq!(
        (ended.step, ended.status.and_then(|it| it.code())),
        (StopStep::CloseStdin, Some(0))
    );
}

#[tokio::test]
async fn a_missing_program_is_a_start_error() {
    let program = Program {
        command: "no-such-program-anywhere".into(),
        args: vec![],
        env: vec![],
        cwd: None,
    };
    let error = child::spawn(&program, &ProcessOptions::default()).expect_err("it is not there");
    assert_eq!(error.to_string(), "could not start `no-such-program-anywhere`");
    assert_eq!(error.source.kind(), std::io::ErrorKind::NotFound);
}

#[tokio::test]
async fn a_program_that_exits_during_a_call_fails_that_call() {
    let home = tempfile::tempdir().expect("a temp folder");
    let (transport, process) =
        spawn_shell("read -r line; echo 'out of cheese' >&2; exit 3", home.path());
    let connection = Peer::spawn(transport);
    let result = connection.peer.call("x").await;
    assert_eq!(
        result,
        Err(CallError::Closed { reason: CloseReason::Closed, delivery: Delivery::Unknown })
    );
    let ended = process.stop(DescendantSearch::Now);
    assert_eq!(ended.await.status.and_then(|it| it.code()), Some(3));
}

#[tokio::test]
async fn the_stderr_tail_is_bounded_and_never_blocks_the_program() {
    let home = tempfile::tempdir().expect("a temp folder");
    let flood = "head -c 5000000 /dev/zero | tr '\\0' 'x' >&2; echo the-end >&2; read -r line; echo '{\"id\":1,\"result\":1}'; read -r line";
    let (transport, process) = spawn_shell(flood, home.path());
    let connection = Peer::spawn(transport);
    connection.peer.call("x").await.expect("the flood did not hold it up");
    let output = process.stderr_tail().await;
    assert_eq!(output.len(), 64 * 1024);
    assert!(output.ends_with(b"the-end\n"));
    drop(connection.peer);
    connection.task.await.expect("it ends");
    process.stop(DescendantSearch::Now).await;
}

/// Whether the process runs and is not a zombie.
pub fn is_alive(number: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", number.trim()))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

/// Waits until a killed process is gone.
pub async fn wait_until_dead(number: &str) {
    for _ in 0..500 {
        if !is_alive(number) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await; // waits for another process
    }
    panic!("process {number} lives on");
}

/// Waits until a file exists and returns its text.
pub async fn wait_for_file(path: PathBuf) -> String {
    for _ in 0..500 {
        match std::fs::read_to_string(&path) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => tokio::time::sleep(Duration::from_millis(10)).await, // waits for another process
        }
    }
    panic!("{} never appeared", path.display());
}

#[tokio::test]
async fn a_program_that_ignores_signals_is_killed_with_its_children() {
    let home = tempfile::tempdir().expect("a temp folder");
    let stubborn = "trap '' INT TERM; sleep 1000 & echo $! > child; while :; do sleep 1; done";
    let (transport, process) = spawn_shell(stubborn, home.path());
    let child = wait_for_file(home.path().join("child")).await;
    assert!(is_alive(&child));
    drop(transport);
    assert_eq!(process.stop(DescendantSearch::Now).await.step, StopStep::Kill);
    wait_until_dead(&child).await;
}

#[tokio::test]
async fn children_left_by_a_clean_exit_are_killed() {
    let home = tempfile::tempdir().expect("a temp folder");
    let (transport, process) =
        spawn_shell("sleep 1000 & echo $! > child; read -r line", home.path());
    let child = wait_for_file(home.path().join("child")).await;
    drop(transport);
    assert_eq!(process.stop(DescendantSearch::Now).await.step, StopStep::CloseStdin);
    wait_until_dead(&child).await;
}

#[tokio::test]
async fn dropping_a_process_kills_everything_at_once() {
    let home = tempfile::tempdir().expect("a temp folder");
    let (transport, process) =
        spawn_shell("trap '' INT TERM; sleep 1000 & echo $! > child; wait", home.path());
    let child = wait_for_file(home.path().join("child")).await;
    drop((transport, process));
    wait_until_dead(&child).await;
}

#[tokio::test]
async fn a_child_outside_the_process_group_is_found_by_its_mark() {
    let home = tempfile::tempdir().expect("a temp folder");
    let script = "setsid sh -c 'echo $$ > child; sleep 1000' & read -r line";
    let (transport, process) = spawn_shell(script, home.path());
    let (other_link, other) = spawn_shell("read -r line", home.path());
    let child = wait_for_file(home.path().join("child")).await;
    drop(transport);
    process.stop(DescendantSearch::Now).await;
    wait_until_dead(&child).await;
    let number = other.pid().expect("it runs").to_string();
    assert!(is_alive(&number), "another program of ours is none of its business");
    drop(other_link);
    other.stop(DescendantSearch::Now).await;
}

#[tokio::test]
async fn two_hundred_programs_need_no_thread_each() {
    let home = tempfile::tempdir().expect("a temp folder");
    let running: Vec<_> = (0..200).map(|_| spawn_shell("read -r line", home.path())).collect();
    let threads = std::fs::read_dir("/proc/self/task").expect("it is there").count();
    assert!(threads < 20, "{threads} threads");
    let (transports, processes): (Vec<_>, Vec<_>) = running.into_iter().unzip();
    drop(transports);
    for mut process in processes {
        assert_eq!(process.wait().await.expect("it ends when its input closes").code(), Some(1));
        process.stop(DescendantSearch::Deferred).await;
    }
}

#[tokio::test]
async fn children_of_a_program_that_exited_are_killed() {
    let home = tempfile::tempdir().expect("a temp folder");
    let (_link, mut process) = spawn_shell("sleep 1000 & echo $! > child; exit 4", home.path());
    let child = wait_for_file(home.path().join("child")).await;
    assert_eq!(process.wait().await.expect("it ends").code(), Some(4));
    assert_eq!(process.pid(), None);
    wait_until_dead(&child).await;
}

/// Reads a command's output to its end.
async fn read_all(mut output: tokio::net::unix::pipe::Receiver) -> String {
    let mut text = String::new();
    output.read_to_string(&mut text).await.expect("text");
    text
}

#[tokio::test]
async fn a_command_returns_its_output_and_its_group_is_killed() {
    let home = tempfile::tempdir().expect("a temp folder");
    let script = "sleep 1000 & echo out; echo err >&2; cat; exit 3";
    let (output, mut command) = command::spawn(
        &shell_program(script, home.path()),
        &ProcessOptions::default(),
        Supervision::Unsupervised,
    )
    .expect("it starts");
    let status = command.wait().await.expect("it ends");
    assert_eq!(status.code(), Some(3));
    // The sleeping descendant also held the pipe, and is gone.
    assert_eq!(read_all(output).await, "out\nerr\n");
}

#[tokio::test]
async fn a_command_that_ignores_terminate_is_killed() {
    let home = tempfile::tempdir().expect("a temp folder");
    let script = "trap '' TERM; echo deaf; while :; do sleep 1000; done";
    let (mut output, command) = command::spawn(
        &shell_program(script, home.path()),
        &ProcessOptions::default(),
        Supervision::Unsupervised,
    )
    .expect("it starts");
    let mut word = [0; 5];
    output.read_exact(&mut word).await.expect("it is deaf by now");
    let ended = command.stop().await;
    assert_eq!(ended.step, StopStep::Kill);
    assert_eq!(read_all(output).await, "");
}
