//! Runs a hook: a command that answers an elicitation. It reads the elicitation as JSON from stdin and prints its
//! answer. Empty output means no opinion; exit code 2 declines.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use switchboard_config::settings::hooks::ElicitationHook;
use thiserror::Error;
use tokio::time::timeout;

use crate::elicitation::elicitor::ElicitResult;
use crate::sources::shell_command::{CommandOutput, ShellCommand};

/// The maximum size of the output.
const MAX_OUTPUT_BYTES: u64 = 1024 * 1024;
/// The exit code of a hook that declines.
const DECLINE_EXIT_CODE: i32 = 2;
/// The maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 500;

/// The answer of a hook.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HookAnswer {
    /// The hook answered.
    Reply(ElicitResult),
    /// The hook left the answer to the next hook or the user.
    NoOpinion,
}

/// Why a hook gave no usable answer.
#[derive(Debug, Error)]
pub(crate) enum HookError {
    #[error("could not run it: {0}")]
    Run(#[from] io::Error),
    #[error("it took longer than {} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("it ended with {status}: {stderr_text}")]
    Failed { status: std::process::ExitStatus, stderr_text: String },
    #[error("it printed more than {MAX_OUTPUT_BYTES} bytes")]
    OutputTooLarge,
    /// Does not contain the output: an answer may be a secret.
    #[error("its output is not a valid answer, in line {line}, column {column}")]
    InvalidOutput { line: usize, column: usize },
}

/// Runs a hook for one elicitation.
pub(crate) async fn run(
    hook: &ElicitationHook,
    server: &str,
    params: &Json,
    folder: &Path,
) -> Result<HookAnswer, HookError> {
    let input = hook_input(server, params, folder).to_string();
    let command = ShellCommand {
        command: &hook.command,
        input: &input,
        folder,
        variables: None,
        max_bytes: MAX_OUTPUT_BYTES,
    };
    let CommandOutput { status, stdout, stderr: stderr_text } =
        timeout(hook.timeout, command.run())
            .await
            .map_err(|_| HookError::Timeout(hook.timeout))??;
    if stdout.len() as u64 > MAX_OUTPUT_BYTES {
        return Err(HookError::OutputTooLarge);
    }
    let stderr_text: String = stderr_text.trim().chars().take(MAX_REASON_CHARS).collect();
    match status.code() {
        Some(0) => parse_output(&stdout),
        Some(DECLINE_EXIT_CODE) => {
            let reason =
                if stderr_text.is_empty() { "declined by a hook".to_owned() } else { stderr_text };
            Ok(HookAnswer::Reply(ElicitResult::Decline(reason)))
        }
        Some(_) | None => Err(HookError::Failed { status, stderr_text }),
    }
}

fn hook_input(server: &str, params: &Json, folder: &Path) -> Json {
    let mut input = json!({
        "hook_event_name": "Elicitation",
        "cwd": folder,
        "mcp_server_name": server,
        "message": params["message"],
        "mode": params["mode"].as_str().unwrap_or("form"),
    });
    for (param, key) in [
        ("requestedSchema", "requested_schema"),
        ("url", "url"),
        ("elicitationId", "elicitation_id"),
    ] {
        if let Some(value) = params.get(param) {
            input[key] = value.clone();
        }
    }
    input
}

#[derive(Deserialize)]
struct HookOutput {
    #[serde(default)]
    action: Option<HookAction>,
    #[serde(default)]
    content: Map<String, Json>,
    #[serde(default)]
    reason: Option<String>,
    /// The answer nested in `hookSpecificOutput`, as other programs' hooks print it.
    #[serde(default, rename = "hookSpecificOutput")]
    inner: Option<Box<HookOutput>>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum HookAction {
    Accept,
    Decline,
    Cancel,
}

fn parse_output(stdout: &str) -> Result<HookAnswer, HookError> {
    if stdout.trim().is_empty() {
        return Ok(HookAnswer::NoOpinion);
    }
    let outer: HookOutput = serde_json::from_str(stdout)
        .map_err(|error| HookError::InvalidOutput { line: error.line(), column: error.column() })?;
    let output = match outer.inner {
        Some(inner) => *inner,
        None => outer,
    };
    let reason = || output.reason.clone().unwrap_or_else(|| "decided by a hook".to_owned());
    Ok(match output.action {
        None => HookAnswer::NoOpinion,
        Some(HookAction::Accept) => HookAnswer::Reply(ElicitResult::Accept(output.content)),
        Some(HookAction::Decline) => HookAnswer::Reply(ElicitResult::Decline(reason())),
        Some(HookAction::Cancel) => HookAnswer::Reply(ElicitResult::Cancel(reason())),
    })
}

#[cfg(test)]
mod tests {
    use switchboard_config::scope::Scope;
    use switchboard_config::source::{Origin, Source};

    use super::*;

    async fn run_hook(command: &str, timeout: Duration) -> Result<HookAnswer, HookError> {
        let source = Source::file(Scope::User, "settings.json");
        let hook = ElicitationHook {
            matcher: String::new(),
            command: command.to_owned(),
            timeout,
            origin: Origin { source, position: None },
        };
        let params = json!({"message": "Who?", "requestedSchema": {"properties": {}}});
        run(&hook, "files", &params, Path::new("/")).await
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_hook_reads_the_elicitation_and_answers_it() {
        // The hook greps its input, so it got the elicitation.
        let command = r#"grep -o '"mcp_server_name":"files"' >/dev/null && echo '{"action":"accept","content":{"a":1}}'"#;
        let content = json!({"a": 1}).as_object().cloned().unwrap_or_default();
        let expected = HookAnswer::Reply(ElicitResult::Accept(content));
        assert_eq!(run_hook(command, LONG).await.expect("an answer"), expected);
        let wrapped = r#"echo '{"hookSpecificOutput":{"hookEventName":"Elicitation","action":"accept","content":{"a":1}}}'"#;
        assert_eq!(run_hook(wrapped, LONG).await.expect("an answer"), expected);
    }

    #[tokio::test]
    async fn empty_output_is_no_opinion_and_exit_code_2_declines() {
        assert_eq!(run_hook("true", LONG).await.expect("an answer"), HookAnswer::NoOpinion);
        assert_eq!(run_hook("echo '{}'", LONG).await.expect("an answer"), HookAnswer::NoOpinion);
        let no = HookAnswer::Reply(ElicitResult::Decline("not here".to_owned()));
        assert_eq!(run_hook("echo not here >&2; exit 2", LONG).await.expect("an answer"), no);
        let cancel = HookAnswer::Reply(ElicitResult::Cancel("later".to_owned()));
        let command = r#"echo '{"action":"cancel","reason":"later"}'"#;
        assert_eq!(run_hook(command, LONG).await.expect("an answer"), cancel);
    }

    #[tokio::test]
    async fn each_failure_has_its_own_message() {
        let failed = |it: Result<HookAnswer, HookError>| it.expect_err("a failure").to_string();
        assert!(failed(run_hook("echo oh >&2; exit 7", LONG).await).contains("7: oh"));
        assert!(failed(run_hook("echo hello", LONG).await).contains("not a valid answer"));
        let unknown_action = failed(run_hook("echo '{\"action\":\"perhaps\"}'", LONG).await);
        assert_eq!(unknown_action, "its output is not a valid answer, in line 1, column 19");
        assert!(failed(run_hook("yes | head -c 10000000", LONG).await).contains("1048576 bytes"));
        assert!(
            failed(run_hook("printf '\\377\\376{'", LONG).await).contains("not a valid answer")
        );
        let slow = failed(run_hook("sleep 60", Duration::from_millis(50)).await);
        assert_eq!(slow, "it took longer than 0.05 s");
    }

    #[tokio::test]
    async fn a_hook_may_ignore_its_input_or_leave_a_child_running() {
        let yes = HookAnswer::Reply(ElicitResult::Accept(Map::new()));
        let closes_stdin = r#"exec <&-; echo '{"action":"accept"}'"#;
        assert_eq!(run_hook(closes_stdin, LONG).await.expect("an answer"), yes);
        let leaves_child = r#"sleep 600 & echo '{"action":"accept"}'"#;
        assert_eq!(run_hook(leaves_child, LONG).await.expect("an answer"), yes);
    }

    #[tokio::test]
    async fn a_hook_that_times_out_is_killed_with_its_children() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let file = folder.path().join("pids").display().to_string();
        // The child ignores the signals that the shell passes on, and the shell waits for it.
        let command = format!(
            "trap '' PIPE TERM INT; sh -c 'trap \"\" TERM INT HUP; echo $$ >> {file}; while :; do sleep 1; done' & echo $$ >> {file}; wait"
        );
        let slow = run_hook(&command, Duration::from_millis(500)).await;
        assert!(slow.is_err(), "{slow:?}");
        let text = std::fs::read_to_string(&file).expect("both wrote");
        let has_exited = |pid: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        assert_eq!(text.lines().count(), 2, "{text}");
        for pid in text.lines() {
            let deadline = tokio::time::Instant::now() + LONG;
            while !has_exited(pid) && tokio::time::Instant::now() < deadline {
                tokio::time::sleep(Duration::from_millis(10)).await; // waits for another process
            }
            assert!(has_exited(pid), "{pid}");
        }
    }
}
