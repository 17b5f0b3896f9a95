//! Text for the screen: cleaning, wrapping, ANSI colours, JSON and durations. Knows no widget.

pub mod ansi;
pub mod duration;
pub mod json;
pub mod model_error;
pub mod rich_text;
pub mod wrap;
