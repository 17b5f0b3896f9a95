//! A rectangle of the screen, in root pixels.

/// A rectangle of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) width: i32,
    pub(crate) height: i32,
}

impl Area {
    pub(crate) fn new(x: i32, y: i32, width: i32, height: i32) -> Area {
        Area { x, y, width, height }
    }

    pub(crate) fn contains(&self, (x, y): (i32, i32)) -> bool {
        (self.x..self.x + self.width).contains(&x) && (self.y..self.y + self.height).contains(&y)
    }

    /// The part that both have, if any.
    pub(crate) fn intersection(&self, other: &Area) -> Option<Area> {
        let (left, top) = (self.x.max(other.x), self.y.max(other.y));
        let right = (self.x + self.width).min(other.x + other.width);
        let bottom = (self.y + self.height).min(other.y + other.height);
        (left < right && top < bottom).then(|| Area::new(left, top, right - left, bottom - top))
    }
}
