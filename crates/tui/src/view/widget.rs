//! Building blocks of overlays: frame, scrolling, buttons, a text field. What each dialog or panel asks is its own matter.

pub mod button_row;
pub mod frame;
pub mod input;
pub mod scroll;
pub mod scroll_area;
pub mod text_field;
