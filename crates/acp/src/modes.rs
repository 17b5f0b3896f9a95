//! The permission modes as the modes of a session.

use agent_client_protocol_schema::v1::{SessionMode, SessionModeState};
use switchboard::config::permission::PermissionMode;

/// The modes, with this one selected.
pub(crate) fn mode_state(current: PermissionMode) -> SessionModeState {
    let mode = |mode: PermissionMode| {
        let (name, about) = match mode {
            PermissionMode::Plan => ("Plan", "only tools that change nothing"),
            PermissionMode::DontAsk => ("Don't ask", "deny what would need a question"),
            PermissionMode::Default => ("Default", "ask before calls that no rule allows"),
            PermissionMode::AcceptEdits => {
                ("Accept edits", "also allow changes that destroy nothing")
            }
            PermissionMode::Bypass => ("Bypass", "allow every call that no rule denies"),
        };
        SessionMode::new(mode.id(), name).description(about.to_owned())
    };
    SessionModeState::new(current.id(), PermissionMode::ALL.into_iter().map(mode).collect())
}
