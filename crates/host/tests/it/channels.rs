//! Channels: which servers may send messages into a session, what becomes of the messages, and permission requests that are
//! sent to channels.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::channel::{
    ChannelAccess, ChannelDeclaration, ChannelInbox, ChannelMessage, ChannelPolicy, ChannelRecord,
    ChannelRefusal, ChannelRelay, ChannelSelector, ChannelState, ChannelView, PermissionQuestion,
    RelayAnswer, RelayVerdict, RelayedRequest,
};
use switchboard::config::plugin::PluginId;
use switchboard::sources::{DesiredServer, Paths, desired_servers};
use switchboard::{RetryPolicy, StderrLog};
use testkit::scripted::read_journal;
use testkit::{ChannelFeed, ChannelScript, Quirk, Script, ScriptedProgram, ScriptedServer};
use tokio::time::timeout;

use crate::support::{TIMEOUT, TestHost, effective, is_connected, remote};

/// A host with a conversation that takes messages.
struct ChannelHost {
    test_host: TestHost,
    inbox: ChannelInbox,
    access: ChannelAccess,
}

fn selector(text: &str) -> ChannelSelector {
    ChannelSelector::parse(text).expect("a selector")
}

/// Access for servers that the user confirmed.
fn confirmed(names: &[&str]) -> ChannelAccess {
    let development = names.iter().map(|it| selector(&format!("server:{it}"))).collect();
    ChannelAccess { development, ..ChannelAccess::default() }
}

fn plugin(plugin: &str, marketplace: &str) -> PluginId {
    PluginId::new(plugin, marketplace).expect("two names")
}

fn entry(script: Script) -> String {
    ScriptedProgram::config_entry(&script)
}

fn channel(script: ChannelScript) -> String {
    entry(Script::legacy().channel(script))
}

impl ChannelHost {
    async fn new(access: ChannelAccess, servers: &[(&str, String)]) -> ChannelHost {
        let host = ChannelHost::empty(access).await;
        host.test_host.apply(servers).await;
        host.test_host.settled().await;
        host
    }

    async fn empty(access: ChannelAccess) -> ChannelHost {
        let test_host = TestHost::with(|it| it.retry_policy = RetryPolicy::NoRetry);
        let inbox = test_host.host.open_channel_inbox().expect("there is no other");
        test_host.host.set_channels(access.clone()).await;
        ChannelHost { test_host, inbox, access }
    }

    async fn next(&mut self) -> ChannelMessage {
        timeout(TIMEOUT, self.inbox.next()).await.expect("it comes").expect("the host runs")
    }

    async fn next_text(&mut self) -> (String, String) {
        let message = self.next().await;
        (message.server, message.content)
    }

    /// The channel's view, once a condition holds.
    async fn channel_when(
        &self,
        name: &str,
        condition: impl Fn(&ChannelView) -> bool,
    ) -> ChannelView {
        let waiting = async {
            loop {
                // Publishes the numbers.
                self.test_host.host.set_channels(self.access.clone()).await;
                let snapshot = self.test_host.host.snapshot();
                let view = snapshot.servers.get(name).and_then(|it| it.channel.clone());
                if let Some(view) = view.filter(&condition) {
                    return view;
                }
                tokio::task::yield_now().await;
            }
        };
        match timeout(TIMEOUT, waiting).await {
            Ok(view) => view,
            Err(_) => panic!("it never came to that: {:#?}", self.test_host.host.snapshot()),
        }
    }

    async fn dropped(&self, name: &str, total: u64) -> BTreeMap<String, u64> {
        let view = self.channel_when(name, |it| it.counts.total_dropped() >= total).await;
        view.counts.dropped
    }

    async fn stop(self) {
        self.test_host.stop().await;
    }
}

fn counted(reasons: &[(&str, u64)]) -> BTreeMap<String, u64> {
    reasons.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
}

#[tokio::test]
async fn messages_come_in_order_with_their_attributes() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let feed = ChannelFeed::in_folder(folder.path());
    let script = ChannelScript::default()
        .message(json!({"content": "first", "meta": {"user": "ann", "chat_id": 7}}))
        .message(json!({"content": "second"}))
        .fed_by(&feed);
    let mut host = ChannelHost::new(confirmed(&["chat"]), &[("chat", channel(script))]).await;
    let first = host.next().await;
    let meta = [("user", "ann"), ("chat_id", "7")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!((first.server.as_str(), first.content.as_str()), ("chat", "first"));
    assert_eq!(first.meta, meta);
    feed.message("third", &json!({}));
    assert_eq!(host.next_text().await.1, "second");
    assert_eq!(host.next_text().await.1, "third");
    let view = host.channel_when("chat", |it| it.counts.delivered == 3).await;
    assert_eq!(view.state, ChannelState::Registered);
    assert_eq!(view.declaration, Some(ChannelDeclaration::Messages));
    assert_eq!(view.to_string(), "registered; 3 delivered, 0 dropped");
    host.stop().await;
}

#[tokio::test]
async fn a_plugin_is_a_channel_only_if_it_is_selected_and_on_the_list() {
    let listed = |allowed: &[PluginId], selected: &[&str]| ChannelAccess {
        policy: ChannelPolicy {
            is_enabled: true,
            allowed: allowed.to_vec(),
            ..ChannelPolicy::default()
        },
        selected: selected.iter().map(|it| selector(it)).collect(),
        ..ChannelAccess::default()
    };
    let chat = plugin("chat", "lab");
    let option = ["plugin:chat@lab"];
    let script = ChannelScript::default().message(json!({"content": "hi"}));
    for (access, expected) in [
        (listed(std::slice::from_ref(&chat), &option), ChannelState::Registered),
        (listed(&[], &option), ChannelState::Refused(ChannelRefusal::NotListed(chat.clone()))),
        (
            listed(&[plugin("chat", "elsewhere")], &option),
            ChannelState::Refused(ChannelRefusal::NotListed(chat.clone())),
        ),
        (
            listed(std::slice::from_ref(&chat), &[]),
            ChannelState::Refused(ChannelRefusal::NotSelected),
        ),
    ] {
        let host = ChannelHost::empty(access).await;
        let desired = desired_servers(&effective(&[("chat", channel(script.clone()))]));
        let with_plugin = |it| DesiredServer { plugin: Some(chat.clone()), ..it };
        host.test_host.host.apply_servers(desired.into_iter().map(with_plugin).collect()).await;
        let received = |it: &ChannelView| it.counts.delivered + it.counts.total_dropped() == 1;
        let view = host.channel_when("chat", received).await;
        assert_eq!(view.state, expected);
        let is_registered = expected == ChannelState::Registered;
        assert_eq!(view.counts.delivered, u64::from(is_registered));
        host.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_is_no_channel_of_the_session_works_and_its_messages_are_counted() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let feed = ChannelFeed::in_folder(folder.path());
    let mut script = ChannelScript::default().fed_by(&feed);
    for text in ["one", "two", "three"] {
        script = script.message(json!({"content": text}));
    }
    let host = ChannelHost::new(confirmed(&["other"]), &[("chat", channel(script))]).await;
    assert_eq!(host.dropped("chat", 3).await, counted(&[("not-selected", 3)]));
    let echoed = host.test_host.call("chat", "echo", json!({"text": "still"})).await;
    assert!(echoed.is_ok(), "{echoed:?}");
    let paths = Paths::in_dir(&host.test_host.folder.path().canonicalize().expect("it is there"));
    let log = host.test_host.host.stderr_log().clone();
    let _kept = host.test_host.folder.clone();
    host.stop().await;
    log.flush().await;
    let [_, file] = StderrLog::files_in(&paths.logs(), "chat");
    let text = std::fs::read_to_string(file).expect("there is a log");
    assert_eq!(text.matches("a channel message was dropped").count(), 1, "{text}");
    assert!(text.contains("was not started with `--channels` for it"), "{text}");
    assert!(text.contains("0 delivered, 3 dropped (not selected 3)"), "{text}");
    let record = ChannelRecord::load(&paths, "chat").expect("it was written");
    assert_eq!((record.state.as_str(), record.counts.total_dropped()), ("not-selected", 3));
}

#[tokio::test]
async fn a_command_without_a_conversation_takes_no_messages_and_leaves_no_record() {
    let test_host = TestHost::without_retries();
    test_host.host.set_channels(confirmed(&["chat"])).await;
    let script = ChannelScript::default().message(json!({"content": "x"}));
    test_host.apply(&[("chat", channel(script))]).await;
    let is_counted = |it: &switchboard::ServerView| {
        it.channel.as_ref().is_some_and(|it| it.counts.total_dropped() == 1)
    };
    let view = test_host.view_when("chat", is_counted).await;
    let state = view.channel.as_ref().map(|it| it.state.clone());
    assert_eq!(state, Some(ChannelState::Refused(ChannelRefusal::NoSession)));
    let paths = Paths::in_dir(&test_host.folder.path().canonicalize().expect("it is there"));
    let _kept = test_host.folder.clone();
    test_host.stop().await;
    assert_eq!(ChannelRecord::load(&paths, "chat"), None);
}

#[tokio::test]
async fn other_eras_transports_and_declarations_are_no_channels() {
    let says = || ChannelScript::default().message(json!({"content": "x"}));
    let http = ScriptedServer::http(Script::legacy().channel(says()));
    let names = ["modern", "remote", "denied", "silent", "plain"];
    let servers = [
        ("modern", entry(Script::modern().channel(says()))),
        ("remote", remote("http", http.url())),
        ("denied", channel(says().declaring(json!(false)))),
        ("silent", channel(ChannelScript::default().declaring(Json::Null))),
        ("plain", entry(Script::legacy())),
    ];
    let host = ChannelHost::new(confirmed(&names), &servers).await;
    let snapshot = host.test_host.host.snapshot();
    assert!(snapshot.servers.values().all(|it| is_connected(it)), "{snapshot:#?}");
    let state = |name: &str| snapshot.servers[name].channel.as_ref().map(|it| it.state.clone());
    let refused = |refusal| Some(ChannelState::Refused(refusal));
    assert_eq!(state("modern"), refused(ChannelRefusal::ModernProtocol));
    let kind = switchboard::config::entry::server::TransportKind::Http;
    assert_eq!(state("remote"), refused(ChannelRefusal::Transport(kind)));
    // Selected, so the user is told why nothing comes.
    for name in ["denied", "silent", "plain"] {
        assert_eq!(state(name), Some(ChannelState::Undeclared), "{name}");
    }
    assert_eq!(host.dropped("modern", 1).await, counted(&[("modern-protocol", 1)]));
    assert_eq!(host.dropped("denied", 1).await, counted(&[("not-declared", 1)]));
    host.stop().await;
}

#[tokio::test]
async fn a_permission_that_is_taken_away_holds_at_once() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let feed = ChannelFeed::in_folder(folder.path());
    let script = ChannelScript::default().fed_by(&feed);
    let mut host = ChannelHost::new(confirmed(&["chat"]), &[("chat", channel(script))]).await;
    feed.message("before", &json!({}));
    assert_eq!(host.next_text().await.1, "before");
    host.access = ChannelAccess::default();
    host.test_host.host.set_channels(ChannelAccess::default()).await;
    feed.message("after", &json!({}));
    assert_eq!(host.dropped("chat", 1).await, counted(&[("not-selected", 1)]));
    assert!(host.inbox.take_waiting().is_none());
    host.stop().await;
}

#[tokio::test]
async fn what_is_no_message_is_dropped_for_its_own_reason() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let feed = ChannelFeed::in_folder(folder.path());
    let script = ChannelScript::with_permissions().fed_by(&feed);
    let mut host = ChannelHost::new(confirmed(&["chat"]), &[("chat", channel(script))]).await;
    let method = "notifications/claude/channel";
    for wrong in [json!({}), json!({"content": ["x"]}), json!("x"), json!({"content": null})] {
        feed.notify(method, &wrong);
    }
    feed.line(&json!({"jsonrpc": "2.0", "method": method}).to_string());
    feed.message(&"x".repeat(70_000), &json!({}));
    feed.message("kept", &json!({"a b": "1", "source": "boss", "ok": "2"}));
    let kept = host.next().await;
    assert_eq!((kept.content.as_str(), kept.meta.len()), ("kept", 1));
    // The relay is off.
    feed.answer("abcde", "allow");
    let expected = counted(&[("wrong-shape", 5), ("too-large", 1), ("relay-off", 1)]);
    assert_eq!(host.dropped("chat", 7).await, expected);
    let log = host.test_host.host.stderr_log().clone();
    log.flush().await;
    let [_, file] = log.files("chat");
    let text = std::fs::read_to_string(file).expect("there is a log");
    assert_eq!(text.matches("were left out").count(), 1, "{text}");
    host.stop().await;
}

#[tokio::test]
async fn a_flood_displaces_no_other_channel_and_every_message_is_counted() {
    const SENT: u64 = 5_000;
    let folder = tempfile::tempdir().expect("a temp folder");
    let feed = ChannelFeed::in_folder(folder.path());
    let quiet = ChannelScript::default().message(json!({"content": "quiet"}));
    let servers =
        [("loud", channel(ChannelScript::default().fed_by(&feed))), ("quiet", channel(quiet))];
    let mut host = ChannelHost::new(confirmed(&["loud", "quiet"]), &servers).await;
    for number in 0..SENT {
        feed.message(&format!("message {number}"), &json!({}));
    }
    let view = host
        .channel_when("loud", |it| it.counts.delivered + it.counts.total_dropped() >= SENT)
        .await;
    assert_eq!(view.counts.delivered + view.counts.total_dropped(), SENT);
    let reasons = ["queue-full", "too-fast"];
    assert!(view.counts.dropped.keys().all(|it| reasons.contains(&it.as_str())), "{view}");
    host.channel_when("quiet", |it| it.counts.delivered == 1).await;
    let mut taken = Vec::new();
    while let Some(message) = host.inbox.take_waiting() {
        taken.push(message);
    }
    assert_eq!(taken.len() as u64, view.counts.delivered + 1);
    assert!(taken.iter().any(|it| it.content == "quiet"));
    host.stop().await;
}

#[tokio::test]
async fn a_reconnect_ends_the_old_process_before_the_new_one_starts() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let feed = ChannelFeed::in_folder(folder.path());
    let script = Script::legacy()
        .quirk(Quirk::IgnoresStdinClose)
        .channel(ChannelScript::default().fed_by(&feed));
    let mut host = ChannelHost::new(confirmed(&["chat"]), &[("chat", entry(script))]).await;
    feed.message("one", &json!({}));
    assert_eq!(host.next_text().await.1, "one");
    let before = host.test_host.view("chat").await.pid;
    host.test_host.host.reconnect("chat").await.expect("there is such a server");
    let is_new =
        |it: &switchboard::ServerView| is_connected(it) && it.pid.is_some() && it.pid != before;
    host.test_host.view_when("chat", is_new).await;
    feed.message("two", &json!({}));
    assert_eq!(host.next_text().await.1, "two");
    let servers = feed.servers();
    assert_eq!((servers.started, servers.running, servers.most), (2, 1, 1));
    // The counts go on.
    host.channel_when("chat", |it| it.counts.delivered == 2).await;
    host.stop().await;
    assert!(!before.is_some_and(testkit::processes::is_alive));
}

#[tokio::test]
async fn a_changed_entry_ends_the_old_process_before_the_new_one_starts() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let feed = ChannelFeed::in_folder(folder.path());
    let script = |name: &str| {
        let channel = ChannelScript::default().fed_by(&feed);
        let script = Script::legacy().name(name).quirk(Quirk::IgnoresStdinClose);
        entry(script.channel(channel))
    };
    let mut host = ChannelHost::new(confirmed(&["chat"]), &[("chat", script("a"))]).await;
    feed.message("one", &json!({}));
    host.next().await;
    host.test_host.apply(&[("chat", script("b"))]).await;
    let is_new =
        |it: &switchboard::ServerView| it.server_info.as_ref().is_some_and(|it| it.name == "b");
    host.test_host.view_when("chat", is_new).await;
    feed.message("two", &json!({}));
    assert_eq!(host.next_text().await.1, "two");
    assert_eq!(feed.servers().most, 1);
    host.stop().await;
}

fn question() -> PermissionQuestion {
    PermissionQuestion {
        tool_name: "mcp__files__write".to_owned(),
        description: "about".to_owned(),
        input_preview: "{}".to_owned(),
    }
}

fn relaying(names: &[&str]) -> ChannelAccess {
    ChannelAccess { relay: ChannelRelay::On, ..confirmed(names) }
}

async fn answer(request: &mut RelayedRequest) -> RelayAnswer {
    timeout(TIMEOUT, request.answer()).await.expect("an answer comes")
}

#[tokio::test]
async fn a_channel_is_asked_and_its_first_answer_counts_once() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let journal = folder.path().join("journal");
    let script = ChannelScript::with_permissions().answers(&["allow", "deny", "allow"]);
    let script = Script::legacy().channel(script).journal(&journal);
    let host = ChannelHost::new(relaying(&["chat"]), &[("chat", entry(script))]).await;
    let mut request =
        host.test_host.host.relay_permission_request("files", &question()).expect("one channel");
    let expected = RelayAnswer { server: "chat".to_owned(), verdict: RelayVerdict::Allow };
    assert_eq!(answer(&mut request).await, expected);
    assert_eq!(host.dropped("chat", 2).await, counted(&[("unknown-request", 2)]));
    let asked: Vec<Json> = read_journal(&journal)
        .into_iter()
        .filter(|it| it["method"] == "notifications/claude/channel/permission_request")
        .collect();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let params = &asked[0]["params"];
    let id = params["request_id"].as_str().expect("an id");
    assert!(id.len() == 5 && id.bytes().all(|it| it.is_ascii_lowercase() && it != b'l'), "{id}");
    assert_eq!(
        (&params["tool_name"], &params["description"], &params["input_preview"]),
        (&json!("mcp__files__write"), &json!("about"), &json!("{}"))
    );
    drop(request);
    host.stop().await;
}

#[tokio::test]
async fn answers_to_closed_foreign_and_invented_requests_do_not_count() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let feed = ChannelFeed::in_folder(folder.path());
    let journal = folder.path().join("journal");
    let asked = ChannelScript::with_permissions();
    let servers = [
        ("asked", entry(Script::legacy().channel(asked).journal(&journal))),
        ("forger", channel(ChannelScript::with_permissions().fed_by(&feed))),
    ];
    let host = ChannelHost::new(relaying(&["asked", "forger"]), &servers).await;
    // About a tool of the forger itself, which is therefore not asked.
    let request =
        host.test_host.host.relay_permission_request("forger", &question()).expect("one channel");
    let sent = || {
        let mut all = read_journal(&journal);
        all.retain(|it| it["params"]["request_id"].is_string());
        all.first().map(|it| it["params"]["request_id"].as_str().expect("an id").to_owned())
    };
    let id = timeout(TIMEOUT, async {
        loop {
            match sent() {
                Some(id) => return id,
                None => tokio::task::yield_now().await,
            }
        }
    });
    let id = id.await.expect("it is sent");
    feed.answer(&id, "allow");
    feed.answer("zzzzz", "allow");
    feed.answer("*", "allow");
    feed.answer(&id, "always");
    let expected = counted(&[("unknown-request", 2), ("wrong-shape", 2)]);
    assert_eq!(host.dropped("forger", 4).await, expected);
    let mut request = request;
    let unanswered = timeout(Duration::from_millis(1), request.answer()).await;
    assert!(unanswered.is_err(), "{unanswered:?}");
    drop(request);
    host.stop().await;
}

#[tokio::test]
async fn only_registered_channels_that_declare_it_are_asked_and_only_while_the_relay_is_on() {
    let answering = || channel(ChannelScript::with_permissions().answers(&["allow"]));
    let servers = [
        ("messages", channel(ChannelScript::default().answers(&["allow"]))),
        (
            "denied",
            channel(ChannelScript {
                permission: json!(false),
                ..ChannelScript::default().answers(&["allow"])
            }),
        ),
        ("stranger", answering()),
        ("chat", answering()),
    ];
    let mut host = ChannelHost::new(relaying(&["messages", "denied", "chat"]), &servers).await;
    let relay = |host: &ChannelHost, about: &str| {
        host.test_host.host.relay_permission_request(about, &question())
    };
    let mut request = relay(&host, "files").expect("one channel");
    assert_eq!(answer(&mut request).await.server, "chat");
    assert!(relay(&host, "chat").is_none(), "a channel is not asked about itself");
    host.access = confirmed(&["messages", "denied", "chat"]);
    host.test_host.host.set_channels(host.access.clone()).await;
    assert!(relay(&host, "files").is_none(), "the relay is off by default");
    host.stop().await;
}

#[tokio::test]
async fn a_channel_is_not_asked_about_another_server_of_its_plugin() {
    let mut host = ChannelHost::empty(ChannelAccess::default()).await;
    let script = || channel(ChannelScript::with_permissions().answers(&["allow"]));
    let servers = [("chat", script()), ("tools", script()), ("other", script())];
    let desired = desired_servers(&effective(&servers)).into_iter().map(|it| {
        let name = if it.name() == "other" { "other" } else { "chat" };
        DesiredServer { plugin: Some(plugin(name, "lab")), ..it }
    });
    host.access = ChannelAccess {
        policy: ChannelPolicy {
            is_enabled: true,
            allowed: vec![plugin("chat", "lab"), plugin("other", "lab")],
            ..ChannelPolicy::default()
        },
        selected: vec![selector("plugin:chat@lab"), selector("plugin:other@lab")],
        relay: ChannelRelay::On,
        ..ChannelAccess::default()
    };
    host.test_host.host.set_channels(host.access.clone()).await;
    host.test_host.host.apply_servers(desired.collect()).await;
    host.test_host.settled().await;
    let about = |name: &str| host.test_host.host.relay_permission_request(name, &question());
    let mut request = about("tools").expect("the other plugin");
    assert_eq!(answer(&mut request).await.server, "other");
    assert!(host.channel_when("chat", |_| true).await.counts.is_empty());
    drop(request);
    host.stop().await;
}

#[tokio::test]
async fn one_conversation_takes_the_messages() {
    let test_host = TestHost::without_retries();
    assert!(test_host.host.open_channel_inbox().is_some());
    assert!(test_host.host.open_channel_inbox().is_none());
    test_host.stop().await;
}
