//! Everything that is drawn: the conversation, the composer, dialogs, panels and their widgets. Views draw and turn keys
//! into outcomes; doing what an outcome says is left to `effects`.

pub mod composer;
pub mod conversation_picker;
pub mod dialog;
pub mod markdown;
pub mod overlay;
pub mod pager;
pub mod panel;
pub(crate) mod spinner;
pub mod status_line;
#[cfg(test)]
pub mod test_support;
pub mod transcript;
pub mod widget;
