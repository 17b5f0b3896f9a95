//! Characters that no key makes get a free key each, for a while. The keys are freed again when nothing has been typed
//! for some time: a program that reads the map late must still find them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::ConnectionExt as _;
use x11rb::wrapper::ConnectionExt as _;

use crate::error::{ComputerError, Result};
use crate::x11::display::Display;
use crate::x11::key_map::KeyMap;

/// How long programs get to read a new map.
const SETTLE: Duration = Duration::from_millis(40);
/// How long programs get to translate the keys typed before, when a key gets another character.
const DRAIN: Duration = Duration::from_millis(400);

/// The keys that have a character for a while.
#[derive(Debug, Default)]
pub(crate) struct TemporaryKeys {
    /// The symbol of each key.
    assigned: BTreeMap<u8, u32>,
    last_used: Option<Instant>,
}

impl TemporaryKeys {
    /// How many different characters can be typed at once.
    pub(crate) fn capacity(&self, map: &KeyMap) -> usize {
        map.free().len() + self.own(map).count()
    }

    /// The keys that still have the symbol that we gave them.
    fn own<'k>(&'k self, map: &'k KeyMap) -> impl Iterator<Item = (u8, u32)> + 'k {
        let is_ours = |(code, symbol): &(u8, u32)| map.symbols(*code).first() == Some(symbol);
        self.assigned.iter().map(|(&code, &symbol)| (code, symbol)).filter(is_ours)
    }

    /// Gives each of these symbols a key and returns the map with them.
    pub(crate) fn assign(
        &mut self,
        display: &Display,
        map: KeyMap,
        symbols: &[u32],
    ) -> Result<KeyMap> {
        self.last_used = Some(Instant::now());
        self.assigned = self.own(&map).collect();
        let mut missing: Vec<u32> = Vec::new();
        for symbol in symbols {
            if !self.assigned.values().any(|it| it == symbol) && !missing.contains(symbol) {
                missing.push(*symbol);
            }
        }
        if missing.is_empty() {
            return Ok(map);
        }
        let mut free = map.free();
        if free.len() < missing.len() {
            let unused =
                self.assigned.iter().filter(|(_, it)| !symbols.contains(it)).map(|(code, _)| *code);
            let unused: Vec<u8> = unused.collect();
            std::thread::sleep(DRAIN);
            free.extend(&unused);
            self.assigned.retain(|code, _| !unused.contains(code));
        }
        if free.len() < missing.len() {
            return Err(ComputerError::NoFreeKeys);
        }
        for (code, symbol) in free.into_iter().zip(missing) {
            // Twice, so that Shift and Caps Lock make no difference.
            display.connection.change_keyboard_mapping(1, code, 2, &[symbol, symbol])?;
            self.assigned.insert(code, symbol);
        }
        display.connection.sync()?;
        std::thread::sleep(SETTLE);
        KeyMap::read(display)
    }

    /// Whether keys are assigned that have not been used for this long.
    pub(crate) fn are_idle(&self, time: Duration) -> bool {
        !self.assigned.is_empty() && self.last_used.is_none_or(|it| it.elapsed() >= time)
    }

    /// Frees the keys that still have our symbols.
    pub(crate) fn restore(&mut self, display: &Display) -> Result<()> {
        if self.assigned.is_empty() {
            return Ok(());
        }
        let map = KeyMap::read(display)?;
        let own: Vec<u8> = self.own(&map).map(|(code, _)| code).collect();
        self.assigned.clear();
        for code in own {
            display.connection.change_keyboard_mapping(1, code, 2, &[0, 0])?;
        }
        display.connection.flush()?;
        display.connection.sync()?;
        Ok(())
    }
}
