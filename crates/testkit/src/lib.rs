//! Test fixtures for Switchboard's own tests: sandboxes with a temporary home, scripted and misbehaving servers, an
//! authorization server, a model service, pseudo-terminals and process checks.

pub mod authorization_server;
pub mod connector_account;
pub mod http;
pub mod model_service;
pub mod processes;
mod random;
pub mod real_servers;
mod sandbox;
pub mod scripted;
mod terminal;

pub use authorization_server::AuthorizationServer;
pub use connector_account::ConnectorService;
pub use http::recorded_request::RecordedRequest;
pub use model_service::ModelService;
pub use sandbox::command_output::CommandOutput;
pub use sandbox::{MANAGED_DIR, Sandbox};
pub use scripted::ScriptedProgram;
pub use scripted::quirk::{Cursors, Quirk};
pub use scripted::script::{Era, ResponseFormat, Script, SessionMode};
pub use scripted::test_server::ScriptedServer;
pub use terminal::screenshot::Screenshot;
pub use terminal::{Size, Terminal};
