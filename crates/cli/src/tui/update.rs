//! TODO facade

pub(crate) mod conversation_events;
pub(crate) mod keys;
pub(crate) mod prompt_arguments;
pub(crate) mod restore;
#[cfg(test)]
mod tests;
