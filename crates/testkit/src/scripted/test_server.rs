//! The same server inside a test: on a port of its own, with every request recorded.

use std::time::Duration;

use serde_json::Value;

use crate::http::recorded_request::RecordedRequest;
use crate::processes::wait_until;
use crate::scripted::script::Script;
use crate::scripted::{RunMode, RunningServer, Transport, spawn_server};

/// How long a test waits for a request that has to come.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A server on a thread of its own. Dropping it ends it and every connection to it.
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

    /// HTTP with server-sent events.
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

    /// Ends it and starts another at the same address, which knows nothing of what was before.
    pub fn restart(self, script: Script) -> ScriptedServer {
        let ScriptedServer { running, transport } = self;
        let port = running.port;
        drop(running);
        ScriptedServer::start(transport, script, port)
    }

    /// Where it is reached.
    pub fn url(&self) -> &str {
        self.running.url()
    }

    /// Every request so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.running.server.recorded()
    }

    /// Waits until the requests are as they should be, and returns them. Panics after ten seconds.
    #[track_caller]
    pub fn wait_for(&self, condition: impl Fn(&[RecordedRequest]) -> bool) -> Vec<RecordedRequest> {
        wait_until(REQUEST_TIMEOUT, "the requests came", || {
            let requests = self.requests();
            condition(&requests).then_some(requests)
        })
    }

    /// How often each method and each tool was asked for, and what was cancelled: what the tool `count` returns.
    pub fn counts(&self) -> Value {
        self.running.server.counts()
    }

    /// Adds a tool and tells every client that listens; returns the tool's name.
    pub fn change_tools(&self) -> String {
        self.running.server.change_tools()
    }

    /// Tells every client that wants to hear it that a resource changed.
    pub fn notify_resource_updated(&self, uri: &str) {
        let params = serde_json::json!({"uri": uri});
        self.running.server.notify_all("notifications/resources/updated", &params);
    }

    /// Ends every modern subscription, with an answer to the request that opened it.
    pub fn end_subscriptions(&self) {
        self.running.server.end_subscriptions();
    }
}
