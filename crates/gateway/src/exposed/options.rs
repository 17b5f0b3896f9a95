//! Options that choose what the gateway exposes, and under which names.

use switchboard::pool::{Tool, naming};
use switchboard_config::permission::{RuleError, ToolRule};

use crate::exposed::sharing::{ConnectionSharing, InteractiveSessions};

/// How exposed tools and prompts are named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NameStyle {
    /// The server's name, then the tool's or prompt's own name.
    #[default]
    Prefixed,
    /// The server's own names. If two servers use the same name, the first server by name keeps it.
    Plain,
    /// The server's own names, prefixed with the server's name where two servers use the same one.
    PrefixedOnCollision,
}

/// How tools are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolExposure {
    /// Every tool is listed.
    #[default]
    All,
    /// Only `search_tools` and `call_tool` are listed.
    Search,
}

/// What the gateway exposes, and how.
#[derive(Debug, Clone, Default)]
pub struct ExposeOptions {
    /// How tools and prompts are named.
    pub names: NameStyle,
    /// The tools to expose; all of them if there are no rules.
    pub rules: Vec<ToolRule>,
    /// How tools are listed.
    pub tools: ToolExposure,
    /// Which clients share a connection to a server.
    pub sharing: ConnectionSharing,
    /// Which connection sessions use whose client can be asked.
    pub interactive_sessions: InteractiveSessions,
}

impl ExposeOptions {
    /// Is this tool exposed?
    pub(crate) fn exposes(&self, tool: &Tool) -> bool {
        let name = naming::sanitise_borrowed(&tool.name);
        let matches = |rule: &ToolRule| rule.names_tool(&tool.prefix, &name);
        self.rules.is_empty() || self.rules.iter().any(matches)
    }

    /// Is anything of this server exposed? Its resources and prompts are exposed if any of its tools is.
    pub(crate) fn exposes_server(&self, server: &str) -> bool {
        let prefix = naming::sanitise(server);
        self.rules.is_empty() || self.rules.iter().any(|rule| rule.names_server(&prefix))
    }
}

/// Parses a rule that selects tools to expose. The `mcp__` prefix may be left out.
pub fn parse_expose_rule(text: &str) -> Result<ToolRule, RuleError> {
    let text = text.trim();
    let rule_text =
        if text.starts_with("mcp__") { text.to_owned() } else { format!("mcp__{text}") };
    ToolRule::parse(&rule_text)
}
