//! Tests of servers in this process, as a client of either era sees them.

mod demo;
mod kit;
mod test_client;
mod workspace_commands;
mod workspace_files;
mod workspace_fixture;
