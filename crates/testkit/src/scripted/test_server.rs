//! A scripted server inside a test, on its own port, with all requests recorded.

use std::time::Duration;

use serde_json::Value;

use crate::http::recorded_request::RecordedRequest;
use crate::processes::wait_until;
use crate::scripted::script::Script;
use crate::scripted::{RunMode, RunningServer, Transport, spawn_server};

/// The timeout for expected requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A server on its own thread. Dropping it ends the server and every connection to it.
#[derive(Debug)]
pub struct ScriptedServer {
    running: RunningServer,
    transport: Transport,
}

impl ScriptedServer {
    /// Streamable HTTP.
    pub fn http(script: Script) -> ScriptedServer {
        ScriptedServer::start(Transport::Http, script, 0)
    }

    /// HTTP with SSE, the transport of 2024.
    pub fn sse(script: Script) -> ScriptedServer {
        ScriptedServer::start(Transport::Sse, script, 0)
    }

    /// WebSocket.
    pub fn ws(script: Script) -> ScriptedServer {
        ScriptedServer::start(Transport::WebSocket, script, 0)
    }

    fn start(transport: Transport, script: Script, port: u16) -> ScriptedServer {
        let running = spawn_server(transport, script, RunMode::InTest, port)
            .expect("a server can be started");
        ScriptedServer { running, transport }
    }

    /// Replaces the server by a new one at the same address, without the old state.
    pub fn restart(self, script: Script) -> ScriptedServer {
        let ScriptedServer { running, transport } = self;
        let port = running.port;
        drop(running);
        ScriptedServer::start(transport, script, port)
    }

    /// The URL.
    pub fn url(&self) -> &str {
        self.running.url()
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.running.server.recorded()
    }

    /// Waits until the requests satisfy a condition, and returns them. Panics after ten seconds.
    #[track_caller]
    pub fn wait_for(&self, condition: impl Fn(&[RecordedRequest]) -> bool) -> Vec<RecordedRequest> {
        wait_until(REQUEST_TIMEOUT, "the requests came", || {
            let requests = self.requests();
            condition(&requests).then_some(requests)
        })
    }

    /// The number of requests per method and tool, and the cancelled ones: the result of the tool `count`.
    pub fn counts(&self) -> Value {
        self.running.server.counts()
    }

    /// Adds a tool and notifies all subscribed clients; returns the tool's name.
    pub fn change_tools(&self) -> String {
        self.running.server.change_tools()
    }

    /// Notifies all subscribed clients that a resource changed.
    pub fn notify_resource_updated(&self, uri: &str) {
        let params = serde_json::json!({"uri": uri});
        self.running.server.notify_all("notifications/resources/updated", &params);
    }

    /// Ends every modern subscription with a response.
    pub fn end_subscriptions(&self) {
        self.running.server.end_subscriptions();
    }
}
