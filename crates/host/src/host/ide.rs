//! The connected IDE.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value as Json, json};
use switchboard_config::entry::server::TransportConfig;
use tokio::sync::broadcast;

use super::Host;
use crate::connection::announcement::EDITOR_SERVER;
use crate::connection::status::ServerView;
use crate::ide::{IDE_SERVER, IdeEvent, IdeTool, IdeToolResult, is_ide};
use crate::request::ide_call::IdeCallError;
use crate::sources::desired_server::DesiredServer;

/// A file that a tool has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileUpdate {
    /// The path.
    pub path: String,
    /// The text before.
    pub old_content: String,
    /// The text now.
    pub new_content: String,
}

impl Host {
    /// Makes this the server of the connected IDE, beside the servers of the configuration; `None` disconnects it.
    pub async fn set_ide(&self, server: Option<DesiredServer>) {
        self.engine().set_ide(server).await;
    }

    /// The server of the IDE, connected or not.
    pub fn ide(&self) -> Option<Arc<ServerView>> {
        let view = self.engine().connection(IDE_SERVER)?.view();
        is_ide(view.transport).then_some(view)
    }

    /// The events of the IDE from now on. A receiver that is too slow misses the oldest ones.
    pub fn ide_events(&self) -> broadcast::Receiver<IdeEvent> {
        self.context().ide_events.subscribe()
    }

    /// How many events for statistics the IDE has sent. Their content is dropped.
    pub fn ide_log_events(&self) -> u64 {
        self.context().ide_log_events.load(Ordering::Relaxed)
    }

    /// Calls a tool of the connected IDE for the program itself: no permission rule applies. Dropping the future cancels
    /// the call.
    pub async fn call_ide(
        &self,
        tool: IdeTool,
        arguments: &Json,
    ) -> Result<IdeToolResult, IdeCallError> {
        self.services.requests().call_ide(tool, arguments).await
    }

    /// Tells the editor that runs this program that a tool has changed a file. Without such an editor, does nothing.
    pub async fn notify_file_updated(&self, update: &FileUpdate) {
        let params = json!({
            "filePath": update.path,
            "oldContent": update.old_content,
            "newContent": update.new_content,
        });
        for handle in self.engine().connections().values() {
            let is_editor = matches!(
                &handle.desired().spec.transport,
                TransportConfig::Sdk { name } if name == EDITOR_SERVER
            );
            if is_editor {
                handle.notify_with("file_updated", &params).await;
            }
        }
    }
}
