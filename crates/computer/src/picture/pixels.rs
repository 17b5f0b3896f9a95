//! RGB pixels of a part of the screen: what is hidden, the pointer, and scaling.

use fast_image_resize::images::Image;
use fast_image_resize::{PixelType, Resizer};

use crate::error::Result;
use crate::picture::area::Area;

/// The colour of windows that the user has not granted.
const HIDDEN: [u8; 3] = [96, 96, 96];
/// The longest side of a picture, and the most pixels: larger ones are scaled down by model services, which would
/// change the coordinates.
const MAX_SIDE: f64 = 1568.0;
const MAX_PIXELS: f64 = 1_150_000.0;

/// RGB pixels of a part of the screen.
#[derive(Debug, Clone)]
pub(crate) struct Pixels {
    pub(crate) area: Area,
    pub(crate) rgb: Vec<u8>,
}

/// A window in front of those before it, and whether its pixels are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) area: Area,
    pub(crate) visibility: Visibility,
}

/// Whether pixels are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    Shown,
    Hidden,
}

/// The pixels of a pointer: colours with an opacity, premultiplied.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) area: Area,
    pub(crate) argb: Vec<u32>,
}

impl Pixels {
    /// From the server's pixels: blue, green, red, and one byte that is not used.
    pub(crate) fn from_bgrx(area: Area, bytes: &[u8]) -> Pixels {
        let count = (area.width * area.height) as usize;
        let mut rgb = vec![0; count * 3];
        for (to, from) in rgb.chunks_exact_mut(3).zip(bytes.chunks_exact(4)) {
            to[0] = from[2];
            to[1] = from[1];
            to[2] = from[0];
        }
        Pixels { area, rgb }
    }

    /// Hides the pixels of hidden layers, except where a shown layer is in front. `background` is what is behind all.
    pub(crate) fn hide(&mut self, background: Visibility, layers: &[Layer]) {
        let is_hidden = |it: &Layer| it.visibility == Visibility::Hidden;
        if background == Visibility::Shown && !layers.iter().any(is_hidden) {
            return;
        }
        let original = self.rgb.clone();
        if background == Visibility::Hidden {
            self.fill(&self.area.clone(), None);
        }
        for layer in layers {
            match layer.visibility {
                Visibility::Hidden => self.fill(&layer.area, None),
                Visibility::Shown => self.fill(&layer.area, Some(&original)),
            }
        }
    }

    /// Fills an area of the screen with the pixels of `from`, or hides it.
    fn fill(&mut self, area: &Area, from: Option<&[u8]>) {
        let Some(part) = area.intersection(&self.area) else { return };
        let stride = self.area.width as usize * 3;
        let left = (part.x - self.area.x) as usize * 3;
        let width = part.width as usize * 3;
        for row in 0..part.height {
            let start = (part.y - self.area.y + row) as usize * stride + left;
            let to = &mut self.rgb[start..start + width];
            match from {
                Some(from) => to.copy_from_slice(&from[start..start + width]),
                None => to.chunks_exact_mut(3).for_each(|it| it.copy_from_slice(&HIDDEN)),
            }
        }
    }

    /// Draws the pointer.
    pub(crate) fn draw(&mut self, cursor: &Cursor) {
        for (number, argb) in cursor.argb.iter().enumerate() {
            let column = number as i32 % cursor.area.width.max(1);
            let row = number as i32 / cursor.area.width.max(1);
            let place = (cursor.area.x + column, cursor.area.y + row);
            if !self.area.contains(place) {
                continue;
            }
            let at = ((place.1 - self.area.y) * self.area.width + place.0 - self.area.x) as usize;
            let opacity = argb >> 24;
            for (channel, shift) in [16, 8, 0].into_iter().enumerate() {
                let below = u32::from(self.rgb[at * 3 + channel]) * (255 - opacity) / 255;
                let value = (argb >> shift & 0xff) + below;
                self.rgb[at * 3 + channel] = value.min(255) as u8;
            }
        }
    }

    /// The size in which a picture of this area is handed out.
    pub(crate) fn fitting_size(area: &Area) -> (u32, u32) {
        let (width, height) = (f64::from(area.width), f64::from(area.height));
        let by_side = MAX_SIDE / width.max(height);
        let by_pixels = (MAX_PIXELS / (width * height)).sqrt();
        let factor = by_side.min(by_pixels).min(1.0);
        let scaled = |length: f64| ((length * factor).round() as u32).max(1);
        (scaled(width), scaled(height))
    }

    /// The RGB bytes in another size.
    pub(crate) fn scaled(self, (width, height): (u32, u32)) -> Result<Vec<u8>> {
        let own = (self.area.width as u32, self.area.height as u32);
        if own == (width, height) {
            return Ok(self.rgb);
        }
        // The buffer always has the size of the area.
        let Ok(from) = Image::from_vec_u8(own.0, own.1, self.rgb, PixelType::U8x3) else {
            return Ok(Vec::new());
        };
        let mut to = Image::new(width, height, PixelType::U8x3);
        Resizer::new().resize(&from, &mut to, None)?;
        Ok(to.into_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four_by_one() -> Pixels {
        let bytes: Vec<u8> = (1..=4).flat_map(|it| [it, 0, 0, 9]).collect();
        Pixels::from_bgrx(Area::new(10, 0, 4, 1), &bytes)
    }

    /// The blue of each pixel; `?` where it is hidden.
    #[track_caller]
    fn check(background: Visibility, layers: &[(i32, i32, Visibility)], expected: &str) {
        let layers: Vec<Layer> = layers
            .iter()
            .map(|&(x, width, visibility)| Layer { area: Area::new(x, 0, width, 9), visibility })
            .collect();
        let mut pixels = four_by_one();
        pixels.hide(background, &layers);
        let show = |it: &[u8]| if it == HIDDEN { "?".to_owned() } else { it[2].to_string() };
        let shown: String = pixels.rgb.chunks(3).map(show).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_hidden_window_is_covered_except_behind_a_shown_one() {
        use Visibility::{Hidden, Shown};
        check(Shown, &[], "1234");
        check(Shown, &[(11, 2, Hidden)], "1??4");
        check(Shown, &[(0, 99, Hidden), (12, 1, Shown)], "??3?");
        check(Shown, &[(12, 1, Shown), (0, 13, Hidden)], "???4");
        check(Hidden, &[(13, 1, Shown)], "???4");
    }

    #[test]
    fn a_pointer_is_blended_and_may_cross_the_edge() {
        let mut pixels = four_by_one();
        let argb = vec![0xffff_ffff, 0x0000_0000, 0xffff_ffff];
        pixels.draw(&Cursor { area: Area::new(9, 0, 3, 1), argb });
        assert_eq!(pixels.rgb[..6], [0, 0, 1, 255, 255, 255]);
    }

    #[test]
    fn large_pictures_are_scaled_to_what_models_see() {
        let size = |width, height| Pixels::fitting_size(&Area::new(0, 0, width, height));
        assert_eq!(size(1280, 800), (1280, 800));
        assert_eq!(size(1920, 1080), (1430, 804));
        assert_eq!(size(7680, 100), (1568, 20));
        assert_eq!(size(1, 1), (1, 1));
    }
}
