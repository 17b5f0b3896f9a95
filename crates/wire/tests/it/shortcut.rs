//! Questions that go past the task of an HTTP link: answered where they are waited for, handed over where more than an
//! answer comes back, and called off or failed like any other.

use std::future::IntoFuture;
use std::sync::Arc;

use axum::response::Response;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use switchboard_wire::link::{Link, LinkEnd, Outgoing, Shortcut, Shortly};
use switchboard_wire::peer::{CallError, Connection, Peer, Progress, Sent};
use switchboard_wire::streamable::HttpLink;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::stage::*;

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Legacy,
    Modern,
}

/// A server that answers everything at once but `tools/call`: that it answers with a stream that the test speaks on.
struct Speaker {
    stage: Stage,
    streams: mpsc::UnboundedReceiver<mpsc::UnboundedSender<String>>,
}

impl Speaker {
    async fn start() -> Speaker {
        let (open, streams) = mpsc::unbounded_channel();
        let stage = Stage::start(move |seen| {
            let open = open.clone();
            async move { play(&seen, &open).await }
        });
        Speaker { stage: stage.await, streams }
    }

    /// The stream of the next call, with its number.
    async fn called(&mut self) -> (mpsc::UnboundedSender<String>, Value) {
        loop {
            let seen = self.stage.next().await;
            if seen.asks() == "tools/call" {
                let stream = timeout(SOON, self.streams.recv()).await.expect("it is answered");
                return (stream.expect("it runs"), seen.body["id"].clone());
            }
        }
    }

    /// What is said to it next, past what it says by itself.
    async fn told(&mut self) -> Seen {
        loop {
            let seen = self.stage.next().await;
            if seen.method == Method::POST {
                return seen;
            }
        }
    }
}

async fn play(
    seen: &Seen,
    open: &mpsc::UnboundedSender<mpsc::UnboundedSender<String>>,
) -> Response {
    match seen.asks() {
        _ if seen.method == Method::GET => reply(405, "", ""),
        "initialize" => as_json(&result(seen, json!({"protocolVersion": "2025-11-25"}))),
        "tools/call" => {
            let (stream, response) = as_open_events();
            let _test_over = open.send(stream);
            response
        }
        "silence" => std::future::pending().await,
        method if method.starts_with("notifications/") => accepted(),
        _ => as_json(&result(seen, json!("at once"))),
    }
}

/// A client whose questions go past the task from now on.
struct Asker {
    era: Era,
    connection: Connection,
    shortcut: Arc<dyn Shortcut>,
}

impl Asker {
    async fn come(era: Era, stage: &Stage) -> Asker {
        let link = HttpLink::new(network(), stage.target());
        let shortcut = link.shortcut().expect("there is one");
        let asker = Asker { era, connection: Peer::start(link), shortcut };
        if era == Era::Legacy {
            asker.connection.peer.call("initialize").await.expect("an answer");
            let notified = asker.connection.peer.notify("notifications/initialized", None);
            notified.await.expect("it is taken");
        }
        // This one goes the usual way, and when it is over the way past it is open.
        asker.peer_call("ping").await.expect("an answer");
        asker
    }

    fn peer_call(&self, method: &'static str) -> switchboard_wire::peer::Call {
        let call = self.connection.peer.call(method);
        match self.era {
            Era::Legacy => call,
            Era::Modern => call.headers(modern_headers(method)),
        }
    }

    /// A call beside the test, and what it hears of progress.
    fn begin(&self) -> (JoinHandle<Result<Value, CallError>>, mpsc::Receiver<Progress>) {
        let (signs, heard) = mpsc::channel(16);
        let call = self.peer_call("tools/call").progress_to(signs).into_future();
        let call = tokio::spawn(async move { call.await.map(|it| it.decode().expect("JSON")) });
        (call, heard)
    }

    /// How many questions are on their way past the task.
    fn under_way(&self) -> String {
        format!("{:?}", self.shortcut)
    }
}

fn modern_headers(method: &'static str) -> HeaderMap {
    *modern_request(0, method).headers.expect("headers")
}

fn progress(number: &Value, at: u64) -> String {
    let params = json!({"progressToken": number, "progress": at});
    event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
}

fn answer(number: &Value) -> String {
    event(&json!({"jsonrpc": "2.0", "id": number, "result": "in the end"}))
}

async fn next_sign(heard: &mut mpsc::Receiver<Progress>) -> Value {
    let sign = timeout(SOON, heard.recv()).await.expect("a sign comes").expect("it goes on");
    sign.0.decode::<Value>().expect("JSON")["progress"].clone()
}

/// Takes a question past the link, which is expected to be open for that.
fn past(link: &HttpLink, outgoing: Outgoing) -> impl Future<Output = Shortly> + use<> {
    let shortcut = link.shortcut().expect("there is one");
    shortcut.ask(outgoing).unwrap_or_else(|_| panic!("the way is open"))
}

#[tokio::test]
async fn what_is_more_than_an_answer_is_handed_over_and_arrives_in_order() {
    let mut speaker = Speaker::start().await;
    let mut link = HttpLink::new(network(), speaker.stage.target());
    let shortcut = link.shortcut().expect("there is one");
    assert!(shortcut.ask(modern_request(1, "ping")).is_err(), "nobody knows the era yet");
    link.push(modern_request(1, "ping"));
    assert_eq!(heard(&mut link).await["result"], "at once");
    let at_once = past(&link, modern_request(2, "ping")).await;
    let Shortly::Answered(Ok(answered)) = at_once else { panic!("an answer: {at_once:?}") };
    assert_eq!(answered, payload(&json!("at once")));
    let asked = past(&link, modern_request(3, "tools/call"));
    let (asked, (stream, number)) = tokio::join!(asked, speaker.called());
    assert!(matches!(asked, Shortly::HandedOver), "{asked:?}");
    for text in [progress(&number, 1), progress(&number, 2), answer(&number)] {
        stream.send(text).expect("it is read");
    }
    assert_eq!(heard(&mut link).await["params"]["progress"], 1);
    assert_eq!(heard(&mut link).await["params"]["progress"], 2);
    assert_eq!(heard(&mut link).await["result"], "in the end");
}

#[tokio::test]
async fn a_call_hears_of_progress_and_then_its_answer_when_it_was_handed_over() {
    for era in [Era::Legacy, Era::Modern] {
        let mut speaker = Speaker::start().await;
        let asker = Asker::come(era, &speaker.stage).await;
        let (call, mut heard) = asker.begin();
        let (stream, number) = speaker.called().await;
        for at in 1..4 {
            stream.send(progress(&number, at)).expect("it is read");
            assert_eq!(next_sign(&mut heard).await, at, "{era:?}");
        }
        assert_eq!(asker.under_way(), "Direct(0 under way)");
        stream.send(answer(&number)).expect("it is read");
        assert_eq!(call.await.expect("no panic"), Ok(json!("in the end")), "{era:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_after_it_was_handed_over_is_called_off() {
    for era in [Era::Legacy, Era::Modern] {
        let mut speaker = Speaker::start().await;
        let asker = Asker::come(era, &speaker.stage).await;
        let (call, mut heard) = asker.begin();
        let (stream, number) = speaker.called().await;
        stream.send(progress(&number, 1)).expect("it is read");
        next_sign(&mut heard).await;
        call.abort();
        if era == Era::Legacy {
            let cancelled = speaker.told().await;
            assert_eq!(cancelled.asks(), "notifications/cancelled");
            assert_eq!(cancelled.body["params"]["requestId"], number);
        }
        timeout(SOON, stream.closed()).await.expect("the stream is left");
        asker.peer_call("ping").await.expect("the connection lives on");
        assert_eq!(speaker.told().await.asks(), "ping", "{era:?}: nothing else was said");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_before_anything_came_back_is_called_off() {
    for era in [Era::Legacy, Era::Modern] {
        let mut speaker = Speaker::start().await;
        let asker = Asker::come(era, &speaker.stage).await;
        let call = asker.peer_call("silence");
        let number = call.number();
        let call = tokio::spawn(call.into_future());
        while speaker.told().await.asks() != "silence" {}
        assert_eq!(asker.under_way(), "Direct(1 under way)");
        call.abort();
        if era == Era::Legacy {
            let cancelled = speaker.told().await;
            assert_eq!(cancelled.asks(), "notifications/cancelled");
            assert_eq!(cancelled.body["params"]["requestId"], number);
        }
        asker.peer_call("ping").await.expect("the connection lives on");
        assert_eq!(speaker.told().await.asks(), "ping", "{era:?}: nothing else was said");
        assert_eq!(asker.under_way(), "Direct(0 under way)");
    }
}

#[tokio::test]
async fn when_the_link_ends_calls_past_it_fail_too() {
    for era in [Era::Legacy, Era::Modern] {
        let mut speaker = Speaker::start().await;
        let asker = Asker::come(era, &speaker.stage).await;
        let (handed_over, mut heard) = asker.begin();
        let (stream, number) = speaker.called().await;
        stream.send(progress(&number, 1)).expect("it is read");
        next_sign(&mut heard).await;
        let on_its_way = tokio::spawn(asker.peer_call("silence").into_future());
        while speaker.told().await.asks() != "silence" {}
        assert_eq!(asker.under_way(), "Direct(1 under way)");
        asker.connection.peer.hang_up();
        let ended = |sent| CallError::Ended { how: LinkEnd::Closed, sent };
        let over = timeout(SOON, handed_over).await.expect("it ends").expect("no panic");
        assert_eq!(over, Err(ended(Sent::Maybe)), "{era:?}");
        let over = timeout(SOON, on_its_way).await.expect("it ends").expect("no panic");
        assert_eq!(over, Err(ended(Sent::Maybe)), "{era:?}");
        timeout(SOON, stream.closed()).await.expect("the stream is left");
        let late = timeout(SOON, asker.peer_call("ping").into_future()).await.expect("it ends");
        assert_eq!(late, Err(ended(Sent::No)), "{era:?}");
        assert_eq!(asker.under_way(), "Direct(0 under way)");
    }
}
