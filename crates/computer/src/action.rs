//! The actions: what the model can do at the screen. Tools and batches make them; `desktop` performs them.

use std::time::Duration;

use crate::x11::key_names::Chord;

/// A place in a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: (i32, i32),
    /// The number of the picture; the current one if there is none.
    pub(crate) picture: Option<u32>,
}

/// A button of the pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Button {
    Left,
    Middle,
    Right,
}

impl Button {
    /// Its number.
    pub(crate) fn number(self) -> u8 {
        match self {
            Button::Left => 1,
            Button::Middle => 2,
            Button::Right => 3,
        }
    }
}

/// Where to scroll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
    Left,
    Right,
}

impl Direction {
    /// The number of the button that a wheel presses.
    pub(crate) fn button(self) -> u8 {
        match self {
            Direction::Up => 4,
            Direction::Down => 5,
            Direction::Left => 6,
            Direction::Right => 7,
        }
    }
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Click { place: Place, button: Button, count: u8, modifiers: Vec<u32> },
    Drag { from: Place, to: Place },
    ButtonDown,
    ButtonUp,
    Move { place: Place },
    Scroll { place: Place, direction: Direction, amount: u8 },
    Type { text: String },
    Keys { chords: Vec<Chord>, repeat: u8 },
    HoldKeys { chords: Vec<Chord>, time: Duration },
    Wait { time: Duration },
    FocusWindow { window: u32 },
}
