//! Changes to settings files and to the approvals of project servers. Commands and the screen share them.

pub mod enabled;
pub mod file;
pub mod missing_program;
pub mod project_approvals;
pub mod secret_references;
pub mod servers;
