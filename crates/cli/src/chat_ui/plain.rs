//! The conversation in plain lines, for screen readers and simple terminals: nothing is redrawn. Runs the same agent loop
//! and slash commands as the screen; questions are asked by the terminal prompt.

mod demo_answers;
mod lines;
mod question_order;

use std::sync::Arc;
use std::time::Duration;

use switchboard::audit::log::AuditLog;
use switchboard::config::display::{sanitize, sanitize_line};
use switchboard::connection::RetryPolicy;
use switchboard::permission::PermissionPrompt;
use switchboard::{Host, HostOptions, Snapshot};
use switchboard_chat::channel::ChannelNotices;
use switchboard_chat::conversation::event::ConversationEvent;
use switchboard_tui::backend::SharedModel;
use switchboard_tui::demo::script::DemoScript;
use switchboard_tui::effects::effect::Effect;
use switchboard_tui::effects::{EffectContext, EffectRunner, NO_MODEL, TerminalEffect};
use switchboard_tui::elicitor;
use switchboard_tui::slash_command;
use switchboard_tui::slash_command::SlashCommand;
use switchboard_tui::state::event::ScreenEvent;
use switchboard_tui::state::prompt_invocation::PromptInvocation;
use tokio::sync::{mpsc, watch};

use crate::chat_ui::conversation;
use crate::chat_ui::conversation::{ModelWait, StartOptions};
use crate::chat_ui::plain::demo_answers::DemoAnswers;
use crate::chat_ui::plain::lines::LineWriter;
use crate::chat_ui::plain::question_order::{QuestionOrder, QuestionTurns};
use crate::chat_ui::screen_backend::{ScreenBackend, elicitor_context};
use crate::commands::print::ConversationArgs;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::report;
use crate::runtime::call_context;
use crate::runtime::channels;
use crate::runtime::host;
use crate::runtime::interrupts::Interrupts;
use crate::runtime::servers;

/// How many outcomes of effects may wait.
const EVENT_BUFFER: usize = 64;
/// How long the conversation may take to end after the user has left.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Converses until the user leaves.
pub fn run(session: &Invocation, flags: &ConversationArgs) -> Result<CommandOutput, Failure> {
    let (order, turns) = QuestionOrder::new();
    let exit_message = host::with_custom_host(
        session,
        RetryPolicy::RetryWithBackoff,
        |options| HostOptions { elicitor: Arc::new(order.ordered(options.elicitor)), ..options },
        async |host, interrupts| {
            let prompt = Arc::new(order.ordered(Arc::new(session.prompt.clone())));
            let flags = &with_chosen_conversation(session, flags).await;
            let start_options =
                StartOptions { flags, model_wait: ModelWait::UntilReady, model: None };
            let mut chat = PlainChat::open(session, host, start_options, (prompt, turns)).await?;
            chat.read_lines(interrupts).await;
            Ok(chat.close().await)
        },
    )?;
    Ok(CommandOutput::text(exit_message))
}

/// Plays a script from its first line to its last.
pub fn run_demo(
    session: &Invocation,
    flags: &ConversationArgs,
    script: DemoScript,
    model: SharedModel,
) -> Result<(), Failure> {
    let DemoScript { steps, form_values, .. } = script;
    let (order, turns) = QuestionOrder::new();
    let demo_answers = Arc::new(order.ordered(Arc::new(DemoAnswers::new(form_values))));
    let elicitor = demo_answers.clone();
    let customize = |options: HostOptions| HostOptions { elicitor, ..options };
    host::with_custom_host(
        session,
        RetryPolicy::RetryWithBackoff,
        customize,
        async |host, interrupts| {
            let start_options =
                StartOptions { flags, model_wait: ModelWait::UntilReady, model: Some(model) };
            let mut chat =
                PlainChat::open(session, host, start_options, (demo_answers, turns)).await?;
            servers::wait_until_settled(session, host, None, Snapshot::is_settled).await;
            host.settled_pool().await;
            for step in steps {
                chat.lines.print(&format!("\n> {}\n", step.input));
                let keep_running = chat.on_line(&step.input, interrupts).await;
                if keep_running == KeepRunning::No || chat.is_interrupted {
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
    /// Questions that wait until all output is printed.
    question_turns: QuestionTurns,
    /// Is a turn of the model running?
    is_in_turn: bool,
    /// Has the user interrupted a turn?
    is_interrupted: bool,
    lines: LineWriter,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    channel_notices: ChannelNotices,
    /// A prompt whose arguments are still to be asked for.
    prompt: Option<PromptInvocation>,
    task: tokio::task::JoinHandle<()>,
    ide_task: tokio::task::JoinHandle<()>,
    audit: AuditLog,
}

/// What comes next while no turn is running.
enum PlainInput {
    /// A line of the user.
    Line(String),
    /// The first event of a turn that messages of channels began.
    ChannelTurn(ConversationEvent),
    /// The prompt is out of sight.
    NoticesPrinted,
    /// The user has left.
    Ended,
}

/// Does the conversation go on?
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
        (prompt, question_turns): (Arc<dyn PermissionPrompt>, QuestionTurns),
    ) -> Result<PlainChat, Failure> {
        let configuration = session.load_with_problems()?;
        channels::confirm_at_terminal(session, &configuration).await;
        let inbox = channels::open(session, host, &configuration).await;
        let options = (&configuration, start_options);
        let started = conversation::start(session, host, options, (prompt, inbox)).await?;
        servers::apply_configuration(host, &configuration, &[]).await;
        // The receiver is dropped: in this mode the terminal prompt asks, not the screen's dialogs.
        let (elicitor, _messages) = elicitor::channel(elicitor_context(session, &configuration));
        let (events, effect_events) = mpsc::channel(EVENT_BUFFER);
        let audit = started.call_context.audit.clone();
        let context = EffectContext {
            backend: Arc::new(ScreenBackend::new(session)),
            host: host.clone(),
            call_context: started.call_context,
            configuration: Arc::new(configuration),
            conversation: started.conversation,
            ide: started.ide.session,
            elicitor,
            settings_file: session.display_path(&session.env.paths.user_settings()),
            width: session.env.terminal.width,
        };
        let mut effects = EffectRunner::new(context, events);
        effects.set_model(started.model);
        let snapshot = host.snapshot();
        let servers = snapshot.servers.values().filter(|it| !it.is_connected_ide());
        let servers = match servers.count() {
            1 => "1 server".to_owned(),
            count => format!("{count} servers"),
        };
        let model = effects.model().map_or("no model".to_owned(), |it| sanitize_line(&it.name));
        report::print_stdout(&format!("Switchboard. {model}, {servers}. /help lists commands.\n"));
        if !started.history.is_empty() {
            report::print_stdout(&format!(
                "Continuing after {} messages.\n",
                started.history.len()
            ));
        }
        report::print_stderr(&started.warning);
        if let Some(error) = &started.model_failure {
            report::print_stderr(&error.0);
        }
        Ok(PlainChat {
            session: session.clone(),
            effects,
            conversation_events: started.events,
            effect_events,
            question_turns,
            is_in_turn: false,
            is_interrupted: false,
            lines: LineWriter::default(),
            snapshots: host.watch(),
            channel_notices: ChannelNotices::default(),
            prompt: None,
            task: started.task,
            ide_task: started.ide.task,
            audit,
        })
    }

    async fn read_lines(&mut self, interrupts: &mut Interrupts) {
        loop {
            match self.next_input(interrupts).await {
                PlainInput::Line(line) => {
                    if self.on_line(line.trim(), interrupts).await == KeepRunning::No {
                        return;
                    }
                }
                PlainInput::ChannelTurn(event) => {
                    report::print_stdout("\n");
                    self.is_in_turn = !matches!(event, ConversationEvent::TurnEnded(_));
                    self.on_conversation_event(event);
                    self.run_until_idle(interrupts).await;
                }
                PlainInput::NoticesPrinted => {}
                PlainInput::Ended => {
                    report::print_stderr("\n");
                    return;
                }
            }
        }
    }

    /// Waits for a line of the user. Messages of channels begin a turn meanwhile.
    async fn next_input(&mut self, interrupts: &mut Interrupts) -> PlainInput {
        let prompt = self.session.prompt.clone();
        let line = prompt.read_line("> ");
        tokio::pin!(line);
        loop {
            tokio::select! {
                line = &mut line => return line.map_or(PlainInput::Ended, PlainInput::Line),
                () = interrupts.next() => return PlainInput::Ended,
                Some(event) = self.conversation_events.recv() => {
                    return PlainInput::ChannelTurn(event);
                }
                Ok(()) = self.snapshots.changed() => {
                    let snapshot = self.snapshots.borrow_and_update().clone();
                    let lines = self.channel_notices.new_lines(&snapshot);
                    for line in &lines {
                        report::print_stderr(&format!("\n{}", channels::notice_text(line)));
                    }
                    if !lines.is_empty() {
                        return PlainInput::NoticesPrinted;
                    }
                }
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
                Ok(command) => Effect::RunCommand(command),
                Err(why) => {
                    self.lines.print(&format!("error: {}\n", sanitize(&why)));
                    return KeepRunning::Yes;
                }
            }
        } else if self.effects.model().is_none() {
            self.lines.print(&format!("{NO_MODEL}\n"));
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
        let snapshot = self.effects.host().snapshot();
        for view in snapshot.servers.values().filter(|it| !it.is_connected_ide()) {
            let name = sanitize_line(&view.name);
            self.lines.print(&format!(
                "{name}: {}\n{}",
                view.status.label(),
                connection_text::problem_text(view)
            ));
        }
        KeepRunning::Yes
    }

    /// Prints events until no task is running.
    async fn run_until_idle(&mut self, interrupts: &mut Interrupts) {
        loop {
            for event in self.effects.take_pending_events() {
                self.on_event(event);
            }
            tokio::select! {
                biased;
                Some(event) = self.effect_events.recv() => self.on_event(event),
                Some(event) = self.conversation_events.recv() => self.on_conversation_event(event),
                // After the events, so that all output comes before the question.
                Some(question) = self.question_turns.recv() => {
                    self.lines.end_line();
                    let _given_up = question.send(());
                }
                Some(()) = self.effects.join_task() => {}
                () = interrupts.next() => {
                    self.is_interrupted = true;
                    self.effects.run(Effect::Interrupt).await;
                }
                () = std::future::ready(()), if self.is_idle() => {
                    self.lines.end_line();
                    return;
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        !self.is_in_turn && !self.effects.has_tasks() && self.effect_events.is_empty()
    }

    fn on_conversation_event(&mut self, event: ConversationEvent) {
        if matches!(event, ConversationEvent::TurnEnded(_)) {
            self.is_in_turn = false;
        }
        self.lines.print_event(event);
    }

    fn on_event(&mut self, event: ScreenEvent) {
        match event {
            ScreenEvent::Conversation(event) => self.on_conversation_event(event),
            ScreenEvent::Note(text)
            | ScreenEvent::Text { text, .. }
            | ScreenEvent::Page { text, .. } => {
                self.lines.print(&format!("{}\n", text.trim_end()));
            }
            ScreenEvent::Error(text) => {
                self.lines.end_line();
                report::print_stderr(&format!("{}\n", text.trim_end()));
            }
            ScreenEvent::MessageQueued(_) => self.is_in_turn = true,
            ScreenEvent::Prompt(prompt) => self.prompt = Some(prompt),
            ScreenEvent::Model(model) => self.effects.set_model(model),
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
            | ScreenEvent::IdeSelection(_)
            | ScreenEvent::IdeMention(_)
            | ScreenEvent::Elicitor(_) => {}
        }
    }

    /// Asks for the missing arguments of a prompt, one line each.
    async fn ask_arguments(&mut self, mut prompt: PromptInvocation) {
        for argument in prompt.arguments.clone() {
            if prompt.values.contains_key(&argument.name) {
                continue;
            }
            let need = if argument.is_required { "" } else { " (may be left empty)" };
            let (name, about) =
                (sanitize_line(&argument.name), sanitize_line(&argument.description));
            let text = format!("{name}{need}, {about}: ");
            let terminal = self.session.prompt.clone();
            match terminal.read_line(&text).await {
                Some(line) if line.is_empty() && argument.is_required => {
                    let text = format!("`{name}` is required, so the prompt is not used.\n");
                    return self.lines.print(&text);
                }
                None if argument.is_required => {
                    let text = format!("\nThe argument `{name}` is missing: {about}\n");
                    return self.lines.print(&text);
                }
                None => break,
                Some(line) if line.is_empty() => {}
                Some(line) => {
                    prompt.values.insert(argument.name, line);
                }
            }
        }
        self.effects.run(Effect::GetPrompt(prompt)).await;
    }

    async fn close(self) -> String {
        let PlainChat { session, effects, conversation_events, task, ide_task, audit, .. } = self;
        let status = effects.conversation().status();
        effects.shutdown().await;
        call_context::warn_about_lost_records(&session, &audit);
        drop(conversation_events);
        let _panicked = tokio::time::timeout(CLOSE_TIMEOUT, task).await;
        let _panicked = tokio::time::timeout(CLOSE_TIMEOUT, ide_task).await;
        conversation::exit_message(&status)
    }
}

/// The flags with the conversation that the user chose, where `--resume` names none.
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
