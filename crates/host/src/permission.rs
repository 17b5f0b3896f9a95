//! Permission rules at run time: the active rules, edits of settings files, simulation on past calls, and pinned tool
//! definitions. `switchboard_config::permission` decides what a rule means.

pub mod active_rules;
pub mod settings_file;
pub mod simulate;
pub mod tool_pins;
