//! What the program that runs the gateway tells the dashboard about its configuration, and does for it. Reading files and
//! changing them is left to that program.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use switchboard_config::permission::{PermissionMode, PermissionRules};

/// The program that runs the gateway. The methods may block; the dashboard calls them where that is allowed.
pub trait DashboardOperator: fmt::Debug + Send + Sync {
    /// The configuration as it is now, or why it cannot be read.
    fn view(&self) -> Result<OperatorView, String>;
    /// Enables or disables a server. Returns what was changed, or why nothing was.
    fn switch(&self, server: &str, to: ServerSwitch) -> Result<String, String>;
    /// What decides simulated calls, besides the rules.
    fn simulation_inputs(&self) -> Result<SimulationInputs, String>;
    /// The shared host, if one runs.
    fn shared_host(&self) -> Option<SharedHostView>;
    /// The audit log.
    fn audit_file(&self) -> &Path;
}

/// Which way a server is switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerSwitch {
    /// The server may start.
    Enabled,
    /// The server may not start.
    Disabled,
}

/// The configuration, as text that is safe to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorView {
    /// Every definition of a server.
    pub servers: Vec<ConfiguredServer>,
    /// The permission rules.
    pub rules: Vec<RuleLine>,
    /// The lines of the policy on servers.
    pub policy: Vec<String>,
    /// The permission mode.
    pub mode: String,
}

/// One definition of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredServer {
    /// Its name. Not escaped.
    pub name: String,
    /// The scope of the definition.
    pub scope: String,
    /// The transport.
    pub transport: String,
    /// The command or the URL, masked.
    pub target: String,
    /// The identifier of its state.
    pub state: String,
    /// Its state in a few words.
    pub state_text: String,
    /// Why it is in that state, and what to do.
    pub reason: Option<String>,
    /// The file and line.
    pub origin: String,
    /// Whether this definition counts for its name.
    pub is_selected: bool,
}

/// A permission rule, for a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleLine {
    /// `allow`, `ask` or `deny`.
    pub effect: String,
    /// The rule.
    pub rule: String,
    /// The file and line.
    pub origin: String,
    /// The principal that it is for; all if empty.
    pub principal: String,
}

/// What decides simulated calls, besides the rules.
#[derive(Debug, Clone)]
pub struct SimulationInputs {
    /// The configured rules.
    pub rules: PermissionRules,
    /// The permission mode.
    pub mode: PermissionMode,
    /// Servers whose tools are trusted.
    pub trusted_servers: BTreeSet<String>,
    /// Tools whose definition changed since it was approved: server and tool.
    pub changed_tools: BTreeSet<(String, String)>,
}

/// The shared host of this user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedHostView {
    /// Its process.
    pub pid: u32,
    /// Its build.
    pub build: String,
    /// When it started, in seconds since 1970.
    pub since: u64,
    /// The servers that it runs.
    pub programs: Vec<SharedProgramView>,
}

/// A server of the shared host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedProgramView {
    /// Its name.
    pub name: String,
    /// Its process, while it runs.
    pub pid: Option<u32>,
    /// The sessions that use it.
    pub clients: Vec<String>,
}
