//! The conversation in plain lines: nothing is drawn twice, nothing moves, so that screen readers and terminals that can
//! do little follow it. The same loop and the same commands as on the screen; questions are asked as commands ask them.

pub(crate) mod demo_answers;
pub(crate) mod question_order;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard::call::pipeline::PermissionPrompt;
use switchboard::connection::state::RetryPolicy;
use switchboard::host::{Host, HostOptions, Snapshot};
use switchboard_chat::conversation::event::{
    CallOutcome, ConversationEvent, ToolCallView, TurnEnd,
};
use tokio::sync::mpsc;

use crate::chat_ui::conversation;
use crate::chat_ui::conversation::{ModelWait, SharedModel, StartOptions};
use crate::chat_ui::launch::clean_text::{sanitize, sanitize_line};
use crate::chat_ui::plain::demo_answers::DemoAnswers;
use crate::chat_ui::plain::question_order::{QuestionOrder, QuestionTurns};
use crate::commands::print::ConversationArgs;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::report;
use crate::runtime::host;
use crate::runtime::interrupts::Interrupts;
use crate::runtime::servers;
use crate::tui::demo::script::DemoScript;
use crate::tui::effects::{EffectRunner, TerminalEffect};
use crate::tui::elicitor;
use crate::tui::elicitor::ElicitorContext;
use crate::tui::slash_command;
use crate::tui::slash_command::SlashCommand;
use crate::tui::state::screen_state::{
    Effect, NO_MODEL, PromptInvocation, ScreenEvent, model_error_text,
};
use crate::tui::view::transcript::tool_call::format_duration;

/// How many outcomes may wait.
const EVENT_BUFFER: usize = 64;
/// How many lines of a result are said.
const PREVIEW_LINES: usize = 20;
/// How often a call that goes on says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Converses until somebody leaves.
pub fn run(session: &Invocation, flags: &ConversationArgs) -> Result<CommandOutput, Failure> {
    let (order, requests) = QuestionOrder::new();
    let left = host::with_custom_host(
        session,
        RetryPolicy::RetryWithBackoff,
        |options| HostOptions { elicitor: Arc::new(order.ordered(options.elicitor)), ..options },
        async |host, interrupts| {
            let consent = Arc::new(order.ordered(Arc::new(session.prompt.clone())));
            let flags = &with_chosen_conversation(session, flags).await;
            let start_options =
                StartOptions { flags, model_wait: ModelWait::UntilReady, model: None };
            let mut chat =
                PlainChat::open(session, host, start_options, (consent, requests)).await?;
            chat.read_lines(interrupts).await;
            Ok(chat.close().await)
        },
    )?;
    Ok(CommandOutput::text(left))
}

/// Plays a conversation, from the first line to the last.
pub fn run_demo(
    session: &Invocation,
    flags: &ConversationArgs,
    script: DemoScript,
    model: SharedModel,
) -> Result<(), Failure> {
    let DemoScript { steps, form_values, .. } = script;
    let (order, requests) = QuestionOrder::new();
    let demo_answers = Arc::new(order.ordered(Arc::new(DemoAnswers::new(form_values))));
    let asker = demo_answers.clone();
    let adapt = |options: HostOptions| HostOptions { elicitor: asker, ..options };
    host::with_custom_host(
        session,
        RetryPolicy::RetryWithBackoff,
        adapt,
        async |host, interrupts| {
            let start_options =
                StartOptions { flags, model_wait: ModelWait::UntilReady, model: Some(model) };
            let mut chat =
                PlainChat::open(session, host, start_options, (demo_answers, requests)).await?;
            servers::wait_until_settled(session, host, None, Snapshot::is_settled).await;
            host.settled_pool().await;
            for step in steps {
                chat.print(&format!("\n> {}\n", step.input));
                let stay = chat.on_line(&step.input, interrupts).await;
                if stay == KeepRunning::No || chat.is_interrupted {
                    break;
                }
            }
            chat.close().await;
            Ok(())
        },
    )
}

struct PlainChat {
    session: Invocation,
    effects: EffectRunner,
    conversation_events: mpsc::Receiver<ConversationEvent>,
    effect_events: mpsc::Receiver<ScreenEvent>,
    /// Questions that wait until all has been said.
    question_turns: QuestionTurns,
    /// Is the model at work?
    is_in_turn: bool,
    /// Was what is under way stopped?
    is_interrupted: bool,
    /// Was the last thing that was said a line without its end?
    is_line_open: bool,
    /// The titles of calls under way, and when each last said something.
    calls: BTreeMap<Arc<str>, (String, Instant)>,
    /// A prompt whose arguments are to be asked for.
    prompt: Option<PromptInvocation>,
    task: tokio::task::JoinHandle<()>,
}

/// Goes it on?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeepRunning {
    Yes,
    No,
}

impl PlainChat {
    async fn open(
        session: &Invocation,
        host: &Host,
        start_options: StartOptions<'_>,
        (consent, requests): (Arc<dyn PermissionPrompt>, QuestionTurns),
    ) -> Result<PlainChat, Failure> {
        let configuration = session.load()?;
        let started =
            conversation::start(session, host, (&configuration, start_options), consent).await?;
        servers::apply_configuration(host, &configuration, &[]).await;
        // Nobody looks at this queue: what is asked is asked in lines.
        let (questions, _arrivals) =
            elicitor::channel(ElicitorContext::from_session(session, &configuration));
        let (tell, reports) = mpsc::channel(EVENT_BUFFER);
        let known = (started.call_context, Arc::new(configuration));
        let mut effects = EffectRunner::new(
            session.clone(),
            host.clone(),
            known,
            (started.conversation, questions),
            tell,
        );
        effects.model = started.model;
        let snapshot = host.snapshot();
        let servers = match snapshot.servers.len() {
            1 => "1 server".to_owned(),
            count => format!("{count} servers"),
        };
        let model =
            effects.model.as_ref().map_or("no model".to_owned(), |it| sanitize_line(&it.name));
        report::print_stdout(&format!("Switchboard. {model}, {servers}. /help lists commands.\n"));
        if !started.history.is_empty() {
            report::print_stdout(&format!(
                "Going on after {} utterances.\n",
                started.history.len()
            ));
        }
        report::print_stderr(&started.warning);
        if let Some(failure) = &started.model_failure {
            report::print_stderr(&report::failure_text(failure));
        }
        Ok(PlainChat {
            session: session.clone(),
            effects,
            conversation_events: started.events,
            effect_events: reports,
            question_turns: requests,
            is_in_turn: false,
            is_interrupted: false,
            is_line_open: false,
            calls: BTreeMap::new(),
            prompt: None,
            task: started.task,
        })
    }

    async fn read_lines(&mut self, interrupts: &mut Interrupts) {
        loop {
            let person = self.session.prompt.clone();
            let line = tokio::select! {
                line = person.read_line("> ") => line,
                () = interrupts.next() => None,
            };
            let Some(line) = line else {
                report::print_stderr("\n");
                return;
            };
            if self.on_line(line.trim(), interrupts).await == KeepRunning::No {
                return;
            }
        }
    }

    async fn on_line(&mut self, line: &str, interrupts: &mut Interrupts) -> KeepRunning {
        if line.is_empty() {
            return KeepRunning::Yes;
        }
        let effect = if line.starts_with('/') {
            match slash_command::parse(line) {
                Ok(SlashCommand::Mcp(_)) => return self.servers(),
                Ok(slash) => Effect::RunCommand(slash),
                Err(why) => {
                    self.print(&format!("error: {}\n", sanitize(&why)));
                    return KeepRunning::Yes;
                }
            }
        } else if self.effects.model.is_none() {
            self.print(&format!("{NO_MODEL}\n"));
            return KeepRunning::Yes;
        } else {
            self.is_in_turn = true;
            Effect::SendMessage(line.to_owned())
        };
        if self.effects.run(effect).await == Some(TerminalEffect::Quit) {
            return KeepRunning::No;
        }
        self.run_until_idle(interrupts).await;
        while let Some(prompt) = self.prompt.take() {
            self.ask_arguments(prompt).await;
            self.run_until_idle(interrupts).await;
        }
        KeepRunning::Yes
    }

    fn servers(&mut self) -> KeepRunning {
        let snapshot = self.effects.host.snapshot();
        for view in snapshot.servers.values() {
            let name = sanitize_line(&view.name);
            self.print(&format!(
                "{name}: {}\n{}",
                view.status.id(),
                connection_text::problem_text(view)
            ));
        }
        KeepRunning::Yes
    }

    /// Says what comes until nothing is under way.
    async fn run_until_idle(&mut self, interrupts: &mut Interrupts) {
        loop {
            for event in self.effects.take_pending_events() {
                self.on_event(event);
            }
            tokio::select! {
                biased;
                Some(event) = self.effect_events.recv() => self.on_event(event),
                Some(event) = self.conversation_events.recv() => self.on_conversation_event(event),
                // After what happened, so that nothing of it waits any more.
                Some(question) = self.question_turns.recv() => {
                    self.end_line();
                    let _given_up = question.send(());
                }
                Some(_) = self.effects.tasks.join_next() => {}
                () = interrupts.next() => {
                    self.is_interrupted = true;
                    self.effects.run(Effect::Interrupt).await;
                }
                () = std::future::ready(()), if self.is_idle() => {
                    self.end_line();
                    return;
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        !self.is_in_turn && self.effects.tasks.is_empty() && self.effect_events.is_empty()
    }

    fn on_event(&mut self, event: ScreenEvent) {
        match event {
            ScreenEvent::Conversation(event) => self.on_conversation_event(event),
            ScreenEvent::Note(text)
            | ScreenEvent::Text { text, .. }
            | ScreenEvent::Page { text, .. } => {
                self.print(&format!("{}\n", text.trim_end()));
            }
            ScreenEvent::Error(text) => {
                self.end_line();
                report::print_stderr(&format!("{}\n", text.trim_end()));
            }
            ScreenEvent::MessageQueued(_) => self.is_in_turn = true,
            ScreenEvent::Prompt(prompt) => self.prompt = Some(prompt),
            ScreenEvent::Model(model) => self.effects.model = model,
            ScreenEvent::Key(_)
            | ScreenEvent::Paste(_)
            | ScreenEvent::Redraw
            | ScreenEvent::Servers(_)
            | ScreenEvent::Configured(_)
            | ScreenEvent::Pool(_)
            | ScreenEvent::Tick
            | ScreenEvent::OpenOverlay(_)
            | ScreenEvent::DraftReplaced(_)
            | ScreenEvent::ContextTokens(_)
            | ScreenEvent::MessageWithdrawn(_)
            | ScreenEvent::Completions { .. }
            | ScreenEvent::Focus(_)
            | ScreenEvent::Elicitor(_) => {}
        }
    }

    fn on_conversation_event(&mut self, event: ConversationEvent) {
        match event {
            ConversationEvent::Text(text) => {
                let text = sanitize(&text);
                self.is_line_open = !text.ends_with('\n');
                report::print_stdout(&text);
            }
            ConversationEvent::CallStarted(call) => self.call_began(call),
            ConversationEvent::CallProgress { id, progress: done, total: of, message } => {
                let Some((title, said)) = self.calls.get_mut(&id) else { return };
                if said.elapsed() < PROGRESS_INTERVAL {
                    return;
                }
                *said = Instant::now();
                let of = of.map(|of| format!(" of {of}")).unwrap_or_default();
                let message = message.map(|it| format!(", {}", sanitize_line(&it)));
                let line = format!("{title}: {done}{of}{}\n", message.unwrap_or_default());
                self.print(&line);
            }
            ConversationEvent::CallEnded { id, outcome: ended, text, duration: took } => {
                let title = self.calls.remove(&id).map(|it| it.0).unwrap_or_default();
                let how = match ended {
                    CallOutcome::Done => "done",
                    CallOutcome::ToolError => "the tool failed",
                    CallOutcome::Failed => "not made",
                    CallOutcome::Denied => "not allowed",
                    CallOutcome::Interrupted => "stopped",
                };
                self.print(&format!("{title}: {how} after {}\n", format_duration(took)));
                self.print(&preview(&text));
            }
            ConversationEvent::Retrying { attempt, after, reason: because } => {
                let because = sanitize_line(&because);
                let after = format_duration(after);
                self.print(&format!("asked again in {after} (attempt {attempt}): {because}\n"));
            }
            ConversationEvent::TurnEnded(end) => {
                self.is_in_turn = false;
                self.end_line();
                self.turn_ended(&end);
            }
            ConversationEvent::MessagesAccepted { .. }
            | ConversationEvent::Thinking(_)
            | ConversationEvent::ResponseEnded
            | ConversationEvent::Usage(_) => {}
        }
    }

    fn call_began(&mut self, call: ToolCallView) {
        let title = sanitize_line(&call.title);
        let arguments = switchboard::config::display::masked_json(&call.arguments);
        self.print(&format!("calling {title} {}\n", sanitize_line(&arguments.to_string())));
        self.calls.insert(call.id, (title, Instant::now()));
    }

    fn turn_ended(&mut self, end: &TurnEnd) {
        let text = match end {
            TurnEnd::Finished => return,
            TurnEnd::CutShort => "The answer was as long as it may be; say “go on”.".to_owned(),
            TurnEnd::Refused => "The model would not answer.".to_owned(),
            TurnEnd::Interrupted => "Stopped.".to_owned(),
            TurnEnd::TooManyRounds => "Too many rounds of calls; say “go on”.".to_owned(),
            TurnEnd::Failed(error) => model_error_text(error),
        };
        self.print(&format!("{text}\n"));
    }

    /// Asks for the arguments of a prompt, a line each.
    async fn ask_arguments(&mut self, mut prompt: PromptInvocation) {
        for argument in prompt.arguments.clone() {
            if prompt.values.contains_key(&argument.name) {
                continue;
            }
            let need = if argument.is_required { "" } else { " (may be left empty)" };
            let (name, about) =
                (sanitize_line(&argument.name), sanitize_line(&argument.description));
            let text = format!("{name}{need}, {about}: ");
            let person = self.session.prompt.clone();
            match person.read_line(&text).await {
                None => return,
                Some(line) if line.is_empty() && argument.is_required => {
                    return self.print("It needs this, so nothing is done.\n");
                }
                Some(line) if line.is_empty() => {}
                Some(line) => {
                    prompt.values.insert(argument.name, line);
                }
            }
        }
        self.effects.run(Effect::GetPrompt(prompt)).await;
    }

    fn print(&mut self, text: &str) {
        self.end_line();
        report::print_stdout(text);
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_line_open) {
            report::print_stdout("\n");
        }
    }

    async fn close(self) -> String {
        let PlainChat {
            mut effects, conversation_events, task, ..
        } = self;
        let status = effects.conversation.status();
        effects.tasks.shutdown().await;
        effects.call_context.audit.flush().await;
        drop((effects, conversation_events));
        let _panicked = tokio::time::timeout(Duration::from_secs(2), task).await;
        conversation::exit_message(&status)
    }
}

fn preview(text: &str) -> String {
    let text = sanitize(text.trim_end());
    let count = text.lines().count();
    let mut lines: Vec<&str> = text.lines().take(PREVIEW_LINES).collect();
    let more = format!("({} more lines)", count.saturating_sub(PREVIEW_LINES));
    if count > PREVIEW_LINES {
        lines.push(&more);
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The flags with the conversation that somebody chose, where somebody had to.
async fn with_chosen_conversation(
    session: &Invocation,
    flags: &ConversationArgs,
) -> ConversationArgs {
    let Some(all) = flags.resumable(session) else { return flags.clone() };
    for (at, past) in all.iter().enumerate() {
        report::print_stdout(&format!("{}: {}\n", at + 1, sanitize_line(&past.preview)));
    }
    let line = session.prompt.read_line("Which conversation? A number, or nothing for a new one: ");
    let number = line.await.and_then(|it| it.trim().parse::<usize>().ok());
    let id = number.and_then(|it| all.get(it.checked_sub(1)?)).map(|it| it.id.clone());
    ConversationArgs { resume: id, ..flags.clone() }
}
