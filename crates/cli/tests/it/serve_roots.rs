//! `swb serve --pool`: servers request the client's roots, and are notified when they change.

use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::processes::wait_until;
use testkit::real_servers;
use testkit::real_servers::ServerTransport;
use testkit::{Sandbox, Script, ScriptedProgram, scripted};

use crate::serve::StdioClient;
use crate::serve_pool::{next_message, trusted_entry};
use crate::support::{USER, scene};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A legacy client with one root, which responds to `roots/list`.
struct ClientWithRoots {
    raw: StdioClient,
    folder: &'static str,
}

impl ClientWithRoots {
    fn initialize(scene: &Sandbox, folder: &'static str) -> ClientWithRoots {
        let raw = StdioClient::start(scene, &["--pool", "--mode", "bypass"]);
        let mut rooted = ClientWithRoots { raw, folder };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {"roots": {"listChanged": true}},
            "clientInfo": {"name": "rooted", "version": "1"},
        });
        rooted.request("initialize", hello);
        rooted.raw.send_message(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        rooted
    }

    fn request(&mut self, method: &str, params: Json) -> Json {
        self.raw.send_request(method, params);
        loop {
            let message = next_message(&mut self.raw);
            if message["method"] == "roots/list" {
                self.answer_roots(&message);
            } else if message["id"] == self.raw.last_id {
                assert!(message["error"].is_null(), "{message}");
                return message["result"].clone();
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: Json) -> Json {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    fn answer_roots(&mut self, question: &Json) {
        let roots = json!({"roots": [{"uri": self.folder, "name": "a folder"}]});
        self.raw.send_message(&json!({"jsonrpc": "2.0", "id": question["id"], "result": roots}));
    }

    /// Waits for a `roots/list` request while none of the client's own is pending, and responds.
    fn await_roots_request(&mut self) {
        let question = loop {
            let message = next_message(&mut self.raw);
            if message["method"] == "roots/list" {
                break message;
            }
        };
        self.answer_roots(&question);
    }

    /// Changes the root and notifies the gateway.
    fn move_to(&mut self, folder: &'static str) {
        self.folder = folder;
        let method = "notifications/roots/list_changed";
        self.raw.send_message(&json!({"jsonrpc": "2.0", "method": method}));
    }

    fn end(mut self) {
        self.raw.input = None;
        assert_eq!(self.raw.wait_exit().0, Some(0));
    }
}

#[test]
fn a_server_gets_the_roots_of_the_only_client_and_their_changes() {
    let scene = scene();
    let journal = scene.path("journal");
    let script = Script::legacy().journal(&journal);
    scene.write_servers(USER, &format!("\"one\": {}", ScriptedProgram::config_entry(&script)));
    let news = || {
        let heard = scripted::read_journal(&journal);
        heard.iter().filter(|it| it["method"] == "notifications/roots/list_changed").count()
    };
    let mut client = ClientWithRoots::initialize(&scene, "file:///before");
    let asked = client.call("mcp__one__ask", json!({"kind": "roots"}));
    assert!(asked.to_string().contains("file:///before"), "{asked}");
    let before = wait_until(TIMEOUT, "it hears that the client is there", || {
        Some(news()).filter(|it| *it > 0)
    });
    client.move_to("file:///after");
    wait_until(TIMEOUT, "it hears of the change", || (news() > before).then_some(()));
    let asked = client.call("mcp__one__ask", json!({"kind": "roots"}));
    assert!(asked.to_string().contains("file:///after"), "{asked}");
    client.end();
}

#[test]
fn a_real_server_gets_the_roots_of_the_only_client_outside_of_any_call() {
    let scene = scene();
    let servers = json!({"mcpServers": {"everything": trusted_entry(&real_servers::everything(ServerTransport::Stdio))}});
    scene.write(USER, &servers.to_string());
    let mut client = ClientWithRoots::initialize(&scene, "file:///before");
    // The server reports the old roots until it has received the new ones.
    let known = |client: &mut ClientWithRoots, folder: &str| {
        wait_until(TIMEOUT, folder, || {
            let known = client.call("mcp__everything__get-roots-list", json!({}));
            known.to_string().contains(folder).then_some(())
        });
    };
    known(&mut client, "file:///before");
    client.move_to("file:///after");
    client.await_roots_request();
    known(&mut client, "file:///after");
    client.end();
}

#[test]
fn a_client_without_roots_gives_servers_only_the_folders_that_the_operator_set() {
    let scene = scene();
    let entry = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(USER, &format!("\"one\": {entry}"));
    let roots = |arguments: &[&str]| {
        let arguments = [&["--pool", "--mode", "bypass"], arguments].concat();
        let mut raw = StdioClient::legacy(&scene, &arguments);
        let asked = raw.call("mcp__one__ask", json!({"kind": "roots"})).to_string();
        raw.input = None;
        assert_eq!(raw.wait_exit().0, Some(0));
        asked
    };
    let none = roots(&[]);
    assert!(!none.contains("file://"), "not even the folder of the gateway: {none}");
    scene.write("a b/file", "");
    let folder = scene.path("a b").display().to_string();
    let set = roots(&["--root", "/", "--root", &folder]);
    assert!(set.contains("\"file:///\"") || set.contains("\\\"file:///\\\""), "{set}");
    assert!(set.contains("/a%20b"), "{set}");
}
