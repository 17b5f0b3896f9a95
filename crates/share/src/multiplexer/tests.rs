//! Checks the deliveries of a multiplexer, message by message.

use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message::{self, Messages};

use super::*;

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);

/// A multiplexer whose deliveries are compared as JSON.
struct Wire {
    multiplexer: Multiplexer,
    now: Instant,
}

impl Wire {
    fn with(sessions: &[SessionId]) -> Wire {
        let mut multiplexer = Multiplexer::default();
        sessions.iter().for_each(|it| multiplexer.join(*it));
        Wire { multiplexer, now: Instant::now() }
    }

    fn client(&mut self, session: SessionId, json: Json) -> Json {
        shown(self.multiplexer.on_client(session, message(&json), self.now))
    }

    fn server(&mut self, json: Json) -> Json {
        shown(self.multiplexer.on_server(message(&json), self.now))
    }

    fn leave(&mut self, session: SessionId) -> Json {
        shown(self.multiplexer.leave(session, self.now))
    }

    /// Sends a tool call with an id of the client.
    fn call(&mut self, session: SessionId, id: u64) -> Json {
        self.client(session, json!({"id": id, "method": "tools/call", "params": {"name": "t"}}))
    }
}

fn message(json: &Json) -> Message {
    match message::parse(&json.to_string().into()).expect("a message") {
        Messages::One(message) => message,
        Messages::Batch(_) => panic!("one message"),
    }
}

/// The deliveries as JSON: the receiver (0 is the server) and the message.
fn shown(deliveries: Vec<Delivery>) -> Json {
    let shown = |delivery: &Delivery| {
        let (to, message) = match delivery {
            Delivery::ToServer(message) => (0, message),
            Delivery::ToClient(session, message) => (session.0, message),
        };
        let mut text = Vec::new();
        message.write_to(&mut text);
        let mut json: Json = serde_json::from_slice(&text).expect("JSON");
        json.as_object_mut().expect("an object").shift_remove("jsonrpc");
        json!([to, json])
    };
    deliveries.iter().map(shown).collect()
}

#[test]
fn each_client_gets_the_responses_to_its_own_requests() {
    let mut wire = Wire::with(&[A, B]);
    let call = |id: u64| json!([[0, {"id": id, "method": "tools/call", "params": {"name": "t"}}]]);
    assert_eq!(wire.call(A, 7), call(1));
    assert_eq!(wire.call(B, 7), call(2));
    assert_eq!(
        wire.server(json!({"id": 2, "result": "b"})),
        json!([[2, {"id": 7, "result": "b"}]])
    );
    let error = json!({"code": -1, "message": "a"});
    assert_eq!(
        wire.server(json!({"id": 1, "error": error})),
        json!([[1, {"id": 7, "error": error}]])
    );
    assert_eq!(wire.server(json!({"id": 1, "result": "again"})), json!([]));
    assert_eq!(wire.multiplexer.calls(), 2);
}

#[test]
fn a_legacy_server_is_initialized_once() {
    let mut wire = Wire::with(&[A, B]);
    let initialize = |id: u64| json!({"id": id, "method": "initialize", "params": {"a": 1}});
    assert_eq!(
        wire.client(A, initialize(5)),
        json!([[0, {"id": 1, "method": "initialize", "params": {"a": 1}}]])
    );
    assert_eq!(wire.client(B, initialize(6)), json!([]));
    assert_eq!(wire.multiplexer.era(), None);
    assert_eq!(
        wire.server(json!({"id": 1, "result": {"r": 1}})),
        json!([[2, {"id": 6, "result": {"r": 1}}], [1, {"id": 5, "result": {"r": 1}}]])
    );
    assert_eq!(wire.multiplexer.era(), Some(Era::Legacy));
    let initialized = json!({"method": "notifications/initialized"});
    assert_eq!(wire.client(B, initialized.clone()), json!([[0, initialized]]));
    assert_eq!(wire.client(A, initialized), json!([]));
    let later = SessionId(3);
    wire.multiplexer.join(later);
    assert_eq!(wire.client(later, initialize(9)), json!([[3, {"id": 9, "result": {"r": 1}}]]));
}

#[test]
fn the_first_client_may_leave_during_the_handshake() {
    let mut wire = Wire::with(&[A, B]);
    wire.client(A, json!({"id": 1, "method": "initialize"}));
    wire.client(B, json!({"id": 1, "method": "initialize"}));
    assert_eq!(wire.leave(A), json!([]));
    assert_eq!(wire.server(json!({"id": 1, "result": {}})), json!([[2, {"id": 1, "result": {}}]]));
}

#[test]
fn a_request_without_initialize_shows_a_modern_server() {
    let mut wire = Wire::with(&[A]);
    wire.client(A, json!({"id": 1, "method": "server/discover"}));
    assert_eq!(wire.multiplexer.era(), None);
    wire.client(A, json!({"id": 2, "method": "tools/list"}));
    assert_eq!(wire.multiplexer.era(), Some(Era::Modern));
}

#[test]
fn progress_reaches_the_caller_with_its_own_token() {
    let mut wire = Wire::with(&[A, B]);
    let params = json!({"name": "t", "_meta": {"progressToken": "mine"}});
    let sent = wire.client(A, json!({"id": 1, "method": "tools/call", "params": params}));
    assert_eq!(sent[0][1]["params"]["_meta"]["progressToken"], 1);
    wire.call(B, 1);
    let progress = |token: Json| json!({"method": "notifications/progress", "params": {"progressToken": token, "progress": 3}});
    assert_eq!(wire.server(progress(json!(1))), json!([[1, progress(json!("mine"))]]));
    assert_eq!(wire.server(progress(json!(2))), json!([]), "the call of B wants no progress");
    wire.server(json!({"id": 1, "result": {}}));
    assert_eq!(wire.server(progress(json!(1))), json!([]), "the call is over");
}

#[test]
fn a_question_goes_to_the_session_that_calls_and_its_answer_back() {
    let mut wire = Wire::with(&[A, B]);
    wire.call(B, 1);
    let question = json!({"id": "q", "method": "elicitation/create", "params": {"message": "?"}});
    let asked = wire.server(question);
    assert_eq!(
        asked,
        json!([[2, {"id": 2, "method": "elicitation/create", "params": {"message": "?"}}]])
    );
    let answer = json!({"id": 2, "result": {"action": "accept"}});
    assert_eq!(wire.client(A, answer.clone()), json!([]), "A was not asked");
    assert_eq!(wire.client(B, answer), json!([[0, {"id": "q", "result": {"action": "accept"}}]]));
    assert_eq!(wire.multiplexer.session_bound(), None);
}

#[test]
fn a_question_that_may_belong_to_two_sessions_is_refused() {
    let mut wire = Wire::with(&[A, B]);
    wire.call(A, 1);
    wire.call(B, 1);
    let refused = wire.server(json!({"id": 9, "method": "sampling/createMessage"}));
    assert_eq!((&refused[0][0], &refused[0][1]["error"]["code"]), (&json!(0), &json!(-32603)));
    assert_eq!(wire.multiplexer.session_bound(), None);
}

#[test]
fn a_question_after_a_cancelled_call_of_another_session_is_refused() {
    let mut wire = Wire::with(&[A, B]);
    wire.call(A, 4);
    let cancel = json!({"method": "notifications/cancelled", "params": {"requestId": 4}});
    assert_eq!(
        wire.client(A, cancel),
        json!([[0, {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "cancelled"}}]])
    );
    wire.call(B, 1);
    let question = || json!({"id": 9, "method": "elicitation/create"});
    assert_eq!(wire.server(question())[0][0], 0, "it may be about the call of A");
    assert_eq!(wire.server(json!({"id": 1, "result": "late"})), json!([]));
    wire.now += Duration::from_secs(301);
    assert_eq!(wire.server(question())[0][0], 2);
}

#[test]
fn a_client_cannot_cancel_the_call_of_another() {
    let mut wire = Wire::with(&[A, B]);
    wire.call(A, 4);
    let cancel = json!({"method": "notifications/cancelled", "params": {"requestId": 4}});
    assert_eq!(wire.client(B, cancel), json!([]));
}

#[test]
fn a_server_that_asks_outside_of_calls_belongs_to_one_session() {
    let mut alone = Wire::with(&[A]);
    assert_eq!(alone.server(json!({"id": 1, "method": "sampling/createMessage"}))[0][0], 1);
    assert_eq!(alone.multiplexer.session_bound(), Some(SessionBound::RequestsOutsideCalls));
    let mut listing = Wire::with(&[A]);
    listing.client(A, json!({"id": 1, "method": "tools/list"}));
    assert_eq!(listing.server(json!({"id": 1, "method": "elicitation/create"}))[0][0], 1);
    assert_eq!(listing.multiplexer.session_bound(), Some(SessionBound::RequestsOutsideCalls));
    let mut shared = Wire::with(&[A, B]);
    assert_eq!(shared.server(json!({"id": 1, "method": "sampling/createMessage"}))[0][0], 0);
    assert_eq!(shared.multiplexer.session_bound(), Some(SessionBound::RequestsOutsideCalls));
}

#[test]
fn roots_are_asked_only_of_a_session_that_is_alone() {
    let mut alone = Wire::with(&[A]);
    alone.call(A, 1);
    assert_eq!(alone.server(json!({"id": 1, "method": "roots/list"}))[0][0], 1);
    assert_eq!(alone.multiplexer.session_bound(), Some(SessionBound::Roots));
    let mut shared = Wire::with(&[A, B]);
    shared.call(A, 1);
    assert_eq!(shared.server(json!({"id": 1, "method": "roots/list"}))[0][0], 0);
    let changed = json!({"method": "notifications/roots/list_changed"});
    assert_eq!(shared.client(A, changed), json!([]));
}

#[test]
fn a_server_with_tasks_belongs_to_one_session() {
    let mut wire = Wire::with(&[A]);
    wire.client(A, json!({"id": 1, "method": "initialize"}));
    wire.server(json!({"id": 1, "result": {"capabilities": {"tasks": {}}}}));
    assert_eq!(wire.multiplexer.session_bound(), Some(SessionBound::Tasks));
}

#[test]
fn log_messages_reach_the_calling_session_at_its_level() {
    let mut wire = Wire::with(&[A, B]);
    let log = |level: &str| json!({"method": "notifications/message", "params": {"level": level}});
    assert_eq!(wire.server(log("error")), json!([]), "no session is known");
    let set =
        |level: &str| json!({"id": 1, "method": "logging/setLevel", "params": {"level": level}});
    assert_eq!(wire.client(A, set("debug"))[0][1]["params"]["level"], "debug");
    wire.server(json!({"id": 1, "result": {}}));
    assert_eq!(wire.client(B, set("warning")), json!([[2, {"id": 1, "result": {}}]]));
    wire.call(B, 2);
    assert_eq!(wire.server(log("info")), json!([]));
    assert_eq!(wire.server(log("error")), json!([[2, log("error")]]));
    assert_eq!(wire.leave(A)[0][1]["params"]["level"], "warning", "the most detailed level left");
}

#[test]
fn changed_lists_reach_everyone_and_updates_the_subscribers() {
    let mut wire = Wire::with(&[A, B]);
    let changed = json!({"method": "notifications/tools/list_changed"});
    assert_eq!(wire.server(changed.clone()), json!([[1, changed], [2, changed]]));
    let subscribe = |id: u64| json!({"id": id, "method": "resources/subscribe", "params": {"uri": "file:///a"}});
    assert_eq!(wire.client(A, subscribe(1))[0][0], 0);
    assert_eq!(wire.client(B, subscribe(2)), json!([[2, {"id": 2, "result": {}}]]));
    let updated =
        |uri: &str| json!({"method": "notifications/resources/updated", "params": {"uri": uri}});
    let part = updated("file:///a/b");
    assert_eq!(wire.server(part.clone()), json!([[1, part], [2, part]]));
    assert_eq!(wire.server(updated("file:///ab")), json!([]));
    let unsubscribe =
        json!({"id": 3, "method": "resources/unsubscribe", "params": {"uri": "file:///a"}});
    assert_eq!(wire.client(A, unsubscribe), json!([[1, {"id": 3, "result": {}}]]));
    let whole = updated("file:///a");
    assert_eq!(wire.server(whole.clone()), json!([[2, whole]]));
    let last = wire.leave(B);
    assert_eq!((&last[0][0], &last[0][1]["method"]), (&json!(0), &json!("resources/unsubscribe")));
}

#[test]
fn the_stream_of_a_subscription_keeps_its_session_and_id() {
    const KEY: &str = "io.modelcontextprotocol/subscriptionId";
    let mut wire = Wire::with(&[A, B]);
    wire.client(A, json!({"id": 40, "method": "subscriptions/listen", "params": {}}));
    wire.client(B, json!({"id": 50, "method": "subscriptions/listen", "params": {}}));
    let changed = |id: u64| json!({"method": "notifications/tools/list_changed", "params": {"_meta": {KEY: id}}});
    assert_eq!(wire.server(changed(2)), json!([[2, changed(50)]]));
    assert_eq!(
        wire.server(json!({"id": 1, "result": {"_meta": {KEY: 1}}})),
        json!([[1, {"id": 40, "result": {"_meta": {KEY: 40}}}]])
    );
}

#[test]
fn a_completed_elicitation_reaches_the_session_that_was_asked() {
    let mut wire = Wire::with(&[A, B]);
    wire.call(A, 1);
    let data = json!({"elicitations": [{"elicitationId": "e1", "mode": "url"}]});
    let error = json!({"code": -32042, "message": "open a URL first", "data": data});
    wire.server(json!({"id": 1, "error": error}));
    let complete = |id: &str| json!({"method": "notifications/elicitation/complete", "params": {"elicitationId": id}});
    assert_eq!(wire.server(complete("e1")), json!([[1, complete("e1")]]));
    assert_eq!(wire.server(complete("e2")), json!([]));
}

#[test]
fn a_client_that_leaves_takes_its_requests_and_questions_with_it() {
    let mut wire = Wire::with(&[A, B]);
    wire.call(A, 1);
    wire.server(json!({"id": "q", "method": "elicitation/create"}));
    let deliveries = wire.leave(A);
    assert_eq!(deliveries[0][1]["method"], "notifications/cancelled");
    assert_eq!(deliveries[0][1]["params"]["requestId"], 1);
    assert_eq!(
        (&deliveries[1][1]["id"], &deliveries[1][1]["error"]["code"]),
        (&json!("q"), &json!(-32603))
    );
    assert_eq!(wire.server(json!({"id": 1, "result": {}})), json!([]));
}

#[test]
fn a_question_that_the_server_withdraws_is_withdrawn_from_its_session() {
    let mut wire = Wire::with(&[A, B]);
    wire.call(A, 1);
    let asked = wire.server(json!({"id": "q", "method": "elicitation/create"}));
    let number = asked[0][1]["id"].clone();
    let cancel = json!({"method": "notifications/cancelled", "params": {"requestId": "q", "reason": "late"}});
    let withdrawn = json!({"method": "notifications/cancelled", "params": {"requestId": number, "reason": "late"}});
    assert_eq!(wire.server(cancel), json!([[1, withdrawn]]));
    assert_eq!(wire.client(A, json!({"id": number, "result": {}})), json!([]));
}

#[test]
fn a_ping_of_the_server_is_answered_here() {
    let mut wire = Wire::with(&[A, B]);
    assert_eq!(
        wire.server(json!({"id": 3, "method": "ping"})),
        json!([[0, {"id": 3, "result": {}}]])
    );
}
