//! Presses the keys of a performance when a person would: looks at the chat, and decides what is typed next and when.
//! Its keys go the way of everybody's keys, so it cannot do what a person could not.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::screen::chat::Chat;
use crate::screen::performance::{Performance, Scene, Speed, Stroke, typed};

/// What is said to whoever takes the keys.
pub const TAKEN_OVER: &str =
    "The keys are yours now: say anything, /help lists commands, Ctrl-D leaves.";
/// How long after a dialog can be answered the first key comes at the earliest.
const MARGIN: Duration = Duration::from_millis(30);

/// Somebody who plays the person.
#[derive(Debug)]
pub struct StandIn {
    scenes: VecDeque<Scene>,
    answers: VecDeque<Vec<Stroke>>,
    leaving: Vec<Stroke>,
    speed: Speed,
    /// What is being typed, and what it is for.
    strokes: VecDeque<Stroke>,
    occasion: Occasion,
    /// When the next key comes.
    due: Option<Instant>,
    /// The dialog that was answered last.
    answered: Option<u64>,
}

/// What keys are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// Something is said or looked at.
    Chat,
    /// This dialog is answered.
    Dialog(u64),
}

impl StandIn {
    /// Plays a performance.
    pub fn new(performance: Performance) -> StandIn {
        let Performance { scenes, answers, speed, .. } = performance;
        StandIn {
            scenes: scenes.into(),
            answers: answers.into(),
            leaving: Performance::leaving(),
            speed,
            strokes: VecDeque::new(),
            occasion: Occasion::Chat,
            due: None,
            answered: None,
        }
    }

    /// When the next key comes, as the chat stands; nothing while there is something to wait for.
    pub fn due(&mut self, chat: &Chat, now: Instant) -> Option<Instant> {
        let dialog = chat.questions.in_view();
        if let Occasion::Dialog(number) = self.occasion
            && dialog.is_none_or(|(shown, _)| shown != number)
        {
            // It is gone, and what was meant for it with it.
            self.strokes.clear();
            self.occasion = Occasion::Chat;
            self.due = None;
        }
        if self.strokes.is_empty() {
            match dialog {
                Some((number, _)) if self.answered != Some(number) => self.answer(number),
                Some(_) => {}
                None if is_at_rest(chat) => self.go_on(),
                None => {}
            }
        }
        let first = self.strokes.front()?;
        let due = *self.due.get_or_insert(now + self.speed.of(first.pause));
        let earliest = match dialog {
            Some((_, listens)) => listens + MARGIN,
            None => now,
        };
        Some(due.max(earliest))
    }

    /// The key whose time has come.
    pub fn key(&mut self) -> Option<KeyEvent> {
        self.due = None;
        let stroke = self.strokes.pop_front()?;
        Some(stroke.key).filter(|it| it.code != KeyCode::Null)
    }

    fn answer(&mut self, number: u64) {
        self.answered = Some(number);
        self.occasion = Occasion::Dialog(number);
        let esc = || Stroke {
            pause: Duration::from_secs(1),
            key: KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE),
        };
        self.strokes = self.answers.pop_front().unwrap_or_else(|| vec![esc()]).into();
    }

    fn go_on(&mut self) {
        self.occasion = Occasion::Chat;
        let pause = Duration::from_millis(900);
        match self.scenes.pop_front() {
            Some(Scene { line, then }) => {
                let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
                self.strokes = typed(&line).collect();
                if let Some(first) = self.strokes.front_mut() {
                    first.pause = pause;
                }
                self.strokes.push_back(Stroke { pause: pause / 2, key: enter });
                self.strokes.extend(then);
            }
            None => self.strokes = std::mem::take(&mut self.leaving).into(),
        }
    }
}

/// Is there nothing to wait for, and everything there to begin with?
fn is_at_rest(chat: &Chat) -> bool {
    let is_ready = chat.pool.tools().iter().any(|it| !it.is_built_in());
    is_ready
        && chat.model.is_some()
        && !chat.is_busy()
        && chat.queued.is_empty()
        && chat.questions.is_empty()
        && chat.overlays.is_empty()
}

/// What somebody who is really there wants with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Nothing: it was no key.
    None,
    /// To play on themselves.
    TakeOver,
    /// To leave.
    Leave,
}

/// What an event of the terminal means to a performance.
pub fn touch(event: &Event) -> Touch {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Release => Touch::None,
        Event::Key(key) => match (key.code, key.modifiers) {
            (KeyCode::Esc, _) | (KeyCode::Char('c' | 'd'), KeyModifiers::CONTROL) => Touch::Leave,
            (_, _) => Touch::TakeOver,
        },
        Event::Paste(_) => Touch::TakeOver,
        Event::Resize(_, _) | Event::FocusGained | Event::FocusLost | Event::Mouse(_) => {
            Touch::None
        }
    }
}
