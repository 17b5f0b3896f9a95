//! Sessions whose event stream ends early for `test_reconnection`: the client gets the first event and must reconnect
//! for the response. Everything else is left to the SDK's sessions.

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};

/// The reconnection delay for clients.
pub const SSE_RETRY: Duration = Duration::from_millis(300);
const INTERRUPTED_TOOL: &str = "test_reconnection";

/// The sessions.
#[derive(Debug)]
pub struct InterruptingSessions {
    sessions: LocalSessionManager,
}

impl InterruptingSessions {
    /// No sessions.
    pub fn new() -> InterruptingSessions {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.sse_retry = Some(SSE_RETRY);
        InterruptingSessions { sessions }
    }
}

/// How many events of its stream the client gets.
fn visible_events(message: &ClientJsonRpcMessage) -> usize {
    if let JsonRpcMessage::Request(request) = message
        && let ClientRequest::CallToolRequest(call) = &request.request
        && call.params.name == INTERRUPTED_TOOL
    {
        return 1;
    }
    usize::MAX
}

impl SessionManager for InterruptingSessions {
    type Error = <LocalSessionManager as SessionManager>::Error;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        self.sessions.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.sessions.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.sessions.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.sessions.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let events = visible_events(&message);
        Ok(self.sessions.create_stream(id, message).await?.take(events))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.sessions.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.sessions.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.sessions.resume(id, last_event_id).await
    }
}
