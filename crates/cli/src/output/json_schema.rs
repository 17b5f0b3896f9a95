//! JSON Schemas of what `--json` prints, for the reference page. A test checks the program's output with them.

use serde_json::{Map, Value as Json, json};

use crate::exit::Exit;

/// A member: its name, its schema as JSON, and its meaning.
type Member = (&'static str, fn() -> Json, &'static str);

/// The members of a server that every command prints.
const SERVER: &[Member] = &[
    ("name", text, "The server's name."),
    ("scope", text, "The scope of its definition."),
    ("type", optional_text, "The transport; null where the entry is invalid."),
    ("transport", optional_text, "The same as `type`."),
    ("target", optional_text, "The command or the URL, without secrets."),
    (
        "state",
        text,
        "The state of the connection (`connected`, `pending`, `needs-auth`, `session-refused`, `failed`, `disabled`), or of the definition \
         where there is no connection (`ready`, `pending`, `rejected`, `refused`, `disabled`, `shadowed`, `duplicate`, \
         `left-out`, `needs-config`, `invalid`).",
    ),
    ("reason", optional_text, "Why it may not start."),
    ("trusted", truth, "Whether its tools run without asking."),
    ("file", optional_text, "The file of its definition."),
    ("source", optional_text, "The source of its definition, where that is not a file."),
    ("line", optional_integer, "The line of its definition."),
    ("problems", objects, "Problems of its entry."),
    ("attempt", optional_object, "While it connects: `attempt` and `of`."),
    ("cause", optional_object, "Why it is not connected: `id`, `message`, `evidence` and `fix`."),
    ("era", optional_text, "The protocol's era: `legacy` or `modern`."),
    ("protocolVersion", optional_text, "The version of the protocol."),
    ("server", optional_object, "What the server says about itself: `name`, `version`, `title`."),
    ("capabilities", optional_object, "What the server declares."),
    (
        "counts",
        optional_object,
        "How many `tools`, `resources`, `resourceTemplates` and `prompts` it has.",
    ),
    ("readyAfterMs", optional_integer, "How long it took to connect."),
    ("process", optional_integer, "The process id."),
    ("shared", optional_truth, "Whether the shared host runs it, for other sessions as well."),
    ("detour", optional_text, "How it was connected after a first attempt failed."),
    (
        "channel",
        optional_object,
        "Whether it sends messages into conversations (`declared`, `permissions`, `state`, `reason`), what became of them \
         (`delivered`, `answered`, `dropped` by reason), and the same of the conversation that ran last (`lastSession`).",
    ),
    ("notes", texts, "Problems of its lists, and output that is not a message."),
];

/// The members that only `get` prints.
const DEFINITION: &[Member] = &[
    ("entry", optional_object, "`get` only: the entry as expanded, without secrets."),
    (
        "sharing",
        optional_object,
        "`get` only: the sharing `class`, the `reason` for it, and the copies that the shared host runs (`running`).",
    ),
    ("fingerprint", optional_text, "`get` only: the hash that an approval is bound to."),
];

/// The members that only `doctor` prints.
const DIAGNOSIS: &[Member] = &[
    ("verdict", text, "`doctor` only: `well`, `attention` or `trouble`."),
    ("attention", texts, "`doctor` only: what needs attention."),
];

/// The schema of a server, as `list`, `status`, `get` and `doctor` print it.
pub fn server() -> Json {
    let required: Vec<&str> = SERVER.iter().map(|(name, _, _)| *name).collect();
    json!({
        "$schema": DIALECT,
        "title": "server",
        "type": "object",
        "properties": properties(SERVER.iter().chain(DEFINITION).chain(DIAGNOSIS)),
        "required": required,
        "additionalProperties": false,
    })
}

/// The members of an error.
const ERROR: &[Member] = &[
    ("code", error_code, "What kind of failure it is; one word for each exit code."),
    ("exit", exit_code, "The exit code."),
    ("message", text, "What failed."),
    ("cause", optional_text, "Why; several lines if there are details."),
    ("hint", optional_text, "What to do next."),
];

/// The schema of what a command that fails prints: `error`, beside other members if it has output.
pub fn failure() -> Json {
    let required: Vec<&str> = ERROR.iter().map(|(name, _, _)| *name).collect();
    json!({
        "$schema": DIALECT,
        "title": "failure",
        "type": "object",
        "properties": {"error": {
            "type": "object",
            "properties": properties(ERROR.iter()),
            "required": required,
            "additionalProperties": false,
        }},
        "required": ["error"],
    })
}

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

fn properties<'m>(members: impl Iterator<Item = &'m Member>) -> Json {
    let property = |(name, schema, description): &Member| {
        let mut schema = schema();
        schema["description"] = (*description).into();
        ((*name).to_owned(), schema)
    };
    Json::Object(members.map(property).collect::<Map<String, Json>>())
}

fn text() -> Json {
    json!({"type": "string"})
}

fn optional_text() -> Json {
    json!({"type": ["string", "null"]})
}

fn optional_truth() -> Json {
    json!({"type": ["boolean", "null"]})
}

fn truth() -> Json {
    json!({"type": "boolean"})
}

fn optional_integer() -> Json {
    json!({"type": ["integer", "null"]})
}

fn optional_object() -> Json {
    json!({"type": ["object", "null"]})
}

fn objects() -> Json {
    json!({"type": "array", "items": {"type": "object"}})
}

fn texts() -> Json {
    json!({"type": "array", "items": {"type": "string"}})
}

fn failures() -> impl Iterator<Item = Exit> {
    Exit::ALL.into_iter().filter(|it| *it != Exit::Success)
}

fn error_code() -> Json {
    json!({"enum": failures().map(Exit::id).collect::<Vec<_>>()})
}

fn exit_code() -> Json {
    json!({"enum": failures().map(Exit::code).collect::<Vec<_>>()})
}
