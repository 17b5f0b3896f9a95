//! The pictures that were handed out. Coordinates of the model belong to one of them, and are valid only while the
//! windows at that place are the same.

use std::collections::VecDeque;
use std::time::Instant;

use crate::error::{ComputerError, Result};
use crate::picture::area::Area;
use crate::x11::windows::TopLevel;

/// How many pictures are remembered.
const MAX_PICTURES: usize = 20;

/// A picture that was handed out.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub(crate) number: u32,
    /// The part of the screen that it shows.
    pub(crate) area: Area,
    /// Its size in pixels.
    pub(crate) size: (u32, u32),
    /// The windows of the screen at that time, from back to front.
    pub(crate) windows: Vec<TopLevel>,
    pub(crate) taken: Instant,
}

/// The pictures that were handed out.
#[derive(Debug, Default)]
pub(crate) struct Pictures {
    pictures: VecDeque<Picture>,
    /// The picture that coordinates belong to when the model names none.
    current: Option<u32>,
    last_number: u32,
}

/// Whether a picture becomes the one that coordinates belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PictureRole {
    Current,
    Detail,
}

impl Pictures {
    /// Remembers a picture and returns its number.
    pub(crate) fn add(
        &mut self,
        (area, size): (Area, (u32, u32)),
        windows: Vec<TopLevel>,
        taken: Instant,
        role: PictureRole,
    ) -> u32 {
        self.last_number += 1;
        let number = self.last_number;
        if self.pictures.len() == MAX_PICTURES {
            // Many details must not make the picture that coordinates belong to unknown.
            let oldest = self.pictures.iter().position(|it| Some(it.number) != self.current);
            oldest.map(|at| self.pictures.remove(at));
        }
        self.pictures.push_back(Picture { number, area, size, windows, taken });
        if role == PictureRole::Current {
            self.current = Some(number);
        }
        number
    }

    /// The picture with this number, or the current one.
    pub(crate) fn find(&self, number: Option<u32>) -> Result<&Picture> {
        let number = number.or(self.current).ok_or(ComputerError::NoPicture)?;
        let found = self.pictures.iter().find(|it| it.number == number);
        found.ok_or(ComputerError::UnknownPicture(number))
    }

    /// When the last picture was taken.
    pub(crate) fn last_taken(&self) -> Option<Instant> {
        self.pictures.back().map(|it| it.taken)
    }
}

impl Picture {
    /// The place on the screen of a pixel of the picture: its middle.
    pub(crate) fn to_screen(&self, (x, y): (i32, i32)) -> Result<(i32, i32)> {
        let (width, height) = self.size;
        let is_inside = (0..width as i32).contains(&x) && (0..height as i32).contains(&y);
        if !is_inside {
            return Err(ComputerError::OutsidePicture {
                x,
                y,
                picture: self.number,
                width,
                height,
            });
        }
        let scale = |at: i32, from: u32, to: i32| {
            let middle = (i64::from(at) * 2 + 1) * i64::from(to) / (i64::from(from) * 2);
            (middle as i32).min(to - 1)
        };
        Ok((
            self.area.x + scale(x, width, self.area.width),
            self.area.y + scale(y, height, self.area.height),
        ))
    }

    /// The pixel of the picture for a place on the screen, if the picture shows it.
    pub(crate) fn on_picture(&self, (x, y): (i32, i32)) -> Option<(i32, i32)> {
        if !self.area.contains((x, y)) {
            return None;
        }
        let scale =
            |at: i32, from: i32, to: u32| (i64::from(at) * i64::from(to) / i64::from(from)) as i32;
        let (width, height) = self.size;
        let (x, y) = (x - self.area.x, y - self.area.y);
        Some((scale(x, self.area.width, width), scale(y, self.area.height, height)))
    }

    /// The area of the screen between two corners of a region of the picture.
    pub(crate) fn region(&self, [left, top, right, bottom]: [i32; 4]) -> Result<Area> {
        let (left, top) = self.to_screen((left, top))?;
        let (right, bottom) = self.to_screen((right - 1, bottom - 1))?;
        match left <= right && top <= bottom {
            true => Ok(Area::new(left, top, right - left + 1, bottom - top + 1)),
            false => Err(ComputerError::Argument {
                name: "region",
                expected: "[left, top, right, bottom]".to_owned(),
            }),
        }
    }

    /// Fails if other windows are at a place of the screen than when the picture was taken. `hit` is the front window
    /// there now: what is behind it does not matter.
    pub(crate) fn check_fresh(
        &self,
        place: (i32, i32),
        now: &[TopLevel],
        hit: Option<u32>,
    ) -> Result<()> {
        let in_front = |windows: &[TopLevel]| {
            let mut at_place: Vec<TopLevel> =
                windows.iter().filter(|it| it.area.contains(place)).copied().collect();
            if let Some(hit) = at_place.iter().position(|it| Some(it.window) == hit) {
                at_place.drain(..hit);
            }
            at_place
        };
        match in_front(&self.windows) == in_front(now) {
            true => Ok(()),
            false => Err(ComputerError::StalePicture(self.number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top_level(window: u32, x: i32, width: i32) -> TopLevel {
        TopLevel { window, area: Area::new(x, 0, width, 100), has_pixels: true }
    }

    fn picture(area: Area, size: (u32, u32), windows: Vec<TopLevel>) -> Picture {
        Picture { number: 3, area, size, windows, taken: Instant::now() }
    }

    #[test]
    fn coordinates_are_scaled_to_the_middle_of_the_pixel() {
        let full = picture(Area::new(0, 0, 1280, 800), (1280, 800), Vec::new());
        assert_eq!(full.to_screen((0, 0)).expect("inside"), (0, 0));
        assert_eq!(full.to_screen((1279, 799)).expect("inside"), (1279, 799));
        let half = picture(Area::new(1920, 100, 2000, 1000), (1000, 500), Vec::new());
        assert_eq!(half.to_screen((0, 0)).expect("inside"), (1921, 101));
        assert_eq!(half.to_screen((999, 499)).expect("inside"), (3919, 1099));
        assert_eq!(half.on_picture((3919, 1099)), Some((999, 499)));
        assert_eq!(half.on_picture((100, 1099)), None);
        let error = half.to_screen((1000, 0)).expect_err("outside");
        assert_eq!(error.to_string(), "(1000, 0) is outside picture 3, which is 1000x500");
    }

    #[track_caller]
    fn check_fresh(now: &[TopLevel], hit: u32, expected: bool) {
        let windows = vec![top_level(1, 0, 100), top_level(2, 50, 100)];
        let picture = picture(Area::new(0, 0, 200, 100), (200, 100), windows);
        assert_eq!(picture.check_fresh((60, 10), now, Some(hit)).is_ok(), expected);
    }

    #[test]
    fn a_place_is_stale_when_its_windows_changed() {
        let (back, front) = (top_level(1, 0, 100), top_level(2, 50, 100));
        check_fresh(&[back, front], 2, true);
        // Windows elsewhere and behind do not matter.
        check_fresh(&[back, front, top_level(3, 150, 20)], 2, true);
        check_fresh(&[front], 2, true);
        // The front window has gone, moved, or another one is in front of it.
        check_fresh(&[back], 1, false);
        check_fresh(&[back, top_level(2, 51, 100)], 2, false);
        check_fresh(&[back, front, top_level(3, 0, 200)], 3, false);
        check_fresh(&[front, back], 1, false);
    }

    #[test]
    fn a_detail_does_not_become_the_picture_of_coordinates() {
        let mut pictures = Pictures::default();
        assert!(matches!(pictures.find(None), Err(ComputerError::NoPicture)));
        let area = Area::new(0, 0, 10, 10);
        let mut add = |role| pictures.add((area, (10, 10)), Vec::new(), Instant::now(), role);
        assert_eq!((add(PictureRole::Current), add(PictureRole::Detail)), (1, 2));
        assert_eq!(pictures.find(None).expect("a picture").number, 1);
        assert_eq!(pictures.find(Some(2)).expect("a picture").number, 2);
        assert!(matches!(pictures.find(Some(9)), Err(ComputerError::UnknownPicture(9))));
        let mut add = |role| pictures.add((area, (10, 10)), Vec::new(), Instant::now(), role);
        for _ in 0..50 {
            add(PictureRole::Detail);
        }
        assert_eq!(pictures.find(None).expect("it is kept").number, 1);
        assert!(matches!(pictures.find(Some(2)), Err(ComputerError::UnknownPicture(2))));
        assert_eq!(pictures.pictures.len(), MAX_PICTURES);
    }
}
