//! What commands print: text, tables and JSON, and the functions that print them. Uses the environment for paths and
//! widths, and nothing above it.

pub mod account_text;
pub mod age;
pub mod bundle_text;
pub mod catalogue_table;
pub mod channel_text;
pub mod connection_json;
pub mod connection_text;
pub mod definition_diff;
pub mod diagnosis;
pub mod entry_text;
pub mod ide_text;
pub mod json;
pub mod json_schema;
pub mod login_text;
pub mod policy_text;
pub mod registry_text;
pub mod report;
pub mod rule_table;
pub mod server_json;
pub mod server_text;
pub mod style;
pub mod table;
pub mod tool_details;
pub mod tool_output;
pub mod tool_table;
pub mod unusable_files;
