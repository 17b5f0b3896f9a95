//! The monitors of the screen, as rectangles of root pixels.

use x11rb::protocol::randr::ConnectionExt as _;
use x11rb::protocol::xproto::ConnectionExt as _;

use crate::error::Result;
use crate::picture::area::Area;
use crate::shown_text::shown;
use crate::x11::display::{Display, existing};

/// The maximum number of monitors that are looked at.
const MAX_MONITORS: usize = 16;

/// A monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Monitor {
    pub(crate) name: String,
    pub(crate) area: Area,
    pub(crate) is_primary: bool,
}

impl Display {
    /// The monitors; the whole screen is one if the server names none.
    pub(crate) fn monitors(&self) -> Result<Vec<Monitor>> {
        let screen = self.screen_area()?;
        let reply = self.connection.randr_get_monitors(self.root, true)?.reply()?;
        let mut monitors = Vec::new();
        for monitor in reply.monitors.iter().take(MAX_MONITORS) {
            let name = existing(self.connection.get_atom_name(monitor.name)?)?;
            let name = name.map(|it| String::from_utf8_lossy(&it.name).into_owned());
            let area = Area::new(
                i32::from(monitor.x),
                i32::from(monitor.y),
                i32::from(monitor.width),
                i32::from(monitor.height),
            );
            if let Some(area) = area.intersection(&screen) {
                let name = shown(&name.unwrap_or_default(), 40);
                monitors.push(Monitor { name, area, is_primary: monitor.primary });
            }
        }
        if monitors.is_empty() {
            monitors.push(Monitor { name: "screen".to_owned(), area: screen, is_primary: true });
        }
        Ok(monitors)
    }

    /// The whole screen.
    pub(crate) fn screen_area(&self) -> Result<Area> {
        let root = self.connection.get_geometry(self.root)?.reply()?;
        Ok(Area::new(0, 0, i32::from(root.width), i32::from(root.height)))
    }
}
