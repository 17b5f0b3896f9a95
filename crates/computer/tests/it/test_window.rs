//! A window with any class and title, which remembers the input that it gets.

use std::time::Duration;

use testkit::processes::wait_until;
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, ConfigureWindowAux, ConnectionExt as _, CreateWindowAux, EventMask, MapState,
    PropMode, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use crate::screen::Screen;

/// A window of a test.
pub struct TestWindow {
    connection: RustConnection,
    pub window: u32,
}

/// Who places and frames a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// The window manager.
    Managed,
    /// Nobody, as with menus.
    Unmanaged,
}

impl TestWindow {
    /// Shows a window of one colour: `[x, y, width, height]`.
    pub fn show(
        screen: &Screen,
        (class, title): (&str, &str),
        [x, y, width, height]: [i16; 4],
        (frame, colour): (Frame, u32),
    ) -> TestWindow {
        let (connection, _) = RustConnection::connect(Some(&screen.display)).expect("a connection");
        let window = connection.generate_id().expect("an id");
        let options = CreateWindowAux::new()
            .background_pixel(colour)
            .override_redirect(u32::from(frame == Frame::Unmanaged))
            .event_mask(EventMask::BUTTON_PRESS | EventMask::KEY_PRESS);
        let size = (width as u16, height as u16);
        let class_of = WindowClass::INPUT_OUTPUT;
        connection
            .create_window(0, window, screen.root, x, y, size.0, size.1, 0, class_of, 0, &options)
            .expect("a request");
        let class = format!("{class}\0{class}\0");
        let replace = PropMode::REPLACE;
        let text = AtomEnum::STRING;
        connection
            .change_property8(replace, window, AtomEnum::WM_CLASS, text, class.as_bytes())
            .expect("a request");
        let utf8 = screen.atom("UTF8_STRING");
        let name = screen.atom("_NET_WM_NAME");
        connection
            .change_property8(replace, window, name, utf8, title.as_bytes())
            .expect("a request");
        // Position and size were given by the user: the window manager keeps them.
        let hints = [1u32 | 2, x as u32, y as u32, width as u32, height as u32];
        let hints: Vec<u32> = hints.into_iter().chain([0; 13]).collect();
        let kind = AtomEnum::WM_SIZE_HINTS;
        connection
            .change_property32(replace, window, AtomEnum::WM_NORMAL_HINTS, kind, &hints)
            .expect("a request");
        connection.sync().expect("a reply");
        let shown = TestWindow { connection, window };
        wait_until(Duration::from_secs(20), "the window is shown", || {
            // A window manager that is still starting forgets the first request.
            shown.connection.map_window(window).expect("a request");
            shown.connection.flush().expect("a connection");
            let attributes = screen.connection.get_window_attributes(window).expect("a request");
            let state = attributes.reply().expect("a window").map_state;
            (state == MapState::VIEWABLE).then_some(())
        });
        if frame == Frame::Managed {
            screen.wait_for_focus(window);
        }
        shown
    }

    /// Moves the window.
    pub fn move_to(&self, x: i32, y: i32) {
        let place = ConfigureWindowAux::new().x(x).y(y);
        self.connection.configure_window(self.window, &place).expect("a request");
        self.connection.sync().expect("a reply");
    }

    /// The buttons and keys that arrived since the last time, as text: `b1@10,20 k38`.
    pub fn input(&self) -> String {
        self.connection.sync().expect("a reply");
        let mut found = Vec::new();
        while let Some(event) = self.connection.poll_for_event().expect("a connection") {
            if let Event::ButtonPress(it) = &event {
                found.push(format!("b{}@{},{}", it.detail, it.event_x, it.event_y));
            }
            if let Event::KeyPress(it) = &event {
                found.push(format!("k{}", it.detail));
            }
        }
        found.join(" ")
    }
}
