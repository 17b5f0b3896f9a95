//! A connection to the X server: its root window, atoms, and the extensions that are needed.

use x11rb::CURRENT_TIME;
use x11rb::connection::Connection as _;
use x11rb::cookie::Cookie;
use x11rb::errors::{ConnectionError, ReplyError};
use x11rb::protocol::res::ConnectionExt as _;
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::{
    ConnectionExt as _, CreateWindowAux, GetPropertyReply, Window, WindowClass,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::protocol::{randr, res, xfixes, xinput, xtest};
use x11rb::rust_connection::RustConnection;
use x11rb::x11_utils::TryParse;

use crate::error::{ComputerError, Result};

x11rb::atom_manager! {
    /// The atoms that are used.
    pub(crate) Atoms:
    AtomCookies {
        _NET_ACTIVE_WINDOW,
        _NET_CLIENT_LIST,
        _NET_CLIENT_LIST_STACKING,
        _NET_SUPPORTING_WM_CHECK,
        _NET_WM_NAME,
        _NET_WM_STATE,
        _NET_WM_STATE_HIDDEN,
        _NET_WM_WINDOW_TYPE,
        _NET_WM_WINDOW_TYPE_DESKTOP,
        _NET_WM_WINDOW_TYPE_DOCK,
        WM_STATE,
        CLIPBOARD,
        INCR,
        TARGETS,
        TIMESTAMP,
        TEXT,
        UTF8_STRING,
        _SWB_CLIPBOARD,
        _SWB_MARK,
    }
}

/// A connection to the X server.
pub(crate) struct Display {
    pub(crate) connection: RustConnection,
    pub(crate) root: Window,
    pub(crate) atoms: Atoms,
}

impl Display {
    /// Connects, and checks that the server has what is needed.
    pub(crate) fn connect(name: &str) -> Result<Display> {
        let connect = RustConnection::connect(Some(name));
        let (connection, screen) = connect
            .map_err(|source| ComputerError::Connect { display: name.to_owned(), source })?;
        let root = connection.setup().roots[screen].root;
        let atoms = Atoms::new(&connection)?.reply()?;
        let display = Display { connection, root, atoms };
        display.check_extensions()?;
        Ok(display)
    }

    fn check_extensions(&self) -> Result<()> {
        let connection = &self.connection;
        let needed = |name: &'static str| move |_| ComputerError::MissingExtension(name);
        let test = connection.xtest_get_version(2, 2).map_err(needed(xtest::X11_EXTENSION_NAME))?;
        let input = xinput::xi_query_version(connection, 2, 2);
        let input = input.map_err(needed(xinput::X11_EXTENSION_NAME))?;
        let monitors = randr::query_version(connection, 1, 5);
        let monitors = monitors.map_err(needed(randr::X11_EXTENSION_NAME))?;
        let cursor = connection.xfixes_query_version(4, 0);
        let cursor = cursor.map_err(needed(xfixes::X11_EXTENSION_NAME))?;
        let resources = connection.res_query_version(1, 2);
        let resources = resources.map_err(needed(res::X11_EXTENSION_NAME))?;
        test.reply()?;
        input.reply()?;
        monitors.reply()?;
        cursor.reply()?;
        resources.reply()?;
        Ok(())
    }

    /// A window that is never shown, to receive messages.
    pub(crate) fn message_window(&self) -> Result<Window> {
        let window = self.connection.generate_id()?;
        let class = WindowClass::INPUT_ONLY;
        let options = CreateWindowAux::new().override_redirect(1);
        self.connection
            .create_window(0, window, self.root, -1, -1, 1, 1, 0, class, CURRENT_TIME, &options)?
            .check()?;
        Ok(window)
    }

    /// Makes the server serve only this connection until the guard is dropped.
    pub(crate) fn grab_server(&self) -> Result<ServerGrab<'_>> {
        self.connection.grab_server()?;
        Ok(ServerGrab(&self.connection))
    }

    /// Reads and drops what the server sent without being asked: changes of the keyboard map, late errors.
    pub(crate) fn drop_events(&self) -> Result<()> {
        while self.connection.poll_for_event()?.is_some() {}
        Ok(())
    }

    /// A property of 32-bit values, at most `max` of them; empty if there is none.
    pub(crate) fn values(&self, window: Window, property: u32, max: u32) -> Result<Vec<u32>> {
        let cookie = self.connection.get_property(false, window, property, 0u32, 0, max)?;
        let reply: Option<GetPropertyReply> = existing(cookie)?;
        Ok(reply.and_then(|it| it.value32().map(Iterator::collect)).unwrap_or_default())
    }
}

/// The reply to a request about a window that may have vanished: `None` if it has.
pub(crate) fn existing<R: TryParse>(
    cookie: Cookie<'_, RustConnection, R>,
) -> std::result::Result<Option<R>, ConnectionError> {
    match cookie.reply() {
        Ok(reply) => Ok(Some(reply)),
        Err(ReplyError::X11Error(_)) => Ok(None),
        Err(ReplyError::ConnectionError(error)) => Err(error),
    }
}

/// While it lives, the server serves no other connection.
pub(crate) struct ServerGrab<'c>(&'c RustConnection);

impl Drop for ServerGrab<'_> {
    fn drop(&mut self) {
        let _server_gone = self.0.ungrab_server();
        // Until it is sent, every other program hangs.
        let _server_gone = self.0.flush();
    }
}
