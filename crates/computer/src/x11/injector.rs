//! Sends keys, buttons and movements. What is down when it is dropped is released.

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, KEY_PRESS_EVENT, KEY_RELEASE_EVENT,
    MOTION_NOTIFY_EVENT,
};
use x11rb::protocol::xtest::ConnectionExt as _;

use crate::error::Result;
use crate::x11::display::Display;
use crate::x11::input_watch::{InputWatch, OwnInput};

/// A key or a button that is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputElement {
    Key(u8),
    Button(u8),
}

/// Sends input and remembers what is down.
pub(crate) struct Injector<'d> {
    display: &'d Display,
    watch: &'d InputWatch,
    pressed: Vec<InputElement>,
}

impl<'d> Injector<'d> {
    /// Nothing is down yet, except `pressed`.
    pub(crate) fn new(
        display: &'d Display,
        watch: &'d InputWatch,
        pressed: Vec<InputElement>,
    ) -> Injector<'d> {
        Injector { display, watch, pressed }
    }

    pub(crate) fn press(&mut self, what: InputElement) -> Result<()> {
        self.pressed.push(what);
        match what {
            InputElement::Key(code) => {
                self.watch.expect(OwnInput::Key(code));
                self.send(KEY_PRESS_EVENT, code, (0, 0))
            }
            InputElement::Button(number) => {
                self.watch.expect(OwnInput::Button(number));
                self.send(BUTTON_PRESS_EVENT, number, (0, 0))
            }
        }
    }

    pub(crate) fn release(&mut self, what: InputElement) -> Result<()> {
        self.pressed.retain(|it| *it != what);
        match what {
            InputElement::Key(code) => {
                self.watch.expect_release(code);
                self.send(KEY_RELEASE_EVENT, code, (0, 0))
            }
            InputElement::Button(number) => self.send(BUTTON_RELEASE_EVENT, number, (0, 0)),
        }
    }

    pub(crate) fn tap(&mut self, what: InputElement) -> Result<()> {
        self.press(what)?;
        self.release(what)
    }

    pub(crate) fn move_to(&mut self, place: (i32, i32)) -> Result<()> {
        self.watch.expect(OwnInput::Motion);
        self.send(MOTION_NOTIFY_EVENT, 0, place)
    }

    /// Leaves what is down as it is, and returns it.
    pub(crate) fn keep(mut self) -> Vec<InputElement> {
        std::mem::take(&mut self.pressed)
    }

    fn send(&self, kind: u8, detail: u8, (x, y): (i32, i32)) -> Result<()> {
        let root = if kind == MOTION_NOTIFY_EVENT { self.display.root } else { x11rb::NONE };
        let connection = &self.display.connection;
        connection.xtest_fake_input(kind, detail, 0, root, x as i16, y as i16, 0)?;
        connection.flush()?;
        Ok(())
    }
}

impl Drop for Injector<'_> {
    fn drop(&mut self) {
        // In the opposite order: modifiers last.
        for what in std::mem::take(&mut self.pressed).into_iter().rev() {
            let _server_gone = self.release(what);
        }
    }
}
