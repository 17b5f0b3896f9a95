//! What every store must do, checked with the store in memory and with real servers: one server, a cluster, a server behind
//! a sentinel, and one that requires TLS and a password.

use std::fs;
use std::time::Duration;

use testkit::store_server::StoreServer;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};

use super::memory::MemoryStore;
use super::redis::RedisStore;
use super::redis::target::StoreTarget;
use super::store::*;

const TTL: Duration = Duration::from_secs(60);
const TEST_TIMEOUT: Duration = Duration::from_secs(20);
const A: ReplicaId = ReplicaId(0xa);
const B: ReplicaId = ReplicaId(0xb);

fn heartbeat(replica: ReplicaId, generation: u64) -> Heartbeat {
    Heartbeat {
        replica,
        info: vec![0, 255, b'\n'],
        ttl: Duration::from_secs(5),
        new_generation: generation,
        known_lists: 0,
    }
}

fn event(position: u64, number: u64) -> StoredEvent {
    StoredEvent { position, stream: 3, number, bytes: vec![0, 200, number as u8] }
}

/// Runs all checks.
async fn check(store: &dyn StateStore) {
    check_fleet(store).await;
    check_sessions(store).await;
    check_values(store).await;
    check_rates(store).await;
    check_call_counts(store).await;
    check_locks(store).await;
}

async fn check_fleet(store: &dyn StateStore) {
    let first = store.beat(&heartbeat(A, 41)).await.expect("it is there");
    assert_eq!((first.generation, first.replicas.len()), (41, 1));
    let second = store.beat(&heartbeat(B, 42)).await.expect("it is there");
    assert_eq!(second.generation, 41, "the first replica has named it");
    assert_eq!(second.replicas[&A], [0, 255, b'\n']);
    store.put_entry(SharedList::Approvals, ("a", b"\x00x"), TTL).await.expect("written");
    let read = store.beat(&heartbeat(A, 0)).await.expect("it is there");
    let lists = read.lists.expect("they are new");
    assert_eq!(lists[&SharedList::Approvals]["a"], b"\x00x");
    let known = Heartbeat { known_lists: read.lists_revision, ..heartbeat(A, 0) };
    assert_eq!(store.beat(&known).await.expect("it is there").lists, None);
    store.put_entry(SharedList::Approvals, ("a", b""), TTL).await.expect("written");
    let read = store.beat(&known).await.expect("it is there").lists.expect("they have changed");
    assert!(read.get(&SharedList::Approvals).is_none_or(|it| it.is_empty()));
    store.put_entry(SharedList::Revocations, ("r", b"x"), TTL).await.expect("written");
    let read = store.beat(&known).await.expect("it is there").lists.expect("they have changed");
    assert_eq!(read[&SharedList::Revocations]["r"], b"x");
    store.leave(B).await.expect("it is there");
    let left = store.beat(&heartbeat(A, 0)).await.expect("it is there").replicas;
    assert_eq!(left.into_keys().collect::<Vec<_>>(), [A]);
}

async fn check_sessions(store: &dyn StateStore) {
    let id = "0123456789abcdef";
    assert_eq!(store.find_session(id).await, Ok(None));
    let session =
        StoredSession { owner: Some(A), epoch: 1, record: vec![0, 1, 254], last_stream: 0 };
    assert_eq!(store.create_session(id, &session, TTL).await, Ok(SessionWrite::Written));
    assert_eq!(store.find_session(id).await, Ok(Some(session.clone())));
    let changes = SessionChanges {
        opened: vec![(3, b"call".to_vec()), (4, b"other".to_vec())],
        events: vec![event(1, 0), event(2, 1)],
        ..SessionChanges::default()
    };
    let write = |epoch, changes: SessionChanges| async move {
        store.change_session(id, epoch, (&changes, TTL)).await
    };
    assert_eq!(write(1, changes.clone()).await, Ok(SessionWrite::Written));
    // The answer to the first write was lost.
    let again = SessionChanges {
        events: vec![event(2, 1), event(3, 2)],
        closed: vec![4],
        record: Some(b"new".to_vec()),
        ..SessionChanges::default()
    };
    assert_eq!(write(1, again).await, Ok(SessionWrite::Written));
    let taken = store.take_over(id, 1, (B, TTL)).await.expect("it is there").expect("it is free");
    assert_eq!(taken.session.epoch, 2);
    assert_eq!((taken.session.record, taken.session.last_stream), (b"new".to_vec(), 4));
    assert_eq!(taken.events, [event(1, 0), event(2, 1), event(3, 2)]);
    assert_eq!(taken.open_calls, [(3, b"call".to_vec())].into());
    assert_eq!(store.take_over(id, 1, (A, TTL)).await, Ok(None), "another was faster");
    assert_eq!(write(1, changes.clone()).await, Ok(SessionWrite::NotOwner));
    assert_eq!(store.create_session(id, &session, TTL).await, Ok(SessionWrite::NotOwner));
    let trim = SessionChanges { trim_before: 3, ..SessionChanges::default() };
    assert_eq!(write(2, trim).await, Ok(SessionWrite::Written));
    store.release_session(id, 1).await.expect("it is there");
    let owner = store.find_session(id).await.expect("it is there").expect("kept").owner;
    assert_eq!(owner, Some(B), "only the owner can release it");
    store.release_session(id, 2).await.expect("it is there");
    assert_eq!(store.find_session(id).await.expect("it is there").expect("kept").owner, None);
    let taken = store.take_over(id, 2, (A, TTL)).await.expect("it is there").expect("it is free");
    assert_eq!((taken.session.epoch, taken.events), (3, vec![event(3, 2)]));
    store.remove_session(id, 2).await.expect("it is there");
    assert!(store.find_session(id).await.expect("it is there").is_some());
    store.remove_session(id, 3).await.expect("it is there");
    assert_eq!(store.find_session(id).await, Ok(None));
    assert_eq!(write(3, changes).await, Ok(SessionWrite::Missing));
    let short = Duration::from_millis(30);
    store.create_session("short", &session, short).await.expect("it is there");
    until_gone(async || store.find_session("short").await.expect("it is there").is_none()).await;
}

/// Polls until something has expired.
async fn until_gone(is_gone: impl AsyncFn() -> bool) {
    let mut poll = interval(Duration::from_millis(10));
    let waiting = async {
        while !is_gone().await {
            poll.tick().await;
        }
    };
    timeout(TEST_TIMEOUT, waiting).await.expect("it expires");
}

async fn check_values(store: &dyn StateStore) {
    assert_eq!(store.get("key").await, Ok(None));
    assert_eq!(store.put_new("key", b"\x00\xff", TTL).await, Ok(true));
    assert_eq!(store.put_new("key", b"other", TTL).await, Ok(false));
    assert_eq!(store.get("key").await, Ok(Some(b"\x00\xff".to_vec())));
    store.put("key", b"changed", Duration::from_millis(30)).await.expect("it is there");
    assert_eq!(store.get("key").await, Ok(Some(b"changed".to_vec())));
    until_gone(async || store.get("key").await == Ok(None)).await;
    let members = |of: &[(&str, u8)]| -> Vec<(String, Vec<u8>)> {
        of.iter().map(|(member, value)| ((*member).to_owned(), vec![0, *value])).collect()
    };
    store.add_members("set", &members(&[("a", 1), ("b", 2)]), TTL).await.expect("it is there");
    let short = Duration::from_millis(30);
    store.add_members("set", &members(&[("b", 3)]), short).await.expect("it is there");
    let mut values = store.members("set").await.expect("it is there");
    values.sort_unstable();
    assert_eq!(values, [[0, 1], [0, 3]]);
    until_gone(async || store.members("set").await == Ok(Vec::new())).await;
}

async fn check_rates(store: &dyn StateStore) {
    let request = TokenRequest { per_second: 10, at_least: 1, at_most: 4 };
    let mut granted = 0;
    let wait = loop {
        match store.take_tokens("ada", request).await.expect("it is there") {
            TokenGrant::Granted(tokens) => granted += tokens,
            TokenGrant::RetryAfter(wait) => break wait,
        }
    };
    // A burst of a second, and what has come back meanwhile.
    assert!((10..20).contains(&granted), "{granted}");
    assert!(wait <= Duration::from_millis(100), "{wait:?}");
    let other = store.take_tokens("bob", request).await;
    assert_eq!(other, Ok(TokenGrant::Granted(4)));
}

async fn check_call_counts(store: &dyn StateStore) {
    let charge = |quota: &str| CallCharge {
        quota: quota.to_owned(),
        per_minute: None,
        per_day: None,
        concurrent: None,
    };
    let start = async |charges: &[CallCharge], slot: &str| {
        store.start_call("ada", charges, (slot, TTL)).await.expect("it is there")
    };
    let refused = |started: CallStart| match started {
        CallStart::Counted => panic!("it is counted"),
        CallStart::Exceeded { charge, limit, retry_after } => (charge, limit, retry_after),
    };
    // Calls at the same time, in two quotas.
    let both = [charge("all"), CallCharge { concurrent: Some(1), ..charge("one") }];
    assert_eq!(start(&both, "a").await, CallStart::Counted);
    let (index, limit, wait) = refused(start(&both, "b").await);
    assert_eq!((index, limit, wait), (1, CallLimit::Concurrent, Duration::from_secs(1)));
    let counts = store.call_counts("ada", &both).await.expect("it is there");
    let counted = CallCounts { minute: 0, day: 1, running: 1 };
    assert_eq!(counts, [counted, counted], "the refused call is counted for no quota");
    store.end_calls(("ada", "one"), &["a".into()]).await.expect("it is there");
    assert_eq!(start(&both, "b").await, CallStart::Counted);
    // A slot ends with its time to live, unless it is renewed; a renewed slot need not be known.
    let one = &both[1..];
    let short = Duration::from_millis(30);
    store.renew_calls(("ada", "one"), &["b".into(), "c".into()], short).await.expect("renewed");
    let running = async || store.call_counts("ada", one).await.expect("it is there")[0].running;
    until_gone(async || running().await == 0).await;
    store.renew_calls(("ada", "one"), &["d".into()], TTL).await.expect("renewed");
    assert_eq!(refused(start(one, "e").await).1, CallLimit::Concurrent);
    let bob = store.start_call("bob", one, ("a", TTL)).await;
    assert_eq!(bob, Ok(CallStart::Counted), "an account of its own");
    // Calls per day.
    let day = [CallCharge { per_day: Some(2), ..charge("day") }];
    assert_eq!([start(&day, "a").await, start(&day, "b").await], [CallStart::Counted; 2]);
    let (_, limit, wait) = refused(start(&day, "c").await);
    assert!(limit == CallLimit::Day && wait <= Duration::from_secs(24 * 3600), "{wait:?}");
    assert_eq!(store.call_counts("ada", &day).await.expect("it is there")[0].day, 2);
    // Calls per minute: a burst, and then at the rate.
    let minute = [CallCharge { per_minute: Some(7), ..charge("minute") }];
    for number in 0..7 {
        assert_eq!(start(&minute, &number.to_string()).await, CallStart::Counted, "{number}");
    }
    let (_, limit, wait) = refused(start(&minute, "x").await);
    assert_eq!(limit, CallLimit::Minute);
    assert!(wait > Duration::ZERO && wait <= Duration::from_millis(8572), "{wait:?}");
    assert_eq!(store.call_counts("ada", &minute).await.expect("it is there")[0].minute, 7);
}

async fn check_locks(store: &dyn StateStore) {
    let first = store.lock("login", ("a", TTL)).await.expect("it is there").expect("it is free");
    assert_eq!(store.lock("login", ("b", TTL)).await, Ok(None));
    store.unlock("login", "b").await.expect("it is there");
    assert_eq!(store.lock("login", ("b", TTL)).await, Ok(None), "only its holder can free it");
    store.unlock("login", "a").await.expect("it is there");
    let short = Duration::from_millis(30);
    let second = store.lock("login", ("b", short)).await.expect("it is there").expect("free");
    assert!(second > first);
    until_gone(async || store.lock("login", ("c", TTL)).await.is_ok_and(|it| it.is_some())).await;
}

/// A store at a URL once it is connected, and the task that keeps it so.
async fn connected(url: &str, authorities: Option<&[u8]>) -> (RedisStore, JoinHandle<()>) {
    let target = StoreTarget::parse(url, authorities).expect("a URL");
    let (store, running) = RedisStore::new(target, "test");
    let task = tokio::spawn(running);
    until_gone(async || store.get("anything").await.is_ok()).await;
    (store, task)
}

async fn check_url(url: &str, authorities: Option<&[u8]>) {
    let (store, task) = connected(url, authorities).await;
    check(&store).await;
    drop(store);
    timeout(TEST_TIMEOUT, task).await.expect("it ends with its store").expect("no panic");
}

#[tokio::test]
async fn the_store_in_memory_keeps_the_contract() {
    check(&MemoryStore::default()).await;
}

#[tokio::test]
async fn a_server_keeps_the_contract_and_every_key_expires() {
    let server = StoreServer::start();
    check_url(&server.url(), None).await;
    let keys = server.command(&["keys", "*"]);
    assert!(keys.lines().count() > 3, "{keys}");
    for key in keys.lines() {
        let ttl: i64 = server.command(&["pttl", key]).trim().parse().expect("a number");
        assert!(ttl > 0, "{key}: {ttl}");
    }
}

#[tokio::test]
async fn a_cluster_keeps_the_contract() {
    let server = StoreServer::start_with(&["--cluster-enabled", "yes"]);
    server.command(&["cluster", "addslotsrange", "0", "16383"]);
    check_url(&format!("redis-cluster://127.0.0.1:{}", server.port()), None).await;
}

#[tokio::test]
async fn a_server_that_a_sentinel_names_keeps_the_contract() {
    let server = StoreServer::start();
    let file = server.folder().join("sentinel.conf");
    let monitor = format!("sentinel monitor main 127.0.0.1 {} 1\n", server.port());
    fs::write(&file, monitor).expect("written");
    let sentinel = StoreServer::start_sentinel(&file);
    check_url(&format!("redis-sentinel://127.0.0.1:{}/main", sentinel.port()), None).await;
}

#[tokio::test]
async fn a_server_with_tls_and_a_password_keeps_the_contract() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("made");
    fs::write(&certificate, made.cert.pem()).expect("written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let path = |it: &std::path::Path| it.to_str().expect("text").to_owned();
    let server = StoreServer::start_with(&[
        "--port",
        "0",
        "--tls-port",
        "{port}",
        "--tls-auth-clients",
        "no",
        "--tls-cert-file",
        &path(&certificate),
        "--tls-key-file",
        &path(&key),
        "--requirepass",
        "p@ss/word",
    ]);
    let url = |password: &str| format!("rediss://:{password}@127.0.0.1:{}", server.port());
    let authority = made.cert.pem();
    check_url(&url("p%40ss%2Fword"), Some(authority.as_bytes())).await;
    for (url, authorities) in
        [(url("wrong"), Some(authority.as_bytes())), (url("p%40ss%2Fword"), None)]
    {
        let target = StoreTarget::parse(&url, authorities).expect("a URL");
        let (store, running) = RedisStore::new(target, "test");
        let _never_connected = timeout(Duration::from_secs(1), running).await;
        assert_eq!(store.get("key").await, Err(StoreError::Away), "a wrong password or authority");
    }
}

#[tokio::test]
async fn a_store_that_is_away_fails_at_once_and_is_used_again_when_it_is_back() {
    let mut server = StoreServer::start();
    let (store, task) = connected(&server.url(), None).await;
    server.kill();
    until_gone(async || store.get("key").await == Err(StoreError::Away)).await;
    assert_eq!(store.put("key", b"x", TTL).await, Err(StoreError::Away));
    server.restart();
    until_gone(async || store.put("key", b"x", TTL).await.is_ok()).await;
    server.suspend();
    assert_eq!(store.get("key").await, Err(StoreError::Away), "it does not answer in time");
    server.resume();
    until_gone(async || store.get("key").await == Ok(Some(b"x".to_vec()))).await;
    drop(store);
    timeout(TEST_TIMEOUT, task).await.expect("it ends with its store").expect("no panic");
}
