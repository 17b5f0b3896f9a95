//! The names of keys and combinations: `Return`, `ctrl+s`, `alt+Left`.

use crate::error::{ComputerError, Result};
use crate::x11::key_map::{SHIFT, symbol_of};

pub(crate) const ESCAPE: u32 = 0xff1b;
pub(crate) const CAPS_LOCK: u32 = 0xffe5;
const CONTROL: u32 = 0xffe3;
pub(crate) const ALT: u32 = 0xffe9;
pub(crate) const SUPER: u32 = 0xffeb;
const BACKSPACE: u32 = 0xff08;
const DELETE: u32 = 0xffff;
const PRINT: u32 = 0xff61;
const TAB: u32 = 0xff09;
const SPACE: u32 = 0x20;
const F1: u32 = 0xffbe;

/// The most combinations in one text.
const MAX_CHORDS: usize = 20;

/// A key with modifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chord {
    pub(crate) modifiers: Vec<u32>,
    pub(crate) key: u32,
}

/// What a combination acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The window with the focus.
    Window,
    /// The whole desktop: windows, workspaces, launchers.
    Desktop,
    /// The login session: ends it or leaves it.
    Session,
}

/// Parses combinations separated by spaces.
pub(crate) fn parse_chords(text: &str) -> Result<Vec<Chord>> {
    let chords: Vec<Chord> =
        text.split_whitespace().take(MAX_CHORDS + 1).map(parse_chord).collect::<Result<_>>()?;
    match chords.len() {
        1..=MAX_CHORDS => Ok(chords),
        _ => Err(ComputerError::Argument {
            name: "keys",
            expected: format!("1 to {MAX_CHORDS} keys, such as ctrl+s"),
        }),
    }
}

fn parse_chord(text: &str) -> Result<Chord> {
    let unknown = || ComputerError::UnknownKey(text.chars().take(40).collect());
    // A plus sign as the key: `ctrl++`.
    let (rest, last) = match text.strip_suffix('+') {
        Some("") => ("", "+"),
        Some(rest) => (rest.strip_suffix('+').ok_or_else(unknown)?, "+"),
        None => text.rsplit_once('+').unwrap_or(("", text)),
    };
    let names = rest.split('+').filter(|it| !it.is_empty());
    let modifiers = names.map(|it| modifier(it).ok_or_else(unknown)).collect::<Result<Vec<_>>>()?;
    let key = key_symbol(last).or_else(|| modifier(last)).ok_or_else(unknown)?;
    Ok(Chord { modifiers, key })
}

/// Parses modifiers that are held during a click: `ctrl+shift`.
pub(crate) fn parse_modifiers(text: &str) -> Result<Vec<u32>> {
    let names = text.split('+').map(str::trim).filter(|it| !it.is_empty()).take(8);
    names
        .map(|it| {
            modifier(it).ok_or_else(|| ComputerError::UnknownKey(it.chars().take(40).collect()))
        })
        .collect()
}

fn modifier(name: &str) -> Option<u32> {
    Some(match name.to_lowercase().as_str() {
        "ctrl" | "control" | "control_l" => CONTROL,
        "shift" | "shift_l" => SHIFT,
        "alt" | "option" | "alt_l" => ALT,
        "super" | "cmd" | "command" | "meta" | "win" | "windows" | "super_l" => SUPER,
        _ => return None,
    })
}

fn key_symbol(name: &str) -> Option<u32> {
    let mut characters = name.chars();
    if let (Some(character), None) = (characters.next(), characters.next()) {
        return symbol_of(character);
    }
    let lower = name.to_lowercase();
    if let Some(number) = lower.strip_prefix('f').and_then(|it| it.parse::<u32>().ok()) {
        return (1..=24).contains(&number).then_some(F1 + number - 1);
    }
    Some(match lower.as_str() {
        "return" | "enter" => 0xff0d,
        "kp_enter" => 0xff8d,
        "tab" => TAB,
        "escape" | "esc" => ESCAPE,
        "backspace" => BACKSPACE,
        "delete" | "del" => DELETE,
        "insert" => 0xff63,
        "space" => SPACE,
        "home" => 0xff50,
        "left" | "arrowleft" => 0xff51,
        "up" | "arrowup" => 0xff52,
        "right" | "arrowright" => 0xff53,
        "down" | "arrowdown" => 0xff54,
        "page_up" | "pageup" | "prior" => 0xff55,
        "page_down" | "pagedown" | "next" => 0xff56,
        "end" => 0xff57,
        "menu" => 0xff67,
        "print" | "printscreen" => PRINT,
        "pause" => 0xff13,
        "minus" => u32::from('-'),
        "plus" => u32::from('+'),
        "comma" => u32::from(','),
        "period" => u32::from('.'),
        "slash" => u32::from('/'),
        _ => return None,
    })
}

impl Chord {
    /// What the combination acts on.
    pub(crate) fn reach(&self) -> Reach {
        let has = |symbol: u32| self.modifiers.contains(&symbol) || self.key == symbol;
        let is_function = (F1..F1 + 24).contains(&self.key);
        if has(CONTROL) && has(ALT) {
            return match self.key {
                BACKSPACE | DELETE => Reach::Session,
                _ if is_function => Reach::Session,
                _ => Reach::Desktop,
            };
        }
        let is_window_key = matches!(self.key, TAB | ESCAPE | SPACE) || is_function;
        match has(SUPER) || self.key == PRINT || (has(ALT) && is_window_key) {
            true => Reach::Desktop,
            false => Reach::Window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, modifiers: &[u32], key: u32, reach: Reach) {
        let chords = parse_chords(text).expect("a key");
        assert_eq!(chords, [Chord { modifiers: modifiers.to_vec(), key }]);
        assert_eq!(chords[0].reach(), reach, "{text}");
    }

    #[test]
    fn keys_are_named_as_people_write_them() {
        check("Return", &[], 0xff0d, Reach::Window);
        check("ctrl+s", &[CONTROL], 0x73, Reach::Window);
        check("Ctrl+Shift+T", &[CONTROL, SHIFT], 0x54, Reach::Window);
        check("ctrl++", &[CONTROL], 0x2b, Reach::Window);
        check("+", &[], 0x2b, Reach::Window);
        check("F5", &[], F1 + 4, Reach::Window);
        check("f", &[], 0x66, Reach::Window);
        check("é", &[], 0xe9, Reach::Window);
        check("alt+Left", &[ALT], 0xff51, Reach::Window);
    }

    #[test]
    fn combinations_of_the_desktop_and_the_session_are_known() {
        check("super", &[], SUPER, Reach::Desktop);
        check("cmd+l", &[SUPER], 0x6c, Reach::Desktop);
        check("alt+Tab", &[ALT], TAB, Reach::Desktop);
        check("alt+F4", &[ALT], F1 + 3, Reach::Desktop);
        check("ctrl+alt+t", &[CONTROL, ALT], 0x74, Reach::Desktop);
        check("Print", &[], PRINT, Reach::Desktop);
        check("ctrl+alt+F2", &[CONTROL, ALT], F1 + 1, Reach::Session);
        check("ctrl+alt+BackSpace", &[CONTROL, ALT], BACKSPACE, Reach::Session);
        check("ctrl+alt+Delete", &[CONTROL, ALT], DELETE, Reach::Session);
    }

    #[test]
    fn unknown_keys_are_named() {
        for text in ["NoKey", "ctrl+", "hyper+x", "F25", "\u{1b}"] {
            let error = parse_chords(text).expect_err("unknown").to_string();
            assert!(error.starts_with("there is no key "), "{error}");
        }
        assert!(parse_chords("").is_err());
        assert!(parse_chords(&"a ".repeat(21)).is_err());
        assert_eq!(parse_chords("ctrl+k ctrl+s").expect("two").len(), 2);
    }
}
