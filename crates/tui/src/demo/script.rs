//! The script of a demo: what the user types and answers, and how fast. `key_player` presses its keys on the screen; plain
//! mode prints its inputs and fills forms from `form_values`.

use std::time::{Duration, SystemTime};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use switchboard::utc_timestamp;
use switchboard_chat::model::scripted::ScriptedModel;

/// The delay before each word of the model.
const WORD_DELAY: Duration = Duration::from_millis(28);
/// The average delay before a typed character.
const KEY_DELAY: Duration = Duration::from_millis(42);
/// The pause for reading before a key.
const READING_DELAY: Duration = Duration::from_millis(1500);

/// A factor that divides every delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed(pub u32);

impl Speed {
    /// A delay at this speed.
    pub fn scale(self, usual: Duration) -> Duration {
        usual / self.0.max(1)
    }
}

/// A demo script.
#[derive(Debug)]
pub struct DemoScript {
    /// The inputs, in order.
    pub steps: Vec<DemoStep>,
    /// The keys that answer the dialogs, in the order in which these appear.
    pub dialog_keys: Vec<Vec<KeyPress>>,
    /// Values for form fields by name, for plain mode.
    pub form_values: Vec<(&'static str, String)>,
    /// The speed.
    pub speed: Speed,
}

/// An input, and the keys pressed after it was sent.
#[derive(Debug)]
pub struct DemoStep {
    /// The text.
    pub input: String,
    /// The keys afterwards.
    pub keys_after: Vec<KeyPress>,
}

/// A key press after a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPress {
    /// The delay.
    pub delay: Duration,
    /// The key.
    pub key: KeyEvent,
}

/// A key after a pause for reading.
fn after_reading(code: KeyCode) -> KeyPress {
    KeyPress { delay: READING_DELAY, key: KeyEvent::new(code, KeyModifiers::NONE) }
}

/// A key soon after the last one.
fn quickly(code: KeyCode) -> KeyPress {
    KeyPress { delay: KEY_DELAY * 8, key: KeyEvent::new(code, KeyModifiers::NONE) }
}

/// The keys that type a text, at uneven speed and with a pause before each word.
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
    /// The script of `swb demo`, and the model that answers in it.
    pub fn demo(speed: Speed, word: Duration) -> (DemoScript, ScriptedModel) {
        let model = ScriptedModel::demo(word);
        let say = |line: &str| DemoStep { input: line.to_owned(), keys_after: Vec::new() };
        let mut steps: Vec<DemoStep> = model.user_messages().map(say).collect();
        // Opens the server panel between two messages.
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

    /// The model's delay per word at this speed.
    pub fn word_delay(speed: Speed) -> Duration {
        speed.scale(WORD_DELAY)
    }

    /// The keys that scroll through the conversation once more and leave.
    pub fn quit_keys() -> Vec<KeyPress> {
        let leave = KeyEvent::new(KeyCode::Char('d'), KeyModifiers::CONTROL);
        vec![
            KeyPress { delay: READING_DELAY * 2, ..after_reading(KeyCode::PageUp) },
            KeyPress { delay: READING_DELAY * 2, ..after_reading(KeyCode::PageDown) },
            KeyPress { delay: READING_DELAY * 2, key: leave },
        ]
    }
}
