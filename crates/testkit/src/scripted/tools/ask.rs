//! The tools `ask` and `talk`, which send requests to the client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{count_or, error_result, structured_result, text_result};
use crate::scripted::client_session::{ClientRequest, ClientSession};
use crate::scripted::protocol::{RequestEra, RpcError};
use crate::scripted::server_state::PendingInput;

const ELICITATION_CREATE: &str = "elicitation/create";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Requires a URL elicitation first. It completes by itself after a moment, and all clients are notified.
pub(super) fn gated_by_url(session: &Arc<ClientSession>) -> Result<Value, RpcError> {
    let server = &session.server;
    if server.is_gate_open.load(Ordering::Relaxed) {
        return Ok(text_result("the gate is open"));
    }
    let gate_server = server.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        gate_server.is_gate_open.store(true, Ordering::Relaxed);
        let params = json!({"elicitationId": "gate-1"});
        gate_server.notify_all("notifications/elicitation/complete", &params);
    });
    let mut rpc_error = RpcError::new(-32042, "a URL elicitation is required first");
    rpc_error.data = Some(json!({"elicitations": [{
        "mode": "url", "message": "Open the gate.",
        "url": "https://example.com/gate", "elicitationId": "gate-1",
    }]}));
    Err(rpc_error)
}

/// The requests to the client: a key for the response, the method and the params.
fn input_requests(arguments: &Value) -> Vec<(&'static str, &'static str, Value)> {
    let form = json!({
        "mode": "form", "message": "What is your name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    });
    let url = json!({
        "mode": "url", "message": "Sign there.",
        "url": "https://example.com/sign", "elicitationId": "sign-1",
    });
    let sample = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "Say something."}}],
        "maxTokens": 100,
    });
    let booking = json!({
        "message": "A table for whom?",
        "requestedSchema": {"type": "object", "required": ["name", "guests"], "properties": {
            "name": {"type": "string", "title": "Your name", "minLength": 2},
            "guests": {"type": "integer", "minimum": 1, "maximum": 12, "default": 2},
            "seat": {"type": "string", "enum": ["in", "out"], "enumNames": ["Inside", "Outside"]},
            "mail": {"type": "string", "format": "email"},
            "news": {"type": "boolean", "default": false},
        }},
    });
    let many: Map<String, Value> =
        (0..100).map(|it| (format!("field_{it}"), json!({"type": "string"}))).collect();
    let long = json!({"message": "A long form.",
        "requestedSchema": {"type": "object", "properties": many}});
    let unfit = json!({"message": "Defaults that do not fit.", "requestedSchema": {
    "type": "object", "required": ["colour", "count"], "properties": {
        "colour": {"type": "string", "enum": ["red", "green"], "default": "blue"},
        "count": {"type": "integer", "minimum": 3, "default": "many"},
        "mail": {"type": "string", "format": "email", "default": "nobody"},
    }}});
    let elicitation = ("elicitation", "elicitation/create", form);
    let sampling = ("sampling", "sampling/createMessage", sample);
    let roots = ("roots", "roots/list", Value::Null);
    match arguments["kind"].as_str().unwrap_or("elicitation") {
        "booking" => vec![("booking", "elicitation/create", booking)],
        "long" => vec![("long", "elicitation/create", long)],
        "unfit" => vec![("unfit", "elicitation/create", unfit)],
        "url" => vec![("url", "elicitation/create", url)],
        "sampling" => vec![sampling],
        "roots" => vec![roots],
        "all" => vec![elicitation, sampling, roots],
        "nothing" => Vec::new(),
        _ => vec![elicitation],
    }
}

fn name_form(message: &str) -> Value {
    let name =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"message": message, "requestedSchema": name})
}

/// Elicits, cancels after a while, and elicits again.
pub(super) async fn withdrawn_elicitation(
    session: &Arc<ClientSession>,
    call: &ClientRequest,
) -> Value {
    let first = name_form("The first question?");
    let (id, response) = session.begin_request(&call.notifications, ELICITATION_CREATE, &first);
    let cancel_after =
        Duration::from_millis(call.params["arguments"]["ms"].as_u64().unwrap_or(1000));
    if let Ok(Ok(client_response)) = tokio::time::timeout(cancel_after, response).await {
        return structured_result(&json!({"rounds": [{"first": client_response["result"]}]}));
    }
    call.notifications.send_message(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id},
    }));
    let second = name_form("The second question?");
    match session.send_request(&call.notifications, ELICITATION_CREATE, &second).await {
        Some(client_response) => {
            structured_result(&json!({"rounds": [{"second": client_response["result"]}]}))
        }
        None => error_result("no response"),
    }
}

/// Sends a hundred elicitations at once and counts the results.
pub(super) async fn concurrent_elicitations(
    session: &Arc<ClientSession>,
    call: &ClientRequest,
) -> Value {
    let begin = |number: usize| {
        let elicit_params = name_form(&format!("Question {number}?"));
        session.begin_request(&call.notifications, ELICITATION_CREATE, &elicit_params).1
    };
    let pending: Vec<_> = (0..100).map(begin).collect();
    let mut actions: BTreeMap<String, usize> = BTreeMap::new();
    for response in pending {
        let client_response = response.await.unwrap_or_default();
        let action = client_response["result"]["action"].as_str().unwrap_or("error");
        *actions.entry(action.to_owned()).or_default() += 1;
    }
    structured_result(&json!(actions))
}

/// Legacy: sends one request to the client after the other.
pub(super) async fn ask_legacy(session: &Arc<ClientSession>, call: &ClientRequest) -> Value {
    let arguments = &call.params["arguments"];
    let mut pending_inputs = Vec::new();
    for _ in 0..count_or(&arguments["rounds"], 1) {
        let mut client_responses = BTreeMap::new();
        for (key, method, params) in input_requests(arguments) {
            let Some(client_response) =
                session.send_request(&call.notifications, method, &params).await
            else {
                return error_result("no response");
            };
            let client_response = match client_response.get("result") {
                Some(result) => result.clone(),
                None => json!({"error": client_response["error"]}),
            };
            client_responses.insert(key, client_response);
        }
        pending_inputs.push(json!(client_responses));
    }
    structured_result(&json!({"rounds": pending_inputs}))
}

/// Modern: returns the input requests; the client retries with the responses.
pub(super) fn ask_modern(
    session: &Arc<ClientSession>,
    call: &ClientRequest,
) -> Result<Value, RpcError> {
    let server = &session.server;
    let arguments = &call.params["arguments"];
    let rounds = arguments["rounds"].as_u64().unwrap_or(1);
    let mut round =
        PendingInput { rounds_left: rounds, request_id: Value::Null, responses: Vec::new() };
    if let Some(state) = call.params.get("requestState") {
        let pending = state.as_str().and_then(|it| {
            server.pending_inputs.lock().expect("no holder of the lock panics").remove(it)
        });
        round = pending.ok_or_else(|| RpcError::invalid_params("`requestState` is unknown"))?;
        if round.request_id == call.id {
            return Err(RpcError::new(-32600, "a retry has an id of its own"));
        }
        let responses = call.params.get("inputResponses").cloned().unwrap_or(json!({}));
        if let Some((key, ..)) =
            input_requests(arguments).iter().find(|it| responses[it.0].is_null())
        {
            return Err(RpcError::invalid_params(format!("`inputResponses` lacks `{key}`")));
        }
        round.responses.push(responses);
        round.rounds_left -= 1;
    } else if call.params.get("inputResponses").is_some() {
        return Err(RpcError::invalid_params("`inputResponses` without `requestState`"));
    }
    if round.rounds_left == 0 {
        return Ok(structured_result(&json!({"rounds": round.responses})));
    }
    round.request_id = call.id.clone();
    // Clients that decode and re-encode this text instead of returning it unchanged are likely to fail.
    let state = format!("{}\u{e9}\"\\/\u{2028}\t+=%2F\u{1f511} ", server.next_id());
    let mut result = json!({"resultType": "input_required", "requestState": state});
    for (key, method, params) in input_requests(arguments) {
        result["inputRequests"][key] = match params.is_null() {
            true => json!({"method": method}),
            false => json!({"method": method, "params": params}),
        };
    }
    server.pending_inputs.lock().expect("no holder of the lock panics").insert(state, round);
    Ok(result)
}

/// Sends its text in progress and logs, and in an elicitation if requested, before it returns it.
pub(super) async fn talk(
    session: &Arc<ClientSession>,
    call: &ClientRequest,
) -> Result<Value, RpcError> {
    let arguments = &call.params["arguments"];
    let text = arguments["text"].as_str().unwrap_or_default();
    let pending_inputs = &session.server.pending_inputs;
    if let Some(state) = call.params["requestState"].as_str() {
        let pending = pending_inputs.lock().expect("no holder of the lock panics").remove(state);
        pending.ok_or_else(|| RpcError::invalid_params("`requestState` is unknown"))?;
        return Ok(talk_result(text, &call.params["inputResponses"]["talk"]));
    }
    let meta = &call.params["_meta"];
    let steps = count_or(&arguments["steps"], 1);
    let pause = arguments["ms"].as_u64().unwrap_or(0) / u64::try_from(steps.max(1)).unwrap_or(1);
    let notify = |method: &str, params: &Value| {
        call.notifications
            .send_message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    };
    // A modern server logs only for clients that request it.
    let logs = call.era == RequestEra::Legacy || !meta[LOG_LEVEL].is_null();
    for step in 1..=steps {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        if !meta["progressToken"].is_null() {
            let params =
                json!({"progressToken": meta["progressToken"], "progress": step, "message": text});
            notify("notifications/progress", &params);
        }
        if logs {
            let level = arguments["level"].as_str().unwrap_or("info");
            let params = json!({"level": level, "logger": "talk", "data": text});
            notify("notifications/message", &params);
        }
    }
    if arguments["ask"] != true {
        return Ok(talk_result(text, &Value::Null));
    }
    let elicit_params = name_form(text);
    match call.era {
        RequestEra::Legacy => match session
            .send_request(&call.notifications, ELICITATION_CREATE, &elicit_params)
            .await
        {
            Some(client_response) => Ok(talk_result(text, &client_response)),
            None => Ok(error_result("no response")),
        },
        RequestEra::Modern => {
            let state = format!("{text} {}", session.server.next_id());
            let round =
                PendingInput { rounds_left: 1, request_id: call.id.clone(), responses: Vec::new() };
            pending_inputs
                .lock()
                .expect("no holder of the lock panics")
                .insert(state.clone(), round);
            let request = json!({"method": ELICITATION_CREATE, "params": elicit_params});
            Ok(json!({"resultType": "input_required", "requestState": state,
                      "inputRequests": {"talk": request}}))
        }
    }
}

fn talk_result(text: &str, client_response: &Value) -> Value {
    let client_response = client_response.get("result").unwrap_or(client_response);
    structured_result(&json!({"text": text, "answer": client_response}))
}
