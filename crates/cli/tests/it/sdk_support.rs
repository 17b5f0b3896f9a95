//! Runs the program under the public agent SDKs: a plan goes to a driver script, which prints what the SDK observed.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use testkit::model_service::{API_KEY, Reply, ReplyPart};
use testkit::real_servers::{self, RealServer};
use testkit::{ModelService, Sandbox};

use crate::support::program;

/// The timeout of a run. Python on a busy machine takes seconds to start, and some runs carry megabytes.
const RUN_TIMEOUT: Duration = Duration::from_secs(240);
/// Names a program that the tests run in place of ours, to compare with the vendor's own.
const OTHER_PROGRAM_VARIABLE: &str = "SWB_SDK_PROGRAM";

/// One of the SDKs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sdk {
    /// `claude-agent-sdk` of PyPI.
    Python,
    /// `@anthropic-ai/claude-agent-sdk` of npm.
    TypeScript,
}

impl Sdk {
    /// The command that runs a plan.
    fn driver(self, plan: &Json) -> RealServer {
        match self {
            Sdk::Python => real_servers::python_agent_sdk(&sdk_program(), &plan.to_string()),
            Sdk::TypeScript => {
                real_servers::typescript_agent_sdk(&sdk_program(), &plan.to_string())
            }
        }
    }
}

/// The program that an SDK starts.
pub fn sdk_program() -> PathBuf {
    std::env::var_os(OTHER_PROGRAM_VARIABLE).map_or_else(program, PathBuf::from)
}

/// A model service with these replies.
pub fn service(replies: impl IntoIterator<Item = Reply>) -> ModelService {
    ModelService::start(replies).expect("it starts")
}

/// A reply with one tool call.
pub fn call(id: &str, tool: &str, arguments: &Json) -> Reply {
    Reply::message([ReplyPart::tool_call(id, tool, arguments)])
}

/// A sandbox whose model is this service.
pub fn sandbox(service: &ModelService) -> Sandbox {
    let mut sandbox = Sandbox::new(sdk_program());
    sandbox
        .set_env("ANTHROPIC_API_KEY", API_KEY)
        .set_env("ANTHROPIC_BASE_URL", service.origin())
        // Read by the vendor's program only.
        .set_env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    sandbox
}

/// Starts a plan in the sandbox's project.
pub fn start(sdk: Sdk, sandbox: &Sandbox, plan: &Json) -> SdkRun {
    SdkRun::spawn(sandbox, &sdk.driver(plan))
}

/// Runs a plan in the sandbox's project to its end.
#[track_caller]
pub fn run(sdk: Sdk, sandbox: &Sandbox, plan: &Json) -> Observed {
    start(sdk, sandbox, plan).finish()
}

/// A driver at work. Dropping it kills the driver; the program below it then reads the end of its input.
pub struct SdkRun {
    child: Child,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    seen: Vec<Json>,
    other: Vec<String>,
    deadline: Instant,
}

impl SdkRun {
    /// Starts a command with the sandbox's environment.
    pub fn spawn(sandbox: &Sandbox, driver: &RealServer) -> SdkRun {
        SdkRun::spawn_in(sandbox, driver, &sandbox.project())
    }

    /// Starts a command with the sandbox's environment in a folder.
    pub fn spawn_in(sandbox: &Sandbox, driver: &RealServer, folder: &Path) -> SdkRun {
        let of_sandbox = sandbox.command(folder, &[]);
        let mut command = Command::new(&driver.command);
        command.args(&driver.args).current_dir(folder).env_clear();
        command.envs(of_sandbox.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.envs(driver.env.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the driver is installed");
        let stdout = child.stdout.take().expect("it is piped");
        let mut stderr = child.stderr.take().expect("it is piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stderr = thread::spawn(move || {
            let mut text = Vec::new();
            let _rest_is_lost = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        SdkRun {
            child,
            lines,
            stderr: Some(stderr),
            seen: Vec::new(),
            other: Vec::new(),
            deadline: Instant::now() + RUN_TIMEOUT,
        }
    }

    /// Waits for an observation that has a key.
    #[track_caller]
    pub fn wait_for(&mut self, key: &str) -> Json {
        while let Some(line) = self.next_line() {
            if let Some(seen) = self.keep(line).filter(|it| it.get(key).is_some()) {
                return seen;
            }
        }
        panic!("the run ended without `{key}`: {}", self.report());
    }

    /// Waits for the end.
    #[track_caller]
    pub fn finish(mut self) -> Observed {
        while let Some(line) = self.next_line() {
            self.keep(line);
        }
        let code = self.child.wait().expect("it ended").code().unwrap_or(-1);
        let stderr = self.stderr.take().map(|it| it.join().unwrap_or_default());
        Observed {
            lines: std::mem::take(&mut self.seen),
            text: std::mem::take(&mut self.other).join("\n"),
            stderr: stderr.unwrap_or_default(),
            code,
        }
    }

    #[track_caller]
    fn next_line(&mut self) -> Option<String> {
        let rest = self.deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(rest) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                let _ended = self.child.kill();
                panic!("the run did not end within {RUN_TIMEOUT:?}: {}", self.report());
            }
        }
    }

    fn keep(&mut self, line: String) -> Option<Json> {
        match serde_json::from_str::<Json>(&line) {
            Ok(json) if json.is_object() => {
                self.seen.push(json.clone());
                Some(json)
            }
            Ok(_) | Err(_) => {
                self.other.push(line);
                None
            }
        }
    }

    fn report(&self) -> String {
        let mut report = String::new();
        for line in &self.seen {
            report.push_str(&shortened(&line.to_string()));
        }
        report + &self.other.join("\n")
    }
}

impl Drop for SdkRun {
    fn drop(&mut self) {
        // It has usually ended.
        let _ended = self.child.kill();
        let _code = self.child.wait();
    }
}

/// Cuts a line, since arguments of calls may be large.
fn shortened(line: &str) -> String {
    const CHARACTERS: usize = 1_500;
    format!("\n{}", line.chars().take(CHARACTERS).collect::<String>())
}

/// What a driver printed.
pub struct Observed {
    /// The observations, in order.
    pub lines: Vec<Json>,
    /// The other lines.
    pub text: String,
    /// Stderr of the driver.
    pub stderr: String,
    /// The exit code of the driver.
    pub code: i32,
}

impl Observed {
    /// All of it, for messages of failed assertions.
    pub fn report(&self) -> String {
        let lines: String = self.lines.iter().map(|it| shortened(&it.to_string())).collect();
        format!("exit: {}{lines}\n{}\n--- stderr\n{}", self.code, self.text, self.stderr)
    }

    /// Fails if the SDK raised an error.
    #[track_caller]
    pub fn expect_success(&self) -> &Observed {
        assert!(self.with_key("raised").is_empty() && self.code == 0, "{}", self.report());
        self
    }

    /// The error that the SDK raised.
    #[track_caller]
    pub fn expect_error(&self) -> &Json {
        let raised = self.with_key("raised");
        assert_eq!(raised.len(), 1, "{}", self.report());
        raised[0]
    }

    /// The observations with a key.
    pub fn with_key(&self, key: &str) -> Vec<&Json> {
        self.lines.iter().filter(|it| it.get(key).is_some()).collect()
    }

    /// The messages of a type.
    pub fn messages(&self, kind: &str) -> Vec<&Json> {
        let all = self.lines.iter().filter_map(|it| it.get("message"));
        all.filter(|it| it["type"] == kind).collect()
    }

    /// The `system` messages of a subtype.
    pub fn system(&self, subtype: &str) -> Vec<&Json> {
        self.messages("system").into_iter().filter(|it| it["subtype"] == subtype).collect()
    }

    /// The only result.
    #[track_caller]
    pub fn result(&self) -> &Json {
        let results = self.messages("result");
        assert_eq!(results.len(), 1, "{}", self.report());
        results[0]
    }

    /// The last texts of all turns.
    pub fn results(&self) -> Vec<&str> {
        let results = self.messages("result");
        results.into_iter().map(|it| it["result"].as_str().unwrap_or_default()).collect()
    }

    /// The results of tool calls, in order.
    pub fn tool_results(&self) -> Vec<ToolResult> {
        let users = self.messages("user");
        let blocks = users.iter().filter_map(|it| it["content"].as_array()).flatten();
        let results = blocks.filter(|it| it["type"] == "tool_result");
        results
            .map(|it| ToolResult {
                id: it["tool_use_id"].as_str().unwrap_or_default().to_owned(),
                text: block_text(&it["content"]),
                is_error: it["is_error"] == true,
            })
            .collect()
    }

    /// The only result of a tool call.
    #[track_caller]
    pub fn tool_result(&self) -> ToolResult {
        let mut results = self.tool_results();
        assert_eq!(results.len(), 1, "{}", self.report());
        results.remove(0)
    }

    /// The answer to a command, by its name.
    #[track_caller]
    pub fn answer(&self, command: &str) -> &Json {
        let commands = self.with_key("command");
        let found = commands.into_iter().find(|it| it["command"] == command);
        found.unwrap_or_else(|| panic!("no command `{command}`: {}", self.report()))
    }

    /// The inputs of the hook callbacks of an event.
    pub fn hooks(&self, event: &str) -> Vec<&Json> {
        let hooks = self.with_key("hook").into_iter().filter(|it| it["hook"] == event);
        hooks.map(|it| &it["input"]).collect()
    }
}

/// The result of a tool call, as a user message carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The texts of its blocks.
    pub text: String,
    /// Whether it is an error.
    pub is_error: bool,
}

/// The text of a string or of a list of blocks.
pub fn block_text(content: &Json) -> String {
    match content {
        Json::String(text) => text.clone(),
        Json::Array(blocks) => {
            let texts = blocks.iter().filter_map(|it| it["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => String::new(),
    }
}

/// The results of tools in a request to the model, by the index of the request.
pub fn results_for_model(service: &ModelService, request: usize) -> Vec<Json> {
    let body = service.request_body(request);
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let last = messages.last().cloned().unwrap_or_default();
    let blocks = last["content"].as_array().cloned().unwrap_or_default();
    blocks.into_iter().filter(|it| it["type"] == "tool_result").collect()
}

/// A plan of one prompt for `query`.
pub fn one_prompt(options: Json) -> Json {
    json!({"prompts": ["go"], "options": options})
}
