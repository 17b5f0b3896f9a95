//! Temp homes, project trees, a runner, servers that follow a script and a look at processes, for Switchboard's own tests.

pub mod authority;
pub mod connector_account;
mod loopback;
pub mod model_service;
pub mod processes;
pub mod quirk;
mod ran;
pub mod real;
mod scene;
pub mod script;
pub mod scripted;
mod served;
mod still;
mod terminal;

pub use authority::AuthorizationServer;
pub use connector_account::ConnectorService;
pub use model_service::ModelService;
pub use quirk::{Cursors, Quirk};
pub use ran::CommandOutput;
pub use scene::{MANAGED_DIR, Sandbox};
pub use script::{Era, ResponseFormat, Script, SessionMode};
pub use scripted::ScriptedProgram;
pub use served::{RecordedRequest, ScriptedServer};
pub use still::Screenshot;
pub use terminal::{Size, Terminal};
