//! Notices input that is not ours: a thread reads every key, button and movement from the server and compares it with
//! what we are about to send. Input from another device, or that we did not send, is the user's.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use x11rb::connection::Connection as _;
use x11rb::errors::ConnectionError;
use x11rb::protocol::Event;
use x11rb::protocol::xinput::{ConnectionExt as _, DeviceId, EventMask as InputMask, XIEventMask};
use x11rb::protocol::xproto::{ClientMessageEvent, ConnectionExt as _, EventMask, Window};

use crate::error::Result;
use crate::x11::display::Display;
use crate::x11::key_map::KeyMap;
use crate::x11::key_names::ESCAPE;
use crate::x11::own_terminal::OwnTerminal;

/// XInput's name for all master devices, and for all devices.
const ALL_MASTER_DEVICES: DeviceId = 1;
const ALL_DEVICES: DeviceId = 0;
/// How long the thread may take to read what the server has sent.
const MARK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long input that we sent may take to be seen.
const EXPECTATION: Duration = Duration::from_secs(2);
/// The number in a mark that ends the thread.
const END_MARK: u32 = u32::MAX;

/// What the user did at the keyboard and the pointer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UserInput {
    /// How many keys, buttons and movements.
    pub(crate) count: u64,
    /// How often Escape.
    pub(crate) escapes: u64,
    /// When the last time.
    pub(crate) last: Option<Instant>,
}

/// What we are about to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnInput {
    Key(u8),
    Button(u8),
    Motion,
}

/// Watches the input of a display. Dropping it ends its thread.
pub(crate) struct InputWatch {
    shared: Arc<Shared>,
    window: Window,
    display: Arc<Display>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<WatchState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WatchState {
    /// What was sent and has not been seen yet, and when it was sent.
    expected: Vec<(OwnInput, Instant)>,
    /// Our keys that are down: the server may repeat them.
    held_keys: Vec<u8>,
    user: UserInput,
    last_mark: u32,
    sent_mark: u32,
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchState {
    /// Whether an input of the test device is ours.
    fn take_own(&mut self, input: OwnInput) -> bool {
        if let Some(at) = self.expected.iter().position(|(it, _)| *it == input) {
            self.expected.swap_remove(at);
            return true;
        }
        matches!(input, OwnInput::Key(code) if self.held_keys.contains(&code))
    }
}

impl InputWatch {
    /// Watches the input of a display through a connection of its own.
    pub(crate) fn start(name: &str, own_terminal: OwnTerminal) -> Result<InputWatch> {
        let display = Arc::new(Display::connect(name)?);
        let window = display.message_window()?;
        let devices = display.connection.xinput_xi_query_device(ALL_DEVICES)?.reply()?;
        let is_test = |name: &[u8]| name.windows(5).any(|it| it == b"XTEST");
        let devices = devices.infos.iter().filter(|it| is_test(&it.name));
        let test_devices: Vec<DeviceId> = devices.map(|it| it.deviceid).collect();
        let mask =
            XIEventMask::RAW_KEY_PRESS | XIEventMask::RAW_BUTTON_PRESS | XIEventMask::RAW_MOTION;
        let masks = [InputMask { deviceid: ALL_MASTER_DEVICES, mask: vec![mask] }];
        display.connection.xinput_xi_select_events(display.root, &masks)?.check()?;
        let escape = KeyMap::read(&display)?.find(ESCAPE, 0).map(|it| it.code);
        let shared = Arc::new(Shared::default());
        let reader = Reader {
            display: display.clone(),
            shared: shared.clone(),
            test_devices,
            escape,
            own_terminal,
        };
        let thread = std::thread::Builder::new().name("computer-input".to_owned());
        let thread = thread.spawn(move || reader.run()).map_err(ConnectionError::from)?;
        Ok(InputWatch { shared, window, display, thread: Some(thread) })
    }

    /// Announces input that is about to be sent.
    pub(crate) fn expect(&self, input: OwnInput) {
        let mut seen = self.shared.lock();
        seen.expected.push((input, Instant::now()));
        if let OwnInput::Key(code) = input {
            seen.held_keys.push(code);
        }
    }

    /// Announces that a key is released.
    pub(crate) fn expect_release(&self, code: u8) {
        self.shared.lock().held_keys.retain(|it| *it != code);
    }

    /// What the user did until now, after everything that was sent before through `sender`.
    pub(crate) fn user_input(&self, sender: &Display) -> Result<UserInput> {
        let mark = {
            let mut seen = self.shared.lock();
            seen.sent_mark += 1;
            seen.sent_mark
        };
        send_mark(sender, self.window, mark)?;
        let mut seen = self.shared.lock();
        let start = Instant::now();
        while seen.last_mark < mark {
            let left = MARK_TIMEOUT.saturating_sub(start.elapsed());
            if seen.is_over || left.is_zero() {
                return Err(ConnectionError::UnknownError.into());
            }
            let waited = self.shared.changed.wait_timeout(seen, left);
            seen = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        // Input waits in the server while a window manager decides about a click. What has not come after that long
        // never comes: the pointer was at its place already.
        seen.expected.retain(|(_, sent)| sent.elapsed() < EXPECTATION);
        Ok(seen.user)
    }
}

impl Drop for InputWatch {
    fn drop(&mut self) {
        let _server_gone = send_mark(&self.display, self.window, END_MARK);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn send_mark(sender: &Display, window: Window, number: u32) -> Result<()> {
    let kind = sender.atoms._SWB_MARK;
    let message = ClientMessageEvent::new(32, window, kind, [number, 0, 0, 0, 0]);
    sender.connection.send_event(false, window, EventMask::NO_EVENT, message)?;
    sender.connection.flush()?;
    Ok(())
}

/// The thread that reads the events.
struct Reader {
    display: Arc<Display>,
    shared: Arc<Shared>,
    test_devices: Vec<DeviceId>,
    escape: Option<u8>,
    own_terminal: OwnTerminal,
}

impl Reader {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the events of the server are not our enum")]
    fn run(self) {
        while let Ok(event) = self.display.connection.wait_for_event() {
            match event {
                Event::XinputRawKeyPress(event) => {
                    self.on_input(event.sourceid, OwnInput::Key(event.detail as u8));
                }
                Event::XinputRawButtonPress(event) => {
                    self.on_input(event.sourceid, OwnInput::Button(event.detail as u8));
                }
                Event::XinputRawMotion(event) => self.on_input(event.sourceid, OwnInput::Motion),
                Event::ClientMessage(event) if event.type_ == self.display.atoms._SWB_MARK => {
                    let number = event.data.as_data32()[0];
                    if number == END_MARK {
                        break;
                    }
                    let mut seen = self.shared.lock();
                    seen.last_mark = seen.last_mark.max(number);
                    self.shared.changed.notify_all();
                }
                _ => {}
            }
        }
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
    }

    fn on_input(&self, source: DeviceId, input: OwnInput) {
        let is_own = self.test_devices.contains(&source) && self.shared.lock().take_own(input);
        if is_own {
            return;
        }
        let is_escape = matches!(input, OwnInput::Key(code) if Some(code) == self.escape);
        // What the user types into our own terminal is for us: an answer, the next message.
        let is_for_us = matches!(input, OwnInput::Key(_)) && !is_escape && self.is_own_focus();
        if is_for_us {
            return;
        }
        let mut seen = self.shared.lock();
        seen.user.count += 1;
        seen.user.escapes += u64::from(is_escape);
        seen.user.last = Some(Instant::now());
    }

    fn is_own_focus(&self) -> bool {
        match self.display.focus() {
            Ok(Some(focus)) => self.own_terminal.is_owner(&focus.owner),
            Ok(None) | Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_announced_is_ours() {
        let now = Instant::now();
        let expected = vec![(OwnInput::Key(38), now), (OwnInput::Motion, now)];
        let mut seen = WatchState { expected, ..WatchState::default() };
        assert!(!seen.take_own(OwnInput::Key(39)));
        assert!(seen.take_own(OwnInput::Key(38)));
        assert!(!seen.take_own(OwnInput::Key(38)));
        assert!(seen.take_own(OwnInput::Motion));
        assert!(!seen.take_own(OwnInput::Button(1)));
        seen.held_keys.push(38);
        assert!(seen.take_own(OwnInput::Key(38)));
    }
}
