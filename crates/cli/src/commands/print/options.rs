//! The flags of a conversation.

use std::time::SystemTime;

use clap::{Args, ValueEnum};
use switchboard::sources::paths::project_root;
use switchboard::storage::stderr_log::utc_timestamp;
use switchboard_chat::message::Message;
use switchboard_chat::system_prompt;
use switchboard_chat::transcript::{
    Transcript, TranscriptError, TranscriptStore, TranscriptSummary,
};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;

/// Flags of a conversation.
#[derive(Debug, Clone, Default, Args)]
pub struct ConversationArgs {
    /// Ask the model once, print its answer and end; what standard input holds is added
    #[arg(short = 'p', long, value_name = "PROMPT", num_args = 0..=1, default_missing_value = "", help_heading = "Conversation")]
    pub print: Option<String>,
    /// How the answer is printed
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        requires = "print",
        help_heading = "Conversation"
    )]
    pub output_format: Option<OutputFormat>,
    /// Tools that may be called, as rules: comma separated, may be repeated
    #[arg(long, value_name = "RULES", requires = "print", help_heading = "Conversation")]
    pub allowed_tools: Vec<String>,
    /// Which model: provider/name, or a name
    #[arg(long, value_name = "MODEL", help_heading = "Conversation")]
    pub model: Option<String>,
    /// Go on with the last conversation of this project
    #[arg(long = "continue", conflicts_with = "resume", help_heading = "Conversation")]
    pub continue_last: bool,
    /// Go on with this conversation; without a name, choose one
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", help_heading = "Conversation")]
    pub resume: Option<String>,
    /// How often the model may answer before it has to be done
    #[arg(long, value_name = "COUNT", requires = "print", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Conversation")]
    pub max_turns: Option<u32>,
    /// Converse in plain lines, without a screen: for screen readers and simple terminals
    #[arg(long, conflicts_with = "print", help_heading = "Conversation")]
    pub plain: bool,
    /// What the model is told of its place, instead of the usual
    #[arg(long, value_name = "TEXT", help_heading = "Conversation")]
    pub system_prompt: Option<String>,
    /// What the model is told of its place, besides
    #[arg(long, value_name = "TEXT", help_heading = "Conversation")]
    pub append_system_prompt: Option<String>,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// The answer alone.
    Text,
    /// One JSON object at the end.
    Json,
    /// One JSON object a line, as things happen.
    StreamJson,
}

impl ConversationArgs {
    /// Is any of it said?
    pub fn is_any_set(&self) -> bool {
        let ConversationArgs {
            print,
            output_format,
            allowed_tools,
            model,
            continue_last: go_on,
            resume,
            ..
        } = self;
        let ConversationArgs { max_turns, system_prompt, append_system_prompt, .. } = self;
        let texts = [print, model, resume, system_prompt, append_system_prompt];
        texts.into_iter().any(Option::is_some)
            || output_format.is_some()
            || !allowed_tools.is_empty()
            || *go_on
            || self.plain
            || max_turns.is_some()
    }

    /// What the model is told of its place.
    pub fn system_text(&self, invocation: &Invocation) -> String {
        let now = utc_timestamp(SystemTime::now());
        let today = now.split('T').next().unwrap_or_default();
        let usual = || system_prompt::default_system_prompt(&invocation.env.working_folder, today);
        let mut system = self.system_prompt.clone().unwrap_or_else(usual);
        if let Some(more) = &self.append_system_prompt {
            system.push_str(&format!("\n\n{more}"));
        }
        system
    }

    /// The conversation that is gone on with, or a new one.
    pub fn open_conversation(
        &self,
        invocation: &Invocation,
    ) -> Result<(Transcript, Vec<Message>), Failure> {
        let root = project_root(&invocation.env.working_folder);
        let chronicles = TranscriptStore::for_project(&invocation.env.paths, &root);
        let found = match (&self.resume, self.continue_last) {
            (Some(id), _) if id.is_empty() => {
                return Err(Failure::new(Exit::Usage, "`--resume` needs to know which one")
                    .hint("`--continue` goes on with the last one"));
            }
            (Some(id), _) => chronicles.resume(id),
            (None, true) => chronicles.resume_last(),
            (None, false) => return Ok((chronicles.create(), Vec::new())),
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

    /// The conversations that there are to choose from, where somebody has to choose.
    pub fn resumable(&self, invocation: &Invocation) -> Option<Vec<TranscriptSummary>> {
        let wants_to_choose = self.resume.as_ref().is_some_and(String::is_empty);
        let root = project_root(&invocation.env.working_folder);
        let list = || {
            TranscriptStore::for_project(&invocation.env.paths, &root).list().unwrap_or_default()
        };
        wants_to_choose.then(list)
    }

    /// How the answer is printed: as asked for, or as `--json` says.
    pub fn format(&self, invocation: &Invocation) -> OutputFormat {
        let usual = if invocation.wants_json() { OutputFormat::Json } else { OutputFormat::Text };
        self.output_format.unwrap_or(usual)
    }
}

/// What is said where flags of a conversation stand with a command.
pub fn unexpected_with_command() -> Failure {
    Failure::new(Exit::Usage, "flags of a conversation go with no command")
        .hint("`swb --help` lists them")
}
