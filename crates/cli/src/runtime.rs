//! What one run of a command starts: the host, its servers, the model, the gateway, and the control socket between runs.
//! Output is laid out by `output`; prompts are shown by `prompt`.

pub mod audit_export;
pub mod browser;
pub mod call_context;
pub mod channels;
pub mod computer;
pub mod connectors;
pub mod control;
pub mod editor_sessions;
pub mod gateway;
pub mod host;
pub mod ide;
pub mod in_process;
pub mod interrupts;
pub mod language_model;
pub mod login;
pub mod network;
pub mod readiness;
pub mod server_log;
pub mod servers;
pub mod service_manager;
pub mod session_plugins;
pub mod shared_host;
pub mod sharing;
pub mod shutdown_deadline;
pub mod stdio;
pub mod subprocess;
pub mod trace_export;
pub mod variables;
