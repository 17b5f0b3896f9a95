//! Many servers at once: how many start in parallel, which wait for which, and what remains afterwards.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use switchboard::FailureKind;
use switchboard::connection::{RetryPolicy, Status};
use testkit::{Quirk, Script, ScriptedProgram, ScriptedServer, processes};

use crate::support::{TestHost, cause, is_connected, remote, with_member};

fn named(servers: &[(String, String)]) -> Vec<(&str, String)> {
    servers.iter().map(|(name, entry)| (name.as_str(), entry.clone())).collect()
}

#[tokio::test]
async fn an_unresponsive_server_blocks_no_other() {
    let test_host = TestHost::with(|options| options.max_concurrent_local = 1);
    let unresponsive = ScriptedProgram::config_entry(&Script::legacy().quirk(Quirk::NeverAnswers));
    let mut servers = vec![("a-mute".to_owned(), unresponsive)];
    let good = ScriptedProgram::config_entry(&Script::legacy());
    servers.extend((0..12).map(|number| (format!("s{number}"), good.clone())));
    test_host.apply(&named(&servers)).await;
    let snapshot = test_host
        .until(|it| it.servers.values().filter(|view| is_connected(view)).count() == 12)
        .await;
    let unresponsive = &snapshot.servers["a-mute"];
    assert!(matches!(unresponsive.status, Status::Pending { attempt: 1, .. }), "{unresponsive:#?}");
    test_host.stop().await;
}

/// A server that works for more than a second before it answers, notes that it works, and notes where another one
/// works at the same time.
fn busy_server(folder: &Path) -> String {
    let folder = folder.display();
    let work = "i=0; while [ $i -lt 2500000 ]; do i=$((i+1)); done";
    let script = format!(
        "mkdir {folder}/working || touch {folder}/overlap; {work}; rmdir {folder}/working; {CHEAP}"
    );
    json!({"command": "sh", "args": ["-c", script]}).to_string()
}

#[tokio::test]
async fn a_start_counts_against_the_window_for_as_long_as_it_works() {
    let test_host = TestHost::with(|options| {
        options.max_concurrent_local = 1;
        options.connect_timeout = Duration::from_secs(300);
    });
    let folder = test_host.folder.path();
    let busy = busy_server(folder);
    test_host.apply(&[("one", busy.clone()), ("two", busy)]).await;
    let snapshot = test_host.host.settled().await;
    assert!(snapshot.servers.values().all(|it| is_connected(it)), "{snapshot:#?}");
    assert!(!folder.join("overlap").exists(), "both worked at the same time");
    test_host.stop().await;
}

#[tokio::test]
async fn a_server_that_a_caller_waits_for_waits_for_no_slot() {
    let test_host = TestHost::with(|options| options.max_concurrent_local = 1);
    // Each of these holds the only slot until the connect timeout.
    let busy = json!({"command": "sh", "args": ["-c", "while :; do :; done"]}).to_string();
    let mut servers: Vec<(String, String)> =
        (0..4).map(|number| (format!("busy{number}"), busy.clone())).collect();
    servers.push(("used".to_owned(), json!({"command": "sh", "args": ["-c", CHEAP]}).to_string()));
    test_host.apply(&named(&servers)).await;
    let connected = test_host.host.ensure_connected("used");
    let connected = tokio::time::timeout(crate::support::TIMEOUT, connected).await;
    connected.expect("it does not wait for the others").expect("it is connected");
    test_host.stop().await;
}

#[tokio::test]
async fn concurrent_connects_are_limited() {
    let test_host = TestHost::with(|options| {
        options.max_concurrent_remote = 2;
        options.max_concurrent_local = 2;
    });
    // No server ever responds, so only the admitted ones receive requests.
    let unresponsive = Script::legacy().quirk(Quirk::NeverAnswers);
    let server: Vec<ScriptedServer> =
        (0..6).map(|_| ScriptedServer::http(unresponsive.clone())).collect();
    let journals: Vec<_> =
        (0..6).map(|it| test_host.folder.path().join(format!("j{it}"))).collect();
    let mut servers = Vec::new();
    for (number, (server, journal)) in server.iter().zip(&journals).enumerate() {
        servers.push((format!("http{number}"), remote("http", server.url())));
        let script = unresponsive.clone().journal(journal);
        servers.push((format!("stdio{number}"), ScriptedProgram::config_entry(&script)));
    }
    test_host.apply(&named(&servers)).await;
    let contacted = || server.iter().filter(|it| !it.requests().is_empty()).count();
    let started =
        || journals.iter().filter(|it| !testkit::scripted::read_journal(it).is_empty()).count();
    let mut watch = test_host.host.watch();
    let both = async {
        while (contacted(), started()) != (2, 2) {
            let _woken = tokio::time::timeout(Duration::from_millis(10), watch.changed()).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(8), both).await.expect("two of each are contacted");
    // A third one would follow immediately.
    let _nothing = tokio::time::timeout(Duration::from_millis(500), watch.changed()).await;
    assert_eq!((contacted(), started()), (2, 2));
    test_host.stop().await;
}

#[tokio::test]
async fn a_server_is_killed_after_its_configured_timeout() {
    let test_host = TestHost::with(|options| {
        options.connect_timeout = Duration::from_millis(1200);
        options.retry_policy = RetryPolicy::NoRetry;
    });
    let marker = format!("ZOO_MARK=late-{}", std::process::id());
    let script =
        Script::legacy().quirk(Quirk::ForksGrandchildren { n: 2 }).quirk(Quirk::NeverAnswers);
    let env = json!({"ZOO_MARK": marker.strip_prefix("ZOO_MARK=")});
    let entry = with_member(&ScriptedProgram::config_entry(&script), "env", env);
    let unresponsive = ScriptedServer::ws(Script::legacy().quirk(Quirk::NeverAnswers));
    test_host
        .apply(&[
            // The timeout of its calls.
            ("usual", with_member(&entry, "timeout", json!(700))),
            ("own", with_member(&entry, "connectTimeout", json!(700))),
            ("remote", remote("ws", unresponsive.url())),
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

/// A minimal server that starts fast.
const CHEAP: &str = r#"while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"serverInfo\":{\"name\":\"cheap\",\"version\":\"1\"}}}" ;;
    *'"id"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}" ;;
  esac
done"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_programs_need_few_threads_and_leave_no_processes() {
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
