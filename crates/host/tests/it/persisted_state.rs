//! What a host stores about servers between runs: useful if correct, harmless if not.

use std::fs;

use serde_json::json;
use switchboard::wire::protocol::era::Era;
use switchboard::{Host, Http, Paths};
use testkit::{Script, ScriptedProgram, ScriptedServer};

use crate::support::{TestHost, is_connected, remote};

fn era(view: &switchboard::connection::ServerView) -> Option<Era> {
    view.server_info.as_ref().map(|it| it.era)
}

#[tokio::test]
async fn a_legacy_server_is_not_probed_again_and_a_modern_one_is() {
    let test_host = TestHost::new();
    let journals = ["legacy", "modern"].map(|it| test_host.folder.path().join(it));
    let servers = [
        ("legacy", ScriptedProgram::config_entry(&Script::legacy().journal(&journals[0]))),
        ("modern", ScriptedProgram::config_entry(&Script::modern().journal(&journals[1]))),
    ];
    test_host.apply(&servers).await;
    test_host.settled().await;
    let folder = test_host.folder.clone();
    test_host.stop().await;
    let again = TestHost::in_folder(folder.clone(), |_| {});
    again.apply(&servers).await;
    let snapshot = again.settled().await;
    assert_eq!(era(&snapshot.servers["legacy"]), Some(Era::Legacy));
    assert_eq!(era(&snapshot.servers["modern"]), Some(Era::Modern));
    again.stop().await;
    let probes = journals.map(|it| {
        let received = testkit::scripted::read_journal(&it);
        received.iter().filter(|it| it["method"] == "server/discover").count()
    });
    assert_eq!(probes, [1, 2]);
    let stored = fs::read_to_string(folder.path().join("state/eras.json")).expect("it is stored");
    assert!(stored.contains("\"legacy\""), "{stored}");
}

#[tokio::test]
async fn a_server_that_became_modern_is_detected_despite_the_cached_era() {
    let test_host = TestHost::new();
    let server = ScriptedServer::http(Script::legacy());
    let servers = [("s", remote("http", server.url()))];
    test_host.apply(&servers).await;
    assert_eq!(era(&*test_host.view("s").await), Some(Era::Legacy));
    let folder = test_host.folder.clone();
    test_host.stop().await;
    let _server = server.restart(Script::modern());
    let again = TestHost::in_folder(folder, |_| {});
    again.apply(&servers).await;
    let view = again.view("s").await;
    assert!(is_connected(&view), "{view:#?}");
    assert_eq!(era(&view), Some(Era::Modern));
    again.stop().await;
}

#[tokio::test]
async fn damaged_state_files_are_ignored() {
    for damage in ["", "{", "[1, 2]", "\u{0}\u{0}", r#"{"s": {"value": 7}}"#] {
        let test_host = TestHost::new();
        let state = test_host.folder.path().join("state");
        fs::create_dir_all(&state).expect("a folder");
        for name in ["eras.json", "mcp-needs-auth-cache.json"] {
            fs::write(state.join(name), damage).expect("a file");
        }
        let server = ScriptedServer::http(Script::legacy());
        test_host.apply(&[("s", remote("http", server.url()))]).await;
        let view = test_host.view("s").await;
        assert!(is_connected(&view), "{damage:?}: {view:#?}");
        let _folder = test_host.folder.clone();
        test_host.stop().await;
        let stored = fs::read_to_string(state.join("eras.json")).expect("it is there");
        assert!(stored.contains("\"legacy\""), "{damage:?}: {stored}");
    }
}

#[tokio::test]
async fn every_call_is_in_the_audit_log_when_a_host_has_shut_down() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let paths = Paths::in_dir(folder.path());
    let server = ScriptedServer::http(Script::modern());
    let host = Host::builder(paths.clone())
        .server("s", Http::new(server.url()))
        .trust("s")
        .start()
        .await
        .expect("it starts");
    for _ in 0..3 {
        host.call("mcp__s__echo", json!({"text": "hello"})).await.expect("it is trusted");
    }
    host.shutdown().await;
    let records = switchboard::audit::log::read(&paths.audit()).expect("it can be read");
    assert_eq!(records.len(), 3);
}
