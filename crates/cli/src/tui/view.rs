//! TODO facade

pub(crate) mod composer;
pub(crate) mod conversation_picker;
pub mod dialog;
pub(crate) mod markdown;
pub mod overlay;
pub(crate) mod pager;
pub mod panel;
pub(crate) mod status_line;
#[cfg(test)]
pub mod test_support;
pub(crate) mod transcript;
pub mod widget;
