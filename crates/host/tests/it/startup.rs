//! Many servers at once: how many are started side by side, who waits for whom, and what is left afterwards.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use switchboard::connection::Status;
use switchboard::failure::FailureKind;
use testkit::{Quirk, Script, ScriptedProgram, ScriptedServer, processes};

use crate::support::{TestHost, cause, is_connected, remote, with_member};

fn named(servers: &[(String, String)]) -> Vec<(&str, String)> {
    servers.iter().map(|(name, entry)| (name.as_str(), entry.clone())).collect()
}

#[tokio::test]
async fn a_server_that_never_answers_holds_up_nobody() {
    let test_host = TestHost::new();
    let mute = ScriptedProgram::config_entry(&Script::legacy().quirk(Quirk::NeverAnswers));
    let mut servers = vec![("a-mute".to_owned(), mute)];
    let good = ScriptedProgram::config_entry(&Script::legacy());
    servers.extend((0..12).map(|number| (format!("s{number}"), good.clone())));
    test_host.apply(&named(&servers)).await;
    let snapshot = test_host
        .until(|it| it.servers.values().filter(|view| is_connected(view)).count() == 12)
        .await;
    let mute = &snapshot.servers["a-mute"];
    assert!(matches!(mute.status, Status::Pending { attempt: 1, .. }), "{mute:#?}");
    test_host.stop().await;
}

#[tokio::test]
async fn no_more_servers_are_connected_to_at_once_than_the_window_is_wide() {
    let test_host = TestHost::with(|options| {
        options.max_concurrent_remote = 2;
        options.max_concurrent_local = 2;
    });
    // Nobody is ever answered, so those who were let in are all that were asked.
    let mute = Script::legacy().quirk(Quirk::NeverAnswers);
    let served: Vec<ScriptedServer> = (0..6).map(|_| ScriptedServer::http(mute.clone())).collect();
    let journals: Vec<_> =
        (0..6).map(|it| test_host.folder.path().join(format!("j{it}"))).collect();
    let mut servers = Vec::new();
    for (number, (served, journal)) in served.iter().zip(&journals).enumerate() {
        servers.push((format!("http{number}"), remote("http", served.url())));
        let script = mute.clone().journal(journal);
        servers.push((format!("stdio{number}"), ScriptedProgram::config_entry(&script)));
    }
    test_host.apply(&named(&servers)).await;
    let asked = || served.iter().filter(|it| !it.requests().is_empty()).count();
    let heard =
        || journals.iter().filter(|it| !testkit::scripted::read_journal(it).is_empty()).count();
    let mut watch = test_host.host.watch();
    let both = async {
        while (asked(), heard()) != (2, 2) {
            let _woken = tokio::time::timeout(Duration::from_millis(10), watch.changed()).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(8), both).await.expect("two of each are asked");
    // A third would come right behind.
    let _nothing = tokio::time::timeout(Duration::from_millis(500), watch.changed()).await;
    assert_eq!((asked(), heard()), (2, 2));
    test_host.stop().await;
}

#[tokio::test]
async fn a_server_has_as_long_as_its_entry_says_and_then_all_of_it_is_gone() {
    let test_host = TestHost::with(|options| options.connect_timeout = Duration::from_millis(1200));
    let marker = format!("ZOO_MARK=late-{}", std::process::id());
    let script =
        Script::legacy().quirk(Quirk::ForksGrandchildren { n: 2 }).quirk(Quirk::NeverAnswers);
    let env = json!({"ZOO_MARK": marker.strip_prefix("ZOO_MARK=")});
    let entry = with_member(&ScriptedProgram::config_entry(&script), "env", env);
    let mute = ScriptedServer::ws(Script::legacy().quirk(Quirk::NeverAnswers));
    test_host
        .apply(&[
            ("usual", entry.clone()),
            ("own", with_member(&entry, "timeout", json!(700))),
            ("remote", remote("ws", mute.url())),
        ])
        .await;
    let snapshot = test_host.settled().await;
    for (name, limit) in [("usual", 1200), ("own", 700), ("remote", 1200)] {
        let view = &snapshot.servers[name];
        let silent = FailureKind::Timeout(Duration::from_millis(limit));
        assert_eq!(cause(view).kind, silent, "{name}: {view:#?}");
    }
    assert_eq!(processes::processes_with_environment(&marker), [0; 0]);
    test_host.stop().await;
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("it is there").count()
}

/// A server that knows just enough, and starts faster than anything that is compiled with checks.
const CHEAP: &str = r#"while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"serverInfo\":{\"name\":\"cheap\",\"version\":\"1\"}}}" ;;
    *'"id"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}" ;;
  esac
done"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_programs_at_once_need_few_threads_and_leave_nothing_behind() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
        .expect("it may be more");
    let test_host = TestHost::with(|options| options.max_concurrent_local = 100);
    let marker = format!("ZOO_MARK=many-{}", std::process::id());
    let entry = json!({
        "command": "sh",
        "args": ["-c", CHEAP],
        "env": {"ZOO_MARK": marker.strip_prefix("ZOO_MARK=")},
    });
    let servers: Vec<(String, String)> =
        (0..500).map(|number| (format!("s{number}"), entry.to_string())).collect();
    test_host.apply(&named(&servers)).await;
    let mut most = 0;
    let mut watch = test_host.host.watch();
    while !watch.borrow_and_update().is_settled() {
        most = most.max(threads());
        let changed = tokio::time::timeout(crate::support::TIMEOUT, watch.changed()).await;
        changed.expect("something happens").expect("the host is there");
    }
    let snapshot = test_host.host.snapshot();
    let failed = snapshot.servers.values().find(|it| !is_connected(it));
    assert!(failed.is_none(), "{failed:#?}");
    assert!(most < 40, "{most} threads");
    assert_eq!(processes::processes_with_environment(&marker).len(), 500);
    test_host.stop().await;
    assert_eq!(processes::processes_with_environment(&marker), [0; 0]);
}
