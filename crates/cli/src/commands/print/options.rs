//! The options of a conversation.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{ArgGroup, Args, ValueEnum};
use switchboard::config::display::printable;
use switchboard::config::permission::{PermissionEffect, PermissionMode, RulePaths};
use switchboard::sources::project_root;
use switchboard::sources::text_file;
use switchboard::sources::text_file::{AllowedFiles, FileContent};
use switchboard::utc_timestamp;
use switchboard_builtin::workspace::AddedRoots;
use switchboard_chat::message::Message;
use switchboard_chat::system_prompt;
use switchboard_chat::transcript::{
    Transcript, TranscriptError, TranscriptStore, TranscriptSummary,
};

use crate::env::ProcessEnv;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::options::parse_mode;
use crate::invocation::session_flags::{ComputerUse, SessionFlags, UserPresence};
use crate::outcome::Failure;
use crate::runtime::ide::IdeFlag;
use crate::runtime::readiness::{ReadyOptions, parse_seconds};

use super::channel_options::ChannelArgs;
use super::sdk_options::{EffortLevel, SdkArgs};
use super::tool_rules::ToolRules;
use crate::runtime::language_model::ModelFlags;

/// Options of a conversation.
#[derive(Debug, Clone, Default, Args)]
#[command(group(ArgGroup::new("without_screen").multiple(true).args(["print", "input_format"])))]
pub struct ConversationArgs {
    /// Send one prompt to the model and print its answer; standard input is appended
    #[arg(short = 'p', long, value_name = "PROMPT", num_args = 0..=1, default_missing_value = "", help_heading = "Conversation")]
    pub print: Option<String>,
    /// The output format of -p
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        requires = "without_screen",
        help_heading = "Conversation"
    )]
    pub output_format: Option<OutputFormat>,
    /// Allow these tools, as permission rules separated by commas; may be repeated
    #[arg(
        long,
        alias = "allowedTools",
        value_name = "RULES",
        requires = "without_screen",
        help_heading = "Conversation"
    )]
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
    #[arg(long, value_name = "COUNT", requires = "without_screen", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Conversation")]
    pub max_turns: Option<u32>,
    /// Fail before the model is asked unless this server is connected; may be repeated
    #[arg(long, value_name = "NAME", requires = "without_screen", help_heading = "Conversation")]
    pub require: Vec<String>,
    /// Stop waiting for servers after this many seconds, and use those that are connected
    #[arg(long, value_name = "SECONDS", requires = "without_screen", value_parser = parse_seconds, help_heading = "Conversation")]
    pub ready_timeout: Option<Duration>,
    /// Use plain text instead of the screen, for screen readers and simple terminals
    #[arg(long, conflicts_with_all = ["print", "input_format"], help_heading = "Conversation")]
    pub plain: bool,
    /// Replace the system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Conversation")]
    pub system_prompt: Option<String>,
    /// Append to the system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Conversation")]
    pub append_system_prompt: Option<String>,
    /// Connect the IDE that has this folder open
    #[arg(long, help_heading = "Conversation")]
    pub ide: bool,
    /// Let the model work on your X11 desktop, in the applications that you allow
    #[arg(long, alias = "computer-use", help_heading = "Conversation")]
    pub computer: bool,
    /// Options about channels.
    #[command(flatten)]
    pub channels: ChannelArgs,
    /// Options of agent SDKs.
    #[command(flatten)]
    pub sdk: SdkArgs,
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
            || self.ide
            || self.computer
            || max_turns.is_some()
            || !self.require.is_empty()
            || self.ready_timeout.is_some()
            || self.permission_mode.is_some()
            || self.channels.is_any_set()
            || self.sdk.is_any_set()
    }

    /// What the options say about settings, folders and built-in tools, and a note about those without effect.
    pub fn session_flags(&self, env: &ProcessEnv) -> Result<(SessionFlags, String), Failure> {
        let absolute = |folder: &PathBuf| env.working_folder.join(folder);
        let paths = RulePaths { folder: env.working_folder.clone(), home: Some(env.home.clone()) };
        let mut rules = ToolRules::default();
        let allow = ("--allowed-tools", PermissionEffect::Allow);
        rules.add(allow, &self.allowed_tools, &paths)?;
        let deny = ("--disallowed-tools", PermissionEffect::Deny);
        rules.add(deny, &self.sdk.disallowed_tools, &paths)?;
        let notes = self.sdk.notes(&rules.unknown_tools);
        let flags = SessionFlags {
            settings: self.sdk.settings.clone(),
            rules: rules.rules,
            setting_sources: self.sdk.setting_sources.unwrap_or_default(),
            tools: self.sdk.tool_selection(),
            added_folders: AddedRoots::new(self.sdk.add_dir.iter().map(absolute).collect()),
            computer: match self.computer {
                true => ComputerUse::AskedFor,
                false => ComputerUse::AsConfigured,
            },
            user: UserPresence::Absent,
            channels: self.channels.flags(),
            plugins: Vec::new(),
        };
        Ok((flags, notes))
    }

    /// What the options say about the model.
    pub fn model_flags(&self) -> ModelFlags {
        ModelFlags {
            model: self.model.clone(),
            thinking: self.sdk.thinking(),
            effort: self.sdk.effort.map(EffortLevel::effort),
            fallback: self.sdk.fallback_model.clone(),
        }
    }

    /// Whether `--ide` is set.
    pub fn ide_flag(&self) -> IdeFlag {
        match self.ide {
            true => IdeFlag::Set,
            false => IdeFlag::NotSet,
        }
    }

    /// The permission mode, if an option selects one.
    pub fn mode(&self) -> Option<PermissionMode> {
        match self.sdk.dangerously_skip_permissions {
            true => Some(PermissionMode::Bypass),
            false => self.permission_mode,
        }
    }

    /// Does the run use neither the screen nor plain lines?
    pub fn is_without_screen(&self) -> bool {
        self.print.is_some() || self.sdk.reads_stream_json()
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
    pub fn system_text(&self, invocation: &Invocation) -> Result<String, Failure> {
        let now = utc_timestamp(SystemTime::now());
        let today = now.split('T').next().unwrap_or_default();
        let default_prompt =
            || system_prompt::default_system_prompt(&invocation.env.working_folder, today);
        let mut system = match (&self.system_prompt, &self.sdk.system_prompt_file) {
            (Some(text), _) => text.clone(),
            (None, Some(file)) => read_system_prompt(&invocation.env.working_folder.join(file))?,
            (None, None) => default_prompt(),
        };
        if let Some(more) = &self.append_system_prompt {
            system.push_str(&format!("\n\n{more}"));
        }
        Ok(system)
    }

    /// The conversation to continue, or a new one.
    pub fn open_conversation(
        &self,
        invocation: &Invocation,
    ) -> Result<(Transcript, Vec<Message>), Failure> {
        if let Some(option) = self.sdk.unavailable_resume_option() {
            let message =
                format!("{option}: messages are stored without ids, so it cannot be followed");
            return Err(Failure::new(Exit::Usage, &message)
                .hint("`--resume ID` continues the whole conversation"));
        }
        let root = project_root(&invocation.env.working_folder);
        let transcripts = TranscriptStore::for_project(&invocation.env.paths, &root);
        let new = || -> Result<Transcript, TranscriptError> {
            Ok(match (&self.sdk.session_id, self.sdk.no_session_persistence) {
                (Some(id), false) => transcripts.create_with_id(id)?,
                (None, false) => transcripts.create(),
                (_, true) => transcripts.create_unsaved(),
            })
        };
        let found = match (&self.resume, self.continue_last) {
            (Some(id), _) if id.is_empty() => {
                return Err(Failure::new(Exit::Usage, "`--resume` needs a conversation id")
                    .hint("`--continue` continues the last one"));
            }
            (Some(id), _) => transcripts.resume(id),
            (None, true) => transcripts.resume_last(),
            (None, false) => new().map(|transcript| (transcript, Vec::new())),
        };
        let is_copy = self.sdk.fork_session || self.sdk.no_session_persistence;
        let found = match found {
            Ok((_, history)) if is_copy => new().and_then(|transcript| {
                let copy = transcript.with_messages(&history)?;
                Ok((copy, history))
            }),
            found => found,
        };
        found.map_err(|error| {
            let exit = match &error {
                TranscriptError::NotFound(_) | TranscriptError::Empty => Exit::NotFound,
                TranscriptError::InvalidId(_) | TranscriptError::Exists(_) => Exit::Usage,
                TranscriptError::Unreadable { .. } | TranscriptError::NotWritten(_) => {
                    Exit::Failure
                }
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

/// The text of `--system-prompt-file`.
fn read_system_prompt(path: &Path) -> Result<String, Failure> {
    let unreadable = |why: &str| {
        let name = printable(&path.display().to_string());
        let message = format!("--system-prompt-file: `{name}` cannot be read");
        Failure { causes: vec![printable(why)], ..Failure::new(Exit::Usage, &message) }
    };
    match text_file::read_text(path, AllowedFiles::PipesToo) {
        Ok(FileContent::Text(text)) => Ok(text),
        Ok(FileContent::Absent) => Err(unreadable("there is no such file")),
        Err(error) => Err(unreadable(&error.to_string())),
    }
}

/// The failure for conversation options together with a command.
pub fn unexpected_with_command() -> Failure {
    Failure::new(Exit::Usage, "conversation options cannot be combined with a command")
        .hint("`swb --help` lists them")
}
