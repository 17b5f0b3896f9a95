//! TODO facade

pub mod active_rules;
pub mod settings_file;
pub mod simulate;
pub mod tool_pins;
