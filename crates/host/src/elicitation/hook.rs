//! Runs a command that answers a server's question: the question goes to its standard input as JSON, its answer is
//! what it prints. Silence means that it has no opinion; the exit code 2 means no.

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

/// The most that a command may print.
const MAX_OUTPUT_BYTES: u64 = 1024 * 1024;
/// The exit code of a command that says no.
const DECLINE_EXIT_CODE: i32 = 2;
/// The longest reason that is passed on, in characters.
const MAX_REASON_CHARS: usize = 500;

/// What a command said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HookAnswer {
    /// This.
    Reply(ElicitResult),
    /// Nothing: it is for somebody else to answer.
    NoOpinion,
}

/// Why a command said nothing that can be used.
#[derive(Debug, Error)]
pub(crate) enum HookError {
    #[error("it cannot be run: {0}")]
    Run(#[from] io::Error),
    #[error("it took longer than {} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("it ended with {status}: {stderr_text}")]
    Failed { status: std::process::ExitStatus, stderr_text: String },
    #[error("it printed more than {MAX_OUTPUT_BYTES} bytes")]
    OutputTooLarge,
    /// Not what was printed: the answer to a question may be a secret.
    #[error("what it printed is no answer, in line {line}, column {column}")]
    InvalidOutput { line: usize, column: usize },
}

/// Asks a command.
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
    let CommandOutput { status, stdout: printed, stderr: stderr_text } =
        timeout(hook.timeout, command.run())
            .await
            .map_err(|_| HookError::Timeout(hook.timeout))??;
    if printed.len() as u64 > MAX_OUTPUT_BYTES {
        return Err(HookError::OutputTooLarge);
    }
    let stderr_text: String = stderr_text.trim().chars().take(MAX_REASON_CHARS).collect();
    match status.code() {
        Some(0) => parse_output(&printed),
        Some(DECLINE_EXIT_CODE) => {
            let reason =
                if stderr_text.is_empty() { "a hook said no".to_owned() } else { stderr_text };
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
    for (theirs, ours) in [
        ("requestedSchema", "requested_schema"),
        ("url", "url"),
        ("elicitationId", "elicitation_id"),
    ] {
        if let Some(value) = params.get(theirs) {
            input[ours] = value.clone();
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
    /// The same inside an object of this name, as other programs' hooks print it.
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

fn parse_output(printed: &str) -> Result<HookAnswer, HookError> {
    if printed.trim().is_empty() {
        return Ok(HookAnswer::NoOpinion);
    }
    let outer: HookOutput = serde_json::from_str(printed)
        .map_err(|error| HookError::InvalidOutput { line: error.line(), column: error.column() })?;
    let stderr_text = match outer.inner {
        Some(inner) => *inner,
        None => outer,
    };
    let reason = || stderr_text.reason.clone().unwrap_or_else(|| "a hook said so".to_owned());
    Ok(match stderr_text.action {
        None => HookAnswer::NoOpinion,
        Some(HookAction::Accept) => HookAnswer::Reply(ElicitResult::Accept(stderr_text.content)),
        Some(HookAction::Decline) => HookAnswer::Reply(ElicitResult::Decline(reason())),
        Some(HookAction::Cancel) => HookAnswer::Reply(ElicitResult::Cancel(reason())),
    })
}

#[cfg(test)]
mod tests {
    use switchboard_config::scope::Scope;
    use switchboard_config::source::{Origin, Source};

    use super::*;

    async fn stderr_text(command: &str, within: Duration) -> Result<HookAnswer, HookError> {
        let source = Source::file(Scope::User, "settings.json");
        let hook = ElicitationHook {
            matcher: String::new(),
            command: command.to_owned(),
            timeout: within,
            origin: Origin { source, position: None },
        };
        let params = json!({"message": "Who?", "requestedSchema": {"properties": {}}});
        run(&hook, "files", &params, Path::new("/")).await
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_command_sees_the_question_and_answers_it() {
        // The answer is made from the question, so the question was read.
        let command = r#"grep -o '"mcp_server_name":"files"' >/dev/null && echo '{"action":"accept","content":{"a":1}}'"#;
        let content = json!({"a": 1}).as_object().cloned().unwrap_or_default();
        let expected = HookAnswer::Reply(ElicitResult::Accept(content));
        assert_eq!(stderr_text(command, LONG).await.expect("an answer"), expected);
        let wrapped = r#"echo '{"hookSpecificOutput":{"hookEventName":"Elicitation","action":"accept","content":{"a":1}}}'"#;
        assert_eq!(stderr_text(wrapped, LONG).await.expect("an answer"), expected);
    }

    #[tokio::test]
    async fn silence_is_no_opinion_and_two_is_no() {
        assert_eq!(stderr_text("true", LONG).await.expect("an answer"), HookAnswer::NoOpinion);
        assert_eq!(stderr_text("echo '{}'", LONG).await.expect("an answer"), HookAnswer::NoOpinion);
        let no = HookAnswer::Reply(ElicitResult::Decline("not here".to_owned()));
        assert_eq!(stderr_text("echo not here >&2; exit 2", LONG).await.expect("an answer"), no);
        let cancel = HookAnswer::Reply(ElicitResult::Cancel("later".to_owned()));
        let command = r#"echo '{"action":"cancel","reason":"later"}'"#;
        assert_eq!(stderr_text(command, LONG).await.expect("an answer"), cancel);
    }

    #[tokio::test]
    async fn every_way_to_fail_says_what_happened() {
        let failed = |it: Result<HookAnswer, HookError>| it.expect_err("a failure").to_string();
        assert!(failed(stderr_text("echo oh >&2; exit 7", LONG).await).contains("7: oh"));
        assert!(failed(stderr_text("echo hello", LONG).await).contains("no answer"));
        let perhaps = failed(stderr_text("echo '{\"action\":\"perhaps\"}'", LONG).await);
        assert_eq!(perhaps, "what it printed is no answer, in line 1, column 19");
        assert!(
            failed(stderr_text("yes | head -c 10000000", LONG).await).contains("1048576 bytes")
        );
        assert!(failed(stderr_text("printf '\\377\\376{'", LONG).await).contains("no answer"));
        let slow = failed(stderr_text("sleep 60", Duration::from_millis(50)).await);
        assert_eq!(slow, "it took longer than 0.05 s");
    }

    #[tokio::test]
    async fn a_command_that_reads_nothing_or_leaves_somebody_behind_is_heard() {
        let yes = HookAnswer::Reply(ElicitResult::Accept(Map::new()));
        let deaf = r#"exec <&-; echo '{"action":"accept"}'"#;
        assert_eq!(stderr_text(deaf, LONG).await.expect("an answer"), yes);
        let parent = r#"sleep 600 & echo '{"action":"accept"}'"#;
        assert_eq!(stderr_text(parent, LONG).await.expect("an answer"), yes);
    }

    #[tokio::test]
    async fn a_command_that_takes_too_long_is_gone_with_its_children() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let file = folder.path().join("pids").display().to_string();
        // The child ignores what the shell would pass on, and the shell waits for it.
        let command = format!(
            "trap '' PIPE TERM INT; sh -c 'trap \"\" TERM INT HUP; echo $$ >> {file}; while :; do sleep 1; done' & echo $$ >> {file}; wait"
        );
        let slow = stderr_text(&command, Duration::from_millis(500)).await;
        assert!(slow.is_err(), "{slow:?}");
        let text = std::fs::read_to_string(&file).expect("both wrote");
        let is_gone = |number: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        assert_eq!(text.lines().count(), 2, "{text}");
        for number in text.lines() {
            let deadline = tokio::time::Instant::now() + LONG;
            while !is_gone(number) && tokio::time::Instant::now() < deadline {
                tokio::time::sleep(Duration::from_millis(10)).await; // waits for another process
            }
            assert!(is_gone(number), "{number}");
        }
    }
}
