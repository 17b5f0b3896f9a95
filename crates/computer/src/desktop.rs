//! A display that is worked on: performs actions after checking, for each, that its target is granted and that the user
//! has not taken over.

mod keyboard;
mod look;
mod pointer;

pub(crate) use look::{Look, Subject};

use std::time::{Duration, Instant};

use x11rb::wrapper::ConnectionExt as _;

use crate::action::Action;
use crate::error::{ComputerError, Result};
use crate::grants::Grants;
use crate::handed_out_pictures::Pictures;
use crate::x11::clipboard::Clipboard;
use crate::x11::display::Display;
use crate::x11::injector::{Injector, InputElement};
use crate::x11::input_watch::InputWatch;
use crate::x11::own_terminal::OwnTerminal;
use crate::x11::temporary_keys::TemporaryKeys;

/// How long the user must have left keyboard and pointer alone.
const QUIET: Duration = Duration::from_millis(1000);
/// How long a window may take to get the focus after a click.
const FOCUS_TIMEOUT: Duration = Duration::from_millis(700);
/// How often a condition is looked at while waiting.
const POLL: Duration = Duration::from_millis(5);
/// After how long without typing the keys for special characters are freed.
const KEYS_IDLE: Duration = Duration::from_secs(2);

/// A display that is worked on.
pub(crate) struct Desktop {
    pub(crate) display: Display,
    watch: InputWatch,
    pub(crate) clipboard: Clipboard,
    temporary_keys: TemporaryKeys,
    pub(crate) pictures: Pictures,
    /// What a call has left down on purpose.
    held: Vec<InputElement>,
    /// How much the user had done when something was left down, and where the pointer was.
    held_since: (u64, (i32, i32)),
    /// The window that a click should have given the focus, and when.
    expected_focus: Option<(u32, Instant)>,
    /// Whether the user took over.
    is_stopped: bool,
    /// How often Escape had been pressed when control was last granted or stopped.
    known_escapes: u64,
    own_terminal: OwnTerminal,
}

/// Whether the caller has given a call up.
pub(crate) type CancelCheck<'a> = &'a dyn Fn() -> bool;

/// One action on a desktop.
pub(crate) struct Performance<'a> {
    pub(crate) desktop: &'a mut Desktop,
    pub(crate) grants: &'a Grants,
    is_cancelled: CancelCheck<'a>,
    /// How much the user had done when the action began.
    user_count: u64,
}

impl Desktop {
    /// Connects to a display.
    pub(crate) fn open(name: &str, own_terminal: OwnTerminal) -> Result<Desktop> {
        Ok(Desktop {
            display: Display::connect(name)?,
            watch: InputWatch::start(name, own_terminal.clone())?,
            clipboard: Clipboard::open(name)?,
            temporary_keys: TemporaryKeys::default(),
            pictures: Pictures::default(),
            held: Vec::new(),
            held_since: (0, (0, 0)),
            expected_focus: None,
            is_stopped: false,
            known_escapes: 0,
            own_terminal,
        })
    }

    /// Allows actions again after the user has granted access.
    pub(crate) fn resume(&mut self) -> Result<()> {
        self.known_escapes = self.watch.user_input(&self.display)?.escapes;
        self.is_stopped = false;
        Ok(())
    }

    /// Whether the user took over.
    pub(crate) fn is_stopped(&mut self) -> Result<bool> {
        let escapes = self.watch.user_input(&self.display)?.escapes;
        if escapes != self.known_escapes {
            self.stop(escapes);
        }
        Ok(self.is_stopped)
    }

    fn stop(&mut self, escapes: u64) {
        self.is_stopped = true;
        self.known_escapes = escapes;
        self.release_held();
    }

    fn release_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return;
        }
        drop(Injector::new(&self.display, &self.watch, held));
        let _server_gone = self.display.connection.sync();
    }

    /// Releases what is held down if the user has used the pointer or the keyboard since.
    pub(crate) fn release_if_used(&mut self) -> Result<()> {
        let user = self.watch.user_input(&self.display)?;
        if !self.held.is_empty() && user.count != self.held_since.0 {
            self.release_held();
        }
        Ok(())
    }

    /// Whether something is held down between actions.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Frees the keys for special characters if they have not been used for a while.
    pub(crate) fn restore_idle_keys(&mut self) -> Result<()> {
        match self.temporary_keys.are_idle(KEYS_IDLE) {
            true => self.temporary_keys.restore(&self.display),
            false => Ok(()),
        }
    }

    /// Whether keys for special characters are assigned.
    pub(crate) fn has_temporary_keys(&self) -> bool {
        self.temporary_keys.are_idle(Duration::ZERO)
    }

    /// Which terminal this program runs in.
    pub(crate) fn own_terminal(&self) -> &OwnTerminal {
        &self.own_terminal
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        self.release_held();
        let _server_gone = self.temporary_keys.restore(&self.display);
    }
}

impl<'a> Performance<'a> {
    /// Performs an action and says what was done.
    pub(crate) fn perform(
        desktop: &'a mut Desktop,
        grants: &'a Grants,
        is_cancelled: CancelCheck<'a>,
        action: &Action,
    ) -> Result<String> {
        let mut performance = Performance { desktop, grants, is_cancelled, user_count: 0 };
        performance.begin(action)?;
        match action {
            Action::Click { place, button, count, modifiers } => {
                performance.click(*place, (*button, *count), modifiers)
            }
            Action::Drag { from, to } => performance.drag(*from, *to),
            Action::ButtonDown => performance.button_down(),
            Action::ButtonUp => performance.button_up(),
            Action::Move { place } => performance.move_pointer(*place),
            Action::Scroll { place, direction, amount } => {
                performance.scroll(*place, *direction, *amount)
            }
            Action::Type { text } => performance.type_text(text),
            Action::Keys { chords, repeat } => performance.press_keys(chords, *repeat),
            Action::HoldKeys { chords, time } => performance.hold_keys(chords, *time),
            Action::Wait { time } => performance.wait(*time),
            Action::FocusWindow { window } => performance.focus_window(*window),
        }
    }

    /// Fails unless the user leaves the desktop to us and has granted something.
    fn begin(&mut self, action: &Action) -> Result<()> {
        self.grants.check_any()?;
        let desktop = &mut *self.desktop;
        desktop.display.drop_events()?;
        let user = desktop.watch.user_input(&desktop.display)?;
        if desktop.is_stopped {
            return Err(ComputerError::StillStopped);
        }
        if user.escapes != desktop.known_escapes {
            desktop.stop(user.escapes);
            return Err(ComputerError::Stopped { done: "nothing was done".to_owned() });
        }
        self.user_count = user.count;
        desktop.release_if_used()?;
        let last_picture = desktop.pictures.last_taken();
        match user.last {
            _ if matches!(action, Action::Wait { .. }) => Ok(()),
            Some(last) if last.elapsed() < QUIET => Err(ComputerError::UserActive),
            Some(last) if last_picture.is_none_or(|it| it < last) => {
                Err(ComputerError::UserActiveSincePicture)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Fails if the user took over or the caller gave the call up. `done` says what was done so far.
    fn check_user(&mut self, done: impl FnOnce() -> String) -> Result<()> {
        let desktop = &mut *self.desktop;
        let user = desktop.watch.user_input(&desktop.display)?;
        if user.count != self.user_count {
            desktop.stop(user.escapes);
            return Err(ComputerError::Stopped { done: done() });
        }
        match (self.is_cancelled)() {
            true => Err(ComputerError::Cancelled { done: done() }),
            false => Ok(()),
        }
    }

    /// Waits for a time, unless the user takes over.
    fn pause(&mut self, time: Duration, done: &str) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
            self.check_user(|| done.to_owned())?;
        }
    }

    fn wait(&mut self, time: Duration) -> Result<String> {
        let end = Instant::now() + time;
        // The user may work meanwhile: only giving the call up ends the wait.
        while Instant::now() < end && !(self.is_cancelled)() {
            let left = end.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
        Ok(format!("waited {:.1} s", time.as_secs_f64()))
    }

    fn focus_window(&mut self, window: u32) -> Result<String> {
        let desktop = &mut *self.desktop;
        let found = desktop.display.client_window(window)?;
        let found = found.ok_or(ComputerError::NoWindow(window))?;
        self.grants.check_target(&found.owner, "window", &desktop.own_terminal)?;
        desktop.display.activate(found.owner.window)?;
        desktop.expected_focus = Some((found.owner.window, Instant::now()));
        match self.await_focus()? {
            true => {
                Ok(format!("{} has the focus", crate::shown_text::quoted(&found.owner.label, 60)))
            }
            false => Err(ComputerError::NotFocused(window, FOCUS_TIMEOUT.as_millis())),
        }
    }

    /// Waits until the window that was clicked or activated has the focus; `false` if it does not get it.
    fn await_focus(&mut self) -> Result<bool> {
        let Some((window, since)) = self.desktop.expected_focus.take() else { return Ok(true) };
        loop {
            let focus = self.desktop.display.focus()?;
            if focus.is_some_and(|it| it.owner.window == window) {
                return Ok(true);
            }
            if since.elapsed() >= FOCUS_TIMEOUT {
                return Ok(false);
            }
            std::thread::sleep(POLL);
        }
    }
}
