//! Windows: what is where, which application a window belongs to, and which one has the focus. Titles and class names
//! come from other programs.

use std::fs;

use x11rb::connection::Connection as _;
use x11rb::protocol::res::{ClientIdMask, ClientIdSpec, ConnectionExt as _};
use x11rb::protocol::xproto::{
    AtomEnum, ClientMessageEvent, ConfigureWindowAux, ConnectionExt as _, EventMask, InputFocus,
    MapState, StackMode, Window, WindowClass,
};

use crate::error::Result;
use crate::picture::area::Area;
use crate::x11::display::{Display, existing};

/// The most windows that are looked at, from the front.
const MAX_TOP_LEVELS: usize = 1000;
/// The most application windows that are looked at.
const MAX_CLIENTS: u32 = 256;
/// How many windows of each level below a frame are searched for the application's window.
const MAX_DESCENDANTS: usize = 512;
/// How deep in a frame the application's window is at most.
const MAX_FRAME_DEPTH: usize = 4;
/// How far a window is below the root at most.
const MAX_DEPTH: usize = 64;
/// How much of a text property is read, in units of four bytes.
const MAX_TEXT_UNITS: u32 = 128;

/// A child of the root window: a frame, a menu, a window without a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TopLevel {
    pub(crate) window: Window,
    pub(crate) area: Area,
    /// Whether it has pixels of its own, or only receives input.
    pub(crate) has_pixels: bool,
}

/// The top-level windows that are visible, from back to front.
#[derive(Debug, Clone, Default)]
pub(crate) struct TopLevels {
    pub(crate) windows: Vec<TopLevel>,
    /// Whether there are more behind these.
    pub(crate) is_cut: bool,
}

/// Which program a window belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The application's window, without its frame; for menus the menu itself.
    pub(crate) window: Window,
    /// The name by which the application is granted, in lower case.
    pub(crate) key: String,
    /// The name that is shown.
    pub(crate) label: String,
    /// The process, as the X server knows it.
    pub(crate) pid: Option<u32>,
}

/// A window of an application.
#[derive(Debug, Clone)]
pub(crate) struct ClientWindow {
    pub(crate) owner: Owner,
    pub(crate) title: String,
    pub(crate) area: Area,
    pub(crate) is_visible: bool,
}

/// The key of everything that belongs to no application: background, panels, menus of the window manager.
/// No class can be equal to it, because classes end at the first zero.
pub(crate) const DESKTOP_KEY: &str = "\0desktop";

/// What has the keyboard focus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Focus {
    /// The window that the server names.
    pub(crate) window: Window,
    pub(crate) owner: Owner,
}

impl Display {
    /// The visible top-level windows.
    pub(crate) fn top_levels(&self) -> Result<TopLevels> {
        let children = self.connection.query_tree(self.root)?.reply()?.children;
        let first = children.len().saturating_sub(MAX_TOP_LEVELS);
        let mut cookies = Vec::new();
        for &window in &children[first..] {
            let attributes = self.connection.get_window_attributes(window)?;
            cookies.push((window, attributes, self.connection.get_geometry(window)?));
        }
        let mut windows = Vec::new();
        for (window, attributes, geometry) in cookies {
            let (Some(attributes), Some(geometry)) = (existing(attributes)?, existing(geometry)?)
            else {
                continue;
            };
            let border = 2 * i32::from(geometry.border_width);
            let area = Area::new(
                i32::from(geometry.x),
                i32::from(geometry.y),
                i32::from(geometry.width) + border,
                i32::from(geometry.height) + border,
            );
            if attributes.map_state == MapState::VIEWABLE {
                let has_pixels = attributes.class == WindowClass::INPUT_OUTPUT;
                windows.push(TopLevel { window, area, has_pixels });
            }
        }
        Ok(TopLevels { windows, is_cut: first > 0 })
    }

    /// The front window at a place of the screen.
    pub(crate) fn window_at(&self, (x, y): (i32, i32)) -> Result<Option<Window>> {
        let reply =
            self.connection.translate_coordinates(self.root, self.root, x as i16, y as i16)?;
        Ok(Some(reply.reply()?.child).filter(|&it| it != x11rb::NONE))
    }

    /// Which program a top-level window belongs to; the root belongs to the desktop.
    pub(crate) fn owner(&self, top_level: Option<Window>) -> Result<Owner> {
        let Some(top_level) = top_level.filter(|&it| it != self.root) else {
            return Ok(Owner::desktop(self.root, None));
        };
        let client = self.client_below(top_level)?;
        let window = client.unwrap_or(top_level);
        let pid = self.pid(window)?;
        if pid.is_some() && pid == self.window_manager_pid()? {
            return Ok(Owner::desktop(window, pid));
        }
        let types = self.values(window, self.atoms._NET_WM_WINDOW_TYPE, 8)?;
        let desktop_types =
            [self.atoms._NET_WM_WINDOW_TYPE_DESKTOP, self.atoms._NET_WM_WINDOW_TYPE_DOCK];
        if types.iter().any(|it| desktop_types.contains(it)) {
            return Ok(Owner::desktop(window, pid));
        }
        let class = match self.class(window)? {
            Some(class) => Some(class),
            // Menus of some toolkits have no class: they belong to the application of the same connection.
            None => self.class_of_connection(window)?,
        };
        let label = class.or_else(|| pid.and_then(process_name));
        let label = label.unwrap_or_else(|| "an unnamed program".to_owned());
        Ok(Owner { window, key: label.to_lowercase(), label, pid })
    }

    /// The application's window in a frame, or the window itself.
    fn client_below(&self, top_level: Window) -> Result<Option<Window>> {
        let mut level = vec![top_level];
        for _ in 0..MAX_FRAME_DEPTH {
            // All at once: a frame may have dozens of windows for its borders and buttons.
            let mut states = Vec::new();
            for &window in &level {
                let state = self.atoms.WM_STATE;
                states.push(self.connection.get_property(false, window, state, 0u32, 0, 1)?);
            }
            let mut client = None;
            for (&window, state) in level.iter().zip(states) {
                let has_state = existing(state)?.is_some_and(|it| it.format == 32);
                client = client.or(has_state.then_some(window));
            }
            if client.is_some() {
                return Ok(client);
            }
            let mut trees = Vec::new();
            for &window in &level {
                trees.push(self.connection.query_tree(window)?);
            }
            let mut below = Vec::new();
            for tree in trees {
                below.extend(existing(tree)?.map(|it| it.children).unwrap_or_default());
            }
            below.truncate(MAX_DESCENDANTS);
            level = below;
        }
        Ok(None)
    }

    /// The top-level window that contains a window.
    fn top_level_of(&self, window: Window) -> Result<Option<Window>> {
        let mut window = window;
        for _ in 0..MAX_DEPTH {
            let Some(tree) = existing(self.connection.query_tree(window)?)? else {
                return Ok(None);
            };
            if tree.parent == self.root {
                return Ok(Some(window));
            }
            if tree.parent == x11rb::NONE {
                return Ok(None);
            }
            window = tree.parent;
        }
        Ok(None)
    }

    /// The window with the keyboard focus, and its program; `None` if no window has it.
    pub(crate) fn focus(&self) -> Result<Option<Focus>> {
        let focused = self.connection.get_input_focus()?.reply()?.focus;
        let top_level = match InputFocus::from(focused.min(255) as u8) {
            _ if focused == self.root => None,
            InputFocus::NONE if focused == 0 => None,
            InputFocus::POINTER_ROOT if focused == 1 => {
                let pointer = self.pointer()?;
                self.window_at(pointer)?
            }
            _ => self.top_level_of(focused)?,
        };
        match top_level {
            None => Ok(None),
            Some(top_level) => {
                Ok(Some(Focus { window: focused, owner: self.owner(Some(top_level))? }))
            }
        }
    }

    /// The window that the server says has the focus.
    pub(crate) fn focused_window(&self) -> Result<Window> {
        Ok(self.connection.get_input_focus()?.reply()?.focus)
    }

    /// The place of the pointer.
    pub(crate) fn pointer(&self) -> Result<(i32, i32)> {
        let pointer = self.connection.query_pointer(self.root)?.reply()?;
        Ok((i32::from(pointer.root_x), i32::from(pointer.root_y)))
    }

    /// The windows of applications, in the order in which they were opened.
    pub(crate) fn client_windows(&self) -> Result<Vec<ClientWindow>> {
        let mut windows = self.values(self.root, self.atoms._NET_CLIENT_LIST, MAX_CLIENTS)?;
        if windows.is_empty() {
            windows = self.top_levels()?.windows.iter().map(|it| it.window).collect();
        }
        let mut found = Vec::new();
        for window in windows.into_iter().take(MAX_CLIENTS as usize) {
            found.extend(self.client_window(window)?);
        }
        Ok(found)
    }

    /// A window of an application, if it is there.
    pub(crate) fn client_window(&self, window: Window) -> Result<Option<ClientWindow>> {
        let Some(geometry) = existing(self.connection.get_geometry(window)?)? else {
            return Ok(None);
        };
        let place = self.connection.translate_coordinates(window, self.root, 0, 0)?;
        let attributes = self.connection.get_window_attributes(window)?;
        let (Some(place), Some(attributes)) = (existing(place)?, existing(attributes)?) else {
            return Ok(None);
        };
        let area = Area::new(
            i32::from(place.dst_x),
            i32::from(place.dst_y),
            i32::from(geometry.width),
            i32::from(geometry.height),
        );
        let states = self.values(window, self.atoms._NET_WM_STATE, 16)?;
        let is_visible = attributes.map_state == MapState::VIEWABLE
            && !states.contains(&self.atoms._NET_WM_STATE_HIDDEN);
        let owner = self.owner(Some(window))?;
        Ok(Some(ClientWindow { owner, title: self.title(window)?, area, is_visible }))
    }

    /// Asks the window manager to show a window and to give it the focus; does it itself without one.
    pub(crate) fn activate(&self, window: Window) -> Result<()> {
        let manager = self.values(self.root, self.atoms._NET_SUPPORTING_WM_CHECK, 1)?;
        if manager.is_empty() {
            let front = ConfigureWindowAux::new().stack_mode(StackMode::ABOVE);
            self.connection.configure_window(window, &front)?.check()?;
            let focus = InputFocus::PARENT;
            self.connection.set_input_focus(focus, window, x11rb::CURRENT_TIME)?.check()?;
        } else {
            // Source 2: on behalf of the user, as a pager does.
            let kind = self.atoms._NET_ACTIVE_WINDOW;
            let message = ClientMessageEvent::new(32, window, kind, [2, 0, 0, 0, 0]);
            let mask = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
            self.connection.send_event(false, self.root, mask, message)?.check()?;
        }
        self.connection.flush()?;
        Ok(())
    }

    fn title(&self, window: Window) -> Result<String> {
        for (property, kind) in [
            (self.atoms._NET_WM_NAME, self.atoms.UTF8_STRING),
            (AtomEnum::WM_NAME.into(), AtomEnum::ANY.into()),
        ] {
            let cookie =
                self.connection.get_property(false, window, property, kind, 0, MAX_TEXT_UNITS)?;
            if let Some(reply) = existing(cookie)?.filter(|it| !it.value.is_empty()) {
                return Ok(String::from_utf8_lossy(&reply.value).into_owned());
            }
        }
        Ok(String::new())
    }

    /// The class of a window, or its instance name.
    fn class(&self, window: Window) -> Result<Option<String>> {
        let cookie = self.connection.get_property(
            false,
            window,
            AtomEnum::WM_CLASS,
            AtomEnum::STRING,
            0,
            MAX_TEXT_UNITS,
        )?;
        let Some(reply) = existing(cookie)? else { return Ok(None) };
        let mut parts = reply.value.split(|&it| it == 0);
        let mut part = || {
            let text = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
            Some(text).filter(|it| !it.trim().is_empty())
        };
        let (instance, class) = (part(), part());
        Ok(class.or(instance))
    }

    /// The class of another window of the same connection to the server.
    fn class_of_connection(&self, window: Window) -> Result<Option<String>> {
        let mask = self.connection.setup().resource_id_mask;
        let clients = self.values(self.root, self.atoms._NET_CLIENT_LIST, MAX_CLIENTS)?;
        for client in clients.into_iter().filter(|it| it & !mask == window & !mask) {
            if let Some(class) = self.class(client)? {
                return Ok(Some(class));
            }
        }
        Ok(None)
    }

    /// The process of a window. The server knows it from the connection, so that no program can lie about it.
    pub(crate) fn pid(&self, window: Window) -> Result<Option<u32>> {
        let spec = ClientIdSpec { client: window, mask: ClientIdMask::LOCAL_CLIENT_PID };
        let reply = existing(self.connection.res_query_client_ids(&[spec])?)?;
        let pid = reply.and_then(|it| it.ids.first()?.value.first().copied());
        Ok(pid.filter(|&it| it != 0))
    }

    fn window_manager_pid(&self) -> Result<Option<u32>> {
        let check = self.values(self.root, self.atoms._NET_SUPPORTING_WM_CHECK, 1)?;
        match check.first() {
            Some(&window) => self.pid(window),
            None => Ok(None),
        }
    }
}

impl Owner {
    fn desktop(window: Window, pid: Option<u32>) -> Owner {
        Owner { window, key: DESKTOP_KEY.to_owned(), label: "the desktop".to_owned(), pid }
    }
}

/// The name of a process's program.
fn process_name(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim().to_owned()).filter(|it| !it.is_empty())
}
