//! Permission for tool calls: the rules in force, the files they are written to, the definitions that were approved,
//! the prompt that asks the user, and the permits. How rules are read and decided is left to the `config` crate.

pub mod active_rules;
pub mod permit;
pub mod prompt;
pub mod settings_file;
pub mod simulate;
pub mod tool_pins;
