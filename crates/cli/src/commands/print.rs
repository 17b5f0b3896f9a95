//! `swb -p`: sends one prompt to the model, lets it call the tools that rules allow, and prints its answer. Never
//! prompts the user.

mod channel_options;
mod events;
mod options;
mod result;
mod sdk_options;
mod tool_rules;

use std::io::{IsTerminal, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use switchboard::config::display::printable;
use switchboard::connection::{RetryPolicy, ServerView, Status};
use switchboard::sources::loader::Configuration;
use switchboard::{CallContext, Host, Snapshot};
use switchboard_chat::conversation::event::{ConversationEvent, TurnEnd};
use switchboard_chat::conversation::handle::Conversation;
use switchboard_chat::conversation::setup::{ConversationSetup, DEFAULT_MAX_ROUNDS};
use switchboard_chat::conversation::structured_output::StructuredOutput;
use switchboard_chat::ide::IdeHooks;
use switchboard_chat::message::{ContentBlock, Message};
use switchboard_chat::model::language_model::LanguageModel;
use switchboard_chat::transcript::Transcript;
use switchboard_tui::backend::StartedIde;
use tokio::sync::mpsc;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::json::json_line;
use crate::output::report;
use crate::output::report::StdoutState;
use crate::output::style::{TextStyle, paint};
use crate::output::tool_output::printable_with_tabs;
use crate::output::unusable_files;
use crate::runtime::call_context;
use crate::runtime::channels;
use crate::runtime::host;
use crate::runtime::ide;
use crate::runtime::interrupts::Interrupts;
use crate::runtime::language_model;
use crate::runtime::readiness::ReadyOptions;
use crate::runtime::servers;

pub use options::{ConversationArgs, OutputFormat, unexpected_with_command};
use result::RunResult;
pub use sdk_options::{
    EffortLevel, InputFormat, PermissionPrompts, PromptTool, SdkArgs, ThinkingMode,
};
pub use tool_rules::ToolRules;

/// The largest standard input that is read.
const LARGEST_INPUT: u64 = 10 * 1024 * 1024;
/// How long an interrupted turn may take to end.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs one prompt.
pub fn run(
    arguments: &ConversationArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let invocation = &invocation.non_interactive();
    let configuration = invocation.load()?;
    let prompt = read_prompt(arguments)?;
    let model =
        language_model::open_with(invocation, &arguments.model_flags())?.ok_or_else(|| {
            Failure::new(Exit::Configuration, "no model is set up").hint(language_model::SETUP_HINT)
        })?;
    let ready = arguments.ready();
    ready.expect_startable(invocation, &configuration)?;
    let conversation = arguments.open_conversation(invocation)?;
    report::print_stderr(&channels::not_taken_note(invocation));
    let system_prompt: Arc<str> = arguments.system_text(invocation)?.into();
    host::with_host_and_interrupts(invocation, RetryPolicy::NoRetry, async |host, interrupts| {
        let mode = arguments.mode();
        let context = call_context::call_context(invocation, &configuration, host, mode)?;
        let ide = ide::start_session(invocation, host, &context.rules);
        let asked_for = arguments.ide_flag();
        let warning =
            ide::connect_at_start(invocation, (host, &ide.session), &configuration, asked_for);
        report::print_stderr(&warning.await);
        let snapshot = tokio::select! {
            snapshot = wait_for_servers(invocation, &configuration, host, &ready) => snapshot,
            () = interrupts.next() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
        };
        ready.expect_connected(&snapshot)?;
        report::print_stderr(&servers::unapproved_note(&configuration, &[]));
        report::print_stderr(&missing_servers_text(&snapshot));
        let context = Arc::new(context);
        let run = PromptRun { arguments, invocation, model, prompt, system_prompt };
        let result = run.run(host, &context, &snapshot, (conversation, interrupts, ide)).await;
        context.audit.flush().await;
        call_context::warn_about_lost_records(invocation, &context.audit);
        run.to_output(result, &configuration)
    })
}

async fn wait_for_servers(
    invocation: &Invocation,
    configuration: &Configuration,
    host: &Host,
    ready: &ReadyOptions,
) -> Arc<Snapshot> {
    servers::apply_configuration(host, configuration, &[]).await;
    let deadline = ready.deadline();
    let snapshot =
        servers::wait_until_settled(invocation, host, deadline, Snapshot::is_settled).await;
    host.settled_pool().await;
    snapshot
}

/// What the model goes on without: a line for each server that is not connected or has a problem.
fn missing_servers_text(snapshot: &Snapshot) -> String {
    let text = |view: &ServerView| match (&view.status, view.status.cause()) {
        (Status::Pending { .. }, None) => warning(&format!(
            "`{}` is still connecting, so its tools are left out",
            printable(&view.name)
        )),
        (_, _) => connection_text::problem_text(view),
    };
    let missing = snapshot.servers.values().filter(|view| view.status != Status::Connected);
    missing.map(|view| text(view)).collect()
}

/// The prompt of the command line, followed by standard input.
fn read_prompt(arguments: &ConversationArgs) -> Result<String, Failure> {
    let mut prompt = arguments.print.clone().unwrap_or_default();
    let input = std::io::stdin();
    if !input.is_terminal() {
        let mut bytes = Vec::new();
        let read = input.lock().take(LARGEST_INPUT + 1).read_to_end(&mut bytes);
        // A missing standard input is fine; a broken one is an error, because the prompt would be incomplete.
        if let (Err(error), false) = (read, bytes.is_empty()) {
            return Err(
                Failure::new(Exit::Usage, "standard input could not be read").caused_by(error)
            );
        }
        if bytes.len() as u64 > LARGEST_INPUT {
            return Err(Failure::new(Exit::Usage, "standard input is larger than 10 MB"));
        }
        let piped = String::from_utf8(bytes)
            .map_err(|_| Failure::new(Exit::Usage, "standard input is not valid UTF-8"))?;
        if !piped.trim().is_empty() {
            if !prompt.is_empty() {
                prompt.push_str("\n\n");
            }
            prompt.push_str(&piped);
        }
    }
    if prompt.trim().is_empty() {
        return Err(Failure::new(Exit::Usage, "the prompt is empty")
            .hint("`swb -p 'your question'`, or pipe it in"));
    }
    Ok(prompt)
}

/// One prompt to the model.
struct PromptRun<'a> {
    arguments: &'a ConversationArgs,
    invocation: &'a Invocation,
    model: Arc<dyn LanguageModel>,
    prompt: String,
    system_prompt: Arc<str>,
}

type RunInput<'a> = ((Transcript, Vec<Message>), &'a mut Interrupts, StartedIde);

impl PromptRun<'_> {
    async fn run(
        &self,
        host: &Host,
        context: &Arc<CallContext>,
        snapshot: &Snapshot,
        ((transcript, history), interrupts, ide): RunInput<'_>,
    ) -> RunResult {
        let started = Instant::now();
        let rounds = self.arguments.max_turns.and_then(|it| usize::try_from(it).ok());
        let setup = ConversationSetup {
            host: host.clone(),
            call_context: context.clone(),
            model: Some(self.model.clone()),
            system_prompt: self.system_prompt.clone(),
            history,
            max_rounds: rounds.unwrap_or(DEFAULT_MAX_ROUNDS),
            hooks: vec![Arc::new(IdeHooks::new(ide.session.clone()))],
            structured_output: self.arguments.sdk.json_schema.clone().map(StructuredOutput::new),
            channels: None,
        };
        let mut result = RunResult::new();
        self.emit(&mut result, || events::init_event(self.model.name(), snapshot, &host.pool()));
        let (conversation, mut events, task) = Conversation::start_recorded(setup, transcript);
        conversation.send(vec![ContentBlock::Text { text: self.prompt.clone() }]).await;
        self.collect_events(&conversation, &mut events, interrupts, &mut result).await;
        let status = conversation.status();
        (result.id, result.save_error) = (status.id, status.write_error);
        drop((conversation, events));
        let _panicked = task.await;
        let StartedIde { session, updates, task } = ide;
        drop((session, updates));
        let _panicked = task.await;
        result.duration = started.elapsed();
        result
    }

    /// Handles events until the turn ends, the user interrupts it, or the reader closes standard output.
    async fn collect_events(
        &self,
        conversation: &Conversation,
        events: &mut mpsc::Receiver<ConversationEvent>,
        interrupts: &mut Interrupts,
        result: &mut RunResult,
    ) {
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                () = interrupts.next() => {
                    conversation.interrupt().await;
                    let rest = async {
                        while let Some(it) = events.recv().await {
                            if let ConversationEvent::TurnEnded(_) = it {
                                return;
                            }
                        }
                    };
                    let _timed_out = tokio::time::timeout(INTERRUPT_TIMEOUT, rest).await;
                    result.end = Some(TurnEnd::Interrupted);
                    return;
                }
            };
            let Some(event) = event else { return };
            self.emit(result, || events::event_json(&event));
            result.record(event);
            if result.end.is_some() || result.stdout == StdoutState::Closed {
                return;
            }
        }
    }

    fn emit(&self, result: &mut RunResult, event: impl FnOnce() -> Option<Json>) {
        if self.arguments.format(self.invocation) == OutputFormat::StreamJson
            && let Some(event) = event()
        {
            result.stdout = report::print_stdout(&format!("{event}\n"));
        }
    }

    fn to_output(
        &self,
        result: RunResult,
        configuration: &Configuration,
    ) -> Result<CommandOutput, Failure> {
        if let Some(TurnEnd::Interrupted) = result.end {
            return Err(Failure::new(Exit::Interrupted, "interrupted"));
        }
        let failure = result.failure().or_else(|| unusable_files::failure(configuration));
        let exit = failure.as_ref().map(|it| it.exit);
        if self.arguments.format(self.invocation) != OutputFormat::Text {
            let line = json_line(&result.as_json(failure.as_ref()));
            return Ok(CommandOutput { exit, ..CommandOutput::text(line) });
        }
        let mut notes = String::new();
        if let Some(why) = &result.save_error {
            notes.push_str(&warning(&format!("the conversation is not saved: {}", printable(why))));
        }
        match (failure, &result.end) {
            (Some(failure), Some(TurnEnd::Failed(_))) => return Err(failure.detail(notes)),
            (Some(failure), Some(_) | None) if failure.exit == Exit::ModelFailed => {
                notes.push_str(&warning(&failure.message));
            }
            (Some(_) | None, Some(_) | None) => {}
        }
        let text = match self.invocation.env.terminal.stdout_is_terminal {
            true => result.answer.lines().map(|line| printable_with_tabs(line) + "\n").collect(),
            false => format!("{}\n", result.answer.trim_end_matches('\n')),
        };
        Ok(CommandOutput { exit, ..CommandOutput::text(text).note(notes) })
    }
}

fn warning(text: &str) -> String {
    format!("{} {text}\n", paint(TextStyle::Warning, "warning:"))
}
