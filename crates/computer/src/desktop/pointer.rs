//! Clicks, movements, drags and the wheel. A click is checked and sent while the server serves no other program, so
//! that nothing can come between.

use std::time::{Duration, Instant};

use x11rb::wrapper::ConnectionExt as _;

use crate::action::{Button, Direction, Place};
use crate::desktop::{Desktop, Performance};
use crate::error::{ComputerError, Result};
use crate::grants::{Ability, Grants};
use crate::handed_out_pictures::Picture;
use crate::shown_text::quoted;
use crate::x11::injector::{Injector, InputElement};
use crate::x11::key_map::KeyMap;
use crate::x11::key_names::{ALT, SUPER};
use crate::x11::windows::Owner;

/// A drag moves in steps, so that programs notice it.
const DRAG_STEPS: i32 = 12;
const DRAG_STEP_TIME: Duration = Duration::from_millis(8);

impl Desktop {
    /// The program at a place of the screen, if input may go to it.
    fn checked_target(
        &self,
        grants: &Grants,
        place: (i32, i32),
        picture: Option<&Picture>,
    ) -> Result<Owner> {
        let hit = self.display.window_at(place)?;
        if let Some(picture) = picture {
            picture.check_fresh(place, &self.display.top_levels()?.windows, hit)?;
        }
        let owner = self.display.owner(hit)?;
        grants.check_target(&owner, "window at this place", &self.own_terminal)?;
        Ok(owner)
    }

    /// Releases the left button where the pointer is, if that is granted; otherwise where it was pressed.
    fn release_at_pointer(&mut self, grants: &Grants) -> Result<()> {
        let left = InputElement::Button(1);
        let target = {
            let _others_wait = self.display.grab_server()?;
            let place = self.display.pointer()?;
            let target = self.checked_target(grants, place, None);
            let mut injector = Injector::new(&self.display, &self.watch, Vec::new());
            if target.is_err() {
                injector.move_to(self.held_since.1)?;
            }
            injector.release(left)?;
            target
        };
        self.held.retain(|it| *it != left);
        target.map(drop)
    }

    /// The place on the screen, and the picture it was taken from.
    fn resolve(&self, place: Place) -> Result<((i32, i32), Picture)> {
        let picture = self.pictures.find(place.picture)?;
        Ok((picture.to_screen(place.at)?, picture.clone()))
    }
}

impl Performance<'_> {
    pub(super) fn click(
        &mut self,
        place: Place,
        (button, count): (Button, u8),
        modifiers: &[u32],
    ) -> Result<String> {
        self.check_click_reach(modifiers)?;
        let desktop = &mut *self.desktop;
        let (at, picture) = desktop.resolve(place)?;
        let codes = modifier_codes(desktop, modifiers)?;
        let owner = {
            let display = &desktop.display;
            let _others_wait = display.grab_server()?;
            let owner = desktop.checked_target(self.grants, at, Some(&picture))?;
            let mut injector = Injector::new(display, &desktop.watch, Vec::new());
            injector.move_to(at)?;
            for &code in &codes {
                injector.press(InputElement::Key(code))?;
            }
            for _ in 0..count {
                injector.tap(InputElement::Button(button.number()))?;
            }
            owner
        };
        desktop.display.connection.sync()?;
        if button == Button::Left {
            desktop.expected_focus = Some((owner.window, Instant::now()));
        }
        self.check_user(|| "the click was sent".to_owned())?;
        let (x, y) = place.at;
        Ok(format!("clicked ({x}, {y}) in {}", quoted(&owner.label, 60)))
    }

    pub(super) fn move_pointer(&mut self, place: Place) -> Result<String> {
        let desktop = &mut *self.desktop;
        let (at, picture) = desktop.resolve(place)?;
        let owner = {
            let _others_wait = desktop.display.grab_server()?;
            let owner = desktop.checked_target(self.grants, at, Some(&picture))?;
            Injector::new(&desktop.display, &desktop.watch, Vec::new()).move_to(at)?;
            owner
        };
        self.check_user(|| "the pointer was moved".to_owned())?;
        let (x, y) = place.at;
        Ok(format!("moved to ({x}, {y}) in {}", quoted(&owner.label, 60)))
    }

    pub(super) fn scroll(
        &mut self,
        place: Place,
        direction: Direction,
        amount: u8,
    ) -> Result<String> {
        let (at, picture) = self.desktop.resolve(place)?;
        for number in 0..amount {
            let desktop = &mut *self.desktop;
            let is_first = number == 0;
            {
                let _others_wait = desktop.display.grab_server()?;
                let picture = Some(&picture).filter(|_| is_first);
                desktop.checked_target(self.grants, at, picture)?;
                let mut injector = Injector::new(&desktop.display, &desktop.watch, Vec::new());
                if is_first {
                    injector.move_to(at)?;
                }
                injector.tap(InputElement::Button(direction.button()))?;
            }
            self.check_user(|| format!("{} of {amount} steps were scrolled", number + 1))?;
        }
        Ok(format!("scrolled {amount}"))
    }

    pub(super) fn drag(&mut self, from: Place, to: Place) -> Result<String> {
        let (start, picture) = self.desktop.resolve(from)?;
        let (end, end_picture) = self.desktop.resolve(to)?;
        let desktop = &mut *self.desktop;
        desktop.checked_target(self.grants, end, Some(&end_picture))?;
        {
            let _others_wait = desktop.display.grab_server()?;
            desktop.checked_target(self.grants, start, Some(&picture))?;
            let mut injector = Injector::new(&desktop.display, &desktop.watch, Vec::new());
            injector.move_to(start)?;
            injector.press(InputElement::Button(1))?;
            desktop.held.extend(injector.keep());
        }
        let dragged = self.drag_along(start, end).and_then(|()| self.drop_at(start, end));
        // Also after a failure: the button must not stay down.
        self.desktop.release_held();
        dragged?;
        self.check_user(|| "the drag was done".to_owned())?;
        let ((x, y), (to_x, to_y)) = (from.at, to.at);
        Ok(format!("dragged from ({x}, {y}) to ({to_x}, {to_y})"))
    }

    fn drag_along(&mut self, start: (i32, i32), end: (i32, i32)) -> Result<()> {
        for step in 1..=DRAG_STEPS {
            let between = |from: i32, to: i32| from + (to - from) * step / DRAG_STEPS;
            let place = (between(start.0, end.0), between(start.1, end.1));
            let desktop = &*self.desktop;
            Injector::new(&desktop.display, &desktop.watch, Vec::new()).move_to(place)?;
            self.pause(DRAG_STEP_TIME, "the drag was given up on the way")?;
        }
        Ok(())
    }

    /// Releases the button at the end of a drag, if what is there now is granted; otherwise where the drag began.
    fn drop_at(&mut self, start: (i32, i32), end: (i32, i32)) -> Result<()> {
        let others_wait = self.desktop.display.grab_server()?;
        let target = self.desktop.checked_target(self.grants, end, None);
        let desktop = &*self.desktop;
        let mut injector = Injector::new(&desktop.display, &desktop.watch, Vec::new());
        if target.is_err() {
            injector.move_to(start)?;
        }
        let left = InputElement::Button(1);
        injector.release(left)?;
        drop(injector);
        drop(others_wait);
        self.desktop.held.retain(|it| *it != left);
        target.map(drop)
    }

    pub(super) fn button_down(&mut self) -> Result<String> {
        let desktop = &mut *self.desktop;
        let left = InputElement::Button(1);
        if desktop.held.contains(&left) {
            return Err(ComputerError::Argument {
                name: "the left button",
                expected: "up; call left_mouse_up first".to_owned(),
            });
        }
        let user_count = self.user_count;
        let owner = {
            let _others_wait = desktop.display.grab_server()?;
            let place = desktop.display.pointer()?;
            let owner = desktop.checked_target(self.grants, place, None)?;
            desktop.held_since = (user_count, place);
            let mut injector = Injector::new(&desktop.display, &desktop.watch, Vec::new());
            injector.press(left)?;
            desktop.held.extend(injector.keep());
            owner
        };
        self.check_user(|| "the button went down and was released again".to_owned())?;
        Ok(format!("the left button is down in {}", quoted(&owner.label, 60)))
    }

    pub(super) fn button_up(&mut self) -> Result<String> {
        let desktop = &mut *self.desktop;
        if desktop.held.is_empty() {
            return Err(ComputerError::Argument {
                name: "the left button",
                expected: "down; call left_mouse_down first".to_owned(),
            });
        }
        let target = desktop.release_at_pointer(self.grants);
        desktop.release_held();
        target?;
        self.check_user(|| "the button was released".to_owned())?;
        Ok("the left button is up".to_owned())
    }

    /// Fails if window managers act on a click with these modifiers and that is not granted.
    fn check_click_reach(&self, modifiers: &[u32]) -> Result<()> {
        let acts_on_desktop = modifiers.iter().any(|it| [ALT, SUPER].contains(it));
        match acts_on_desktop && !self.grants.has_ability(Ability::SystemKeys) {
            true => Err(ComputerError::SystemKeys { keys: "a click with alt or super".to_owned() }),
            false => Ok(()),
        }
    }
}

/// The keys of modifiers.
pub(super) fn modifier_codes(desktop: &Desktop, modifiers: &[u32]) -> Result<Vec<u8>> {
    if modifiers.is_empty() {
        return Ok(Vec::new());
    }
    let map = KeyMap::read(&desktop.display)?;
    let code = |symbol: &u32| map.find(*symbol, 0).map(|it| it.code);
    let codes = modifiers.iter().map(code).collect::<Option<Vec<u8>>>();
    codes.ok_or_else(|| ComputerError::UnknownKey("modifier".to_owned()))
}
