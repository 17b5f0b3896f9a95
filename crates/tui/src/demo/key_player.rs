//! Presses the keys of a demo script: watches the state of the screen and decides which key comes next and when.
//! Its keys are handled like the user's, so a demo cannot do anything that a user could not.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::demo::script::{DemoScript, DemoStep, KeyPress, Speed, typing};
use crate::state::screen_state::ScreenState;

/// The note shown when the user takes over.
pub const TAKEN_OVER: &str =
    "The keys are yours now: say anything, /help lists commands, Ctrl-D quits.";
/// The shortest time between a dialog accepting keys and the first key.
const DIALOG_MARGIN: Duration = Duration::from_millis(30);

/// Presses the keys of a script.
#[derive(Debug)]
pub struct KeyPlayer {
    steps: VecDeque<DemoStep>,
    dialog_keys: VecDeque<Vec<KeyPress>>,
    quit_keys: Vec<KeyPress>,
    speed: Speed,
    /// The keys still to press for `target`.
    pending_keys: VecDeque<KeyPress>,
    target: KeyTarget,
    /// When the next key is pressed.
    due: Option<Instant>,
    /// The dialog that was answered last.
    answered: Option<u64>,
}

/// What keys are pressed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyTarget {
    /// The composer and the panels.
    Chat,
    /// The dialog of this number.
    Dialog(u64),
}

impl KeyPlayer {
    /// A player at the start of a script.
    pub fn new(script: DemoScript) -> KeyPlayer {
        let DemoScript { steps, dialog_keys, speed, .. } = script;
        KeyPlayer {
            steps: steps.into(),
            dialog_keys: dialog_keys.into(),
            quit_keys: DemoScript::quit_keys(),
            speed,
            pending_keys: VecDeque::new(),
            target: KeyTarget::Chat,
            due: None,
            answered: None,
        }
    }

    /// When the next key is due in this state of the screen; `None` while the script waits for something.
    pub fn next_key_at(&mut self, state: &ScreenState, now: Instant) -> Option<Instant> {
        let dialog = state.dialogs.shown_dialog();
        if let KeyTarget::Dialog(number) = self.target
            && dialog.is_none_or(|(shown, _)| shown != number)
        {
            // The dialog is gone; its remaining keys are dropped.
            self.pending_keys.clear();
            self.target = KeyTarget::Chat;
            self.due = None;
        }
        if self.pending_keys.is_empty() {
            match dialog {
                Some((number, _)) if self.answered != Some(number) => self.answer_dialog(number),
                Some(_) => {}
                None if is_idle(state) => self.next_step(),
                None => {}
            }
        }
        let first = self.pending_keys.front()?;
        let due = *self.due.get_or_insert(now + self.speed.scale(first.delay));
        let earliest = match dialog {
            Some((_, accepts_at)) => accepts_at + DIALOG_MARGIN,
            None => now,
        };
        Some(due.max(earliest))
    }

    /// Takes the key that is due.
    pub fn key(&mut self) -> Option<KeyEvent> {
        self.due = None;
        let key_press = self.pending_keys.pop_front()?;
        Some(key_press.key).filter(|it| it.code != KeyCode::Null)
    }

    fn answer_dialog(&mut self, number: u64) {
        self.answered = Some(number);
        self.target = KeyTarget::Dialog(number);
        let escape = || KeyPress {
            delay: Duration::from_secs(1),
            key: KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE),
        };
        self.pending_keys = self.dialog_keys.pop_front().unwrap_or_else(|| vec![escape()]).into();
    }

    fn next_step(&mut self) {
        self.target = KeyTarget::Chat;
        let pause = Duration::from_millis(900);
        match self.steps.pop_front() {
            Some(DemoStep { input: line, keys_after: then }) => {
                let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
                self.pending_keys = typing(&line).collect();
                if let Some(first) = self.pending_keys.front_mut() {
                    first.delay = pause;
                }
                self.pending_keys.push_back(KeyPress { delay: pause / 2, key: enter });
                self.pending_keys.extend(then);
            }
            None => self.pending_keys = std::mem::take(&mut self.quit_keys).into(),
        }
    }
}

/// Is the screen ready for the next step: tools and model there, nothing running, nothing open?
fn is_idle(state: &ScreenState) -> bool {
    let is_ready = state.pool.tools().iter().any(|it| !it.is_built_in());
    is_ready
        && state.model.is_some()
        && !state.is_busy()
        && state.queued.is_empty()
        && state.dialogs.is_empty()
        && state.overlays.is_empty()
}

/// What the user's own input does to a running script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserTakeover {
    /// Nothing: it was no key press.
    None,
    /// Ends the script; the user continues.
    TakeControl,
    /// Ends the script and the screen.
    Quit,
}

/// What a terminal event does to a running script.
pub fn takeover_of(event: &Event) -> UserTakeover {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Release => UserTakeover::None,
        Event::Key(key) => match (key.code, key.modifiers) {
            (KeyCode::Esc, _) | (KeyCode::Char('c' | 'd'), KeyModifiers::CONTROL) => {
                UserTakeover::Quit
            }
            (_, _) => UserTakeover::TakeControl,
        },
        Event::Paste(_) => UserTakeover::TakeControl,
        Event::Resize(_, _) | Event::FocusGained | Event::FocusLost | Event::Mouse(_) => {
            UserTakeover::None
        }
    }
}
