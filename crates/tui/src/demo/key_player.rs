//! Presses the keys of a performance when a person would: looks at the chat, and decides what is typed next and when.
//! Its keys go the way of everybody's keys, so it cannot do what a person could not.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::demo::script::{DemoScript, DemoStep, KeyPress, Speed, typing};
use crate::state::screen_state::ScreenState;

/// What is said to whoever takes the keys.
pub const TAKEN_OVER: &str =
    "The keys are yours now: say anything, /help lists commands, Ctrl-D leaves.";
/// How long after a dialog can be answered the first key comes at the earliest.
const DIALOG_MARGIN: Duration = Duration::from_millis(30);

/// Somebody who plays the person.
#[derive(Debug)]
pub struct KeyPlayer {
    steps: VecDeque<DemoStep>,
    dialog_keys: VecDeque<Vec<KeyPress>>,
    quit_keys: Vec<KeyPress>,
    speed: Speed,
    /// What is being typed, and what it is for.
    pending_keys: VecDeque<KeyPress>,
    target: KeyTarget,
    /// When the next key comes.
    due: Option<Instant>,
    /// The dialog that was answered last.
    answered: Option<u64>,
}

/// What keys are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyTarget {
    /// Something is said or looked at.
    Chat,
    /// This dialog is answered.
    Dialog(u64),
}

impl KeyPlayer {
    /// Plays a performance.
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

    /// When the next key comes, as the chat stands; nothing while there is something to wait for.
    pub fn next_key_at(&mut self, chat: &ScreenState, now: Instant) -> Option<Instant> {
        let dialog = chat.dialogs.shown_dialog();
        if let KeyTarget::Dialog(number) = self.target
            && dialog.is_none_or(|(shown, _)| shown != number)
        {
            // It is gone, and what was meant for it with it.
            self.pending_keys.clear();
            self.target = KeyTarget::Chat;
            self.due = None;
        }
        if self.pending_keys.is_empty() {
            match dialog {
                Some((number, _)) if self.answered != Some(number) => self.answer_dialog(number),
                Some(_) => {}
                None if is_idle(chat) => self.next_step(),
                None => {}
            }
        }
        let first = self.pending_keys.front()?;
        let due = *self.due.get_or_insert(now + self.speed.scale(first.delay));
        let earliest = match dialog {
            Some((_, listens)) => listens + DIALOG_MARGIN,
            None => now,
        };
        Some(due.max(earliest))
    }

    /// The key whose time has come.
    pub fn key(&mut self) -> Option<KeyEvent> {
        self.due = None;
        let key_press = self.pending_keys.pop_front()?;
        Some(key_press.key).filter(|it| it.code != KeyCode::Null)
    }

    fn answer_dialog(&mut self, number: u64) {
        self.answered = Some(number);
        self.target = KeyTarget::Dialog(number);
        let esc = || KeyPress {
            delay: Duration::from_secs(1),
            key: KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE),
        };
        self.pending_keys = self.dialog_keys.pop_front().unwrap_or_else(|| vec![esc()]).into();
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

/// Is there nothing to wait for, and everything there to begin with?
fn is_idle(chat: &ScreenState) -> bool {
    let is_ready = chat.pool.tools().iter().any(|it| !it.is_built_in());
    is_ready
        && chat.model.is_some()
        && !chat.is_busy()
        && chat.queued.is_empty()
        && chat.dialogs.is_empty()
        && chat.overlays.is_empty()
}

/// What somebody who is really there wants with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserTakeover {
    /// Nothing: it was no key.
    None,
    /// To play on themselves.
    TakeControl,
    /// To leave.
    Quit,
}

/// What an event of the terminal means to a performance.
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
