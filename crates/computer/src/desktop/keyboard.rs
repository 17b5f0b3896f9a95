//! Typing and keys. The window with the focus is checked before each key, while the server serves no other program.

use std::time::{Duration, Instant};

use x11rb::CURRENT_TIME;
use x11rb::protocol::xproto::{ConnectionExt as _, GrabMode, GrabStatus, KeyButMask};
use x11rb::wrapper::ConnectionExt as _;

use crate::desktop::pointer::modifier_codes;
use crate::desktop::{Desktop, Performance};
use crate::error::{ComputerError, Result};
use crate::grants::{Ability, Grants};
use crate::shown_text::quoted;
use crate::x11::injector::{Injector, InputElement};
use crate::x11::key_map::{Key, KeyMap, Level, symbol_of};
use crate::x11::key_names::{CAPS_LOCK, Chord, Reach};
use crate::x11::windows::Focus;

/// How the keyboard is now.
#[derive(Debug, Clone, Copy)]
struct KeyboardState {
    group: usize,
    caps_lock: CapsLock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CapsLock {
    Off,
    On,
}

impl Desktop {
    /// How the keyboard is; fails if the user holds something down.
    fn keyboard_state(&self) -> Result<KeyboardState> {
        let mask = self.display.connection.query_pointer(self.display.root)?.reply()?.mask;
        let modifiers = KeyButMask::SHIFT
            | KeyButMask::CONTROL
            | KeyButMask::MOD1
            | KeyButMask::MOD4
            | KeyButMask::BUTTON1
            | KeyButMask::BUTTON2
            | KeyButMask::BUTTON3;
        let bits = u32::from(mask);
        if bits & u32::from(modifiers) != 0 && self.held.is_empty() {
            return Err(ComputerError::ModifierHeld);
        }
        let is_locked = bits & u32::from(KeyButMask::LOCK) != 0;
        let caps_lock = if is_locked { CapsLock::On } else { CapsLock::Off };
        Ok(KeyboardState { group: (bits >> 13 & 3) as usize, caps_lock })
    }

    /// The window with the focus, if keys may go to it.
    fn checked_focus(&self, grants: &Grants) -> Result<Focus> {
        let focus = self.display.focus()?.ok_or(ComputerError::NoFocus)?;
        grants.check_target(&focus.owner, "window with the focus", &self.own_terminal)?;
        Ok(focus)
    }

    /// Fails if another program has grabbed the keyboard: it, and not the window with the focus, would get the keys.
    fn check_not_grabbed(&self) -> Result<()> {
        let connection = &self.display.connection;
        let mode = GrabMode::ASYNC;
        let grab = connection
            .grab_keyboard(false, self.display.root, CURRENT_TIME, mode, mode)?
            .reply()?;
        match grab.status {
            GrabStatus::SUCCESS => {
                connection.ungrab_keyboard(CURRENT_TIME)?;
                connection.sync()?;
                Ok(())
            }
            _ => Err(ComputerError::KeyboardGrabbed),
        }
    }

    /// Presses a key with what it needs, if the focus is still where it was.
    fn tap_in_focus(
        &self,
        grants: &Grants,
        focus: &Focus,
        (codes, key): (&[u8], u8),
    ) -> Result<FocusCheck> {
        let _others_wait = self.display.grab_server()?;
        if self.display.focused_window()? != focus.window {
            let now = self.checked_focus(grants)?;
            if now.owner.window != focus.owner.window {
                return Ok(FocusCheck::No);
            }
        }
        let mut injector = Injector::new(&self.display, &self.watch, Vec::new());
        for &code in codes {
            injector.press(InputElement::Key(code))?;
        }
        injector.tap(InputElement::Key(key))?;
        Ok(FocusCheck::Yes)
    }

    /// Switches Caps Lock.
    fn tap_caps_lock(&self) -> Result<()> {
        if let Some(key) = KeyMap::read(&self.display)?.find(CAPS_LOCK, 0) {
            let mut injector = Injector::new(&self.display, &self.watch, Vec::new());
            injector.tap(InputElement::Key(key.code))?;
        }
        Ok(())
    }
}

/// Whether the focus is still where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FocusCheck {
    Yes,
    No,
}

impl Performance<'_> {
    pub(super) fn type_text(&mut self, text: &str) -> Result<String> {
        let symbol = |it: char| symbol_of(it).ok_or(ComputerError::Untypable(it));
        let text = text.replace("\r\n", "\n");
        let symbols: Vec<u32> = text.chars().map(symbol).collect::<Result<_>>()?;
        self.await_focus()?;
        let focus = self.desktop.checked_focus(self.grants)?;
        self.desktop.check_not_grabbed()?;
        let state = self.desktop.keyboard_state()?;
        if state.caps_lock == CapsLock::On {
            self.desktop.tap_caps_lock()?;
        }
        let typed = self.type_in_parts(&symbols, state.group, &focus);
        // Also after a failure.
        if state.caps_lock == CapsLock::On {
            self.desktop.tap_caps_lock()?;
            self.desktop.watch.user_input(&self.desktop.display)?;
        }
        typed?;
        let count = symbols.len();
        Ok(format!("typed {count} characters in {}", quoted(&focus.owner.label, 60)))
    }

    /// Types symbols, as many at once as there are keys for those that need a key of our own.
    fn type_in_parts(&mut self, symbols: &[u32], group: usize, focus: &Focus) -> Result<()> {
        let mut map = KeyMap::read(&self.desktop.display)?;
        let mut typed = 0;
        while typed < symbols.len() {
            let capacity = self.desktop.temporary_keys.capacity(&map);
            let (length, special) = next_chunk(&symbols[typed..], &map, group, capacity);
            if length == 0 {
                return Err(ComputerError::NoFreeKeys);
            }
            let desktop = &mut *self.desktop;
            map = desktop.temporary_keys.assign(&desktop.display, map, &special)?;
            let chunk = &symbols[typed..typed + length];
            self.type_symbols(chunk, &map, (group, focus), (typed, symbols.len()))?;
            typed += length;
        }
        Ok(())
    }

    fn type_symbols(
        &mut self,
        symbols: &[u32],
        map: &KeyMap,
        (group, focus): (usize, &Focus),
        (before, total): (usize, usize),
    ) -> Result<()> {
        let shift = map.shift();
        for (number, symbol) in symbols.iter().enumerate() {
            let typed = before + number;
            let key = find_key(map, *symbol, group).ok_or(ComputerError::NoFreeKeys)?;
            let codes: Vec<u8> = match key.level {
                Level::Plain => Vec::new(),
                Level::Shifted => shift.into_iter().collect(),
            };
            match self.desktop.tap_in_focus(self.grants, focus, (&codes, key.code))? {
                FocusCheck::Yes => {}
                FocusCheck::No => return Err(ComputerError::FocusMoved { typed, total }),
            }
            self.check_user(|| format!("{} of {total} characters were typed", typed + 1))?;
        }
        Ok(())
    }

    pub(super) fn press_keys(&mut self, chords: &[Chord], repeat: u8) -> Result<String> {
        self.check_reach(chords)?;
        let focus = self.key_focus(chords)?;
        let mut pressed = 0;
        for _ in 0..repeat {
            for chord in chords {
                let (codes, key) = self.resolve_chord(chord)?;
                // A key may open another window, and the next one is meant for it.
                let others_wait = self.desktop.display.grab_server()?;
                self.key_focus_now(chords)?;
                let desktop = &*self.desktop;
                let mut injector = Injector::new(&desktop.display, &desktop.watch, Vec::new());
                for code in codes {
                    injector.press(InputElement::Key(code))?;
                }
                injector.tap(InputElement::Key(key))?;
                drop(injector);
                drop(others_wait);
                pressed += 1;
                self.check_user(|| format!("{pressed} keys were pressed"))?;
            }
        }
        let place = focus.map(|it| quoted(&it.owner.label, 60));
        Ok(format!("pressed {pressed} in {}", place.as_deref().unwrap_or("the desktop")))
    }

    pub(super) fn hold_keys(&mut self, chords: &[Chord], time: Duration) -> Result<String> {
        self.check_reach(chords)?;
        self.key_focus(chords)?;
        let [chord] = chords else {
            return Err(ComputerError::Argument {
                name: "keys",
                expected: "one key or combination".to_owned(),
            });
        };
        let (codes, key) = self.resolve_chord(chord)?;
        let focus = {
            let others_wait = self.desktop.display.grab_server()?;
            let focus = self.key_focus_now(chords)?;
            let desktop = &*self.desktop;
            let mut injector = Injector::new(&desktop.display, &desktop.watch, Vec::new());
            for code in codes.into_iter().chain([key]) {
                injector.press(InputElement::Key(code))?;
            }
            let pressed = injector.keep();
            drop(others_wait);
            self.desktop.held.extend(pressed);
            focus
        };
        let held = self.hold(time, focus.as_ref());
        self.desktop.release_held();
        held?;
        self.check_user(|| "the key was held".to_owned())?;
        Ok(format!("held for {:.1} s", time.as_secs_f64()))
    }

    /// Waits while the focus stays where it is.
    fn hold(&mut self, time: Duration, focus: Option<&Focus>) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            self.pause(left.min(Duration::from_millis(20)), "the key was released again")?;
            if let Some(focus) = focus {
                let now = self.desktop.display.focus()?;
                if now.is_none_or(|it| it.owner.window != focus.owner.window) {
                    return Err(ComputerError::FocusMoved { typed: 0, total: 1 });
                }
            }
        }
        Ok(())
    }

    /// Fails if a combination acts beyond the window and that is not granted.
    fn check_reach(&self, chords: &[Chord]) -> Result<()> {
        for chord in chords {
            let keys = || "this key combination".to_owned();
            match chord.reach() {
                Reach::Window => {}
                Reach::Desktop if self.grants.has_ability(Ability::SystemKeys) => {}
                Reach::Desktop => return Err(ComputerError::SystemKeys { keys: keys() }),
                Reach::Session => return Err(ComputerError::SessionKeys { keys: keys() }),
            }
        }
        Ok(())
    }

    /// The window that keys will go to, once it has the focus.
    fn key_focus(&mut self, chords: &[Chord]) -> Result<Option<Focus>> {
        self.await_focus()?;
        self.desktop.check_not_grabbed()?;
        self.desktop.keyboard_state()?;
        self.key_focus_now(chords)
    }

    /// The window that keys go to. Keys that act on the desktop need none.
    fn key_focus_now(&self, chords: &[Chord]) -> Result<Option<Focus>> {
        let is_for_desktop = chords.iter().all(|it| it.reach() == Reach::Desktop);
        match self.desktop.checked_focus(self.grants) {
            Ok(focus) => Ok(Some(focus)),
            Err(ComputerError::NoFocus) if is_for_desktop => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The keys of a combination: those to hold, and the last one.
    fn resolve_chord(&mut self, chord: &Chord) -> Result<(Vec<u8>, u8)> {
        let desktop = &mut *self.desktop;
        let group = desktop.keyboard_state()?.group;
        let mut map = KeyMap::read(&desktop.display)?;
        if find_key(&map, chord.key, group).is_none() {
            let symbols = [chord.key];
            map = desktop.temporary_keys.assign(&desktop.display, map, &symbols)?;
        }
        let key = find_key(&map, chord.key, group).ok_or(ComputerError::NoFreeKeys)?;
        let mut codes = modifier_codes(desktop, &chord.modifiers)?;
        if let (Level::Shifted, Some(shift)) = (key.level, map.shift())
            && !codes.contains(&shift)
        {
            codes.push(shift);
        }
        Ok((codes, key.code))
    }
}

/// The key for a symbol, in the active group or where the group makes no difference.
fn find_key(map: &KeyMap, symbol: u32, group: usize) -> Option<Key> {
    let is_same_everywhere = (0xfe00..0x0100_0000).contains(&symbol);
    match is_same_everywhere {
        true => map.find(symbol, 0),
        false => map.find(symbol, group).or_else(|| {
            // A key of our own has the same symbol in every group.
            let key = map.find(symbol, 0)?;
            let symbols = map.symbols(key.code);
            let is_own = symbols.first() == Some(&symbol) && symbols.get(1) == Some(&symbol);
            is_own.then_some(key)
        }),
    }
}

/// How many symbols can be typed with `capacity` keys of our own, and which of them need one.
fn next_chunk(symbols: &[u32], map: &KeyMap, group: usize, capacity: usize) -> (usize, Vec<u32>) {
    let mut special: Vec<u32> = Vec::new();
    for (number, symbol) in symbols.iter().enumerate() {
        let has_own_key = find_key(map, *symbol, group).is_some() && !is_temporary(map, *symbol);
        if has_own_key || special.contains(symbol) {
            continue;
        }
        if special.len() == capacity {
            return (number, special);
        }
        special.push(*symbol);
    }
    (symbols.len(), special)
}

/// Whether a symbol has a key only because we gave it one.
fn is_temporary(map: &KeyMap, symbol: u32) -> bool {
    map.find(symbol, 0).is_some_and(|key| {
        let symbols = map.symbols(key.code);
        symbols.get(1) == Some(&symbol) && symbols.first() == Some(&symbol)
    })
}
