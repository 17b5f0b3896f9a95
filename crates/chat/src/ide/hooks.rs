//! The hooks of a conversation with an IDE: the selection and mentions join a message, and new problems join the results.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use switchboard::FileUpdate;
use switchboard::ide::IdeTool;

use super::edits::{PlannedEdit, is_edit};
use super::prompt::file_uri;
use super::session::IdeSession;
use crate::conversation::event::CallOutcome;
use crate::conversation::hooks::{
    AfterCall, BeforeCall, ConversationHooks, FinishedCall, HookFuture, SubmittedMessage,
};
use crate::message::{ContentBlock, ToolUse};

/// The most edits that may be under way.
const MAX_PENDING_EDITS: usize = 256;

/// The hooks of a conversation with an IDE.
pub struct IdeHooks {
    session: Arc<IdeSession>,
    /// The edits that are being made, by the id of their call.
    pending_edits: Mutex<BTreeMap<String, PlannedEdit>>,
}

impl IdeHooks {
    /// The hooks for a session.
    pub fn new(session: Arc<IdeSession>) -> IdeHooks {
        IdeHooks { session, pending_edits: Mutex::default() }
    }

    async fn submitted(&self, message: &[ContentBlock]) -> SubmittedMessage {
        let mut context = Vec::new();
        if self.session.is_connected() {
            let _not_needed = self.session.call(IdeTool::CloseAllDiffTabs, json!({})).await;
            context.extend(self.session.selection().map(|it| it.prompt_text()));
        }
        let typed = message_text(message);
        for mention in self.session.take_mentions() {
            // The screen types it into the input, where the user may have deleted it.
            if typed.contains(&mention.typed) || !self.session.types_mentions() {
                context.push(mention.prompt_text());
            }
        }
        let context = context.into_iter().map(|text| ContentBlock::Text { text }).collect();
        SubmittedMessage { context, refused_because: None }
    }

    /// Keeps what a file contains before an edit, and which problems it has.
    async fn before_edit(&self, call: &ToolUse) {
        let host = self.session.host();
        let Some(tool) = host.pool().find(&call.tool).cloned() else { return };
        if !is_edit(host, &tool, &call.arguments) {
            return;
        }
        let planner = self.session.planner().clone();
        let (name, arguments) = (tool.name.clone(), call.arguments.clone());
        let planned = tokio::task::spawn_blocking(move || planner.plan(&name, &arguments)).await;
        let Ok(Some(edit)) = planned else { return };
        if self.session.is_connected()
            && let Some(uri) = file_uri(&edit)
            && let Some(result) =
                self.session.call(IdeTool::GetDiagnostics, json!({"uri": uri})).await
        {
            self.session.state_diagnostics(|it| it.set_baseline(&uri, &result));
        }
        let mut pending = self.pending();
        if pending.len() < MAX_PENDING_EDITS {
            pending.insert(call.id.clone(), edit);
        }
    }

    async fn after_edit(&self, call: FinishedCall<'_>) {
        let edit = self.pending().remove(&call.call.id);
        let Some(edit) = edit.filter(|_| call.outcome == CallOutcome::Done) else { return };
        if let Some(uri) = file_uri(&edit) {
            self.session.state_diagnostics(|it| it.note_edit(&uri));
        }
        let planner = self.session.planner().clone();
        let (path, old_text): (PathBuf, _) = (edit.path.clone(), edit.old_text.clone());
        let read = tokio::task::spawn_blocking(move || planner.read(&edit)).await;
        if let Ok(Some(new_content)) = read {
            let update = FileUpdate {
                path: path.display().to_string(),
                old_content: old_text.unwrap_or_default(),
                new_content,
            };
            self.session.host().notify_file_updated(&update).await;
        }
    }

    async fn new_problems(&self) -> Vec<ContentBlock> {
        if !self.session.state_diagnostics(|it| it.has_edits()) {
            return Vec::new();
        }
        let result = match self.session.is_connected() {
            true => self.session.call(IdeTool::GetDiagnostics, json!({})).await,
            false => None,
        };
        let text = self.session.state_diagnostics(|it| match &result {
            Some(result) => it.new_problems(result),
            None => {
                it.forget_edits();
                None
            }
        });
        text.map(|text| ContentBlock::Text { text }).into_iter().collect()
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<String, PlannedEdit>> {
        self.pending_edits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConversationHooks for IdeHooks {
    fn message_submitted<'a>(
        &'a self,
        message: &'a [ContentBlock],
    ) -> HookFuture<'a, SubmittedMessage> {
        Box::pin(self.submitted(message))
    }

    fn before_call<'a>(&'a self, call: &'a ToolUse) -> HookFuture<'a, BeforeCall> {
        Box::pin(async {
            self.before_edit(call).await;
            BeforeCall::default()
        })
    }

    fn after_call<'a>(&'a self, call: FinishedCall<'a>) -> HookFuture<'a, AfterCall> {
        Box::pin(async move {
            self.after_edit(call).await;
            AfterCall::default()
        })
    }

    fn after_round<'a>(&'a self) -> HookFuture<'a, Vec<ContentBlock>> {
        Box::pin(self.new_problems())
    }
}

fn message_text(message: &[ContentBlock]) -> String {
    let text = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => Some(text.clone()),
        ContentBlock::Image { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolUse(_)
        | ContentBlock::ToolResult(_) => None,
    };
    message.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}
