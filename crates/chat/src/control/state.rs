//! The state of a session that its tasks share: several calls ask the program at the same time, while requests change
//! the mode and the model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value as Json;
use switchboard::CallContext;
use switchboard::config::permission::PermissionMode;
use switchboard::wire::shared::Shared;

use crate::control::frames::{FrameContext, SessionState};
use crate::control::hook_table::HookTable;
use crate::model::language_model::Usage;

/// Whether the program can choose the mode that asks about nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BypassMode {
    /// It can.
    Available,
    /// It cannot: the person who starts the program did not allow it.
    Unavailable,
}

/// A request of the program that is handled now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenRequest {
    /// It will be answered.
    Wanted,
    /// The program withdrew it: it runs to its end and is not answered.
    Withdrawn,
}

/// Prints the state of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrintSessionState;

/// State that hooks, prompts and requests see.
pub(crate) struct StateView {
    pub(crate) frames: FrameContext,
    pub(crate) transcript_path: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) mode: PermissionMode,
    pub(crate) prints_state: Option<PrintSessionState>,
    /// The permission requests that the program has not answered, by their ids.
    pub(crate) open_questions: BTreeMap<String, Json>,
    /// Whether the program was told that it has to answer, and not yet that the session goes on.
    pub(crate) is_action_announced: bool,
    /// The requests of the program that are not answered yet, by their ids.
    pub(crate) open_requests: BTreeMap<String, OpenRequest>,
    /// Calls that the program denied and that end the turn.
    pub(crate) interrupting_denials: BTreeSet<String>,
    /// The texts of denials, by the id of the call: the model gets exactly the program's text.
    pub(crate) denial_texts: BTreeMap<String, String>,
    pub(crate) is_denied_with_interrupt: bool,
    pub(crate) state: SessionState,
    /// Set by `initialize`, which comes before the first message.
    pub(crate) hook_table: Arc<HookTable>,
    /// The rules and the mode, for calls that the program makes for itself.
    pub(crate) call_context: Arc<CallContext>,
    pub(crate) model_name: String,
    pub(crate) total_usage: Usage,
}

/// The calls of the running turn whose block has been printed. A program learns of a call before it is asked about it.
pub(crate) type PrintedCalls = BTreeSet<String>;

/// The shared state of a session: several calls ask at the same time.
pub(crate) type SharedState = Shared<StateView>;

impl StateView {
    /// The mode in the words of the SDKs.
    pub(crate) fn mode_id(&self) -> &'static str {
        mode_id(self.mode)
    }

    /// The frame that says what the session is doing, where the program wants it.
    pub(crate) fn state_frame(&self, state: SessionState) -> Option<Json> {
        self.prints_state.map(|_| self.frames.state(state))
    }
}

pub(crate) fn mode_id(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Bypass => "bypassPermissions",
        PermissionMode::Plan
        | PermissionMode::DontAsk
        | PermissionMode::Default
        | PermissionMode::AcceptEdits => mode.id(),
    }
}

/// The mode that a program names. `auto`, where another program's classifier decides, is the stricter default mode.
pub(crate) fn parse_mode(text: &str) -> Option<PermissionMode> {
    match text {
        "bypassPermissions" => Some(PermissionMode::Bypass),
        "auto" => Some(PermissionMode::Default),
        other => PermissionMode::parse(other),
    }
}
