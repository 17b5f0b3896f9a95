//! The options that programs written for the public agent SDKs pass. `options` holds those that people use too;
//! `args::stream_json` makes an argument list parseable that has other spellings or unknown options.

use std::convert::Infallible;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value as Json;
use switchboard::config::display::printable;
use switchboard::sources::loader::{SettingSources, SourceUse};
use switchboard_builtin::workspace;
use switchboard_chat::model::config::{Effort, ThinkingSetting};

use crate::invocation::options::GlobalOptions;
use crate::invocation::session_flags::ToolSelection;

/// The name under which an agent SDK answers permission requests itself.
const STDIO_PROMPT: &str = "stdio";
/// The log level of `--debug`.
const DEBUG: &str = "debug";

/// Options of agent SDKs.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct SdkArgs {
    /// The input format: text, or stream-json for messages and control requests of a program
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        requires_if("text", "print"),
        help_heading = "Agent SDK"
    )]
    pub input_format: Option<InputFormat>,
    /// The built-in tools: names separated by commas, default for all, or an empty text for none
    #[arg(long, value_name = "TOOLS", value_parser = parse_tools, allow_hyphen_values = true, help_heading = "Agent SDK")]
    pub tools: Option<ToolSelection>,
    /// Deny these tools, as permission rules separated by commas; may be repeated
    #[arg(long, alias = "disallowedTools", value_name = "RULES", help_heading = "Agent SDK")]
    pub disallowed_tools: Vec<String>,
    /// Replace the system prompt with the text of a file
    #[arg(long, value_name = "FILE", conflicts_with = "system_prompt", help_heading = "Agent SDK")]
    pub system_prompt_file: Option<PathBuf>,
    /// Let the built-in tools use this folder too; may be repeated
    #[arg(long, value_name = "FOLDER", help_heading = "Agent SDK")]
    pub add_dir: Vec<PathBuf>,
    /// Read settings that take precedence over those of user and project from a file or from inline JSON
    #[arg(long, value_name = "FILE|JSON", help_heading = "Agent SDK")]
    pub settings: Option<String>,
    /// Which settings and servers to load: user, project and local, separated by commas
    #[arg(long, value_name = "SOURCES", value_parser = parse_setting_sources, help_heading = "Agent SDK")]
    pub setting_sources: Option<SettingSources>,
    /// The id of the new conversation
    #[arg(long, value_name = "ID", help_heading = "Agent SDK")]
    pub session_id: Option<String>,
    /// Continue a copy of the conversation, with a new id
    #[arg(long, help_heading = "Agent SDK")]
    pub fork_session: bool,
    /// Do not store the conversation
    #[arg(long, help_heading = "Agent SDK")]
    pub no_session_persistence: bool,
    /// Who decides permission requests: stdio for the program, or a tool such as mcp__server__tool
    #[arg(long, value_name = "TOOL", value_parser = parse_prompt_tool, help_heading = "Agent SDK")]
    pub permission_prompt_tool: Option<PromptTool>,
    /// Make no permission requests, as with --permission-mode bypass
    #[arg(long, help_heading = "Agent SDK")]
    pub dangerously_skip_permissions: bool,
    /// Allow a program to select the permission mode bypass later
    #[arg(long, hide_short_help = true, help_heading = "Agent SDK")]
    pub allow_dangerously_skip_permissions: bool,
    /// Answer in JSON that matches this JSON schema
    #[arg(long, value_name = "SCHEMA", value_parser = parse_json_object, help_heading = "Agent SDK")]
    pub json_schema: Option<Json>,
    /// Accepted without effect: a limit in US dollars; prices are not known here
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars, help_heading = "Agent SDK")]
    pub max_budget_usd: Option<f64>,
    /// The effort of the model
    #[arg(long, value_enum, value_name = "LEVEL", help_heading = "Agent SDK")]
    pub effort: Option<EffortLevel>,
    /// Whether the model thinks
    #[arg(long, value_enum, value_name = "MODE", help_heading = "Agent SDK")]
    pub thinking: Option<ThinkingMode>,
    /// The token budget for thinking; 0 turns thinking off
    #[arg(long, value_name = "TOKENS", help_heading = "Agent SDK")]
    pub max_thinking_tokens: Option<u64>,
    /// The model to use while the first one is overloaded
    #[arg(long, value_name = "MODEL", help_heading = "Agent SDK")]
    pub fallback_model: Option<String>,
    /// Print the parts of responses as they arrive, with stream-json
    #[arg(long, help_heading = "Agent SDK")]
    pub include_partial_messages: bool,
    /// Print the start and the end of each hook, with stream-json
    #[arg(long, hide_short_help = true, help_heading = "Agent SDK")]
    pub include_hook_events: bool,
    /// Accepted without effect: repeat the messages of the user
    #[arg(long, hide_short_help = true, help_heading = "Agent SDK")]
    pub replay_user_messages: bool,
    /// Log at level debug, as with --log debug
    #[arg(long, value_name = "FILTER", num_args = 0..=1, require_equals = true, default_missing_value = "", hide_short_help = true, help_heading = "Agent SDK")]
    pub debug: Option<String>,
    /// Log at level debug to this file
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = "Agent SDK")]
    pub debug_file: Option<PathBuf>,
    /// Accepted for compatibility: the first request of the program comes before its messages anyway
    #[arg(long, hide_short_help = true, help_heading = "Agent SDK")]
    pub await_initialize: bool,
    /// Options that the program sends in its first request, without which no message is sent: settings, disallowedTools
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        hide_short_help = true,
        help_heading = "Agent SDK"
    )]
    pub initialize_fields: Vec<String>,
    /// Refused: the message up to which a conversation is continued; messages have no ids here
    #[arg(long, value_name = "ID", hide_short_help = true, help_heading = "Agent SDK")]
    pub resume_session_at: Option<String>,
    /// Refused: the message whose turn is left out; messages have no ids here
    #[arg(long, value_name = "ID", hide_short_help = true, help_heading = "Agent SDK")]
    pub resume_drops_turn: Option<String>,
    /// Who may be asked for permissions: host or none
    #[arg(
        long,
        value_enum,
        value_name = "WHO",
        hide_short_help = true,
        help_heading = "Agent SDK"
    )]
    pub permission_prompts: Option<PermissionPrompts>,
    /// Accepted for compatibility; stream-json is always complete
    #[arg(long, hide_short_help = true, help_heading = "Agent SDK")]
    pub verbose: bool,
    /// Accepted for compatibility, without effect
    #[command(flatten)]
    pub unused: UnusedArgs,
}

/// Options of agent SDKs that have no effect here.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct UnusedArgs {
    /// Accepted without effect: the token budget of a task
    #[arg(long, value_name = "TOKENS", hide_short_help = true, help_heading = "Agent SDK")]
    pub task_budget: Option<String>,
    /// Accepted without effect: names of experimental interfaces
    #[arg(long, value_name = "NAMES", hide_short_help = true, help_heading = "Agent SDK")]
    pub betas: Option<String>,
    /// Accepted without effect: the agent of the main conversation
    #[arg(long, value_name = "NAME", hide_short_help = true, help_heading = "Agent SDK")]
    pub agent: Option<String>,
    /// Accepted without effect: definitions of agents
    #[arg(long, value_name = "JSON", hide_short_help = true, help_heading = "Agent SDK")]
    pub agents: Option<String>,
    /// Accepted without effect: how thinking is shown
    #[arg(long, value_name = "MODE", hide_short_help = true, help_heading = "Agent SDK")]
    pub thinking_display: Option<String>,
    /// Accepted without effect: copies of the stored messages for the program
    #[arg(long, hide_short_help = true, help_heading = "Agent SDK")]
    pub session_mirror: bool,
    /// Accepted without effect: only files of an administrator are managed settings
    #[arg(long, value_name = "JSON", hide_short_help = true, help_heading = "Agent SDK")]
    pub managed_settings: Option<String>,
    /// Accepted without effect: only files of an administrator are managed settings
    #[arg(long, hide_short_help = true, help_heading = "Agent SDK")]
    pub managed_settings_in_initialize: bool,
    /// Accepted without effect: another folder for the settings of the project
    #[arg(long, value_name = "FOLDER", hide_short_help = true, help_heading = "Agent SDK")]
    pub project_config_root: Option<PathBuf>,
}

/// The format of standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InputFormat {
    /// A prompt.
    Text,
    /// One JSON object per line: messages, control requests and responses.
    StreamJson,
}

/// Who decides permission requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptTool {
    /// The program at the other end of the standard streams.
    Stdio,
    /// A tool in the pool.
    Tool(String),
}

/// Who may be asked for permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PermissionPrompts {
    /// The program.
    Host,
    /// No one: calls that would need a permission request are denied.
    None,
}

/// The effort of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EffortLevel {
    /// Short answers.
    Low,
    /// Less than usual.
    Medium,
    /// The usual effort.
    High,
    /// More than usual.
    #[value(name = "xhigh")]
    ExtraHigh,
    /// As much as the model is capable of.
    Max,
}

impl EffortLevel {
    /// The effort as the model client takes it.
    pub fn effort(self) -> Effort {
        match self {
            EffortLevel::Low => Effort::Low,
            EffortLevel::Medium => Effort::Medium,
            EffortLevel::High => Effort::High,
            EffortLevel::ExtraHigh => Effort::ExtraHigh,
            EffortLevel::Max => Effort::Max,
        }
    }
}

/// Whether the model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ThinkingMode {
    /// As much as the model chooses.
    #[value(alias = "enabled")]
    Adaptive,
    /// Not at all.
    Disabled,
}

impl SdkArgs {
    /// Is any of these options set?
    pub fn is_any_set(&self) -> bool {
        *self != SdkArgs::default()
    }

    /// The global options with `--debug` and `--debug-file`, where no log is chosen.
    pub fn with_log(&self, global: GlobalOptions) -> GlobalOptions {
        let level =
            || (self.debug.is_some() || self.debug_file.is_some()).then(|| DEBUG.to_owned());
        GlobalOptions {
            log: global.log.clone().or_else(level),
            log_file: global.log_file.clone().or_else(|| self.debug_file.clone()),
            ..global
        }
    }

    /// The used options that have no effect, as written on the command line.
    pub fn unused_options(&self) -> Vec<&'static str> {
        let UnusedArgs {
            task_budget,
            betas,
            agent,
            agents,
            thinking_display,
            session_mirror,
            managed_settings,
            managed_settings_in_initialize,
            project_config_root,
        } = &self.unused;
        let all = [
            ("--task-budget", task_budget.is_some() && !self.reads_stream_json()),
            ("--betas", betas.is_some()),
            ("--agent", agent.is_some()),
            ("--agents", agents.is_some()),
            ("--thinking-display", thinking_display.is_some()),
            ("--session-mirror", *session_mirror),
            ("--managed-settings", managed_settings.is_some()),
            ("--managed-settings-in-initialize", *managed_settings_in_initialize),
            ("--project-config-root", project_config_root.is_some()),
            ("--max-budget-usd", self.max_budget_usd.is_some() && !self.reads_stream_json()),
            ("--replay-user-messages", self.replay_user_messages),
        ];
        all.into_iter().filter(|(_, is_used)| *is_used).map(|(name, _)| name).collect()
    }

    /// The note about options without effect and tools that do not exist here.
    pub fn notes(&self, unknown_in_rules: &[String]) -> String {
        let mut notes = String::new();
        let unused = self.unused_options();
        if !unused.is_empty() {
            notes.push_str(&format!("note: without effect here: {}\n", unused.join(", ")));
        }
        let selected = match &self.tools {
            Some(ToolSelection::Named(names)) => names.as_slice(),
            Some(ToolSelection::None | ToolSelection::All) | None => &[],
        };
        let is_unknown = |name: &&String| !workspace::TOOLS.contains(&name.as_str());
        let mut unknown: Vec<&str> = selected
            .iter()
            .filter(is_unknown)
            .chain(unknown_in_rules)
            .map(String::as_str)
            .collect();
        unknown.sort_unstable();
        unknown.dedup();
        if !unknown.is_empty() {
            let names = printable(&unknown.join(", "));
            notes.push_str(&format!("note: there are no such built-in tools: {names}\n"));
        }
        notes
    }

    /// How the model thinks, if an option says so.
    pub fn thinking(&self) -> Option<ThinkingSetting> {
        match (self.thinking, self.max_thinking_tokens) {
            (Some(ThinkingMode::Disabled), _) | (None, Some(0)) => Some(ThinkingSetting::Off),
            (Some(ThinkingMode::Adaptive), None | Some(0)) => Some(ThinkingSetting::Adaptive),
            (_, Some(tokens)) => Some(ThinkingSetting::Budget(tokens)),
            (None, None) => None,
        }
    }

    /// An option that selects a part of the conversation to continue, which is not possible here.
    pub fn unavailable_resume_option(&self) -> Option<&'static str> {
        let is_set = |it: &Option<String>| it.as_ref().is_some_and(|it| !it.is_empty());
        if is_set(&self.resume_session_at) {
            return Some("--resume-session-at");
        }
        is_set(&self.resume_drops_turn).then_some("--resume-drops-turn")
    }

    /// What a program has to know about limits that it set.
    pub fn limit_notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if self.max_budget_usd.is_some() {
            notices.push(
                "--max-budget-usd has no effect: the prices of models are not known here, so no limit in \
                 dollars can be kept; --max-turns limits a run"
                    .to_owned(),
            );
        }
        if self.unused.task_budget.is_some() {
            notices.push(
                "--task-budget has no effect: no limit of tokens is kept; --max-turns limits a run"
                    .to_owned(),
            );
        }
        notices
    }

    /// Does a program send messages and control requests over standard input?
    pub fn reads_stream_json(&self) -> bool {
        self.input_format == Some(InputFormat::StreamJson)
    }

    /// The built-in tools: those of `--tools`; without it, all of them for a program and none for a person.
    pub fn tool_selection(&self) -> ToolSelection {
        match (&self.tools, self.reads_stream_json()) {
            (Some(selection), _) => selection.clone(),
            (None, true) => ToolSelection::All,
            (None, false) => ToolSelection::None,
        }
    }
}

/// Parses `--tools`.
fn parse_tools(text: &str) -> Result<ToolSelection, Infallible> {
    Ok(ToolSelection::parse(text))
}

/// Parses `--setting-sources`.
fn parse_setting_sources(text: &str) -> Result<SettingSources, String> {
    let (leave, load) = (SourceUse::Ignored, SourceUse::Loaded);
    let mut sources = SettingSources { user: leave, project: leave, local: leave };
    for word in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        match word {
            "user" => sources.user = load,
            "project" => sources.project = load,
            "local" => sources.local = load,
            _ => return Err("the sources are user, project and local".to_owned()),
        }
    }
    Ok(sources)
}

/// Parses `--permission-prompt-tool`.
fn parse_prompt_tool(text: &str) -> Result<PromptTool, String> {
    match text {
        STDIO_PROMPT => Ok(PromptTool::Stdio),
        "" => Err(format!("it must be {STDIO_PROMPT}, or the name of a tool")),
        name => Ok(PromptTool::Tool(name.to_owned())),
    }
}

/// Parses a JSON object.
fn parse_json_object(text: &str) -> Result<Json, String> {
    match serde_json::from_str::<Json>(text) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err("it must be a JSON object".to_owned()),
        Err(error) => Err(format!("it is not JSON: {error}")),
    }
}

/// Parses an amount of money.
fn parse_dollars(text: &str) -> Result<f64, String> {
    let amount = text.parse::<f64>().ok().filter(|it| it.is_finite() && *it > 0.0);
    amount.ok_or_else(|| "it must be a positive number".to_owned())
}
