//! Pictures of the screen: what the user has not granted is hidden in them.

use std::time::Instant;

use crate::desktop::Desktop;
use crate::error::{ComputerError, Result};
use crate::grants::Grants;
use crate::handed_out_pictures::PictureRole;
use crate::picture::area::Area;
use crate::picture::encode::{EncodedPicture, encode};
use crate::picture::pixels::{Layer, Pixels, Visibility};
use crate::shown_text::shown;
use crate::x11::windows::{DESKTOP_KEY, Owner, TopLevels};

/// What a picture is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A monitor, counted from 1.
    Monitor(usize),
    /// The primary monitor.
    PrimaryMonitor,
    /// All monitors.
    Screen,
    /// A window, as far as it is on the screen.
    Window(u32),
    /// A region of a picture: left, top, right, bottom.
    Region { picture: Option<u32>, corners: [i32; 4] },
}

/// A picture to hand out.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) number: u32,
    pub(crate) encoded: EncodedPicture,
    pub(crate) size: (u32, u32),
    pub(crate) area: Area,
    /// The applications whose windows are hidden in it.
    pub(crate) hidden: Vec<String>,
}

impl Desktop {
    /// Takes a picture.
    pub(crate) fn look(&mut self, grants: &Grants, subject: Subject) -> Result<Look> {
        grants.check_any()?;
        let area = self.subject_area(grants, subject)?;
        let taken = Instant::now();
        let (top_levels, mut pixels) = {
            // A window that appeared between the two would be shown, whether it is granted or not.
            let _others_wait = self.display.grab_server()?;
            (self.display.top_levels()?, self.display.capture(area)?)
        };
        let hidden = self.hide_ungranted(grants, &top_levels, &mut pixels)?;
        if let Some(cursor) = self.display.cursor()? {
            pixels.draw(&cursor);
        }
        let size = Pixels::fitting_size(&area);
        let encoded = encode(&pixels.scaled(size)?, size)?;
        let role = match subject {
            Subject::Region { .. } => PictureRole::Detail,
            Subject::Monitor(_)
            | Subject::PrimaryMonitor
            | Subject::Screen
            | Subject::Window(_) => PictureRole::Current,
        };
        let number = self.pictures.add((area, size), top_levels.windows, taken, role);
        Ok(Look { number, encoded, size, area, hidden })
    }

    fn subject_area(&self, grants: &Grants, subject: Subject) -> Result<Area> {
        match subject {
            Subject::Screen => self.display.screen_area(),
            Subject::PrimaryMonitor => {
                let monitors = self.display.monitors()?;
                let primary = monitors.iter().find(|it| it.is_primary).or(monitors.first());
                primary.map(|it| it.area).ok_or(ComputerError::NoMonitor(1, 0))
            }
            Subject::Monitor(number) => {
                let monitors = self.display.monitors()?;
                let monitor = number.checked_sub(1).and_then(|it| monitors.get(it));
                monitor.map(|it| it.area).ok_or(ComputerError::NoMonitor(number, monitors.len()))
            }
            Subject::Window(window) => {
                let found = self.display.client_window(window)?;
                let found = found.ok_or(ComputerError::NoWindow(window))?;
                grants.check_target(&found.owner, "window", &self.own_terminal)?;
                let area = found.area.intersection(&self.display.screen_area()?);
                area.filter(|_| found.is_visible).ok_or(ComputerError::HiddenWindow(window))
            }
            Subject::Region { picture, corners } => self.pictures.find(picture)?.region(corners),
        }
    }

    /// Hides the windows that are not granted and returns the names of their applications.
    fn hide_ungranted(
        &self,
        grants: &Grants,
        top_levels: &TopLevels,
        pixels: &mut Pixels,
    ) -> Result<Vec<String>> {
        let mut layers = Vec::new();
        let mut hidden: Vec<String> = Vec::new();
        for top_level in top_levels.windows.iter().filter(|it| it.has_pixels) {
            if top_level.area.intersection(&pixels.area).is_none() {
                continue;
            }
            let owner = self.display.owner(Some(top_level.window))?;
            let visibility = match self.shows(grants, &owner) {
                true => Visibility::Shown,
                false => {
                    let label = shown(&owner.label, 40);
                    if owner.key != DESKTOP_KEY && !hidden.contains(&label) {
                        hidden.push(label);
                    }
                    Visibility::Hidden
                }
            };
            layers.push(Layer { area: top_level.area, visibility });
        }
        // The background is everyone's, unless it stands for windows that were not looked at.
        let background = if top_levels.is_cut { Visibility::Hidden } else { Visibility::Shown };
        pixels.hide(background, &layers);
        Ok(hidden)
    }

    /// Whether pixels of this program are shown. The window manager's own windows have no content of others.
    fn shows(&self, grants: &Grants, owner: &Owner) -> bool {
        grants.shows(owner, &self.own_terminal)
    }
}
