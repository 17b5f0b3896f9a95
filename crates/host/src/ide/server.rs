//! The server of an IDE as a server that the host connects to, if the configuration and the policy allow it.

use serde_json::json;
use switchboard_config::file::layer::{FileShape, Layer, Naming};
use switchboard_config::merge::{self, Exclusion, MergeInputs, ServerState};
use switchboard_config::scope::Scope;
use switchboard_config::source::Source;
use thiserror::Error;

use super::lock_file::{IdeLock, IdeTransport};
use super::tool::MODEL_TOOLS;
use crate::sources::desired_server::{DesiredServer, desired_servers};
use crate::sources::loader::Configuration;

/// The name of the server of the connected IDE.
pub const IDE_SERVER: &str = "ide";
/// How long an IDE on this machine may take to answer, in milliseconds.
const CONNECT_TIMEOUT_MS: u32 = 5_000;

/// Why an IDE may not be connected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IdeRefusal {
    /// The administrator's server file is the only source of servers.
    #[error("enterprise MCP configuration is active and has exclusive control over MCP servers")]
    ExclusiveSource,
    /// A policy refuses the server.
    #[error("your administrator's policy does not allow the server `ide`")]
    Policy,
    /// The settings disable the server.
    #[error("the server `ide` is disabled in your settings")]
    Disabled,
    /// The lock file has a value that cannot be used.
    #[error("its lock file has a value that cannot be used: {0}")]
    Invalid(String),
}

/// The server of the IDE with this lock file, at a host.
pub fn ide_server(
    lock: &IdeLock,
    host: &str,
    configuration: &Configuration,
) -> Result<DesiredServer, IdeRefusal> {
    let mut entry = json!({
        "type": match lock.transport {
            IdeTransport::WebSocket => "ws-ide",
            IdeTransport::Sse => "sse-ide",
        },
        "url": literal(&lock.url(host)),
        "ideName": lock.name,
        "connectTimeout": CONNECT_TIMEOUT_MS,
        "tools": {"allow": MODEL_TOOLS},
    });
    if let Some(token) = &lock.auth_token {
        entry["authToken"] = literal(token.reveal()).into();
    }
    let text = json!({"mcpServers": {IDE_SERVER: entry}}).to_string();
    let source = Source::program(Scope::Dynamic, "the lock file of an IDE");
    let layer = Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped);
    let effective = merge::resolve(MergeInputs {
        layers: vec![layer],
        policy: configuration.policy.clone(),
        disabled: configuration.disabled.clone(),
        exclusive_source: configuration.effective.exclusive_source.clone(),
        ..MergeInputs::default()
    });
    if let Some(server) = desired_servers(&effective).pop() {
        return Ok(server);
    }
    let Some(server) = effective.servers.first() else {
        let problem = effective.problems.first().map(|it| it.kind.to_string());
        return Err(IdeRefusal::Invalid(problem.unwrap_or_default()));
    };
    Err(match &server.state {
        ServerState::Excluded(Exclusion::ManagedFile(_)) => IdeRefusal::ExclusiveSource,
        ServerState::Refused(_) => IdeRefusal::Policy,
        ServerState::Disabled(_) | ServerState::Rejected => IdeRefusal::Disabled,
        ServerState::Excluded(Exclusion::Strict)
        | ServerState::Ready
        | ServerState::Pending(_)
        | ServerState::NeedsConfig(_)
        | ServerState::Shadowed { .. }
        | ServerState::Duplicate { .. }
        | ServerState::Invalid => {
            let problems: Vec<String> =
                server.problems.iter().map(|it| it.kind.to_string()).collect();
            IdeRefusal::Invalid(problems.join("; "))
        }
    })
}

/// A text that is not expanded.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}
