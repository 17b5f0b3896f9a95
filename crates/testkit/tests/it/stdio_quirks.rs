//! Quirks over stdio and of single responses.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::processes::{is_alive, processes_with_environment, wait_until, wait_until_exited};
use testkit::{Cursors, Quirk, Script, ScriptedServer};

use crate::client::{
    Client, TIMEOUT, initialize_params, names, notification, request, text, with_modern_meta,
};
use crate::stdio_client::StdioClient;
use crate::websocket_client::{BINARY, CLOSE, WebSocketClient};

fn legacy(quirk: Quirk) -> StdioClient {
    StdioClient::start(&Script::legacy().quirk(quirk))
}

/// A server that received `initialize`.
fn after_initialize(quirk: Quirk) -> StdioClient {
    let mut lines = legacy(quirk);
    lines.send(&request(1, "initialize", initialize_params("2025-11-25")));
    lines
}

/// A server with a quirk only in responses to `tools/call`, with one such call pending.
fn during_call(quirk: Quirk) -> StdioClient {
    let mut lines = StdioClient::start(&Script::legacy().quirk(quirk).quirks_on("tools/call"));
    lines.open();
    let call = json!({"name": "echo", "arguments": {"text": "hello"}});
    lines.send(&request(2, "tools/call", call));
    lines
}

fn send_signal(number: u32, signal: Signal) {
    let number = i32::try_from(number).ok().and_then(Pid::from_raw).expect("a process number");
    let _gone = kill_process(number, signal);
}

#[test]
fn never_responds_even_to_a_probe() {
    let mut lines = legacy(Quirk::NeverAnswers);
    lines.send(&request(1, "server/discover", with_modern_meta(json!({}))));
    lines.send(&request(2, "initialize", initialize_params("2025-11-25")));
    assert!(lines.is_silent(50));
    assert!(!lines.has_exited());
}

#[test]
fn never_responds_to_the_given_methods_only() {
    let mut lines = during_call(Quirk::NeverAnswers);
    lines.call(3, "tools/list", json!({}));
    assert!(lines.is_silent(50));
    lines.send(&notification("notifications/cancelled", json!({"requestId": 2})));
    lines.call(4, "ping", json!({}));
}

#[test]
fn responds_late() {
    let mut lines = legacy(Quirk::AnswersLate { ms: 50 });
    let start = Instant::now();
    lines.open();
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[test]
fn starts_and_lists_late() {
    let script = Script { start_delay_ms: 50, list_delay_ms: 50, ..Script::legacy() };
    let start = Instant::now();
    let mut lines = StdioClient::start(&script);
    lines.open();
    assert!(start.elapsed() >= Duration::from_millis(50));
    let start = Instant::now();
    lines.call(2, "ping", json!({}));
    lines.call(3, "tools/list", json!({}));
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[test]
fn exits_at_once_with_its_code() {
    assert_eq!(legacy(Quirk::ExitsAtOnce { code: 9 }).exit().code(), Some(9));
}

#[test]
fn exits_on_a_probe_and_only_then() {
    legacy(Quirk::ExitsOnProbe).open();
    let mut lines = legacy(Quirk::ExitsOnProbe);
    lines.send(&request(1, "server/discover", with_modern_meta(json!({}))));
    assert_eq!(lines.line(), None);
    assert_eq!(lines.exit().code(), Some(70));
}

#[test]
fn exits_on_the_first_message() {
    let mut lines = after_initialize(Quirk::ExitsOnFirstMessage);
    assert_eq!(lines.line(), None);
    assert_eq!(lines.exit().code(), Some(70));
}

#[test]
fn crashes_in_the_middle_of_a_call() {
    let mut lines = legacy(Quirk::CrashesMidCall);
    lines.open();
    lines.call(2, "tools/list", json!({}));
    lines.send(&request(3, "tools/call", json!({"name": "echo"})));
    assert_eq!(lines.line(), None);
    assert_eq!(lines.exit().code(), Some(70));
}

#[test]
fn floods_stderr_before_its_first_response() {
    let mut lines = legacy(Quirk::FloodsStderr { bytes: 300_000 });
    lines.open();
    lines.close();
    lines.exit();
    assert_eq!(lines.stderr_text().len(), 300_000);
}

#[test]
fn writes_stderr_lines_at_its_start() {
    let mut lines = legacy(Quirk::StderrLines { n: 3 });
    lines.close();
    assert_eq!(lines.exit().code(), Some(0));
    assert_eq!(lines.stderr_text(), "line 1 of 3\nline 2 of 3\nline 3 of 3\n");
}

#[test]
fn floods_stdout_with_garbage_once() {
    let mut lines = after_initialize(Quirk::FloodsStdoutWithGarbage { lines: 500 });
    for number in 0..500 {
        let line = lines.line().unwrap();
        assert!(line.starts_with(format!("garbage {number}").as_bytes()));
        assert!(serde_json::from_slice::<Value>(&line).is_err());
    }
    lines.response_to(1);
    lines.call(2, "ping", json!({}));
}

#[test]
fn greets_before_the_protocol_starts() {
    let mut lines = legacy(Quirk::PrintsBeforeProtocol);
    assert_eq!(lines.line().unwrap(), b"scripted is now listening on standard input!\n");
    lines.open();
}

#[test]
fn writes_half_a_line_and_exits() {
    let mut lines = during_call(Quirk::TruncatesAnswer);
    let half = lines.line().unwrap();
    assert!(half.starts_with(b"{\"jsonrpc\"") && !half.ends_with(b"\n"));
    assert_eq!(lines.line(), None);
    assert_eq!(lines.exit().code(), Some(70));
}

#[test]
fn closes_its_output_in_the_middle_of_a_response_and_keeps_running() {
    let mut lines = during_call(Quirk::ClosesStreamMidAnswer);
    assert!(!lines.line().unwrap().ends_with(b"\n"));
    assert_eq!(lines.line(), None);
    assert!(!lines.has_exited());
    lines.close();
    assert_eq!(lines.exit().code(), Some(0));
}

#[test]
fn responds_with_a_huge_line() {
    let lines = during_call(Quirk::HugeLine { bytes: 3_000_000 });
    let line = lines.line().unwrap();
    assert!(line.len() > 3_000_000);
    let response: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(text(&response["result"]), "hello");
}

#[test]
fn sends_its_responses_slowly() {
    let mut lines = during_call(Quirk::SlowDrip);
    assert_eq!(text(&lines.response_to(2)["result"]), "hello");
    let start = Instant::now();
    lines.tool(3, "big", json!({"bytes": 800}));
    assert!(start.elapsed() >= Duration::from_millis(50), "{:?}", start.elapsed());
}

#[test]
fn responds_with_invalid_utf8() {
    let line = during_call(Quirk::BadUtf8).line().unwrap();
    assert!(std::str::from_utf8(&line).is_err());
    let text = String::from_utf8_lossy(&line).into_owned();
    let response: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(response["id"], 2);
}

#[test]
fn responds_with_an_unknown_id_first() {
    let mut lines = during_call(Quirk::DuplicateIds);
    assert_eq!([lines.next()["id"].clone(), lines.next()["id"].clone()], [json!(1), json!(2)]);
}

#[test]
fn responds_with_a_wrong_id_only() {
    let mut lines = during_call(Quirk::WrongIds);
    assert_eq!(lines.next()["id"], 1002);
    assert!(lines.is_silent(20));
}

#[test]
fn responds_twice() {
    let mut lines = during_call(Quirk::AnswersTwice);
    let first = lines.next();
    assert_eq!(first["id"], 2);
    assert_eq!(lines.next(), first);
}

#[test]
fn responds_in_batches() {
    let response = during_call(Quirk::AnswersInBatches).next();
    assert_eq!(response[0]["id"], 2);
}

#[test]
fn ignores_signals() {
    let mut polite = legacy(Quirk::AnswersTwice);
    polite.send(&request(1, "initialize", initialize_params("2025-11-25")));
    polite.next();
    send_signal(polite.pid(), Signal::TERM);
    assert_eq!(polite.exit().code(), None);

    let mut lines = legacy(Quirk::IgnoresSigterm);
    lines.open();
    send_signal(lines.pid(), Signal::TERM);
    send_signal(lines.pid(), Signal::INT);
    lines.call(2, "ping", json!({}));
    lines.close();
    assert_eq!(lines.exit().code(), Some(0));
}

#[test]
fn keeps_running_when_its_input_is_closed() {
    let mut lines = after_initialize(Quirk::IgnoresStdinClose);
    lines.response_to(1);
    lines.close();
    assert!(lines.is_silent(60));
    assert!(!lines.has_exited());
}

#[test]
fn leaves_processes_that_hold_its_streams_open() {
    let marker = format!("SWB_ZOO_{}", std::process::id());
    let script = Script::legacy().quirk(Quirk::ForksGrandchildren { n: 2 });
    let mut lines = StdioClient::start_with_env(&script, &[(&marker, "1")]);
    lines.open();
    let started = wait_until(TIMEOUT, "all four have started", || {
        Some(processes_with_environment(&marker)).filter(|it| it.len() == 4)
    });
    let others: Vec<u32> = started.into_iter().filter(|&it| it != lines.pid()).collect();
    let session = |number: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
        let session = stat.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap();
        session.parse::<u32>().unwrap()
    };
    let apart = wait_until(TIMEOUT, "one has left the session", || {
        let apart: Vec<u32> = others.iter().copied().filter(|&it| session(it) == it).collect();
        Some(apart).filter(|it| !it.is_empty())
    });
    assert_eq!((others.len(), apart.len()), (3, 1));
    lines.close();
    lines.exit();
    assert!(lines.is_silent(20) && others.iter().all(|&it| is_alive(it)));
    for &other in &others {
        send_signal(other, Signal::KILL);
        wait_until_exited(other, TIMEOUT);
    }
    assert_eq!(lines.line(), None);
}

#[test]
fn every_list_has_a_next_page() {
    for cursors in [Cursors::Same, Cursors::Fresh] {
        let mut lines = legacy(Quirk::EndlessPages { cursors });
        lines.open();
        let mut params = json!({});
        let mut seen = Vec::new();
        for id in 10..14 {
            let page = lines.call(id, "tools/list", params)["result"].clone();
            let first = names(&page["tools"])[0].to_owned();
            seen.push((page["nextCursor"].as_str().unwrap().to_owned(), first));
            params = json!({"cursor": page["nextCursor"]});
        }
        seen.dedup();
        let expected = match cursors {
            Cursors::Same => 1,
            Cursors::Fresh => 4,
        };
        assert_eq!(seen.len(), expected, "{seen:?}");
    }
}

#[test]
fn sends_many_list_changed_notifications() {
    let mut lines = legacy(Quirk::ListChangedStorm { n: 300 });
    lines.open();
    for _ in 0..300 {
        assert_eq!(lines.next()["method"], "notifications/tools/list_changed");
    }
    lines.call(2, "ping", json!({}));

    let mut lines = StdioClient::start(&Script::modern().quirk(Quirk::ListChangedStorm { n: 3 }));
    let params = with_modern_meta(json!({"notifications": {"toolsListChanged": true}}));
    lines.send(&request(1, "subscriptions/listen", params));
    lines.next();
    for _ in 0..3 {
        assert_eq!(lines.next()["method"], "notifications/tools/list_changed");
    }
}

#[test]
fn lists_invalid_tools() {
    let mut lines = legacy(Quirk::BadToolSchema);
    lines.open();
    let tools = lines.call(2, "tools/list", json!({}))["result"]["tools"].clone();
    let tools = tools.as_array().unwrap();
    assert!(tools.iter().any(|it| it.get("name").is_none()));
    assert!(tools.iter().any(|it| it["inputSchema"].is_string()));
    assert_eq!(tools[0]["name"], "echo");
}

#[test]
fn has_unknown_contents_and_members() {
    let mut lines = legacy(Quirk::UnknownContent);
    lines.open();
    let result = lines.tool(2, "echo", json!({"text": "a"}));
    assert_eq!((text(&result), &result["content"][1]["type"]), ("a", &json!("hologram")));
    assert!(result.get("x-unknown").is_some());
    let tools = lines.call(3, "tools/list", json!({}))["result"]["tools"].clone();
    assert!(tools[0].get("x-unknown").is_some());
}

#[test]
fn fails_to_list_its_tools() {
    let mut lines = legacy(Quirk::FailsToolList);
    assert!(lines.open()["capabilities"].get("tools").is_some());
    assert_eq!(lines.call(2, "tools/list", json!({}))["error"]["code"], -32603);
}

#[test]
fn websocket_quirks_disconnect_close_and_send_binary() {
    let misbehaving = |quirk: Quirk| {
        let server = ScriptedServer::ws(Script::legacy().quirk(quirk).quirks_on("ping"));
        let mut client = WebSocketClient::open(server.url());
        client.open();
        client.send(&request(2, "ping", json!({})));
        let (kind, _) = client.frame().expect("something comes first");
        (kind, client, server)
    };
    let (kind, ..) = misbehaving(Quirk::BadUtf8);
    assert_eq!(kind, BINARY);
    let (_, mut closed, _server) = misbehaving(Quirk::ClosesStreamMidAnswer);
    assert_eq!(closed.frame().expect("a close frame").0, CLOSE);
    let (_, mut broken, _server) = misbehaving(Quirk::TruncatesAnswer);
    let error = broken.frame().expect_err("the connection breaks");
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
}
