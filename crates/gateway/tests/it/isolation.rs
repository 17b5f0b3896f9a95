//! Fifty clients at once with the same ids: nothing that one says, asks or is told reaches another, and when they are
//! gone nothing of them is left.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use switchboard::config::permission::{Effect, Rules, ToolRule};
use testkit::processes::descendants_with_environment;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::gateway_bench::{House, PATIENCE, Plan, Quarter, SERVERS, until};
use crate::raw_http::Caller;
use crate::visitor::{KINDS, Kind, Visitor, answer_as};

/// How many clients there are.
const CLIENTS: usize = 50;
/// How long they go on, in seconds, unless the variable says otherwise.
const USUAL: u64 = 8;
const VARIABLE: &str = "SWB_ISOLATION_SECONDS";

/// Numbers that look random and are the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The word that only this client says.
fn canary(client: usize) -> String {
    format!("canary-{client:03}-end")
}

/// Finds words of others.
fn check_own(client: usize, message: &Json) {
    let (text, own) = (message.to_string(), canary(client));
    for (at, _) in text.match_indices("canary-") {
        assert!(text[at..].starts_with(&own), "client {client} got {text}");
    }
}

/// One question with everything that may happen on the way.
async fn one_question(visitor: &mut Visitor, client: usize, chance: &mut Chance) {
    let server = SERVERS[usize::try_from(chance.below(4)).unwrap_or_default()];
    let own = canary(client);
    let arguments = json!({
        "text": own, "ms": chance.below(30), "steps": 1 + chance.below(4), "ask": chance.below(2) == 0,
    });
    let params = json!({
        "name": format!("mcp__{server}__talk"), "arguments": arguments,
        "_meta": {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"},
    });
    let answers = |question: &Json| {
        check_own(client, question);
        answer_as(&own)(question)
    };
    match chance.below(10) {
        0 | 1 => called_off(visitor, client, (params, chance)).await,
        2 if visitor.kind == Kind::LegacyHttp => resumed(visitor, client, params).await,
        _ => {
            let heard = visitor.converse("tools/call", params, &answers).await;
            heard.notes.iter().for_each(|it| check_own(client, it));
            match &heard.outcome {
                Ok(result) => {
                    check_own(client, result);
                    assert!(
                        result.to_string().contains(&own) || result["isError"] == true,
                        "{result}"
                    );
                }
                Err(error) => check_own(client, error),
            }
        }
    }
}

/// Begins, and does not wait for the end.
async fn called_off(visitor: &mut Visitor, client: usize, (params, chance): (Json, &mut Chance)) {
    let request = visitor.request("tools/call", params);
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": {"requestId": request["id"]}});
    let some = Duration::from_millis(chance.below(40));
    match visitor.kind {
        Kind::LegacyLink | Kind::ModernLink => {
            visitor.push(&request);
            visitor.push(&cancelled);
            // What crossed the cancellation is ours, too.
            let ping = visitor.request("tools/list", json!({}));
            visitor.push(&ping);
            loop {
                let message = visitor.pulled().await;
                check_own(client, &message);
                if message["id"] == ping["id"] && message.get("method").is_none() {
                    break;
                }
            }
        }
        Kind::LegacyHttp | Kind::ModernHttp => {
            let asking = async {
                let mut reply = visitor.caller.post(&request).await;
                while let Some(message) = reply.message().await {
                    check_own(client, &message);
                }
            };
            let _hung_up = timeout(some, asking).await;
            if visitor.kind == Kind::LegacyHttp {
                visitor.caller.post(&cancelled).await;
            }
        }
    }
}

/// Loses the stream, and comes back for the rest.
async fn resumed(visitor: &mut Visitor, client: usize, mut params: Json) {
    params["arguments"]["ask"] = false.into();
    params["arguments"]["ms"] = 300.into();
    let request = visitor.request("tools/call", params);
    let mut reply = visitor.caller.post(&request).await;
    if !reply.is_stream() {
        check_own(client, &reply.message().await.unwrap_or_default());
        return;
    }
    let first = reply.event().await.and_then(|it| it.id).expect("a name");
    drop(reply);
    let mut reply = visitor.caller.stream(Some(&first)).await;
    let mut last = Json::Null;
    while let Some(message) = reply.message().await {
        check_own(client, &message);
        last = message;
    }
    assert_eq!(last["id"], request["id"], "client {client}: the answer came last");
}

async fn client(mut visitor: Visitor, number: usize, until: Instant) -> usize {
    let mut chance = Chance(0x5eed + u64::try_from(number).unwrap_or_default());
    let mut asked = 0;
    while Instant::now() < until {
        timeout(PATIENCE * 2, one_question(&mut visitor, number, &mut chance))
            .await
            .unwrap_or_else(|_| panic!("client {number}, {:?}: no end", visitor.kind));
        asked += 1;
    }
    if visitor.kind == Kind::LegacyHttp {
        assert_eq!(visitor.caller.delete().await.status, 200);
    }
    asked
}

/// Kibibytes of memory that this process uses.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().split(' ').next().and_then(|it| it.parse().ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_clients_with_the_same_ids_never_hear_of_one_another() {
    let quarter = Quarter::start();
    let mut house = quarter.house(&SERVERS, Plan { clients: CLIENTS, ..Plan::default() }).await;
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    let seconds = std::env::var(VARIABLE).ok().and_then(|it| it.parse().ok()).unwrap_or(USUAL);
    let begun = Instant::now();
    let end = begun + Duration::from_secs(seconds);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let kind = match number % 5 {
            0 => KINDS[number / 5 % 4],
            1 | 2 => Kind::LegacyHttp,
            _ => Kind::ModernHttp,
        };
        let visitor = Visitor::come(&mut house, kind, number).await;
        clients.spawn(client(visitor, number, end));
    }
    let half = memory_at(begun + Duration::from_secs(seconds / 2));
    let (mut asked, half) = (0, half.await);
    while let Some(done) = clients.join_next().await {
        asked += done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    }
    let after = memory();
    eprintln!("{asked} questions in {seconds} s; {half} kB at half time, {after} kB at the end");
    assert!(asked > CLIENTS * 4, "only {asked} questions were asked");
    assert!(after < half + half / 2 + 64 * 1024, "{half} kB became {after} kB");
    // Links end when their clients are gone; parked calls wait for theirs, and are dropped with the gateway.
    until("no session is left", || metrics.num_alive_tasks() <= before + parked_at_most(asked))
        .await;
    let mark = format!("SWITCHBOARD_OWNER={}.", std::process::id());
    assert!(!descendants_with_environment(&mark).is_empty(), "the servers are there");
    house.stop().await;
    until("no child is left", || descendants_with_environment(&mark).is_empty()).await;
    until("no task is left", || metrics.num_alive_tasks() == 0).await;
}

/// Calls of modern clients that hung up between a question and its answer.
fn parked_at_most(asked: usize) -> usize {
    asked
}

/// The memory at one moment.
async fn memory_at(when: Instant) -> u64 {
    tokio::time::timeout_at(when.into(), std::future::pending::<()>()).await.expect_err("a wait");
    memory()
}

#[tokio::test]
async fn a_long_list_has_an_end_for_who_may_not_see_all_of_it() {
    let entry = testkit::Scripted::entry(&testkit::Script::legacy().tools(2500));
    let mut rules = Rules::default();
    rules.add_for_session(Effect::Deny, ToolRule::parse("mcp__s__tool_7").expect("a rule"));
    let mut house = House::open(&[("s", entry)], Plan { rules, ..Plan::default() }).await;
    for kind in KINDS {
        let mut visitor = Visitor::come(&mut house, kind, 0).await;
        let (mut names, mut params) = (BTreeSet::new(), json!({}));
        loop {
            let page = visitor.ask("tools/list", params).await.result().clone();
            for tool in page["tools"].as_array().expect("a list") {
                assert!(names.insert(tool["name"].to_string()), "{tool} comes twice");
            }
            match page.get("nextCursor") {
                Some(next) => params = json!({"cursor": next}),
                None => break,
            }
        }
        assert!(names.len() >= 2499, "{}", names.len());
        assert!(!names.contains("\"mcp__s__tool_7\""));
    }
    house.stop().await;
}

#[tokio::test]
async fn nothing_of_one_clients_is_good_for_another() {
    let quarter = Quarter::start();
    let mut house = quarter.house(&SERVERS, Plan::default()).await;
    let mut ada = Visitor::come(&mut house, Kind::LegacyHttp, 0).await;
    let mut bob = Visitor::come(&mut house, Kind::LegacyHttp, 1).await;
    let thief = Caller { session: ada.caller.session.clone(), ..Caller::client(house.address, 1) };
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(thief.post(&ping).await.status, 404);
    assert_eq!(thief.stream(None).await.status, 404);
    assert_eq!(thief.stream(Some("1-0")).await.status, 404);
    assert_eq!(thief.delete().await.status, 404);
    // A call of one, called off and answered by another in its own session: neither has any effect.
    let params = json!({"name": "mcp__lh__ask", "arguments": {"kind": "elicitation"}});
    let request = ada.request("tools/call", params);
    let mut stream = ada.caller.post(&request).await;
    let question = stream.message().await.expect("a question");
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": {"requestId": request["id"]}});
    assert_eq!(bob.caller.post(&cancelled).await.status, 202);
    let answer = |who: &str| json!({"jsonrpc": "2.0", "id": question["id"], "result": answer_as(who)(&question)});
    assert_eq!(bob.caller.post(&answer("bob")).await.status, 202);
    assert_eq!(thief.post(&answer("thief")).await.status, 404);
    assert_eq!(ada.caller.post(&answer("ada")).await.status, 202);
    let result = stream.message().await.expect("an answer");
    let rounds = &result["result"]["structuredContent"]["rounds"];
    assert_eq!(rounds[0]["elicitation"]["content"]["name"], "ada", "{result}");
    // Who does not follow a resource is not told of it, and cannot end that another is.
    let uri = "scripted://resource/0";
    let mut standing = ada.caller.stream(None).await;
    let mut other = bob.caller.stream(None).await;
    ada.ask("resources/subscribe", json!({"uri": uri})).await.result();
    bob.ask("resources/unsubscribe", json!({"uri": uri})).await.result();
    for server in SERVERS {
        let touch = json!({"name": format!("mcp__{server}__touch"), "arguments": {"uri": uri}});
        bob.ask("tools/call", touch).await.result();
    }
    let news = standing.message().await.expect("news");
    assert_eq!(news["params"]["uri"], uri, "{news}");
    let change = json!({"name": "mcp__ls__change_tools", "arguments": {}});
    bob.ask("tools/call", change).await.result();
    let news = other.message().await.expect("news");
    assert_eq!(news["method"], "notifications/tools/list_changed", "not the other's resource");
    // A cursor and a task that nobody gave out.
    for (method, params) in [
        ("tools/list", json!({"cursor": "1.1"})),
        ("tools/list", json!({"cursor": "999.0"})),
        ("resources/list", json!({"cursor": "x"})),
    ] {
        assert_eq!(bob.ask(method, params).await.error()["code"], -32602, "{method}");
    }
    house.stop().await;
}
