//! IDEs with an MCP server: finds them by their lock files, chooses one, and describes what is exchanged with it. Connecting
//! is left to `connection`, and what a conversation does with an IDE to its front end.

mod choice;
mod discovery;
mod lock_file;
mod notification;
mod path_match;
mod server;
mod tool;

pub use choice::{FoundIdes, IdeChoice, IdeSelector, LockVerdict};
pub use discovery::{FoundLock, IdeScan, IdeSearch, LockFolder, ValidityCheck};
pub use lock_file::{IdeLock, IdePlatform, IdeTransport, LockError};
pub use notification::{IdeEvent, LinePosition, Mention, Selection};
pub use path_match::WorkspaceFolder;
pub use server::{IDE_SERVER, IdeRefusal, ide_server};
pub use tool::{DiffOutcome, IdeTool, IdeToolResult};

pub(crate) use notification::{ide_connected, is_ide};
pub(crate) use tool::is_hidden_from_models;
