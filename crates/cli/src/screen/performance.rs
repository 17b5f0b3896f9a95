//! A conversation that plays itself: who answers, what the person says and does, and how fast. `stand_in` presses the keys
//! of it on the screen, `recital` answers in plain lines.

use std::time::{Duration, SystemTime};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use switchboard::logbook::stamp;
use switchboard_chat::rehearsed::Rehearsed;

use crate::screen::opening::Answerer;

/// How long the model takes for a word.
const WORD: Duration = Duration::from_millis(28);
/// How long somebody takes for a letter.
const LETTER: Duration = Duration::from_millis(42);
/// How long somebody looks at something before the next key.
const LOOK: Duration = Duration::from_millis(1500);

/// Who is at the keys.
pub enum Player {
    /// Whoever is at the terminal.
    Person,
    /// A script, until somebody presses a key; and who answers in it.
    Script(Performance, Answerer),
}

/// How many times as fast as people it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed(pub u32);

impl Speed {
    /// A time at this speed.
    pub fn of(self, usual: Duration) -> Duration {
        usual / self.0.max(1)
    }
}

/// What is played.
#[derive(Debug)]
pub struct Performance {
    /// What is said, in order.
    pub scenes: Vec<Scene>,
    /// What dialogs are answered with, in the order in which they come.
    pub answers: Vec<Vec<Stroke>>,
    /// What is written into forms, by the names of fields, where there are no keys.
    pub written: Vec<(&'static str, String)>,
    /// How fast.
    pub speed: Speed,
}

/// Something that is typed and sent, and what is done behind it.
#[derive(Debug)]
pub struct Scene {
    /// What is typed.
    pub line: String,
    /// The keys after it was sent.
    pub then: Vec<Stroke>,
}

/// A key, and what passes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stroke {
    /// How long it takes.
    pub pause: Duration,
    /// The key.
    pub key: KeyEvent,
}

/// A key after a look.
fn after_a_look(code: KeyCode) -> Stroke {
    Stroke { pause: LOOK, key: KeyEvent::new(code, KeyModifiers::NONE) }
}

/// A key right after the one before.
fn at_once(code: KeyCode) -> Stroke {
    Stroke { pause: LETTER * 8, key: KeyEvent::new(code, KeyModifiers::NONE) }
}

/// The keys of a text. No two take equally long, and a word takes longer to begin.
pub fn typed(text: &str) -> impl Iterator<Item = Stroke> {
    let mut before = ' ';
    text.chars().zip(0u32..).map(move |(letter, at)| {
        let unevenly = LETTER / 10 * (6 + at * 7 % 9);
        let pause = if before == ' ' { unevenly + LETTER } else { unevenly };
        before = letter;
        Stroke { pause, key: KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE) }
    })
}

impl Performance {
    /// The demonstration, and the model that answers in it.
    pub fn demonstration(speed: Speed, word: Duration) -> (Performance, Rehearsed) {
        let model = Rehearsed::demonstration(word);
        let say = |line: &str| Scene { line: line.to_owned(), then: Vec::new() };
        let mut scenes: Vec<Scene> = model.lines().map(say).collect();
        // A look at the server between two questions.
        let panel = [KeyCode::Enter, KeyCode::Right, KeyCode::Esc, KeyCode::Esc];
        let then = panel.map(after_a_look).to_vec();
        scenes.insert(scenes.len().min(2), Scene { line: "/mcp".to_owned(), then });
        let now = stamp(SystemTime::now());
        let today = now.split('T').next().unwrap_or_default().to_owned();
        let words = |text: &str| typed(text).collect::<Vec<_>>();
        let next = || vec![at_once(KeyCode::Tab)];
        let form = [
            vec![after_a_look(KeyCode::Null)],
            words("Ada"),
            next(),
            words(&today),
            next(),
            words("4"),
            next(),
            vec![at_once(KeyCode::Right)],
            next(),
            next(),
            vec![after_a_look(KeyCode::Enter)],
        ];
        let answers = vec![
            vec![after_a_look(KeyCode::Enter)],
            vec![after_a_look(KeyCode::Right), after_a_look(KeyCode::Enter)],
            form.concat(),
        ];
        let written = vec![
            ("name", "Ada".to_owned()),
            ("day", today),
            ("guests", "4".to_owned()),
            ("seating", "terrace".to_owned()),
        ];
        (Performance { scenes, answers, written, speed }, model)
    }

    /// How long the model takes for a word at this speed.
    pub fn word(speed: Speed) -> Duration {
        speed.of(WORD)
    }

    /// How the person leaves: after another look at what was said last.
    pub fn leaving() -> Vec<Stroke> {
        let leave = KeyEvent::new(KeyCode::Char('d'), KeyModifiers::CONTROL);
        vec![
            Stroke { pause: LOOK * 2, ..after_a_look(KeyCode::PageUp) },
            Stroke { pause: LOOK * 2, ..after_a_look(KeyCode::PageDown) },
            Stroke { pause: LOOK * 2, key: leave },
        ]
    }
}
