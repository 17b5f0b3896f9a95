//! Reads pixels of the screen and the picture of the pointer.

use x11rb::connection::Connection as _;
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat};

use crate::error::{ComputerError, Result};
use crate::picture::area::Area;
use crate::picture::pixels::{Cursor, Pixels};
use crate::x11::display::Display;

/// The largest pointer that is drawn, in pixels per side.
const MAX_CURSOR_SIDE: u16 = 256;

impl Display {
    /// The pixels of an area of the screen.
    pub(crate) fn capture(&self, area: Area) -> Result<Pixels> {
        let (x, y) = (area.x as i16, area.y as i16);
        let (width, height) = (area.width as u16, area.height as u16);
        let format = ImageFormat::Z_PIXMAP;
        let cookie = self.connection.get_image(format, self.root, x, y, width, height, u32::MAX)?;
        let reply = cookie.reply()?;
        let formats = &self.connection.setup().pixmap_formats;
        let bits = formats.iter().find(|it| it.depth == reply.depth).map(|it| it.bits_per_pixel);
        let is_supported = bits == Some(32) && matches!(reply.depth, 24 | 32);
        match is_supported && reply.data.len() >= (area.width * area.height * 4) as usize {
            true => Ok(Pixels::from_bgrx(area, &reply.data)),
            false => Err(ComputerError::PixelFormat(reply.depth)),
        }
    }

    /// The pointer as it is shown now.
    pub(crate) fn cursor(&self) -> Result<Option<Cursor>> {
        let image = self.connection.xfixes_get_cursor_image()?.reply()?;
        let area = Area::new(
            i32::from(image.x) - i32::from(image.xhot),
            i32::from(image.y) - i32::from(image.yhot),
            i32::from(image.width),
            i32::from(image.height),
        );
        let is_usable = image.width.max(image.height) <= MAX_CURSOR_SIDE;
        Ok(is_usable.then_some(Cursor { area, argb: image.cursor_image }))
    }
}
