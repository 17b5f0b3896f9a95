//! What a host remembers of servers between runs: useful where it is right, harmless where it is not.

use std::fs;

use switchboard::wire::era::Era;
use testkit::{Script, ScriptedProgram, ScriptedServer};

use crate::support::{TestHost, is_connected, remote};

fn era(view: &switchboard::connection::ServerView) -> Option<Era> {
    view.server_info.as_ref().map(|it| it.era)
}

#[tokio::test]
async fn a_legacy_server_is_not_probed_again_and_a_modern_one_is() {
    let bench = TestHost::new();
    let journals = ["legacy", "modern"].map(|it| bench.folder.path().join(it));
    let servers = [
        ("legacy", ScriptedProgram::config_entry(&Script::legacy().journal(&journals[0]))),
        ("modern", ScriptedProgram::config_entry(&Script::modern().journal(&journals[1]))),
    ];
    bench.apply(&servers).await;
    bench.settled().await;
    let folder = bench.folder.clone();
    bench.stop().await;
    let again = TestHost::in_folder(folder.clone(), |_| {});
    again.apply(&servers).await;
    let snapshot = again.settled().await;
    assert_eq!(era(&snapshot.servers["legacy"]), Some(Era::Legacy));
    assert_eq!(era(&snapshot.servers["modern"]), Some(Era::Modern));
    again.stop().await;
    let probes = journals.map(|it| {
        let heard = testkit::scripted::read_journal(&it);
        heard.iter().filter(|it| it["method"] == "server/discover").count()
    });
    assert_eq!(probes, [1, 2]);
    let kept = fs::read_to_string(folder.path().join("state/eras.json")).expect("it is kept");
    assert!(kept.contains("\"legacy\""), "{kept}");
}

#[tokio::test]
async fn a_server_that_became_modern_is_found_out_though_it_is_remembered_otherwise() {
    let bench = TestHost::new();
    let served = ScriptedServer::http(Script::legacy());
    let servers = [("s", remote("http", served.url()))];
    bench.apply(&servers).await;
    assert_eq!(era(&*bench.view("s").await), Some(Era::Legacy));
    let folder = bench.folder.clone();
    bench.stop().await;
    let _served = served.restart(Script::modern());
    let again = TestHost::in_folder(folder, |_| {});
    again.apply(&servers).await;
    let view = again.view("s").await;
    assert!(is_connected(&view), "{view:#?}");
    assert_eq!(era(&view), Some(Era::Modern));
    again.stop().await;
}

#[tokio::test]
async fn damaged_memories_cost_nothing() {
    for damage in ["", "{", "[1, 2]", "\u{0}\u{0}", r#"{"s": {"value": 7}}"#] {
        let bench = TestHost::new();
        let state = bench.folder.path().join("state");
        fs::create_dir_all(&state).expect("a folder");
        for name in ["eras.json", "mcp-needs-auth-cache.json"] {
            fs::write(state.join(name), damage).expect("a file");
        }
        let served = ScriptedServer::http(Script::legacy());
        bench.apply(&[("s", remote("http", served.url()))]).await;
        let view = bench.view("s").await;
        assert!(is_connected(&view), "{damage:?}: {view:#?}");
        let _folder = bench.folder.clone();
        bench.stop().await;
        let kept = fs::read_to_string(state.join("eras.json")).expect("it is there");
        assert!(kept.contains("\"legacy\""), "{damage:?}: {kept}");
    }
}
