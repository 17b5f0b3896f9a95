//! `swb -p`: asks the model once, lets it use the tools that rules allow, and prints its answer. Asks nobody anything.

mod events;

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use clap::{Args, ValueEnum};
use serde_json::{Value as Json, json};
use switchboard::call::pipeline::CallContext;
use switchboard::config::display::printable;
use switchboard::config::permission::ToolRule;
use switchboard::connection::Status;
use switchboard::connection::state::RetryPolicy;
use switchboard::host::{Host, Snapshot};
use switchboard::sources::loader::Configuration;
use switchboard::sources::paths::project_root;
use switchboard::storage::stderr_log::utc_timestamp;
use switchboard_chat::conversation::event::{CallOutcome, ConversationEvent, TurnEnd};
use switchboard_chat::conversation::handle::Conversation;
use switchboard_chat::conversation::setup::{ConversationSetup, DEFAULT_MAX_ROUNDS};
use switchboard_chat::message::{ContentBlock, Message};
use switchboard_chat::model::language_model::{LanguageModel, Usage};
use switchboard_chat::system_prompt;
use switchboard_chat::transcript::{
    Transcript, TranscriptError, TranscriptStore, TranscriptSummary,
};
use tokio::sync::mpsc;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::report;
use crate::output::report::StdoutState;
use crate::output::style::{TextStyle, paint};
use crate::runtime::call_context;
use crate::runtime::host;
use crate::runtime::host::Interrupts;
use crate::runtime::language_model;

/// The most of standard input that is taken.
const LARGEST_INPUT: u64 = 10 * 1024 * 1024;
/// How long an interrupted turn may take to end.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(2);

/// Flags of a conversation.
#[derive(Debug, Clone, Args)]
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
    pub fn system_text(&self, session: &Invocation) -> String {
        let now = utc_timestamp(SystemTime::now());
        let today = now.split('T').next().unwrap_or_default();
        let usual = || system_prompt::default_system_prompt(&session.env.working_folder, today);
        let mut system = self.system_prompt.clone().unwrap_or_else(usual);
        if let Some(more) = &self.append_system_prompt {
            system.push_str(&format!("\n\n{more}"));
        }
        system
    }

    /// The conversation that is gone on with, or a new one.
    pub fn open_conversation(
        &self,
        session: &Invocation,
    ) -> Result<(Transcript, Vec<Message>), Failure> {
        let root = project_root(&session.env.working_folder);
        let chronicles = TranscriptStore::for_project(&session.env.paths, &root);
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
    pub fn resumable(&self, session: &Invocation) -> Option<Vec<TranscriptSummary>> {
        let wants_to_choose = self.resume.as_ref().is_some_and(String::is_empty);
        let root = project_root(&session.env.working_folder);
        let list =
            || TranscriptStore::for_project(&session.env.paths, &root).list().unwrap_or_default();
        wants_to_choose.then(list)
    }

    fn format(&self, session: &Invocation) -> OutputFormat {
        let usual = if session.wants_json() { OutputFormat::Json } else { OutputFormat::Text };
        self.output_format.unwrap_or(usual)
    }
}

/// What is said where flags of a conversation stand with a command.
pub fn unexpected_with_command() -> Failure {
    Failure::new(Exit::Usage, "flags of a conversation go with no command")
        .hint("`swb --help` lists them")
}

/// Asks once.
pub fn run(arguments: &ConversationArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    let session = &session.non_interactive();
    let configuration = session.load()?;
    let prompt = read_prompt(arguments)?;
    let allowed = parse_rules(&arguments.allowed_tools)?;
    let model = language_model::open(session, arguments.model.as_deref())?.ok_or_else(|| {
        Failure::new(Exit::Configuration, "no model is set up").hint(language_model::SETUP_HINT)
    })?;
    let conversation = arguments.open_conversation(session)?;
    host::with_host_and_interrupts(session, RetryPolicy::NoRetry, async |host, interrupts| {
        let snapshot = tokio::select! {
            snapshot = wait_for_servers(session, &configuration, host) => snapshot,
            () = interrupts.next() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
        };
        let context = call_context::call_context(session, &configuration, host, None)?;
        for rule in allowed {
            context.rules.allow_for_session(rule);
        }
        let context = Arc::new(context);
        let asking = PromptRun { arguments, session, model, prompt };
        let ended = asking.run(host, &context, &snapshot, (conversation, interrupts)).await;
        context.audit.flush().await;
        asking.to_output(ended, &snapshot)
    })
}

async fn wait_for_servers(
    session: &Invocation,
    configuration: &Configuration,
    host: &Host,
) -> Arc<Snapshot> {
    host::apply_configuration(host, configuration, &[]).await;
    let snapshot = host::wait_until_settled(session, host, None, Snapshot::is_settled).await;
    host.settled_pool().await;
    snapshot
}

/// What was typed, and what was piped in.
fn read_prompt(arguments: &ConversationArgs) -> Result<String, Failure> {
    let mut prompt = arguments.print.clone().unwrap_or_default();
    let input = std::io::stdin();
    if !input.is_terminal() {
        let mut bytes = Vec::new();
        let read = input.lock().take(LARGEST_INPUT + 1).read_to_end(&mut bytes);
        // Who started us without any input has nothing to add; but half of what was meant is not asked.
        if let (Err(error), false) = (read, bytes.is_empty()) {
            return Err(Failure::new(Exit::Usage, "standard input broke off").caused_by(error));
        }
        if bytes.len() as u64 > LARGEST_INPUT {
            return Err(Failure::new(Exit::Usage, "standard input is larger than 10 MB"));
        }
        let piped = String::from_utf8(bytes)
            .map_err(|_| Failure::new(Exit::Usage, "standard input is no text in UTF-8"))?;
        if !piped.trim().is_empty() {
            if !prompt.is_empty() {
                prompt.push_str("\n\n");
            }
            prompt.push_str(&piped);
        }
    }
    if prompt.trim().is_empty() {
        return Err(Failure::new(Exit::Usage, "there is nothing to ask")
            .hint("`swb -p 'your question'`, or pipe it in"));
    }
    Ok(prompt)
}

/// Rules, comma separated; a comma in brackets is part of a rule.
fn parse_rules(texts: &[String]) -> Result<Vec<ToolRule>, Failure> {
    let mut rules = Vec::new();
    for text in texts {
        let (mut is_inside, mut is_quoted, mut is_escaped) = (false, false, false);
        let is_comma = |c: char| {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = is_quoted,
                '"' => is_quoted = is_inside && !is_quoted,
                '(' if !is_quoted => is_inside = true,
                ')' if !is_quoted => is_inside = false,
                _ => {}
            }
            c == ',' && !is_inside
        };
        for rule in text.split(is_comma).map(str::trim).filter(|it| !it.is_empty()) {
            let parsed = ToolRule::parse(rule).map_err(|fault| {
                let message = format!("--allowed-tools: `{}` is no rule", printable(rule));
                Failure::new(Exit::Usage, &message).caused_by(fault)
            })?;
            rules.push(parsed);
        }
    }
    Ok(rules)
}

/// One question to the model.
struct PromptRun<'a> {
    arguments: &'a ConversationArgs,
    session: &'a Invocation,
    model: Arc<dyn LanguageModel>,
    prompt: String,
}

/// What came of it.
struct RunResult {
    end: Option<TurnEnd>,
    /// The last answer.
    answer: String,
    answer_count: usize,
    usage: Usage,
    /// Calls under way, by name: whose result a denial is.
    calls: BTreeMap<Arc<str>, Arc<str>>,
    /// Calls that nobody allowed.
    denied: Vec<Json>,
    id: Option<Arc<str>>,
    save_error: Option<Arc<str>>,
    duration: Duration,
    stdout: StdoutState,
}

type RunInput<'a> = ((Transcript, Vec<Message>), &'a mut Interrupts);

impl PromptRun<'_> {
    async fn run(
        &self,
        host: &Host,
        context: &Arc<CallContext>,
        snapshot: &Snapshot,
        ((transcript, before), interrupts): RunInput<'_>,
    ) -> RunResult {
        let began = Instant::now();
        let rounds = self.arguments.max_turns.and_then(|it| usize::try_from(it).ok());
        let setting = ConversationSetup {
            host: host.clone(),
            call_context: context.clone(),
            model: Some(self.model.clone()),
            system_prompt: self.arguments.system_text(self.session).into(),
            history: before,
            max_rounds: rounds.unwrap_or(DEFAULT_MAX_ROUNDS),
        };
        let mut ended = RunResult::new();
        self.emit(&mut ended, || events::init_event(self.model.name(), snapshot, &host.pool()));
        let (talk, mut events, task) = Conversation::start_recorded(setting, transcript);
        talk.send(vec![ContentBlock::Text { text: self.prompt.clone() }]).await;
        self.collect_events(&talk, &mut events, interrupts, &mut ended).await;
        let standing = talk.status();
        (ended.id, ended.save_error) = (standing.id, standing.write_error);
        drop((talk, events));
        let _panicked = task.await;
        ended.duration = began.elapsed();
        ended
    }

    /// Hears everything until the turn is over, or somebody had enough.
    async fn collect_events(
        &self,
        talk: &Conversation,
        events: &mut mpsc::Receiver<ConversationEvent>,
        interrupts: &mut Interrupts,
        ended: &mut RunResult,
    ) {
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                () = interrupts.next() => {
                    talk.interrupt().await;
                    let rest = async {
                        while let Some(it) = events.recv().await {
                            if let ConversationEvent::TurnEnded(_) = it {
                                return;
                            }
                        }
                    };
                    let _it_takes_too_long = tokio::time::timeout(INTERRUPT_TIMEOUT, rest).await;
                    ended.end = Some(TurnEnd::Interrupted);
                    return;
                }
            };
            let Some(event) = event else { return };
            self.emit(ended, || events::event_json(&event));
            ended.record(event);
            if ended.end.is_some() || ended.stdout == StdoutState::Closed {
                return;
            }
        }
    }

    fn emit(&self, ended: &mut RunResult, event: impl FnOnce() -> Option<Json>) {
        if self.arguments.format(self.session) == OutputFormat::StreamJson
            && let Some(event) = event()
        {
            ended.stdout = report::print_stdout(&format!("{event}\n"));
        }
    }

    fn to_output(&self, ended: RunResult, snapshot: &Snapshot) -> Result<CommandOutput, Failure> {
        if let Some(TurnEnd::Interrupted) = ended.end {
            return Err(Failure::new(Exit::Interrupted, "interrupted"));
        }
        let exit = match ended.end {
            Some(TurnEnd::Finished) => None,
            Some(_) | None => Some(Exit::ModelFailed),
        };
        let format = self.arguments.format(self.session);
        if format != OutputFormat::Text {
            return Ok(CommandOutput {
                exit,
                ..CommandOutput::text(format!("{}\n", ended.as_json()))
            });
        }
        let missing = snapshot.servers.values().filter(|view| view.status != Status::Connected);
        let mut notes: String = missing.map(|view| connection_text::problem_text(view)).collect();
        if let Some(why) = &ended.save_error {
            notes.push_str(&warning(&format!("the conversation is not kept: {}", printable(why))));
        }
        match &ended.end {
            Some(TurnEnd::Failed(error)) => {
                let failure =
                    Failure::new(Exit::ModelFailed, &error.to_string()).caused_by(&error.kind);
                return Err(failure.detail(notes));
            }
            Some(TurnEnd::Finished | TurnEnd::Interrupted) => {}
            Some(TurnEnd::CutShort) => {
                notes.push_str(&warning("the answer is cut: it was too long"))
            }
            Some(TurnEnd::Refused) => notes.push_str(&warning("the model would not answer")),
            Some(TurnEnd::TooManyRounds) => {
                notes.push_str(&warning("the model was not done after so many answers"));
            }
            None => notes.push_str(&warning("the conversation ended early")),
        }
        let text = match self.session.env.terminal.stdout_is_terminal {
            true => ended
                .answer
                .lines()
                .map(|line| super::call::printable_with_tabs(line) + "\n")
                .collect(),
            false => format!("{}\n", ended.answer.trim_end_matches('\n')),
        };
        Ok(CommandOutput { exit, ..CommandOutput::text(text).note(notes) })
    }
}

fn warning(text: &str) -> String {
    format!("{} {text}\n", paint(TextStyle::Warning, "warning:"))
}

impl RunResult {
    fn new() -> RunResult {
        RunResult {
            end: None,
            answer: String::new(),
            answer_count: 0,
            usage: Usage::default(),
            calls: BTreeMap::new(),
            denied: Vec::new(),
            id: None,
            save_error: None,
            duration: Duration::ZERO,
            stdout: StdoutState::Open,
        }
    }

    fn record(&mut self, event: ConversationEvent) {
        match event {
            ConversationEvent::Text(text) => self.answer.push_str(&text),
            ConversationEvent::Retrying { .. } => self.answer.clear(),
            ConversationEvent::ResponseEnded => self.answer_count += 1,
            // What follows calls is another answer.
            ConversationEvent::CallStarted(seen) => {
                self.answer.clear();
                self.calls.insert(seen.id, seen.tool);
            }
            ConversationEvent::Usage(usage) => self.usage = usage,
            ConversationEvent::CallEnded { id, outcome: CallOutcome::Denied, text, .. } => {
                let tool = self.calls.get(&id).map(|it| &**it);
                self.denied.push(json!({"tool": tool, "reason": text}));
            }
            ConversationEvent::TurnEnded(end) => self.end = Some(end),
            ConversationEvent::CallEnded { .. }
            | ConversationEvent::MessagesAccepted { .. }
            | ConversationEvent::Thinking(_)
            | ConversationEvent::CallProgress { .. } => {}
        }
    }

    fn as_json(&self) -> Json {
        let (reason, error) = match &self.end {
            Some(TurnEnd::Finished) => ("end_turn", None),
            Some(TurnEnd::CutShort) => ("max_tokens", None),
            Some(TurnEnd::Refused) => ("refusal", None),
            Some(TurnEnd::Interrupted) | None => ("interrupted", None),
            Some(TurnEnd::TooManyRounds) => ("max_turns", None),
            Some(TurnEnd::Failed(error)) => ("error", Some(format!("{error}: {}", error.kind))),
        };
        json!({
            "type": "result",
            "result": error.as_ref().unwrap_or(&self.answer),
            "is_error": reason != "end_turn",
            "stop_reason": reason,
            "session_id": self.id.as_deref(),
            "num_turns": self.answer_count,
            "duration_ms": u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
            "usage": events::usage(&self.usage),
            "permission_denials": self.denied,
        })
    }
}
