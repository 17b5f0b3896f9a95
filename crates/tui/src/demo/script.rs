//! A conversation that plays itself: who answers, what the person says and does, and how fast. `stand_in` presses the keys
//! of it on the screen, `recital` answers in plain lines.

use std::time::{Duration, SystemTime};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use switchboard::storage::stderr_log::utc_timestamp;
use switchboard_chat::model::scripted::ScriptedModel;

/// How long the model takes for a word.
const WORD_DELAY: Duration = Duration::from_millis(28);
/// How long somebody takes for a letter.
const KEY_DELAY: Duration = Duration::from_millis(42);
/// How long somebody looks at something before the next key.
const READING_DELAY: Duration = Duration::from_millis(1500);

/// How many times as fast as people it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed(pub u32);

impl Speed {
    /// A time at this speed.
    pub fn scale(self, usual: Duration) -> Duration {
        usual / self.0.max(1)
    }
}

/// What is played.
#[derive(Debug)]
pub struct DemoScript {
    /// What is said, in order.
    pub steps: Vec<DemoStep>,
    /// What dialogs are answered with, in the order in which they come.
    pub dialog_keys: Vec<Vec<KeyPress>>,
    /// What is written into forms, by the names of fields, where there are no keys.
    pub form_values: Vec<(&'static str, String)>,
    /// How fast.
    pub speed: Speed,
}

/// Something that is typed and sent, and what is done behind it.
#[derive(Debug)]
pub struct DemoStep {
    /// What is typed.
    pub input: String,
    /// The keys after it was sent.
    pub keys_after: Vec<KeyPress>,
}

/// A key, and what passes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPress {
    /// How long it takes.
    pub delay: Duration,
    /// The key.
    pub key: KeyEvent,
}

/// A key after a look.
fn after_reading(code: KeyCode) -> KeyPress {
    KeyPress { delay: READING_DELAY, key: KeyEvent::new(code, KeyModifiers::NONE) }
}

/// A key right after the one before.
fn quickly(code: KeyCode) -> KeyPress {
    KeyPress { delay: KEY_DELAY * 8, key: KeyEvent::new(code, KeyModifiers::NONE) }
}

/// The keys of a text. No two take equally long, and a word takes longer to begin.
pub fn typing(text: &str) -> impl Iterator<Item = KeyPress> {
    let mut before = ' ';
    text.chars().zip(0u32..).map(move |(letter, at)| {
        let unevenly = KEY_DELAY / 10 * (6 + at * 7 % 9);
        let pause = if before == ' ' { unevenly + KEY_DELAY } else { unevenly };
        before = letter;
        KeyPress { delay: pause, key: KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE) }
    })
}

impl DemoScript {
    /// The demonstration, and the model that answers in it.
    pub fn demo(speed: Speed, word: Duration) -> (DemoScript, ScriptedModel) {
        let model = ScriptedModel::demo(word);
        let say = |line: &str| DemoStep { input: line.to_owned(), keys_after: Vec::new() };
        let mut steps: Vec<DemoStep> = model.user_messages().map(say).collect();
        // A look at the server between two questions.
        let panel = [KeyCode::Enter, KeyCode::Right, KeyCode::Esc, KeyCode::Esc];
        let then = panel.map(after_reading).to_vec();
        steps.insert(steps.len().min(2), DemoStep { input: "/mcp".to_owned(), keys_after: then });
        let now = utc_timestamp(SystemTime::now());
        let today = now.split('T').next().unwrap_or_default().to_owned();
        let words = |text: &str| typing(text).collect::<Vec<_>>();
        let next = || vec![quickly(KeyCode::Tab)];
        let form = [
            vec![after_reading(KeyCode::Null)],
            words("Ada"),
            next(),
            words(&today),
            next(),
            words("4"),
            next(),
            vec![quickly(KeyCode::Right)],
            next(),
            next(),
            vec![after_reading(KeyCode::Enter)],
        ];
        let answers = vec![
            vec![after_reading(KeyCode::Enter)],
            vec![after_reading(KeyCode::Right), after_reading(KeyCode::Enter)],
            form.concat(),
        ];
        let form_values = vec![
            ("name", "Ada".to_owned()),
            ("day", today),
            ("guests", "4".to_owned()),
            ("seating", "terrace".to_owned()),
        ];
        (DemoScript { steps, dialog_keys: answers, form_values, speed }, model)
    }

    /// How long the model takes for a word at this speed.
    pub fn word_delay(speed: Speed) -> Duration {
        speed.scale(WORD_DELAY)
    }

    /// How the person leaves: after another look at what was said last.
    pub fn quit_keys() -> Vec<KeyPress> {
        let leave = KeyEvent::new(KeyCode::Char('d'), KeyModifiers::CONTROL);
        vec![
            KeyPress { delay: READING_DELAY * 2, ..after_reading(KeyCode::PageUp) },
            KeyPress { delay: READING_DELAY * 2, ..after_reading(KeyCode::PageDown) },
            KeyPress { delay: READING_DELAY * 2, key: leave },
        ]
    }
}
