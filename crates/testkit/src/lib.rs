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

pub use authority::Authority;
pub use connector_account::ConnectorAccount;
pub use model_service::ModelService;
pub use quirk::{Cursors, Quirk};
pub use ran::Ran;
pub use scene::{MANAGED, Scene};
pub use script::{Answers, Era, Script, Sessions};
pub use scripted::Scripted;
pub use served::{Recorded, Served};
pub use still::Still;
pub use terminal::{Size, Terminal};
