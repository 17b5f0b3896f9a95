//! Reads configuration from disk and writes it back: paths, files, secrets, child environments, project approvals.
//! What the configuration means is decided by `switchboard_config`.

pub mod atomic_file;
pub mod child_env;
pub mod loader;
pub mod paths;
pub mod project_approvals;
pub mod secrets;
pub(crate) mod shell_command;
pub mod text_file;
pub mod watcher;
