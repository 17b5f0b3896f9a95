//! In-process servers, as clients of both eras see them.

mod demo;
mod kit;
mod test_client;
mod workspace_commands;
mod workspace_files;
mod workspace_fixture;
