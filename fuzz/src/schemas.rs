//! Input schemas of tools, and arguments validated against them: `host::pool`. The input's first line is a schema,
//! its second line the arguments of a call; both are JSON.

use bytes::Bytes;
use serde_json::Value as Json;
use serde_json::value::RawValue;
use switchboard::catalogue::ListItem;
use switchboard::config::entry::server::ToolFilter;
use switchboard::pool::naming::NameOrigin;
use switchboard::pool::{
    ArgumentFault, ArgumentFaultKind, MAX_BYTES, MAX_DESCRIPTION_CHARS, Pool, PoolRules,
    ServerTools, Tool, ToolKind,
};
use switchboard_wire::jsonrpc::message::Payload;

/// The maximum number of faults that are reported at once.
const MAX_ERRORS: usize = 20;
/// The minimum product of the sizes of a schema and of arguments that may exceed the work limit.
const MIN_REFUSED_SIZE: usize = 20_000;
/// Combinators that model APIs reject at the root.
const REFUSED_KEYWORDS: [&str; 4] = ["anyOf", "oneOf", "allOf", "not"];

/// - A tool is either exposed or excluded with a reason.
/// - An exposed schema has an object at its root, is within the size limit, has no external references, and is
///   unchanged when it is normalized again.
/// - A check of arguments terminates, is deterministic, has bounded output, and reports no value.
/// - The work of a check is bounded by the product of the sizes of schema and arguments: a check exceeds the limit
///   only if both are large together.
/// - Arguments that are repeated in headers have the same value there.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (schema, arguments) = text.split_once('\n').unwrap_or((text, "{}"));
    if serde_json::from_str::<&RawValue>(schema).is_err() {
        return;
    }
    let pool = pool_of(schema);
    let shown = pool.find_by_server("server", "tool").cloned();
    let reasons: Vec<String> = pool.quarantined().iter().map(|it| it.reason.to_string()).collect();
    assert_eq!(usize::from(shown.is_some()) + reasons.len(), 1, "{shown:?} {reasons:?}");
    let Some(tool) = shown else { return };
    is_valid_to_expose(&tool);
    assert_eq!(tool.flags(), pool_of(schema).tools()[0].flags());
    assert!(!pool.search("tool", 5).is_empty(), "the tool is not found by its name");

    let Ok(arguments) = serde_json::from_str::<Json>(arguments) else { return };
    check_is_sound(&tool, schema, &arguments);
    let payload = Payload::encode(&arguments).expect("JSON is written as JSON");
    let headers = tool.param_headers.headers(&payload);
    if let Err(error) = tool.param_headers.check(&payload, &headers) {
        panic!("our own headers are refused: {error}");
    }
}

fn pool_of(schema: &str) -> Pool {
    let definition = format!(r#"{{"name":"tool","description":"d","inputSchema":{schema}}}"#);
    let item =
        ListItem { name: "tool".to_owned(), raw: Payload::from_json(Bytes::from(definition)) };
    let filter = ToolFilter::default();
    let source = ServerTools {
        server: "server",
        origin: NameOrigin::Configured,
        tools: &[item],
        kind: ToolKind::Server,
        filter: &filter,
    };
    Pool::default().next_revision([source], &PoolRules { hidden: &|_, _| false, built_in: &[] })
}

fn is_valid_to_expose(tool: &Tool) {
    let schema = &tool.input_schema;
    assert!(schema.as_bytes().len() <= MAX_BYTES, "a schema is too large");
    assert!(tool.description.chars().count() <= MAX_DESCRIPTION_CHARS);
    let json: Json = schema.decode().expect("what is shown is JSON");
    assert_eq!(json["type"], "object", "{json}");
    for keyword in REFUSED_KEYWORDS {
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

fn check_is_sound(tool: &Tool, schema: &str, arguments: &Json) {
    let checked = tool.check_arguments(arguments);
    let other = pool_of(schema);
    assert_eq!(other.tools()[0].check_arguments(arguments), checked, "it depends");
    let Err(faults) = checked else { return };
    let is_refused = |it: &ArgumentFault| matches!(it.kind, ArgumentFaultKind::TooMuchWork { .. });
    if faults.iter().any(is_refused) {
        let size = schema.len() * arguments.to_string().len();
        assert!(size > MIN_REFUSED_SIZE, "too much work for a size of {size}");
    }
    assert!((1..=MAX_ERRORS).contains(&faults.len()), "{} faults", faults.len());
    let (mut secrets, mut names) = (Vec::new(), Vec::new());
    collect_secrets(arguments, &mut secrets, &mut names);
    // Text of the schema may be reported, in any of its spellings.
    let said: Json = serde_json::from_str(schema).unwrap_or_default();
    collect_texts(&said, &mut names);
    secrets.retain(|secret| !names.iter().any(|name| name.contains(secret.as_str())));
    for fault in faults {
        let message = fault.to_string();
        // A reported path contains only names, each truncated to a maximum length.
        assert!(message.chars().count() < 2000 * (1 + fault.at.matches('.').count()), "{message}");
        let secret = secrets.iter().find(|secret| message.contains(secret.as_str()));
        assert_eq!(secret, None, "{message} tells a value");
    }
}

fn collect_texts(value: &Json, texts: &mut Vec<String>) {
    match value {
        Json::String(text) => texts.push(text.clone()),
        Json::Array(items) => items.iter().for_each(|it| collect_texts(it, texts)),
        Json::Object(members) => {
            for (name, value) in members {
                texts.push(name.clone());
                collect_texts(value, texts);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Strings that may be secret, and names.
fn collect_secrets(value: &Json, secrets: &mut Vec<String>, names: &mut Vec<String>) {
    match value {
        Json::String(text) if is_secret(text) => secrets.push(text.clone()),
        Json::Array(items) => items.iter().for_each(|it| collect_secrets(it, secrets, names)),
        Json::Object(members) => {
            for (name, value) in members {
                names.push(name.clone());
                collect_secrets(value, secrets, names);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// Longer than any word in our messages. A phrase may be one of ours: libFuzzer sees comparisons, and tries their
/// operands.
fn is_secret(text: &str) -> bool {
    let letters = text.chars().filter(char::is_ascii_alphabetic).count();
    letters >= 6 && text.len() >= 14 && !text.contains(|c: char| c.is_whitespace() || c == '`')
}
