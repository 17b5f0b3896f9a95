//! A hook that shows the editor which changes a call will make, before it is asked about or made.

use std::sync::Arc;

use agent_client_protocol_schema::v1::ToolCallContent;
use switchboard::pool::Pool;
use switchboard_chat::conversation::hooks::{BeforeCall, ConversationHooks, HookFuture};
use switchboard_chat::message::ToolUse;
use tokio::sync::{mpsc, watch};

use crate::session_command::SessionCommand;
use crate::tool_view::{CalledTool, ToolViews};

/// Sends the changes of calls to the task of the session.
pub(crate) struct EditHooks {
    pub(crate) views: Arc<ToolViews>,
    pub(crate) pool: watch::Receiver<Arc<Pool>>,
    pub(crate) commands: mpsc::WeakSender<SessionCommand>,
}

impl ConversationHooks for EditHooks {
    fn before_call<'a>(&'a self, call: &'a ToolUse) -> HookFuture<'a, BeforeCall> {
        Box::pin(async move {
            let (views, pool) = (self.views.clone(), self.pool.borrow().clone());
            let (tool, arguments) = (call.tool.clone(), call.arguments.clone());
            // The file that is overwritten may be on a slow disk.
            let read = move || views.diffs(CalledTool::find(&pool, &tool), &arguments);
            let diffs = tokio::task::spawn_blocking(read).await.unwrap_or_default();
            if let (false, Some(commands)) = (diffs.is_empty(), self.commands.upgrade()) {
                let content = diffs.into_iter().map(ToolCallContent::Diff).collect();
                let id = Arc::from(call.id.as_str());
                let _session_over =
                    commands.send(SessionCommand::ShowChanges { id, content }).await;
            }
            BeforeCall::default()
        })
    }
}
