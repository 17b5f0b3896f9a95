//! The screen: takes the terminal, runs one event loop over keys, servers, the model and dialogs, and gives the terminal
//! back. Draws only when something changed. What events mean is left to `update`, what they lead to to `effects`.

use std::collections::VecDeque;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossterm::event::{Event as TerminalEvent, EventStream, KeyEventKind};
use futures_util::StreamExt;
use switchboard::Host;
use switchboard::config::display::printable;
use switchboard::sources::ConfigWatcher;
use switchboard::sources::loader::Configuration;
use switchboard_chat::conversation::event::ConversationEvent;
use switchboard_chat::conversation::setup::ConversationStatus;
use switchboard_chat::transcript::TranscriptSummary;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep_until;

use crate::backend::{Backend, StartedConversation};
use crate::demo::key_player;
use crate::demo::key_player::{KeyPlayer, TAKEN_OVER, UserTakeover};
use crate::demo::script::DemoScript;
use crate::effects::{EffectContext, EffectRunner, TerminalEffect, error_event};
use crate::elicitor::{ElicitorReceiver, ScreenElicitor};
use crate::frame;
use crate::input_history::InputHistory;
use crate::state::event::{ScreenEvent, WindowFocus};
use crate::state::screen_state::ScreenState;
use crate::terminal::editor;
use crate::terminal::raw_terminal::{RawTerminal, suspend_process};
use crate::text::ansi::paint;
use crate::theme::{ScreenTheme, Tone};
use crate::view::conversation_picker::{ConversationPicker, PickOutcome};
use crate::view::markdown;

/// The shortest time between two frames.
const MIN_FRAME_INTERVAL: Duration = Duration::from_millis(8);
/// How often animations are drawn.
const TICK_INTERVAL: Duration = Duration::from_millis(250);
/// How many outcomes of effects may wait for the screen.
const EVENT_BUFFER: usize = 64;
/// How long the conversation may take to end after the screen has closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The width of a terminal that does not say how wide it is.
const DEFAULT_WIDTH: usize = 80;

/// What a screen shows before anything is loaded.
#[derive(Debug)]
pub struct ScreenOptions {
    /// Its colours and glyphs.
    pub theme: ScreenTheme,
    /// The working folder, as it is displayed.
    pub folder: String,
    /// The user's settings file, as it is displayed.
    pub settings_file: String,
    /// The command line of the user's editor, where one is configured.
    pub editor: Option<String>,
}

/// What a screen runs with.
pub struct ScreenSession {
    /// The host. It already runs the configuration.
    pub host: Host,
    /// The configuration in effect.
    pub configuration: Configuration,
    /// Reports later configurations, where files can be watched.
    pub watcher: Option<ConfigWatcher>,
    /// The conversation.
    pub started: StartedConversation,
    /// The program around the screen.
    pub backend: Arc<dyn Backend>,
    /// Asks the user on behalf of the host.
    pub elicitor: ScreenElicitor,
    /// What the elicitor asks.
    pub elicitor_messages: ElicitorReceiver,
    /// The script whose keys are pressed until the user presses one.
    pub script: Option<DemoScript>,
}

/// The screen before it runs. Dropping it gives the terminal back.
pub struct Screen {
    state: ScreenState,
    terminal: RawTerminal,
    settings_file: String,
    editor: Option<String>,
}

impl Screen {
    /// Takes the terminal.
    pub fn open(options: ScreenOptions) -> io::Result<Screen> {
        let ScreenOptions { theme, folder, settings_file, editor } = options;
        let state = ScreenState::new(theme, folder, Instant::now());
        Ok(Screen { state, terminal: RawTerminal::enter()?, settings_file, editor })
    }

    /// Lets the user choose a conversation to continue; none where they cancel. Blocks until then.
    pub fn pick_conversation(
        &mut self,
        conversations: Vec<TranscriptSummary>,
    ) -> io::Result<Option<String>> {
        let mut picker = ConversationPicker::new(conversations, SystemTime::now());
        loop {
            let theme = &self.state.theme;
            self.terminal.draw(|frame| picker.draw(frame, frame.area(), theme))?;
            match crossterm::event::read()? {
                TerminalEvent::Key(key) if key.kind != KeyEventKind::Release => {
                    match picker.on_key(key) {
                        PickOutcome::Pending => {}
                        PickOutcome::Cancelled => return Ok(None),
                        PickOutcome::Selected(id) => return Ok(Some(id)),
                    }
                }
                TerminalEvent::Key(_)
                | TerminalEvent::Resize(_, _)
                | TerminalEvent::FocusGained
                | TerminalEvent::FocusLost
                | TerminalEvent::Mouse(_)
                | TerminalEvent::Paste(_) => {}
            }
        }
    }

    /// Draws the empty screen, before anything slow is loaded.
    pub fn draw_first_frame(&mut self) -> io::Result<()> {
        self.terminal.draw(|frame| frame::draw(&mut self.state, frame))
    }

    /// Takes over what the configuration and the project say.
    pub fn configure(&mut self, theme: ScreenTheme, history: InputHistory) {
        self.state.theme = theme;
        self.state.history = history;
    }

    /// Runs until the user leaves, `interrupted` returns or the terminal is gone. `interrupted` is called again and again;
    /// its futures are dropped in between.
    pub async fn run(
        self,
        session: ScreenSession,
        interrupted: impl AsyncFnMut(),
    ) -> io::Result<ConversationStatus> {
        let mut running = RunningScreen::start(self, session);
        let outcome = running.run(interrupted).await;
        let status = running.close().await;
        outcome.map(|()| status)
    }
}

struct RunningScreen {
    state: ScreenState,
    terminal: RawTerminal,
    editor: Option<String>,
    effects: EffectRunner,
    host: Host,
    keys: EventStream,
    /// Presses the keys of a script until the user presses one.
    key_player: Option<KeyPlayer>,
    conversation_events: mpsc::Receiver<ConversationEvent>,
    effect_events: mpsc::Receiver<ScreenEvent>,
    elicitor_messages: ElicitorReceiver,
    configurations: mpsc::Receiver<Configuration>,
    conversation_task: JoinHandle<()>,
    ide_task: JoinHandle<()>,
    last_frame: Instant,
    /// Has anything changed since the last frame?
    needs_redraw: bool,
}

/// Does the event loop go on?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeepRunning {
    Yes,
    No,
}

impl RunningScreen {
    fn start(screen: Screen, session: ScreenSession) -> RunningScreen {
        let Screen { mut state, terminal, settings_file, editor } = screen;
        let ScreenSession { host, configuration, watcher, started, backend, .. } = session;
        state.mode = started.call_context.mode;
        state.model.clone_from(&started.model);
        state.restore(&started.history);
        let (events, effect_events) = mpsc::channel(EVENT_BUFFER);
        let context = EffectContext {
            backend,
            host: host.clone(),
            call_context: started.call_context,
            configuration: Arc::new(configuration),
            conversation: started.conversation,
            ide: started.ide.session,
            elicitor: session.elicitor,
            settings_file,
            width: terminal_width(),
        };
        let mut effects = EffectRunner::new(context, events);
        effects.set_model(started.model);
        if let Some(pending_model) = started.pending_model {
            effects.set_model_when_ready(pending_model);
        }
        if !started.warning.is_empty() {
            state.update(ScreenEvent::Note(started.warning), Instant::now());
        }
        if let Some(error) = &started.model_failure {
            state.update(error_event(error), Instant::now());
        }
        // One place: a watcher that reports faster than configurations are applied waits.
        let (changes, configurations) = mpsc::channel(1);
        if let Some(watcher) = watcher {
            effects.spawn_task(forward_configurations(watcher, changes));
        }
        effects.follow_ide(started.ide.updates);
        effects.request_project_approvals();
        effects.request_channel_confirmation();
        RunningScreen {
            state,
            terminal,
            editor,
            effects,
            host,
            keys: EventStream::new(),
            key_player: session.script.map(KeyPlayer::new),
            conversation_events: started.events,
            effect_events,
            elicitor_messages: session.elicitor_messages,
            configurations,
            conversation_task: started.task,
            ide_task: started.ide.task,
            last_frame: Instant::now(),
            needs_redraw: true,
        }
    }

    async fn run(&mut self, mut interrupted: impl AsyncFnMut()) -> io::Result<()> {
        let (mut snapshots, mut pools) = (self.host.watch(), self.host.watch_pool());
        let mut next_tick = Instant::now() + TICK_INTERVAL;
        loop {
            let due = self.last_frame + MIN_FRAME_INTERVAL;
            if self.needs_redraw && Instant::now() >= due {
                self.draw()?;
            }
            let is_animating = self.state.is_animating();
            if !is_animating {
                next_tick = Instant::now() + TICK_INTERVAL;
            }
            let state = &self.state;
            let next_key =
                self.key_player.as_mut().and_then(|it| it.next_key_at(state, Instant::now()));
            let event = tokio::select! {
                biased;
                () = interrupted() => return Ok(()),
                key = self.keys.next() => match key {
                    Some(Ok(key)) => match self.take_over(&key) {
                        UserTakeover::None => self.terminal_event(key),
                        UserTakeover::TakeControl => Some(ScreenEvent::Note(TAKEN_OVER.to_owned())),
                        UserTakeover::Quit => return Ok(()),
                    },
                    // The terminal is gone.
                    Some(Err(_)) | None => return Ok(()),
                },
                () = sleep_until(due.into()), if self.needs_redraw => continue,
                Some(message) = self.elicitor_messages.next() => Some(ScreenEvent::Elicitor(message)),
                Some(event) = self.effect_events.recv() => Some(event),
                Some(event) = self.conversation_events.recv() => Some(ScreenEvent::Conversation(event)),
                Ok(()) = snapshots.changed() => {
                    Some(ScreenEvent::Servers(snapshots.borrow_and_update().clone()))
                }
                Ok(()) = pools.changed() => Some(ScreenEvent::Pool(pools.borrow_and_update().clone())),
                Some(configuration) = self.configurations.recv() => {
                    self.effects.apply_configuration(configuration).await;
                    Some(ScreenEvent::Configured(Arc::new(self.effects.configured_servers())))
                }
                () = sleep_until(next_key.unwrap_or(due).into()), if next_key.is_some() => {
                    self.key_player.as_mut().and_then(KeyPlayer::key).map(ScreenEvent::Key)
                }
                () = markdown::highlighter_loaded() => Some(ScreenEvent::Redraw),
                () = sleep_until(next_tick.into()), if is_animating => {
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

    /// Ends the script at the user's first key. That key has no other effect.
    fn take_over(&mut self, event: &TerminalEvent) -> UserTakeover {
        let Some(_) = &self.key_player else { return UserTakeover::None };
        let takeover = key_player::takeover_of(event);
        if takeover != UserTakeover::None {
            self.key_player = None;
        }
        takeover
    }

    fn terminal_event(&mut self, event: TerminalEvent) -> Option<ScreenEvent> {
        match event {
            TerminalEvent::Key(key) => Some(ScreenEvent::Key(key)),
            TerminalEvent::Paste(text) => Some(ScreenEvent::Paste(text)),
            TerminalEvent::Resize(columns, _) => {
                self.effects.set_width(usize::from(columns));
                Some(ScreenEvent::Redraw)
            }
            TerminalEvent::FocusGained => Some(ScreenEvent::Focus(WindowFocus::Focused)),
            TerminalEvent::FocusLost => Some(ScreenEvent::Focus(WindowFocus::Unfocused)),
            TerminalEvent::Mouse(_) => None,
        }
    }

    async fn apply_events(&mut self, event: ScreenEvent) -> io::Result<KeepRunning> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            if self.apply_event(event).await? == KeepRunning::No {
                return Ok(KeepRunning::No);
            }
            events.extend(self.effects.take_pending_events());
        }
        Ok(KeepRunning::Yes)
    }

    async fn apply_event(&mut self, event: ScreenEvent) -> io::Result<KeepRunning> {
        self.needs_redraw = true;
        let reports_usage =
            matches!(&event, ScreenEvent::Conversation(ConversationEvent::Usage(_)));
        if let ScreenEvent::Model(model) = &event {
            self.effects.set_model(model.clone());
        }
        let effects = self.state.update(event, Instant::now());
        for effect in effects {
            if let Some(effect) = self.effects.run(effect).await
                && self.run_terminal_effect(effect)? == KeepRunning::No
            {
                return Ok(KeepRunning::No);
            }
        }
        if reports_usage {
            let status = self.effects.conversation().status();
            self.state.update(ScreenEvent::ContextTokens(status.context_tokens), Instant::now());
        }
        Ok(KeepRunning::Yes)
    }

    fn run_terminal_effect(&mut self, effect: TerminalEffect) -> io::Result<KeepRunning> {
        match effect {
            TerminalEffect::Quit => return Ok(KeepRunning::No),
            TerminalEffect::RingBell => self.terminal.ring_bell()?,
            TerminalEffect::Repaint => self.terminal.clear()?,
            TerminalEffect::Suspend => {
                self.suspend_while(|_| suspend_process())?;
            }
            TerminalEffect::SaveHistory(text) => {
                if let Err(error) = self.state.history.add(&text) {
                    let message = "the input history cannot be written";
                    self.state.update(failure_event(message, Some(&error), None), Instant::now());
                    // One report is enough.
                    self.state.history = InputHistory::default();
                }
            }
            TerminalEffect::OpenEditor(text) => {
                let edited = self.suspend_while(|editor| editor::edit_text(editor, &text))?;
                let event = match edited {
                    Ok(text) => ScreenEvent::DraftReplaced(text),
                    Err(error) => failure_event(&error.to_string(), error.source(), error.hint()),
                };
                self.state.update(event, Instant::now());
            }
        }
        Ok(KeepRunning::Yes)
    }

    /// Gives the terminal and its keys away while `work` runs.
    fn suspend_while<T>(&mut self, work: impl FnOnce(Option<&str>) -> T) -> io::Result<T> {
        // A reader of keys would take them from the other program.
        drop(std::mem::take(&mut self.keys));
        // The end of a reader wakes the next poll. Keys that arrive at the same poll would stay unread until the next key.
        let _no_key_yet = crossterm::event::poll(Duration::ZERO);
        let editor = self.editor.as_deref();
        let outcome = self.terminal.suspend_while(|| work(editor))?;
        self.effects.set_width(terminal_width());
        Ok(outcome)
    }

    fn draw(&mut self) -> io::Result<()> {
        self.state.now = Instant::now();
        self.needs_redraw = false;
        let state = &mut self.state;
        self.terminal.draw(|frame| frame::draw(state, frame))?;
        self.last_frame = Instant::now();
        Ok(())
    }

    /// Gives the terminal back and ends everything that runs.
    async fn close(self) -> ConversationStatus {
        let RunningScreen {
            effects,
            terminal,
            keys,
            conversation_task,
            ide_task,
            conversation_events,
            ..
        } = self;
        drop(keys);
        drop(terminal);
        let status = effects.conversation().status();
        effects.shutdown().await;
        drop(conversation_events);
        let _panicked = tokio::time::timeout(CLOSE_TIMEOUT, conversation_task).await;
        let _panicked = tokio::time::timeout(CLOSE_TIMEOUT, ide_task).await;
        status
    }
}

/// Passes on every configuration. A task of its own: a select would drop a change that is half read.
async fn forward_configurations(mut watcher: ConfigWatcher, changes: mpsc::Sender<Configuration>) {
    while let Some(configuration) = watcher.next().await {
        if changes.send(configuration).await.is_err() {
            return;
        }
    }
}

/// A failure of the screen itself, in the form of the command line's errors.
fn failure_event(message: &str, cause: Option<&dyn Error>, hint: Option<&str>) -> ScreenEvent {
    let mut text = format!("{} {message}", paint(Tone::Error, "error:"));
    let mut cause = cause;
    while let Some(error) = cause {
        text.push_str(&format!("\n  caused by: {}", printable(&error.to_string())));
        cause = error.source();
    }
    if let Some(hint) = hint {
        text.push_str(&format!("\n{} {hint}", paint(Tone::Strong, "hint:")));
    }
    ScreenEvent::Error(text)
}

fn terminal_width() -> usize {
    crossterm::terminal::size().map_or(DEFAULT_WIDTH, |(columns, _)| usize::from(columns))
}
