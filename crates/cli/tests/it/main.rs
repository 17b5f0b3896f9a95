//! Tests of the real program, one file a command.

mod add;
mod add_json;
mod approve;
mod completions;
mod config;
mod disable;
mod docs;
mod edits;
mod enable;
mod get;
mod hostile;
mod import;
mod list;
mod man;
mod overview;
mod paths;
mod policy;
mod reject;
mod remove;
mod reset_project_choices;
mod secrets;
mod support;
