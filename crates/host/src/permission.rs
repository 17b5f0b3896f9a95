//! Permission for tool calls: the rules in force, the files they are written to, the definitions that were approved,
//! the prompt that asks the user, and the permits. How rules are read and decided is left to the `config` crate.

pub(crate) mod active_rules;
pub(crate) mod batch_items;
pub(crate) mod definition_diff;
pub(crate) mod link_targets;
pub(crate) mod permit;
pub(crate) mod prompt;
pub(crate) mod seen_store;
pub mod settings_file;
pub(crate) mod simulate;
pub(crate) mod tool_pins;

pub use active_rules::{ActiveRules, ResultMemory};
pub use definition_diff::{DefinitionDiff, LineChange};
pub use permit::{Permit, ReasonDetail, rule_request};
pub use prompt::{
    DecisionFuture, GrantScope, PermissionDecision, PermissionPrompt, PermissionRequest,
};
pub use seen_store::{SeenFuture, SeenStore, SeenStoreError, SeenTool};
pub use simulate::{DependsOn, SimulatedRules, Simulation, SimulationRow, simulate};
pub use tool_pins::{ChangedDefinition, PinStatus, ToolPins};
