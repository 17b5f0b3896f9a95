//! Test fixtures for Switchboard's own tests: sandboxes with a temporary home, scripted and misbehaving servers, an
//! authorization server, a model service, an IDE, pseudo-terminals and process checks.

pub mod authorization_server;
pub mod connector_account;
pub mod http;
pub mod ide;
pub mod model_service;
pub mod processes;
mod random;
pub mod real_servers;
pub mod registry_mirror;
mod sandbox;
pub mod scripted;
pub mod store_server;
pub mod tcp_relay;
mod terminal;

pub use authorization_server::AuthorizationServer;
pub use connector_account::ConnectorService;
pub use http::recorded_request::RecordedRequest;
pub use ide::TestIde;
pub use model_service::ModelService;
pub use registry_mirror::RegistryMirror;
pub use sandbox::command_output::CommandOutput;
pub use sandbox::{MANAGED_DIR, Sandbox};
pub use scripted::ScriptedProgram;
pub use scripted::channel::{ChannelFeed, ChannelScript, FedServers};
pub use scripted::quirk::{Cursors, Quirk};
pub use scripted::script::{Era, ResponseFormat, Script, SessionMode};
pub use scripted::test_server::ScriptedServer;
pub use terminal::screenshot::Screenshot;
pub use terminal::{Size, Terminal};
