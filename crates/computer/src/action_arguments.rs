//! The arguments of the tools that act, and how they become actions. A batch reads the same ones.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::action::{Action, Button, Direction, Place};
use crate::error::{ComputerError, Result};
use crate::x11::key_names;

/// The longest text of one call, in characters.
const MAX_TEXT: usize = 4000;
/// The longest pause, in seconds.
const MAX_SECONDS: f64 = 60.0;

/// The tools that act and that a batch may contain.
pub(crate) const ACTION_TOOLS: [&str; 16] = [
    "double_click",
    "focus_window",
    "hold_key",
    "key",
    "left_click",
    "left_click_drag",
    "left_mouse_down",
    "left_mouse_up",
    "middle_click",
    "mouse_move",
    "right_click",
    "scroll",
    "triple_click",
    "type",
    "wait",
    "screenshot",
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClickArguments {
    /// [x, y] in the picture.
    coordinate: [i32; 2],
    /// Keys to hold, such as ctrl+shift.
    modifiers: Option<String>,
    /// The number of the picture; the last screenshot by default.
    picture: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveArguments {
    /// [x, y] in the picture.
    coordinate: [i32; 2],
    picture: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DragArguments {
    /// [x, y] where the button goes down.
    start_coordinate: [i32; 2],
    /// [x, y] where it is released.
    coordinate: [i32; 2],
    picture: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScrollArguments {
    /// [x, y] in the picture.
    coordinate: [i32; 2],
    direction: ScrollDirection,
    /// Clicks of the wheel; 3 by default.
    #[schemars(range(min = 1, max = 100))]
    amount: Option<u32>,
    picture: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ScrollDirection {
    Up,
    Down,
    Left,
    Right,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypeArguments {
    /// Any Unicode text; a line end presses Return.
    #[schemars(length(min = 1, max = MAX_TEXT))]
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyArguments {
    /// Such as Return, ctrl+s or shift+Tab; several with spaces between them.
    keys: String,
    #[schemars(range(min = 1, max = 100))]
    repeat: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HoldKeyArguments {
    /// Such as Down or shift+Right.
    keys: String,
    #[schemars(range(min = 0, max = 60))]
    seconds: f64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitArguments {
    #[schemars(range(min = 0, max = 60))]
    seconds: f64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowArguments {
    /// The id from list_windows.
    window: u32,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoArguments {}

/// Makes an action from the arguments of a tool.
pub(crate) trait IntoAction {
    /// `tool` is the name of the tool, where several share a type.
    fn into_action(self, tool: &str) -> Result<Action>;
}

impl IntoAction for ClickArguments {
    fn into_action(self, tool: &str) -> Result<Action> {
        let (button, count) = match tool {
            "right_click" => (Button::Right, 1),
            "middle_click" => (Button::Middle, 1),
            "double_click" => (Button::Left, 2),
            "triple_click" => (Button::Left, 3),
            _ => (Button::Left, 1),
        };
        let modifiers = key_names::parse_modifiers(self.modifiers.as_deref().unwrap_or_default())?;
        let place = place(self.coordinate, self.picture);
        Ok(Action::Click { place, button, count, modifiers })
    }
}

impl IntoAction for MoveArguments {
    fn into_action(self, _: &str) -> Result<Action> {
        Ok(Action::Move { place: place(self.coordinate, self.picture) })
    }
}

impl IntoAction for DragArguments {
    fn into_action(self, _: &str) -> Result<Action> {
        let from = place(self.start_coordinate, self.picture);
        Ok(Action::Drag { from, to: place(self.coordinate, self.picture) })
    }
}

impl IntoAction for ScrollArguments {
    fn into_action(self, _: &str) -> Result<Action> {
        let direction = match self.direction {
            ScrollDirection::Up => Direction::Up,
            ScrollDirection::Down => Direction::Down,
            ScrollDirection::Left => Direction::Left,
            ScrollDirection::Right => Direction::Right,
        };
        let amount = count("amount", self.amount.unwrap_or(3))?;
        Ok(Action::Scroll { place: place(self.coordinate, self.picture), direction, amount })
    }
}

impl IntoAction for TypeArguments {
    fn into_action(self, _: &str) -> Result<Action> {
        match self.text.chars().count() {
            1..=MAX_TEXT => Ok(Action::Type { text: self.text }),
            _ => Err(ComputerError::Argument {
                name: "text",
                expected: format!(
                    "1 to {MAX_TEXT} characters; paste longer texts with write_clipboard and ctrl+v"
                ),
            }),
        }
    }
}

impl IntoAction for KeyArguments {
    fn into_action(self, _: &str) -> Result<Action> {
        let repeat = count("repeat", self.repeat.unwrap_or(1))?;
        Ok(Action::Keys { chords: key_names::parse_chords(&self.keys)?, repeat })
    }
}

impl IntoAction for HoldKeyArguments {
    fn into_action(self, _: &str) -> Result<Action> {
        let time = seconds(self.seconds)?;
        Ok(Action::HoldKeys { chords: key_names::parse_chords(&self.keys)?, time })
    }
}

impl IntoAction for WaitArguments {
    fn into_action(self, _: &str) -> Result<Action> {
        Ok(Action::Wait { time: seconds(self.seconds)? })
    }
}

impl IntoAction for WindowArguments {
    fn into_action(self, _: &str) -> Result<Action> {
        Ok(Action::FocusWindow { window: self.window })
    }
}

impl IntoAction for NoArguments {
    fn into_action(self, tool: &str) -> Result<Action> {
        Ok(match tool {
            "left_mouse_up" => Action::ButtonUp,
            _ => Action::ButtonDown,
        })
    }
}

/// Reads one action of a batch.
pub(crate) fn read_action(tool: &str, arguments: Json) -> std::result::Result<Action, String> {
    match tool {
        "left_click" | "right_click" | "middle_click" | "double_click" | "triple_click" => {
            read::<ClickArguments>(tool, arguments)
        }
        "mouse_move" => read::<MoveArguments>(tool, arguments),
        "left_click_drag" => read::<DragArguments>(tool, arguments),
        "left_mouse_down" | "left_mouse_up" => read::<NoArguments>(tool, arguments),
        "scroll" => read::<ScrollArguments>(tool, arguments),
        "type" => read::<TypeArguments>(tool, arguments),
        "key" => read::<KeyArguments>(tool, arguments),
        "hold_key" => read::<HoldKeyArguments>(tool, arguments),
        "wait" => read::<WaitArguments>(tool, arguments),
        "focus_window" => read::<WindowArguments>(tool, arguments),
        _ => Err(format!("a batch may contain {}", ACTION_TOOLS.join(", "))),
    }
}

fn read<A: DeserializeOwned + IntoAction>(
    tool: &str,
    arguments: Json,
) -> std::result::Result<Action, String> {
    let arguments = serde_json::from_value::<A>(arguments).map_err(|it| it.to_string())?;
    arguments.into_action(tool).map_err(|it| it.to_string())
}

fn place([x, y]: [i32; 2], picture: Option<u32>) -> Place {
    Place { at: (x, y), picture }
}

fn count(name: &'static str, number: u32) -> Result<u8> {
    let count = u8::try_from(number).ok().filter(|it| (1..=100).contains(it));
    count.ok_or_else(|| ComputerError::Argument { name, expected: "from 1 to 100".to_owned() })
}

fn seconds(seconds: f64) -> Result<Duration> {
    match (0.0..=MAX_SECONDS).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(ComputerError::Argument {
            name: "seconds",
            expected: format!("from 0 to {MAX_SECONDS}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn actions_are_read_by_the_name_of_their_tool() {
        let read = |tool: &str, arguments: Json| read_action(tool, arguments).expect("an action");
        let place = |x, y| Place { at: (x, y), picture: None };
        assert_eq!(
            read("triple_click", json!({"coordinate": [1, 2]})),
            Action::Click {
                place: place(1, 2),
                button: Button::Left,
                count: 3,
                modifiers: Vec::new()
            }
        );
        assert_eq!(
            read("left_click_drag", json!({"start_coordinate": [1, 2], "coordinate": [3, 4]})),
            Action::Drag { from: place(1, 2), to: place(3, 4) }
        );
        assert_eq!(read("left_mouse_up", json!({})), Action::ButtonUp);
        assert_eq!(
            read("scroll", json!({"coordinate": [1, 2], "direction": "left"})),
            Action::Scroll { place: place(1, 2), direction: Direction::Left, amount: 3 }
        );
    }

    #[track_caller]
    fn check_error(tool: &str, arguments: Json, expected: &str) {
        let error = read_action(tool, arguments).expect_err("an error");
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn wrong_arguments_are_named() {
        check_error("open_application", json!({"name": "x"}), "a batch may contain double_click");
        check_error("left_click", json!({"coordinate": [1]}), "invalid length 1");
        check_error("left_click", json!({"coordinate": [1, 2], "button": 3}), "unknown field");
        check_error("wait", json!({"seconds": 61}), "seconds has to be from 0 to 60");
        check_error("wait", json!({"seconds": -1}), "seconds has to be from 0 to 60");
        check_error("key", json!({"keys": "a", "repeat": 101}), "repeat has to be from 1 to 100");
        check_error("type", json!({"text": ""}), "text has to be 1 to 4000 characters");
        check_error("left_click", json!({"coordinate": [1, 2], "modifiers": "hyper"}), "no key");
    }
}
