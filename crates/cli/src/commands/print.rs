//! `swb -p`: asks the model once, lets it use the tools that rules allow, and prints its answer. Asks nobody anything.

mod events;
mod options;
mod result;

use std::io::{IsTerminal, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use switchboard::call::pipeline::CallContext;
use switchboard::config::display::printable;
use switchboard::config::permission::ToolRule;
use switchboard::connection::Status;
use switchboard::connection::state::RetryPolicy;
use switchboard::host::{Host, Snapshot};
use switchboard::sources::loader::Configuration;
use switchboard_chat::conversation::event::{ConversationEvent, TurnEnd};
use switchboard_chat::conversation::handle::{Conversation, ConversationSetup, DEFAULT_MAX_ROUNDS};
use switchboard_chat::message::{ContentBlock, Message};
use switchboard_chat::model::language_model::LanguageModel;
use switchboard_chat::transcript::Transcript;
use tokio::sync::mpsc;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::report;
use crate::output::report::StdoutState;
use crate::output::style::{TextStyle, paint};
use crate::output::tool_output::printable_with_tabs;
use crate::runtime::call_context;
use crate::runtime::host;
use crate::runtime::interrupts::Interrupts;
use crate::runtime::language_model;
use crate::runtime::servers;

pub use options::{ConversationArgs, OutputFormat, unexpected_with_command};
use result::RunResult;

/// The most of standard input that is taken.
const LARGEST_INPUT: u64 = 10 * 1024 * 1024;
/// How long an interrupted turn may take to end.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(2);

/// Asks once.
pub fn run(
    arguments: &ConversationArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let invocation = &invocation.non_interactive();
    let configuration = invocation.load()?;
    let prompt = read_prompt(arguments)?;
    let allowed = parse_rules(&arguments.allowed_tools)?;
    let model = language_model::open(invocation, arguments.model.as_deref())?.ok_or_else(|| {
        Failure::new(Exit::Configuration, "no model is set up").hint(language_model::SETUP_HINT)
    })?;
    let conversation = arguments.open_conversation(invocation)?;
    host::with_host_and_interrupts(invocation, RetryPolicy::NoRetry, async |host, interrupts| {
        let snapshot = tokio::select! {
            snapshot = wait_for_servers(invocation, &configuration, host) => snapshot,
            () = interrupts.next() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
        };
        let context = call_context::call_context(invocation, &configuration, host, None)?;
        for rule in allowed {
            context.rules.allow_for_session(rule);
        }
        let context = Arc::new(context);
        let asking = PromptRun { arguments, invocation, model, prompt };
        let ended = asking.run(host, &context, &snapshot, (conversation, interrupts)).await;
        context.audit.flush().await;
        asking.to_output(ended, &snapshot)
    })
}

async fn wait_for_servers(
    invocation: &Invocation,
    configuration: &Configuration,
    host: &Host,
) -> Arc<Snapshot> {
    servers::apply_configuration(host, configuration, &[]).await;
    let snapshot = servers::wait_until_settled(invocation, host, None, Snapshot::is_settled).await;
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
    invocation: &'a Invocation,
    model: Arc<dyn LanguageModel>,
    prompt: String,
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
            system_prompt: self.arguments.system_text(self.invocation).into(),
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
        if self.arguments.format(self.invocation) == OutputFormat::StreamJson
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
        let format = self.arguments.format(self.invocation);
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
        let text = match self.invocation.env.terminal.stdout_is_terminal {
            true => ended.answer.lines().map(|line| printable_with_tabs(line) + "\n").collect(),
            false => format!("{}\n", ended.answer.trim_end_matches('\n')),
        };
        Ok(CommandOutput { exit, ..CommandOutput::text(text).note(notes) })
    }
}

fn warning(text: &str) -> String {
    format!("{} {text}\n", paint(TextStyle::Warning, "warning:"))
}
