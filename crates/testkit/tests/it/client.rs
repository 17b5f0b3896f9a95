//! The common part of the test clients of all transports, and the messages they send.

use std::time::Duration;

use serde_json::{Value, json};

pub const TIMEOUT: Duration = Duration::from_secs(5);
pub const MODERN_VERSION: &str = "2026-07-28";

/// A test client.
pub trait Client {
    fn send(&mut self, message: &Value);
    /// The next message from the server.
    fn next(&mut self) -> Value;

    /// Sends a request and returns its response; only notifications may come before it.
    fn call(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&request(id, method, params));
        self.response_to(id)
    }

    fn response_to(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
            assert!(message.get("id").is_none(), "another response: {message}");
        }
    }

    /// Calls a tool in the legacy era and returns its result.
    fn tool(&mut self, id: u64, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        self.call(id, "tools/call", params)["result"].clone()
    }

    /// Calls a tool in the modern era and returns its result.
    fn modern_tool(&mut self, id: u64, name: &str, arguments: Value) -> Value {
        let params = with_modern_meta(json!({"name": name, "arguments": arguments}));
        self.call(id, "tools/call", params)["result"].clone()
    }

    /// Sends `initialize` and returns its result.
    fn open(&mut self) -> Value {
        let result = self.call(1, "initialize", initialize_params("2025-11-25"))["result"].clone();
        self.send(&notification("notifications/initialized", json!({})));
        result
    }
}

pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// The params of `initialize`.
pub fn initialize_params(version: &str) -> Value {
    let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let client = json!({"name": "by hand", "version": "1"});
    json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client})
}

/// Params with the `_meta` that the modern era requires.
pub fn with_modern_meta(mut params: Value) -> Value {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN_VERSION);
    meta["io.modelcontextprotocol/clientCapabilities"] =
        json!({"elicitation": {}, "sampling": {}, "roots": {}});
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "by hand", "version": "1"});
    params
}

/// The text of a tool's result.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("the result has a text")
}

/// The names in a list.
pub fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .expect("it is a list")
        .iter()
        .map(|it| it["name"].as_str().unwrap_or("?"))
        .collect()
}
