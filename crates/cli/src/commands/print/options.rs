//! The options of a conversation.

use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use switchboard::config::permission::PermissionMode;
use switchboard::sources::project_root;
use switchboard::utc_timestamp;
use switchboard_chat::message::Message;
use switchboard_chat::system_prompt;
use switchboard_chat::transcript::{
    Transcript, TranscriptError, TranscriptStore, TranscriptSummary,
};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::options::parse_mode;
use crate::outcome::Failure;
use crate::runtime::readiness::{ReadyOptions, parse_seconds};

/// Options of a conversation.
#[derive(Debug, Clone, Default, Args)]
pub struct ConversationArgs {
    /// Send one prompt to the model and print its answer; standard input is appended
    #[arg(short = 'p', long, value_name = "PROMPT", num_args = 0..=1, default_missing_value = "", help_heading = "Conversation")]
    pub print: Option<String>,
    /// The output format of -p
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        requires = "print",
        help_heading = "Conversation"
    )]
    pub output_format: Option<OutputFormat>,
    /// Allow these tools, as permission rules separated by commas; may be repeated
    #[arg(long, value_name = "RULES", requires = "print", help_heading = "Conversation")]
    pub allowed_tools: Vec<String>,
    /// The model: PROVIDER/NAME, or NAME
    #[arg(long, value_name = "MODEL", help_heading = "Conversation")]
    pub model: Option<String>,
    /// The permission mode: plan, dontAsk, default, acceptEdits, bypass
    #[arg(long, visible_alias = "mode", value_name = "MODE", value_parser = parse_mode, help_heading = "Conversation")]
    pub permission_mode: Option<PermissionMode>,
    /// Continue the last conversation of this project
    #[arg(long = "continue", conflicts_with = "resume", help_heading = "Conversation")]
    pub continue_last: bool,
    /// Continue this conversation; without an id, choose one
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", help_heading = "Conversation")]
    pub resume: Option<String>,
    /// The most model responses before the run ends
    #[arg(long, value_name = "COUNT", requires = "print", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Conversation")]
    pub max_turns: Option<u32>,
    /// Fail before the model is asked unless this server is connected; may be repeated
    #[arg(long, value_name = "NAME", requires = "print", help_heading = "Conversation")]
    pub require: Vec<String>,
    /// Stop waiting for servers after this many seconds, and use those that are connected
    #[arg(long, value_name = "SECONDS", requires = "print", value_parser = parse_seconds, help_heading = "Conversation")]
    pub ready_timeout: Option<Duration>,
    /// Use plain text instead of the screen, for screen readers and simple terminals
    #[arg(long, conflicts_with = "print", help_heading = "Conversation")]
    pub plain: bool,
    /// Replace the system prompt
    #[arg(long, value_name = "TEXT", help_heading = "Conversation")]
    pub system_prompt: Option<String>,
    /// Append to the system prompt
    #[arg(long, value_name = "TEXT", help_heading = "Conversation")]
    pub append_system_prompt: Option<String>,
}

/// The output format of `-p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Only the answer.
    Text,
    /// One JSON object at the end.
    Json,
    /// One JSON object per line, as events arrive.
    StreamJson,
}

impl ConversationArgs {
    /// Is any option set?
    pub fn is_any_set(&self) -> bool {
        let ConversationArgs {
            print,
            output_format,
            allowed_tools,
            model,
            continue_last,
            resume,
            ..
        } = self;
        let ConversationArgs { max_turns, system_prompt, append_system_prompt, .. } = self;
        let texts = [print, model, resume, system_prompt, append_system_prompt];
        texts.into_iter().any(Option::is_some)
            || output_format.is_some()
            || !allowed_tools.is_empty()
            || *continue_last
            || self.plain
            || max_turns.is_some()
            || !self.require.is_empty()
            || self.ready_timeout.is_some()
            || self.permission_mode.is_some()
    }

    /// The required servers.
    pub fn ready(&self) -> ReadyOptions {
        ReadyOptions { require: self.require.clone(), ready_timeout: self.ready_timeout }
    }

    /// Does `--output-format` select JSON?
    pub fn prints_json(&self) -> bool {
        matches!(self.output_format, Some(OutputFormat::Json | OutputFormat::StreamJson))
    }

    /// The system prompt.
    pub fn system_text(&self, invocation: &Invocation) -> String {
        let now = utc_timestamp(SystemTime::now());
        let today = now.split('T').next().unwrap_or_default();
        let default_prompt =
            || system_prompt::default_system_prompt(&invocation.env.working_folder, today);
        let mut system = self.system_prompt.clone().unwrap_or_else(default_prompt);
        if let Some(more) = &self.append_system_prompt {
            system.push_str(&format!("\n\n{more}"));
        }
        system
    }

    /// The conversation to continue, or a new one.
    pub fn open_conversation(
        &self,
        invocation: &Invocation,
    ) -> Result<(Transcript, Vec<Message>), Failure> {
        let root = project_root(&invocation.env.working_folder);
        let transcripts = TranscriptStore::for_project(&invocation.env.paths, &root);
        let found = match (&self.resume, self.continue_last) {
            (Some(id), _) if id.is_empty() => {
                return Err(Failure::new(Exit::Usage, "`--resume` needs a conversation id")
                    .hint("`--continue` continues the last one"));
            }
            (Some(id), _) => transcripts.resume(id),
            (None, true) => transcripts.resume_last(),
            (None, false) => return Ok((transcripts.create(), Vec::new())),
        };
        found.map_err(|error| {
            let exit = match &error {
                TranscriptError::NotFound(_) | TranscriptError::Empty => Exit::NotFound,
                TranscriptError::Unreadable { .. } => Exit::Failure,
            };
            let failure = Failure::new(exit, &error.to_string());
            match std::error::Error::source(&error) {
                Some(cause) => failure.caused_by(cause),
                None => failure,
            }
        })
    }

    /// The conversations to choose from, if `--resume` has no id.
    pub fn resumable(&self, invocation: &Invocation) -> Option<Vec<TranscriptSummary>> {
        let wants_to_choose = self.resume.as_ref().is_some_and(String::is_empty);
        let root = project_root(&invocation.env.working_folder);
        let list = || {
            TranscriptStore::for_project(&invocation.env.paths, &root).list().unwrap_or_default()
        };
        wants_to_choose.then(list)
    }

    /// The output format: `--output-format`, or as `--json` says.
    pub fn format(&self, invocation: &Invocation) -> OutputFormat {
        let default = if invocation.wants_json() { OutputFormat::Json } else { OutputFormat::Text };
        self.output_format.unwrap_or(default)
    }
}

/// The failure for conversation options together with a command.
pub fn unexpected_with_command() -> Failure {
    Failure::new(Exit::Usage, "conversation options cannot be combined with a command")
        .hint("`swb --help` lists them")
}
