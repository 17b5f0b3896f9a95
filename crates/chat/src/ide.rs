//! What a conversation does with the connected IDE: edits that need permission open there as a diff, selections and mentions
//! join the prompt, and the model learns which problems its edits caused. Finding and connecting an IDE is left to the host.

mod context;
mod diagnostics;
mod edits;
mod hooks;
mod prompt;
mod session;

pub use context::{ActiveMention, ActiveSelection};
pub use edits::{EditPlanner, PlannedEdit};
pub use hooks::IdeHooks;
pub use prompt::IdePrompt;
pub use session::{IdeSession, IdeSessionOptions, IdeUpdates};
