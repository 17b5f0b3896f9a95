//! The workspace server's commands: output, working folder, and cleanup.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard_wire::peer::CallError;
use switchboard_wire::protocol::era::Era;
use testkit::processes::{is_alive, wait_until, wait_until_exited};

use crate::test_client::BOTH_ERAS;
use crate::workspace_fixture::WorkspaceFixture;

/// Long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(10);

fn read_pid(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The process ID that a command wrote to a file.
fn wait_for_pid(path: &Path) -> u32 {
    wait_until(TIMEOUT, "it says its number", || read_pid(path))
}

#[tokio::test]
async fn a_command_returns_its_output_in_order_and_its_exit() {
    for era in BOTH_ERAS {
        let workspace = WorkspaceFixture::new(era).await;
        let ran =
            workspace.call("Bash", json!({"command": "echo out; echo err >&2; exit 3"})).await;
        assert_eq!((&ran["output"], &ran["exitCode"]), (&json!("out\nerr\n"), &json!(3)));
        let text = workspace.text("Bash", json!({"command": "printf x; exit 3"})).await;
        assert_eq!(text, "x\n(exit code 3)\n");
        assert_eq!(workspace.text("Bash", json!({"command": "true"})).await, "(no output)\n");
        let signal = workspace.call("Bash", json!({"command": "kill -9 $$"})).await;
        assert_eq!((&signal["exitCode"], &signal["signal"]), (&Json::Null, &json!(9)));
        let broken = workspace.call("Bash", json!({"command": "if then"})).await;
        assert_ne!(broken["exitCode"], 0);
        // Standard input is empty, so nothing waits for it.
        let input = workspace.call("Bash", json!({"command": "cat; echo $TERM"})).await;
        assert_eq!(input["output"], "dumb\n");
        assert!(workspace.tool_error("Bash", json!({"command": " "})).await.contains("from 1 to"));
        workspace.shut_down().await;
    }
}

#[tokio::test]
async fn the_working_folder_persists_while_it_is_allowed() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    workspace.write("sub dir/file", "");
    let root = workspace.root().display().to_string();
    let run = async |command: &str| workspace.call("Bash", json!({"command": command})).await;
    assert_eq!(run("pwd").await["output"], format!("{root}\n"));
    assert_eq!(run("cd 'sub dir'; exit 4").await["folder"], format!("{root}/sub dir"));
    assert_eq!(run("ls").await["output"], "file\n");
    let left = workspace.text("Bash", json!({"command": "cd /"})).await;
    assert!(left.contains("/ is not an allowed folder"), "{left}");
    assert_eq!(run("pwd").await["output"], format!("{root}\n"));
    // A removed working folder is not used.
    run("mkdir gone; cd gone; rmdir ../gone").await;
    assert_eq!(run("pwd").await["output"], format!("{root}\n"));
    workspace.shut_down().await;
}

#[tokio::test]
async fn a_long_output_is_truncated_and_complete_on_disk() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    let ran = workspace.call("Bash", json!({"command": "seq 1 20000"})).await;
    let output = ran["output"].as_str().expect("a text");
    assert!(output.starts_with("1\n2\n") && output.ends_with("19999\n20000\n"));
    assert!(output.len() < 31_000 && output.contains("bytes are left out here"));
    // The output file is outside the roots; it can be read but not changed.
    let file = ran["outputFile"].as_str().expect("a path");
    let read = workspace.call("Read", json!({"file_path": file, "offset": 20_000})).await;
    assert_eq!(read["content"], "20000");
    let write = workspace.tool_error("Write", json!({"file_path": file, "content": "x"})).await;
    assert!(write.contains("outside"), "{write}");
    workspace.shut_down().await;
}

#[tokio::test]
async fn a_command_that_times_out_is_killed_with_its_descendants() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    let command = "echo begun; (trap '' TERM; echo $BASHPID > child; sleep 1000) & \
                   (setsid sh -c 'echo $$ > away; sleep 1000') & \
                   while [ ! -s away ] || [ ! -s child ]; do sleep 0.01; done; sleep 1000";
    let ran = workspace.call("Bash", json!({"command": command, "timeout": 2000})).await;
    assert_eq!((&ran["timedOut"], &ran["output"]), (&json!(true), &json!("begun\n")));
    wait_until_exited(wait_for_pid(&workspace.path("child")), TIMEOUT);
    wait_until_exited(wait_for_pid(&workspace.path("away")), TIMEOUT);
    workspace.shut_down().await;
}

#[tokio::test]
async fn a_cancelled_command_is_killed() {
    for era in BOTH_ERAS {
        let workspace = WorkspaceFixture::new(era).await;
        let command = "echo $$ > leader; sleep 1000";
        let params = json!({"name": "Bash", "arguments": {"command": command}});
        let call = workspace.test_client.request("tools/call", params).send();
        let path = workspace.path("leader");
        let pid = tokio::task::spawn_blocking(move || wait_for_pid(&path));
        let leader = tokio::select! {
            pid = pid => pid.expect("it says its number"),
            answer = call => panic!("it ended: {answer:?}"),
        };
        let gone = tokio::task::spawn_blocking(move || wait_until_exited(leader, TIMEOUT));
        gone.await.expect("it is gone");
        workspace.shut_down().await;
    }
}

#[tokio::test]
async fn processes_left_running_end_with_their_command() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    let ran = workspace.call("Bash", json!({"command": "sleep 1000 & echo $! > child"})).await;
    assert_eq!(ran["exitCode"], 0);
    wait_until_exited(wait_for_pid(&workspace.path("child")), TIMEOUT);
    workspace.shut_down().await;
}

#[tokio::test]
async fn a_process_in_a_session_of_its_own_ends_with_its_command() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    let daemon = "setsid sh -c 'echo $$ > daemon; exec sleep 1000' >/dev/null 2>&1 & while [ ! -s daemon ]; do sleep 0.01; done";
    workspace.call("Bash", json!({"command": daemon})).await;
    assert!(!is_alive(wait_for_pid(&workspace.path("daemon"))));
    workspace.shut_down().await;
}

#[tokio::test]
async fn a_background_command_is_read_and_killed() {
    let workspace = WorkspaceFixture::new(Era::Legacy).await;
    let command = "echo one; echo two; echo $$ > leader; while [ ! -e go ]; do sleep 0.01; done; echo three; exit 7";
    let started =
        workspace.call("Bash", json!({"command": command, "run_in_background": true})).await;
    let id = started["bashId"].as_str().expect("a name").to_owned();
    assert_eq!(id, "bash_1");
    wait_for_pid(&workspace.path("leader"));
    let mut seen = String::new();
    while seen != "one\ntwo\n" {
        let read = workspace.call("BashOutput", json!({"bash_id": id})).await;
        assert_eq!((&read["running"], &read["exitCode"]), (&json!(true), &Json::Null));
        seen.push_str(read["output"].as_str().expect("a text"));
    }
    workspace.write("go", "");
    let read = workspace.call("BashOutput", json!({"bash_id": id, "wait": 9000})).await;
    assert_eq!(
        (&read["output"], &read["running"], &read["exitCode"]),
        (&json!("three\n"), &json!(false), &json!(7))
    );
    let again = workspace.text("BashOutput", json!({"bash_id": id})).await;
    assert_eq!(again, "(exit code 7)\n");
    let over = workspace.text("KillBash", json!({"bash_id": id})).await;
    assert_eq!(over, "`bash_1` is over: exit code 7");

    let started = workspace
        .call("Bash", json!({"command": "seq 5; sleep 1000", "run_in_background": true}))
        .await;
    let filter = json!({"bash_id": started["bashId"], "filter": "[24]"});
    let mut seen = String::new();
    while seen != "2\n4\n" {
        let read = workspace.call("BashOutput", filter.clone()).await;
        seen.push_str(read["output"].as_str().expect("a text"));
    }
    let killed = workspace.call("KillBash", json!({"bash_id": started["bashId"]})).await;
    assert_eq!(killed["signal"], 15);
    let unknown = workspace.tool_error("BashOutput", json!({"bash_id": "bash_9"})).await;
    assert!(unknown.contains("bash_1, bash_2"), "{unknown}");
    workspace.shut_down().await;
}

#[tokio::test]
async fn nothing_outlives_its_client() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    let command = "echo $$ > leader; (setsid sh -c 'echo $$ > away; sleep 1000') & sleep 1000";
    workspace.call("Bash", json!({"command": command, "run_in_background": true})).await;
    let numbers: Vec<u32> =
        ["leader", "away"].iter().map(|name| wait_for_pid(&workspace.path(name))).collect();
    assert!(numbers.iter().all(|number| is_alive(*number)));
    workspace.shut_down().await;
    for number in numbers {
        wait_until_exited(number, TIMEOUT);
    }
}

#[tokio::test]
async fn background_commands_are_limited() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    let begin = json!({"command": "sleep 1000", "run_in_background": true});
    for _ in 0..16 {
        workspace.call("Bash", begin.clone()).await;
    }
    let refused = workspace.tool_error("Bash", begin.clone()).await;
    assert!(refused.contains("16 commands run in the background already"), "{refused}");
    workspace.call("KillBash", json!({"bash_id": "bash_3"})).await;
    workspace.call("Bash", begin).await;
    workspace.shut_down().await;
}

#[tokio::test]
async fn commands_run_beside_each_other_and_beside_everything_else() {
    let workspace = WorkspaceFixture::new(Era::Modern).await;
    workspace.write("a.txt", "x");
    let params = |command: &str| json!({"name": "Bash", "arguments": {"command": command}});
    let waiting = "while [ ! -e go ]; do sleep 0.01; done; echo went";
    let first = workspace.test_client.request("tools/call", params(waiting)).send();
    let second = async {
        assert_eq!(workspace.call("Read", json!({"file_path": "a.txt"})).await["content"], "x");
        workspace.call("Bash", json!({"command": "touch go"})).await;
    };
    let (first, ()) = tokio::join!(first, second);
    let first: Result<Json, CallError> = first.map(|it| it.decode().expect("JSON"));
    let first = first.expect("an answer");
    assert_eq!(first["structuredContent"]["output"], "went\n", "{first}");
    workspace.shut_down().await;
}
