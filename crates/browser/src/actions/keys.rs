//! Names of keys, and what the browser wants to know about them.

use crate::error::BrowserError;

/// Keys that are held while another one is pressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Modifiers(u8);

const ALT: u8 = 1;
const CONTROL: u8 = 2;
const META: u8 = 4;
const SHIFT: u8 = 8;

/// A key as the browser knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) key: String,
    pub(crate) code: String,
    pub(crate) number: u32,
    pub(crate) text: Option<String>,
}

/// A key with those that are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyPress {
    pub(crate) key: Key,
    pub(crate) modifiers: Modifiers,
}

/// Names, DOM keys, codes and numbers.
const NAMED: [(&str, &str, &str, u32); 37] = [
    ("enter", "Enter", "Enter", 13),
    ("return", "Enter", "Enter", 13),
    ("tab", "Tab", "Tab", 9),
    ("escape", "Escape", "Escape", 27),
    ("esc", "Escape", "Escape", 27),
    ("backspace", "Backspace", "Backspace", 8),
    ("delete", "Delete", "Delete", 46),
    ("insert", "Insert", "Insert", 45),
    ("space", " ", "Space", 32),
    ("arrowup", "ArrowUp", "ArrowUp", 38),
    ("up", "ArrowUp", "ArrowUp", 38),
    ("arrowdown", "ArrowDown", "ArrowDown", 40),
    ("down", "ArrowDown", "ArrowDown", 40),
    ("arrowleft", "ArrowLeft", "ArrowLeft", 37),
    ("left", "ArrowLeft", "ArrowLeft", 37),
    ("arrowright", "ArrowRight", "ArrowRight", 39),
    ("right", "ArrowRight", "ArrowRight", 39),
    ("home", "Home", "Home", 36),
    ("end", "End", "End", 35),
    ("pageup", "PageUp", "PageUp", 33),
    ("pagedown", "PageDown", "PageDown", 34),
    ("f1", "F1", "F1", 112),
    ("f2", "F2", "F2", 113),
    ("f3", "F3", "F3", 114),
    ("f4", "F4", "F4", 115),
    ("f5", "F5", "F5", 116),
    ("f6", "F6", "F6", 117),
    ("f7", "F7", "F7", 118),
    ("f8", "F8", "F8", 119),
    ("f9", "F9", "F9", 120),
    ("f10", "F10", "F10", 121),
    ("f11", "F11", "F11", 122),
    ("f12", "F12", "F12", 123),
    ("contextmenu", "ContextMenu", "ContextMenu", 93),
    ("control", "Control", "ControlLeft", 17),
    ("shift", "Shift", "ShiftLeft", 16),
    ("alt", "Alt", "AltLeft", 18),
];

impl Modifiers {
    /// Parses the name of one; `None` for another key.
    fn parse(name: &str) -> Option<u8> {
        match name.to_ascii_lowercase().as_str() {
            "ctrl" | "control" | "controlormeta" => Some(CONTROL),
            "shift" => Some(SHIFT),
            "alt" | "option" => Some(ALT),
            "meta" | "cmd" | "command" | "super" | "win" => Some(META),
            _ => None,
        }
    }

    /// Parses a list of names.
    pub(crate) fn parse_all(names: &[String]) -> Result<Modifiers, BrowserError> {
        let mut bits = 0;
        for name in names {
            bits |= Modifiers::parse(name).ok_or_else(|| unknown(name))?;
        }
        Ok(Modifiers(bits))
    }

    /// The number of the protocol.
    pub(crate) fn bits(self) -> u8 {
        self.0
    }
}

fn unknown(name: &str) -> BrowserError {
    BrowserError::UnknownKey(crate::shown_text::shown(name, 40))
}

impl Key {
    /// The key that makes a character.
    pub(crate) fn of_character(character: char) -> Key {
        let (code, number) = match character {
            'a'..='z' | 'A'..='Z' => {
                let upper = character.to_ascii_uppercase();
                (format!("Key{upper}"), u32::from(upper))
            }
            '0'..='9' => (format!("Digit{character}"), u32::from(character)),
            ' ' => ("Space".to_owned(), 32),
            '\n' | '\r' => return Key::named("enter").unwrap_or_else(Key::unidentified),
            '\t' => return Key::named("tab").unwrap_or_else(Key::unidentified),
            _ => (String::new(), 0),
        };
        let text = character.to_string();
        Key { key: text.clone(), code, number, text: Some(text) }
    }

    fn unidentified() -> Key {
        Key { key: "Unidentified".to_owned(), code: String::new(), number: 0, text: None }
    }

    fn named(name: &str) -> Option<Key> {
        let lower = name.to_ascii_lowercase();
        let (_, key, code, number) = NAMED.iter().find(|it| it.0 == lower)?;
        let text = match *key {
            "Enter" => Some("\r".to_owned()),
            "Tab" => None,
            " " => Some(" ".to_owned()),
            _ => None,
        };
        Some(Key { key: (*key).to_owned(), code: (*code).to_owned(), number: *number, text })
    }
}

impl KeyPress {
    /// Parses `Enter`, `a`, `ctrl+shift+Tab`, `ctrl++`.
    pub(crate) fn parse(text: &str) -> Result<KeyPress, BrowserError> {
        let text = text.trim();
        let mut bits = 0;
        let mut rest = text;
        while let Some((name, after)) = rest.split_once('+') {
            match Modifiers::parse(name) {
                Some(bit) if !after.is_empty() => {
                    bits |= bit;
                    rest = after;
                }
                Some(_) | None => break,
            }
        }
        let mut characters = rest.chars();
        let key = match (characters.next(), characters.next()) {
            (Some(one), None) => Key::of_character(one),
            (Some(_), Some(_)) => Key::named(rest).ok_or_else(|| unknown(text))?,
            (None, _) => return Err(unknown(text)),
        };
        // A shortcut types nothing.
        let text = key.text.filter(|_| bits & (CONTROL | META | ALT) == 0);
        Ok(KeyPress { key: Key { text, ..key }, modifiers: Modifiers(bits) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, u8, Option<&str>)>) {
        let parsed = KeyPress::parse(text).ok();
        let found = parsed
            .as_ref()
            .map(|it| (it.key.key.as_str(), it.modifiers.bits(), it.key.text.as_deref()));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn keys_have_the_names_that_people_use() {
        check("Enter", Some(("Enter", 0, Some("\r"))));
        check("ctrl+a", Some(("a", CONTROL, None)));
        check("Control+Shift+Tab", Some(("Tab", CONTROL | SHIFT, None)));
        check("ctrl++", Some(("+", CONTROL, None)));
        check("+", Some(("+", 0, Some("+"))));
        check("ArrowDown", Some(("ArrowDown", 0, None)));
        check("é", Some(("é", 0, Some("é"))));
        check("Hyper+x", None);
        check("NoSuchKey", None);
        check("", None);
    }
}
