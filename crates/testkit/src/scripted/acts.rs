//! What the standing tools do when they are called.

use std::collections::BTreeMap;
use std::env;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::actor::{Life, Round};
use super::conversation::{Asked, Conversation, Ending, with_unknown_content};
use super::eras::{Dialect, Trouble};
use super::{mischief, repertoire};
use crate::quirk::Quirk;

const CREATE: &str = "elicitation/create";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Calls a tool.
pub async fn perform(conversation: &Arc<Conversation>, asked: &Asked) -> Result<Value, Ending> {
    let actor = &conversation.actor;
    let name = asked.params["name"].as_str().unwrap_or_default();
    let arguments = &asked.params["arguments"];
    let mut result = match name {
        "echo" => text(arguments["text"].as_str().unwrap_or_default()),
        "add" => {
            let number = |it: &str| arguments[it].as_f64().unwrap_or_default();
            let sum = number("a") + number("b");
            both(&json!({"sum": sum}), &sum.to_string())
        }
        "slow" => slow(asked).await,
        "big" => text(&mischief::many(count(&arguments["bytes"], 0))),
        "fail" => failure(arguments["text"].as_str().unwrap_or("it failed")),
        "explode" => {
            let code = arguments["code"].as_i64().unwrap_or(-32603);
            let mut trouble = Trouble::new(code, "it exploded");
            trouble.data = arguments.get("data").cloned();
            return Err(trouble.into());
        }
        "crash" => return Err(Ending::Crash),
        "ask" if arguments["kind"] == "gate" => gate(conversation)?,
        "ask" if arguments["kind"] == "withdrawn" => withdrawn(conversation, asked).await,
        "ask" if arguments["kind"] == "crowd" => crowd(conversation, asked).await,
        "ask" => match asked.dialect {
            Dialect::Legacy => ask(conversation, asked).await,
            Dialect::Modern => ask_back(conversation, asked)?,
        },
        "env" => match actor.life {
            Life::Stdio => {
                let names: Vec<String> =
                    env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
                spoken(&json!({"names": names}))
            }
            Life::Network | Life::Guest => failure("only over stdio"),
        },
        "change_tools" => spoken(&json!({"added": actor.change_tools()})),
        "touch" => {
            let params = json!({"uri": arguments["uri"]});
            actor.announce("notifications/resources/updated", &params);
            text("touched")
        }
        "count" => spoken(&actor.counts()),
        "whoami" => spoken(&whoami(conversation, asked)),
        "route" => text(arguments["region"].as_str().unwrap_or("nowhere")),
        "say" if actor.script.does(&Quirk::SaysWhatItIsTold) => arguments["result"].clone(),
        "talk" if actor.script.does(&Quirk::Talks) => talk(conversation, asked).await?,
        "end_listening" => {
            actor.end_listening();
            text("ended")
        }
        name if repertoire::has_tool(actor, name) => text(&format!("{name} got {arguments}")),
        name => return Err(Trouble::invalid(format!("there is no tool `{name}`")).into()),
    };
    with_unknown_content(actor, &mut result);
    Ok(result)
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn failure(why: &str) -> Value {
    json!({"content": [{"type": "text", "text": why}], "isError": true})
}

/// A result for machines, with a text for the others.
fn both(structured: &Value, shown: &str) -> Value {
    json!({"content": [{"type": "text", "text": shown}], "structuredContent": structured})
}

fn spoken(structured: &Value) -> Value {
    both(structured, &structured.to_string())
}

fn count(value: &Value, otherwise: usize) -> usize {
    value.as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or(otherwise)
}

async fn slow(asked: &Asked) -> Value {
    let arguments = &asked.params["arguments"];
    let ms = arguments["ms"].as_u64().unwrap_or(100);
    let steps = count(&arguments["steps"], 5).max(1);
    let token = &asked.params["_meta"]["progressToken"];
    for step in 1..=steps {
        let step_ms = ms / u64::try_from(steps).unwrap_or(u64::MAX);
        tokio::time::sleep(Duration::from_millis(step_ms)).await;
        if !token.is_null() {
            asked.aside.say(&json!({
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": step, "total": steps,
                           "message": format!("step {step} of {steps}")},
            }));
        }
    }
    text(&format!("took {ms} ms"))
}

/// Says its text in progress and logs, and in a question where one is wanted, before it returns it.
async fn talk(conversation: &Arc<Conversation>, asked: &Asked) -> Result<Value, Trouble> {
    let arguments = &asked.params["arguments"];
    let text = arguments["text"].as_str().unwrap_or_default();
    let rounds = &conversation.actor.rounds;
    if let Some(state) = asked.params["requestState"].as_str() {
        let known = rounds.lock().expect("nobody panics with it").remove(state);
        known.ok_or_else(|| Trouble::invalid("`requestState` is not as it was given"))?;
        return Ok(talked(text, &asked.params["inputResponses"]["talk"]));
    }
    let meta = &asked.params["_meta"];
    let steps = count(&arguments["steps"], 1);
    let pause = arguments["ms"].as_u64().unwrap_or(0) / u64::try_from(steps.max(1)).unwrap_or(1);
    let says = |method: &str, params: &Value| {
        asked.aside.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    };
    // A modern server logs only for those who want it.
    let logs = asked.dialect == Dialect::Legacy || !meta[LOG_LEVEL].is_null();
    for step in 1..=steps {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        if !meta["progressToken"].is_null() {
            let params =
                json!({"progressToken": meta["progressToken"], "progress": step, "message": text});
            says("notifications/progress", &params);
        }
        if logs {
            let level = arguments["level"].as_str().unwrap_or("info");
            let params = json!({"level": level, "logger": "talk", "data": text});
            says("notifications/message", &params);
        }
    }
    if arguments["ask"] != true {
        return Ok(talked(text, &Value::Null));
    }
    let question = named_question(text);
    match asked.dialect {
        Dialect::Legacy => match conversation.ask(&asked.aside, CREATE, &question).await {
            Some(answer) => Ok(talked(text, &answer)),
            None => Ok(failure("nobody answered")),
        },
        Dialect::Modern => {
            let state = format!("{text} {}", conversation.actor.number());
            let round = Round { left: 1, id: asked.id.clone(), answers: Vec::new() };
            rounds.lock().expect("nobody panics with it").insert(state.clone(), round);
            let request = json!({"method": CREATE, "params": question});
            Ok(json!({"resultType": "input_required", "requestState": state,
                      "inputRequests": {"talk": request}}))
        }
    }
}

fn talked(text: &str, answer: &Value) -> Value {
    let answer = answer.get("result").unwrap_or(answer);
    spoken(&json!({"text": text, "answer": answer}))
}

fn whoami(conversation: &Conversation, asked: &Asked) -> Value {
    let meta = &asked.params["_meta"];
    let opened = conversation.client();
    let (era, version, client) = match asked.dialect {
        Dialect::Legacy => ("legacy", &opened["protocolVersion"], &opened["clientInfo"]),
        Dialect::Modern => {
            let version = &meta["io.modelcontextprotocol/protocolVersion"];
            ("modern", version, &meta["io.modelcontextprotocol/clientInfo"])
        }
    };
    let name = &conversation.actor.script.name;
    json!({"name": name, "pid": std::process::id(), "era": era, "version": version,
           "client": client, "headers": asked.headers})
}

/// Sends people to a page first. Somebody visits it by and by, of which everybody is told.
fn gate(conversation: &Arc<Conversation>) -> Result<Value, Trouble> {
    let actor = &conversation.actor;
    if actor.gate.load(Ordering::Relaxed) {
        return Ok(text("the gate is open"));
    }
    let opener = actor.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        opener.gate.store(true, Ordering::Relaxed);
        let params = json!({"elicitationId": "gate-1"});
        opener.announce("notifications/elicitation/complete", &params);
    });
    let mut trouble = Trouble::new(-32042, "a page has to be visited first");
    trouble.data = Some(json!({"elicitations": [{
        "mode": "url", "message": "Open the gate.",
        "url": "https://example.com/gate", "elicitationId": "gate-1",
    }]}));
    Err(trouble)
}

/// What is asked: a key for the answer, the method, the parameters.
fn questions(arguments: &Value) -> Vec<(&'static str, &'static str, Value)> {
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

fn named_question(message: &str) -> Value {
    let name =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"message": message, "requestedSchema": name})
}

/// Asks, thinks better of it while somebody answers, and asks something else.
async fn withdrawn(conversation: &Arc<Conversation>, asked: &Asked) -> Value {
    let first = named_question("The first question?");
    let (id, answered) = conversation.begin_asking(&asked.aside, CREATE, &first);
    let patience = Duration::from_millis(asked.params["arguments"]["ms"].as_u64().unwrap_or(1000));
    if let Ok(Ok(answer)) = tokio::time::timeout(patience, answered).await {
        return spoken(&json!({"rounds": [{"first": answer["result"]}]}));
    }
    asked.aside.say(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id},
    }));
    let second = named_question("The second question?");
    match conversation.ask(&asked.aside, CREATE, &second).await {
        Some(answer) => spoken(&json!({"rounds": [{"second": answer["result"]}]})),
        None => failure("nobody answered"),
    }
}

/// Asks a hundred things at once, and counts what comes of it.
async fn crowd(conversation: &Arc<Conversation>, asked: &Asked) -> Value {
    let begin = |number: usize| {
        let question = named_question(&format!("Question {number}?"));
        conversation.begin_asking(&asked.aside, CREATE, &question).1
    };
    let waiting: Vec<_> = (0..100).map(begin).collect();
    let mut actions: BTreeMap<String, usize> = BTreeMap::new();
    for answered in waiting {
        let answer = answered.await.unwrap_or_default();
        let action = answer["result"]["action"].as_str().unwrap_or("error");
        *actions.entry(action.to_owned()).or_default() += 1;
    }
    spoken(&json!(actions))
}

/// Asks in the legacy way: one request to the client after the other.
async fn ask(conversation: &Arc<Conversation>, asked: &Asked) -> Value {
    let arguments = &asked.params["arguments"];
    let mut rounds = Vec::new();
    for _ in 0..count(&arguments["rounds"], 1) {
        let mut answers = BTreeMap::new();
        for (key, method, params) in questions(arguments) {
            let Some(answer) = conversation.ask(&asked.aside, method, &params).await else {
                return failure("nobody answered");
            };
            let answer = match answer.get("result") {
                Some(result) => result.clone(),
                None => json!({"error": answer["error"]}),
            };
            answers.insert(key, answer);
        }
        rounds.push(json!(answers));
    }
    spoken(&json!({"rounds": rounds}))
}

/// Asks in the modern way: the answer is what is needed, and the request comes again with it.
fn ask_back(conversation: &Arc<Conversation>, asked: &Asked) -> Result<Value, Trouble> {
    let actor = &conversation.actor;
    let arguments = &asked.params["arguments"];
    let wanted = arguments["rounds"].as_u64().unwrap_or(1);
    let mut round = Round { left: wanted, id: Value::Null, answers: Vec::new() };
    if let Some(state) = asked.params.get("requestState") {
        let known = state
            .as_str()
            .and_then(|it| actor.rounds.lock().expect("nobody panics with it").remove(it));
        round = known.ok_or_else(|| Trouble::invalid("`requestState` is not as it was given"))?;
        if round.id == asked.id {
            return Err(Trouble::new(-32600, "a retry has an id of its own"));
        }
        let responses = asked.params.get("inputResponses").cloned().unwrap_or(json!({}));
        if let Some((key, ..)) = questions(arguments).iter().find(|it| responses[it.0].is_null()) {
            return Err(Trouble::invalid(format!("`inputResponses` lacks `{key}`")));
        }
        round.answers.push(responses);
        round.left -= 1;
    } else if asked.params.get("inputResponses").is_some() {
        return Err(Trouble::invalid("`inputResponses` without `requestState`"));
    }
    if round.left == 0 {
        return Ok(spoken(&json!({"rounds": round.answers})));
    }
    round.id = asked.id.clone();
    // Nobody who takes this text apart and puts it together again gets it right by accident.
    let state = format!("{}\u{e9}\"\\/\u{2028}\t+=%2F\u{1f511} ", actor.number());
    let mut result = json!({"resultType": "input_required", "requestState": state});
    for (key, method, params) in questions(arguments) {
        result["inputRequests"][key] = match params.is_null() {
            true => json!({"method": method}),
            false => json!({"method": method, "params": params}),
        };
    }
    actor.rounds.lock().expect("nobody panics with it").insert(state, round);
    Ok(result)
}

/// The tool's arguments that a header has to repeat, as header name and value.
pub fn repeated_in_headers(params: &Value) -> Option<(&'static str, Option<String>)> {
    (params["name"] == "route").then(|| {
        let region = params["arguments"]["region"].as_str().map(str::to_owned);
        ("mcp-param-region", region)
    })
}
