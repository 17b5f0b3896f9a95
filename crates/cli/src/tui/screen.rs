//! Runs the screen: takes the terminal, hears keys, servers, the model and questions, lets the chat decide, has it drawn,
//! and gives the terminal back. Draws only what changed, and only when something did.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossterm::event::{Event as TerminalEvent, EventStream};
use futures_util::StreamExt;
use switchboard::connection::state::RetryPolicy;
use switchboard::host::{Host, HostOptions};
use switchboard::sources::loader::Configuration;
use switchboard::sources::paths::project_root;
use switchboard::sources::watcher::ConfigWatcher;
use switchboard_chat::conversation::event::ConversationEvent;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::chat_ui::conversation;
use crate::chat_ui::conversation::{ModelWait, StartOptions};
use crate::commands::print::ConversationArgs;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::runtime::host;
use crate::runtime::interrupts::Interrupts;
use crate::runtime::servers;
use crate::tui::configured_servers::ConfiguredServers;
use crate::tui::demo::key_player;
use crate::tui::demo::key_player::{KeyPlayer, TAKEN_OVER, UserTakeover};
use crate::tui::demo::script::InputSource;
use crate::tui::effects::{EffectRunner, TerminalEffect, error_event};
use crate::tui::elicitor;
use crate::tui::elicitor::{ElicitorContext, ElicitorReceiver, ScreenElicitor};
use crate::tui::frame;
use crate::tui::input_history::InputHistory;
use crate::tui::state::screen_state::{ScreenEvent, ScreenState, WindowFocus};
use crate::tui::terminal::editor;
use crate::tui::terminal::raw_terminal::{RawTerminal, suspend_process};
use crate::tui::theme::ScreenTheme;
use crate::tui::view::conversation_picker::ConversationPicker;
use crate::tui::view::markdown;

/// The least time between two frames.
const MIN_FRAME_INTERVAL: Duration = Duration::from_millis(8);
/// How often what moves is drawn.
const TICK_INTERVAL: Duration = Duration::from_millis(250);
/// How many outcomes may wait for the screen.
const EVENT_BUFFER: usize = 64;

/// Opens the screen, and stays until somebody leaves.
pub fn run(
    session: &Invocation,
    flags: &ConversationArgs,
    player: InputSource,
) -> Result<CommandOutput, Failure> {
    let theme = ScreenTheme::detect(&session.env.variables, None);
    let folder = session.display_path(&session.env.working_folder);
    let mut chat = ScreenState::new(theme, folder, Instant::now());
    let mut terminal = RawTerminal::enter().map_err(terminal_failure)?;
    let flags = &match flags.resumable(session) {
        None => flags.clone(),
        Some(all) => {
            let list = ConversationPicker::new(all, SystemTime::now());
            match list.choose(&mut terminal, &chat.theme).map_err(terminal_failure)? {
                Some(id) => ConversationArgs { resume: Some(id), ..flags.clone() },
                None => return Ok(CommandOutput::default()),
            }
        }
    };
    // Before anything is read that could take its time.
    terminal.draw(|frame| frame::draw(&mut chat, frame)).map_err(terminal_failure)?;
    let configuration = session.load()?;
    chat.theme = ScreenTheme::detect(&session.env.variables, configuration.theme);
    let root = project_root(&session.env.working_folder);
    chat.history = InputHistory::for_project(&session.env.paths, &root);
    let (questions, arrivals) =
        elicitor::channel(ElicitorContext::from_session(session, &configuration));
    let asker = host::elicitor(session, Arc::new(questions.clone()))?;
    let adapt = |options: HostOptions| HostOptions { elicitor: asker, ..options };
    let left = host::with_custom_host(
        session,
        RetryPolicy::RetryWithBackoff,
        adapt,
        async |host, interrupts| {
            let parts = ScreenParts { chat, terminal, questions, arrivals, player };
            let known = (configuration, flags);
            let mut window = Screen::open(session, host, known, parts).await?;
            let outcome = window.run(interrupts).await;
            window.close(outcome).await
        },
    )?;
    Ok(CommandOutput::text(left))
}

fn terminal_failure(error: io::Error) -> Failure {
    Failure::new(Exit::Failure, "the terminal cannot be used").caused_by(error)
}

/// What the window is made of before there is a host.
struct ScreenParts {
    chat: ScreenState,
    terminal: RawTerminal,
    questions: ScreenElicitor,
    arrivals: ElicitorReceiver,
    player: InputSource,
}

struct Screen {
    chat: ScreenState,
    terminal: RawTerminal,
    effects: EffectRunner,
    host: Host,
    keys: EventStream,
    /// Who presses keys until somebody else does.
    key_player: Option<KeyPlayer>,
    conversation_events: mpsc::Receiver<ConversationEvent>,
    effect_events: mpsc::Receiver<ScreenEvent>,
    elicitor_messages: ElicitorReceiver,
    configurations: mpsc::Receiver<Configuration>,
    conversation_task: tokio::task::JoinHandle<()>,
    /// When it was drawn last.
    last_frame: Instant,
    /// Has anything changed since?
    needs_redraw: bool,
}

/// Goes it on?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeepRunning {
    Yes,
    No,
}

impl Screen {
    async fn open(
        session: &Invocation,
        host: &Host,
        (configuration, flags): (Configuration, &ConversationArgs),
        parts: ScreenParts,
    ) -> Result<Screen, Failure> {
        let ScreenParts { mut chat, terminal, questions, arrivals, player } = parts;
        let (key_player, model) = match player {
            InputSource::User => (None, None),
            InputSource::Script(script, model) => (Some(KeyPlayer::new(script)), Some(model)),
        };
        servers::apply_configuration(host, &configuration, &[]).await;
        let follower = ConfigWatcher::start(session.load_options(), &configuration).ok();
        let consent = Arc::new(questions.clone());
        let start_options = StartOptions { flags, model_wait: ModelWait::Briefly, model };
        let started =
            conversation::start(session, host, (&configuration, start_options), consent).await?;
        chat.mode = started.call_context.mode;
        chat.model.clone_from(&started.model);
        chat.restore(&started.history);
        let (tell, reports) = mpsc::channel(EVENT_BUFFER);
        let mut session = session.clone();
        session.env.terminal.width = terminal_width();
        let known = (started.call_context, Arc::new(configuration));
        let mut effects = EffectRunner::new(
            session,
            host.clone(),
            known,
            (started.conversation, questions),
            tell,
        );
        effects.model = started.model;
        if let Some(pending_model) = started.pending_model {
            effects.set_model_when_ready(pending_model);
        }
        if !started.warning.is_empty() {
            chat.update(ScreenEvent::Note(started.warning), Instant::now());
        }
        if let Some(failure) = &started.model_failure {
            chat.update(error_event(failure), Instant::now());
        }
        // One place: who changes files faster than they are taken up waits.
        let (changed, configurations) = mpsc::channel(1);
        if let Some(follower) = follower {
            effects.tasks.spawn(forward_configurations(follower, changed));
        }
        effects.request_project_approvals();
        Ok(Screen {
            chat,
            terminal,
            effects,
            host: host.clone(),
            keys: EventStream::new(),
            key_player,
            conversation_events: started.events,
            effect_events: reports,
            elicitor_messages: arrivals,
            configurations,
            conversation_task: started.task,
            last_frame: Instant::now(),
            needs_redraw: true,
        })
    }

    async fn run(&mut self, interrupts: &mut Interrupts) -> Result<(), Failure> {
        let (mut snapshots, mut pools) = (self.host.watch(), self.host.watch_pool());
        let mut next_tick = Instant::now() + TICK_INTERVAL;
        loop {
            let due = self.last_frame + MIN_FRAME_INTERVAL;
            if self.needs_redraw && Instant::now() >= due {
                self.draw()?;
            }
            let is_moving = self.chat.is_animating();
            if !is_moving {
                next_tick = Instant::now() + TICK_INTERVAL;
            }
            let chat = &self.chat;
            let played =
                self.key_player.as_mut().and_then(|it| it.next_key_at(chat, Instant::now()));
            let event = tokio::select! {
                biased;
                () = interrupts.next() => return Ok(()),
                key = self.keys.next() => match key {
                    Some(Ok(key)) => match self.take_over(&key) {
                        UserTakeover::None => self.terminal_event(key),
                        UserTakeover::TakeControl => Some(ScreenEvent::Note(TAKEN_OVER.to_owned())),
                        UserTakeover::Quit => return Ok(()),
                    },
                    // Nobody can type any more.
                    Some(Err(_)) | None => return Ok(()),
                },
                () = sleep_until(due.into()), if self.needs_redraw => continue,
                Some(arrival) = self.elicitor_messages.next() => Some(ScreenEvent::Elicitor(arrival)),
                Some(report) = self.effect_events.recv() => Some(report),
                Some(event) = self.conversation_events.recv() => Some(ScreenEvent::Conversation(event)),
                Ok(()) = snapshots.changed() => {
                    Some(ScreenEvent::Servers(snapshots.borrow_and_update().clone()))
                }
                Ok(()) = pools.changed() => Some(ScreenEvent::Pool(pools.borrow_and_update().clone())),
                Some(configuration) = self.configurations.recv() => {
                    self.effects.apply_configuration(configuration).await;
                    let EffectRunner { session, configuration, .. } = &self.effects;
                    Some(ScreenEvent::Configured(Arc::new(ConfiguredServers::from_configuration(session, configuration))))
                }
                () = sleep_until(played.unwrap_or(due).into()), if played.is_some() => {
                    self.key_player.as_mut().and_then(KeyPlayer::key).map(ScreenEvent::Key)
                }
                () = markdown::highlighter_loaded() => Some(ScreenEvent::Redraw),
                () = sleep_until(next_tick.into()), if is_moving => {
                    next_tick += TICK_INTERVAL;
                    Some(ScreenEvent::Tick)
                }
            };
            let Some(event) = event else { continue };
            if self.apply_events(event).await? == KeepRunning::No {
                return Ok(());
            }
        }
    }

    /// Has somebody taken the keys from who plays them? What they pressed did that and nothing else.
    fn take_over(&mut self, event: &TerminalEvent) -> UserTakeover {
        let Some(_) = &self.key_player else { return UserTakeover::None };
        let touch = key_player::takeover_of(event);
        if touch != UserTakeover::None {
            self.key_player = None;
        }
        touch
    }

    fn terminal_event(&mut self, event: TerminalEvent) -> Option<ScreenEvent> {
        match event {
            TerminalEvent::Key(key) => Some(ScreenEvent::Key(key)),
            TerminalEvent::Paste(text) => Some(ScreenEvent::Paste(text)),
            TerminalEvent::Resize(columns, _) => {
                self.effects.session.env.terminal.width = usize::from(columns);
                Some(ScreenEvent::Redraw)
            }
            TerminalEvent::FocusGained => Some(ScreenEvent::Focus(WindowFocus::Focused)),
            TerminalEvent::FocusLost => Some(ScreenEvent::Focus(WindowFocus::Unfocused)),
            TerminalEvent::Mouse(_) => None,
        }
    }

    async fn apply_events(&mut self, event: ScreenEvent) -> Result<KeepRunning, Failure> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            if self.apply_event(event).await? == KeepRunning::No {
                return Ok(KeepRunning::No);
            }
            events.extend(self.effects.take_pending_events());
        }
        Ok(KeepRunning::Yes)
    }

    async fn apply_event(&mut self, event: ScreenEvent) -> Result<KeepRunning, Failure> {
        self.needs_redraw = true;
        let ends_answer = matches!(&event, ScreenEvent::Conversation(ConversationEvent::Usage(_)));
        if let ScreenEvent::Model(model) = &event {
            self.effects.model.clone_from(model);
        }
        let effects = self.chat.update(event, Instant::now());
        for effect in effects {
            if let Some(effect) = self.effects.run(effect).await
                && self.run_terminal_effect(effect)? == KeepRunning::No
            {
                return Ok(KeepRunning::No);
            }
        }
        if ends_answer {
            let status = self.effects.conversation.status();
            self.chat.update(ScreenEvent::ContextTokens(status.context_tokens), Instant::now());
        }
        Ok(KeepRunning::Yes)
    }

    fn run_terminal_effect(&mut self, effect: TerminalEffect) -> Result<KeepRunning, Failure> {
        match effect {
            TerminalEffect::Quit => return Ok(KeepRunning::No),
            TerminalEffect::RingBell => self.terminal.ring_bell().map_err(terminal_failure)?,
            TerminalEffect::Repaint => self.terminal.clear().map_err(terminal_failure)?,
            TerminalEffect::Suspend => {
                self.suspend_while(suspend_process)?;
            }
            TerminalEffect::SaveHistory(text) => {
                if let Err(error) = self.chat.history.add(&text) {
                    let what = Failure::new(Exit::Failure, "what you sent cannot be remembered");
                    self.chat.update(error_event(&what.caused_by(error)), Instant::now());
                    // Said once is enough.
                    self.chat.history = InputHistory::default();
                }
            }
            TerminalEffect::OpenEditor(text) => {
                let variables = self.effects.session.env.variables.clone();
                let edited = self.suspend_while(|| editor::edit_text(&variables, &text))?;
                let event = match edited {
                    Ok(text) => ScreenEvent::DraftReplaced(text),
                    Err(failure) => error_event(&failure),
                };
                self.chat.update(event, Instant::now());
            }
        }
        Ok(KeepRunning::Yes)
    }

    /// Gives the terminal and its keys to somebody else for a while.
    fn suspend_while<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, Failure> {
        // Whoever reads keys must not take them from somebody else.
        drop(std::mem::take(&mut self.keys));
        let outcome = self.terminal.suspend_while(work).map_err(terminal_failure)?;
        self.effects.session.env.terminal.width = terminal_width();
        Ok(outcome)
    }

    fn draw(&mut self) -> Result<(), Failure> {
        self.chat.now = Instant::now();
        self.needs_redraw = false;
        let chat = &mut self.chat;
        self.terminal.draw(|frame| frame::draw(chat, frame)).map_err(terminal_failure)?;
        self.last_frame = Instant::now();
        Ok(())
    }

    /// Ends everything, and gives what is said on the ordinary screen.
    async fn close(self, outcome: Result<(), Failure>) -> Result<String, Failure> {
        let Screen {
            mut effects,
            terminal,
            keys,
            conversation_task: talking,
            conversation_events,
            ..
        } = self;
        drop(keys);
        drop(terminal);
        let status = effects.conversation.status();
        effects.tasks.shutdown().await;
        effects.call_context.audit.flush().await;
        drop((effects, conversation_events));
        let _panicked = tokio::time::timeout(Duration::from_secs(2), talking).await;
        outcome?;
        Ok(conversation::exit_message(&status))
    }
}

/// Passes on every configuration that comes. A task of its own: whoever waits beside other things would lose a change
/// that is half read.
async fn forward_configurations(mut follower: ConfigWatcher, changes: mpsc::Sender<Configuration>) {
    while let Some(configuration) = follower.next().await {
        if changes.send(configuration).await.is_err() {
            return;
        }
    }
}

fn terminal_width() -> usize {
    crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns))
}
