//! Input schemas of tools, and arguments checked by them: `host::pool`. The input's first line is a schema, its
//! second the arguments of a call; both JSON.

use bytes::Bytes;
use serde_json::Value as Json;
use serde_json::value::RawValue;
use switchboard::catalogue::Item;
use switchboard::config::entry::ToolFilter;
use switchboard::pool::argument_check;
use switchboard::pool::input_schema::LARGEST;
use switchboard::pool::naming::Origin;
use switchboard::pool::tool::{LONGEST_DESCRIPTION, Tool, ToolKind};
use switchboard::pool::{Pool, Rules, Source};
use switchboard_wire::message::Payload;

/// The most faults that are told at once.
const MOST_FAULTS: usize = 20;
/// Combinations that model APIs refuse at the root.
const REFUSED: [&str; 4] = ["anyOf", "oneOf", "allOf", "not"];

/// - A tool is shown or kept apart with a reason, never both and never neither.
/// - What is shown has an object at its root, is no larger than the bound, refers to nothing outside, and reads as
///   itself when it is shown again.
/// - Checking arguments ends, says the same twice, says no more than so much, and tells no value.
/// - Arguments that are repeated in headers are found there again.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (schema, arguments) = text.split_once('\n').unwrap_or((text, "{}"));
    if serde_json::from_str::<&RawValue>(schema).is_err() {
        return;
    }
    let pool = pool_of(schema);
    let shown = pool.find_on("server", "tool").cloned();
    let reasons: Vec<String> = pool.quarantined().iter().map(|it| it.reason.to_string()).collect();
    assert_eq!(usize::from(shown.is_some()) + reasons.len(), 1, "{shown:?} {reasons:?}");
    let Some(tool) = shown else { return };
    is_fit_to_show(&tool);
    assert_eq!(tool.flags(), pool_of(schema).tools()[0].flags());
    assert!(!pool.search("tool", 5).is_empty(), "the tool is not found by its name");

    let Ok(arguments) = serde_json::from_str::<Json>(arguments) else { return };
    checks_soundly(&tool, schema, &arguments);
    let payload = Payload::of(&arguments).expect("JSON is written as JSON");
    let headers = tool.mirror.headers(&payload);
    if let Err(error) = tool.mirror.check(&payload, &headers) {
        panic!("our own headers are refused: {error}");
    }
}

fn pool_of(schema: &str) -> Pool {
    let definition = format!(r#"{{"name":"tool","description":"d","inputSchema":{schema}}}"#);
    let item = Item { name: "tool".to_owned(), raw: Payload::from_json(Bytes::from(definition)) };
    let filter = ToolFilter::default();
    let source = Source {
        server: "server",
        origin: Origin::Configured,
        tools: &[item],
        kind: ToolKind::Served,
        filter: &filter,
    };
    Pool::default().next([source], &Rules { hidden: &|_, _| false, built_in: &[] })
}

fn is_fit_to_show(tool: &Tool) {
    let schema = &tool.input_schema;
    assert!(schema.as_bytes().len() <= LARGEST, "a schema is too large");
    assert!(tool.description.chars().count() <= LONGEST_DESCRIPTION);
    let json: Json = schema.decode().expect("what is shown is JSON");
    assert_eq!(json["type"], "object", "{json}");
    for keyword in REFUSED {
        assert!(json.get(keyword).is_none(), "`{keyword}` at the root of {json}");
    }
    let text = std::str::from_utf8(schema.as_bytes()).expect("JSON is text");
    let again = pool_of(text);
    let again = again.tools().first().unwrap_or_else(|| {
        panic!("{text} was shown, and is not shown again: {:?}", again.quarantined())
    });
    let second: Json = again.input_schema.decode().expect("what is shown is JSON");
    assert_eq!(second, json, "what is shown is shown otherwise the second time");
}

fn checks_soundly(tool: &Tool, schema: &str, arguments: &Json) {
    let checked = argument_check::check(tool, arguments);
    let other = pool_of(schema);
    assert_eq!(argument_check::check(&other.tools()[0], arguments), checked, "it depends");
    let Err(faults) = checked else { return };
    assert!((1..=MOST_FAULTS).contains(&faults.len()), "{} faults", faults.len());
    let (mut secrets, mut names) = (Vec::new(), Vec::new());
    collect(arguments, &mut secrets, &mut names);
    // What the schema says may be told, in whatever way it was written.
    let said: Json = serde_json::from_str(schema).unwrap_or_default();
    collect_all(&said, &mut names);
    secrets.retain(|secret| !names.iter().any(|name| name.contains(secret.as_str())));
    for fault in faults {
        let told = fault.to_string();
        // In a place that is told there are only names, of which each is told up to a length.
        assert!(told.chars().count() < 2000 * (1 + fault.at.matches('.').count()), "{told}");
        let secret = secrets.iter().find(|secret| told.contains(secret.as_str()));
        assert_eq!(secret, None, "{told} tells a value");
    }
}

fn collect_all(value: &Json, texts: &mut Vec<String>) {
    match value {
        Json::String(text) => texts.push(text.clone()),
        Json::Array(items) => items.iter().for_each(|it| collect_all(it, texts)),
        Json::Object(members) => {
            for (name, value) in members {
                texts.push(name.clone());
                collect_all(value, texts);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Texts that may be secret, and what names something.
fn collect(value: &Json, secrets: &mut Vec<String>, names: &mut Vec<String>) {
    match value {
        Json::String(text) if is_secret(text) => secrets.push(text.clone()),
        Json::Array(items) => items.iter().for_each(|it| collect(it, secrets, names)),
        Json::Object(members) => {
            for (name, value) in members {
                names.push(name.clone());
                collect(value, secrets, names);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// Longer than any word of ours. A phrase may be one of ours: libFuzzer sees what is looked for, and tries it.
fn is_secret(text: &str) -> bool {
    let letters = text.chars().filter(char::is_ascii_alphabetic).count();
    letters >= 6 && text.len() >= 14 && !text.contains(|c: char| c.is_whitespace() || c == '`')
}
