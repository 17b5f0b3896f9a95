//! One reader for each application: which of its keys go where in our entries.

pub(crate) mod claude;
pub(crate) mod codex;
pub(crate) mod cursor;
pub(crate) mod gemini;
pub(crate) mod goose;
pub(crate) mod opencode;
pub(crate) mod vscode;
pub(crate) mod windsurf;
pub(crate) mod zed;
