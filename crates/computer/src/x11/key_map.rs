//! The keyboard map of the server: which key makes which character, and which keys make nothing.

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::ConnectionExt as _;

use crate::error::Result;
use crate::x11::display::Display;

/// The symbol of the Shift key.
pub(crate) const SHIFT: u32 = 0xffe1;

/// The keyboard map: the symbols of each key.
#[derive(Debug, Clone)]
pub(crate) struct KeyMap {
    first: u8,
    width: usize,
    symbols: Vec<u32>,
}

/// A key, and whether Shift is needed with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) code: u8,
    pub(crate) level: Level,
}

/// The level of a symbol on its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Plain,
    Shifted,
}

impl KeyMap {
    /// Reads the map as it is now.
    pub(crate) fn read(display: &Display) -> Result<KeyMap> {
        let setup = display.connection.setup();
        let (first, last) = (setup.min_keycode, setup.max_keycode);
        let reply = display.connection.get_keyboard_mapping(first, last - first + 1)?.reply()?;
        let width = usize::from(reply.keysyms_per_keycode).max(1);
        Ok(KeyMap { first, width, symbols: reply.keysyms })
    }

    /// The symbols of a key.
    pub(crate) fn symbols(&self, code: u8) -> &[u32] {
        let at = usize::from(code.saturating_sub(self.first)) * self.width;
        self.symbols.get(at..at + self.width).unwrap_or_default()
    }

    fn codes(&self) -> impl Iterator<Item = u8> + use<> {
        let (first, count) = (self.first, self.symbols.len() / self.width);
        (0..count).map(move |it| first.saturating_add(it as u8))
    }

    /// The key for a symbol while the keyboard is in `group`.
    pub(crate) fn find(&self, symbol: u32, group: usize) -> Option<Key> {
        // The core protocol shows two groups of two levels. Others are typed with keys of our own.
        let first = match group {
            0 => 0,
            1 => 2,
            2.. => return None,
        };
        for (level, offset) in [(Level::Plain, 0), (Level::Shifted, 1)] {
            let found = self.codes().find(|&code| {
                let symbols = self.symbols(code);
                let has_group = symbols.get(first..first + 2).is_some_and(|it| it != [0, 0]);
                let first = if has_group { first } else { 0 };
                symbols.get(first + offset) == Some(&symbol)
            });
            if let Some(code) = found {
                return Some(Key { code, level });
            }
        }
        None
    }

    /// The keys that make nothing.
    pub(crate) fn free(&self) -> Vec<u8> {
        self.codes().filter(|&code| self.symbols(code).iter().all(|it| *it == 0)).collect()
    }

    /// The Shift key.
    pub(crate) fn shift(&self) -> Option<u8> {
        self.find(SHIFT, 0).map(|it| it.code)
    }
}

/// The symbol of a character.
pub(crate) fn symbol_of(character: char) -> Option<u32> {
    match (character, u32::from(character)) {
        ('\n' | '\r', _) => Some(0xff0d),
        ('\t', _) => Some(0xff09),
        (_, code @ (0x20..=0x7e | 0xa0..=0xff)) => Some(code),
        (_, 0..=0x9f) => None,
        (_, code) => Some(0x0100_0000 + code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> KeyMap {
        // Key 8: a A, Cyrillic in the second group. Key 9: nothing. Key 10: 1 !. Key 11: Shift.
        let symbols =
            vec![0x61, 0x41, 0x6c6, 0x6e6, 0, 0, 0, 0, 0x31, 0x21, 0, 0, SHIFT, 0, SHIFT, 0];
        KeyMap { first: 8, width: 4, symbols }
    }

    #[test]
    fn a_symbol_is_found_in_the_active_group() {
        let key = |code, level| Some(Key { code, level });
        assert_eq!(map().find(0x61, 0), key(8, Level::Plain));
        assert_eq!(map().find(0x41, 0), key(8, Level::Shifted));
        assert_eq!(map().find(0x61, 1), None);
        assert_eq!(map().find(0x6e6, 1), key(8, Level::Shifted));
        assert_eq!(map().find(0x21, 1), key(10, Level::Shifted));
        assert_eq!(map().find(0x61, 2), None);
    }

    #[test]
    fn keys_without_symbols_are_free() {
        assert_eq!(map().free(), [9]);
        assert_eq!(map().shift(), Some(11));
        assert_eq!(map().symbols(200), &[] as &[u32]);
    }

    #[test]
    fn characters_beyond_latin_1_have_unicode_symbols() {
        assert_eq!(symbol_of('é'), Some(0xe9));
        assert_eq!(symbol_of('漢'), Some(0x0100_6f22));
        assert_eq!(symbol_of('🦀'), Some(0x0101_f980));
        assert_eq!(symbol_of('\n'), Some(0xff0d));
        assert_eq!(symbol_of('\u{1b}'), None);
        assert_eq!(symbol_of('\u{7f}'), None);
    }
}
