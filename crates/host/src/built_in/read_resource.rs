//! `ReadMcpResource`: what a resource holds. Texts are told as they are; everything else is saved, and its place told.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use switchboard_wire::message::Payload;

use super::{failure, is_hidden, no_resources, no_server, not_connected, text_of};
use crate::ask::AskError;
use crate::calling::{Desk, Permit};
use crate::engine::Host;
use crate::perform::{Perform, Performing, Work};
use crate::pool::tool::Tool;
use crate::yielded::{self, Part};

const NAME: &str = "ReadMcpResource";
/// How long a server may take, however long the caller would wait.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
struct ReadResource;

/// The tool.
pub(super) fn definition() -> Tool {
    let about = "Reads a resource of a server. Text is in the answer; anything else is saved to a file, whose path is in `blobSavedTo`.";
    let schema = json!({
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "the server"},
            "uri": {"type": "string", "description": "the resource, as ListMcpResources tells it"},
        },
        "required": ["server", "uri"],
        "additionalProperties": false,
    });
    super::tool(NAME, about, &schema, &ReadResource)
}

impl Perform for ReadResource {
    fn perform<'a>(&'a self, _leave: Permit, work: Work<'a>) -> Performing<'a> {
        Box::pin(async move {
            let arguments = &work.call.arguments;
            let (server, uri) = (text_of(arguments, "server"), text_of(arguments, "uri"));
            if is_hidden(work.desk, &work.host.snapshot(), server) {
                return Ok(no_server(server));
            }
            match read(work.host, server, uri, work.call.patience.min(PATIENCE)).await {
                Ok(Some(answer)) => Ok(told(work.desk, server, answer).await),
                Ok(None) => Ok(no_resources(server)),
                Err(AskError::NoServer(name)) => Ok(no_server(&name)),
                Err(AskError::NotConnected(view)) => Ok(not_connected(&view)),
                Err(error) => Err(error),
            }
        })
    }
}

/// Reads, where the server has resources at all.
async fn read(
    host: &Host,
    server: &str,
    uri: &str,
    patience: Duration,
) -> Result<Option<Payload>, AskError> {
    match host.has_resources(server).await? {
        true => host.read(server, uri, patience).await.map(Some),
        false => Ok(None),
    }
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    contents: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    blob: Option<&'a RawValue>,
}

/// The answer as a tool would give it.
async fn told(desk: &Desk, server: &str, answer: Payload) -> Payload {
    let (limits, keep, server) = (desk.limits, desk.keep.clone(), server.to_owned());
    let work = move || {
        let Ok(Answer { contents }) = serde_json::from_slice(answer.as_bytes()) else {
            return failure("the answer is not shaped as the protocol says");
        };
        let blobs: Vec<&RawValue> = contents.iter().copied().filter(|it| is_blob(it)).collect();
        let blobs =
            Payload::of(&json_of(&blobs)).unwrap_or_else(|_| Payload::from_json("{}".into()));
        let saved = yielded::of_read(&blobs, &server, &limits, &keep);
        with_places(&contents, saved.parts)
    };
    let told = tokio::task::spawn_blocking(work).await;
    told.unwrap_or_else(|_| failure("the answer could not be read"))
}

fn json_of<'a>(blobs: &'a [&'a RawValue]) -> impl serde::Serialize + 'a {
    std::collections::BTreeMap::from([("contents", blobs)])
}

fn is_blob(raw: &RawValue) -> bool {
    let is_text = |raw: Option<&RawValue>| raw.is_some_and(|it| it.get().starts_with('"'));
    let content = serde_json::from_str::<Content<'_>>(raw.get());
    content.is_ok_and(|it| !is_text(it.text) && is_text(it.blob))
}

/// Texts as they came; each blob by the place that it was saved to.
fn with_places(contents: &[&RawValue], saved: Vec<Part>) -> Payload {
    let mut saved = saved.into_iter();
    let mut blocks: Vec<String> = Vec::new();
    for raw in contents {
        blocks.push(match is_blob(raw) {
            false => format!("{{\"type\":\"resource\",\"resource\":{}}}", raw.get()),
            true => {
                let place = saved.next().map_or(Json::Null, |part| place(&part));
                json!({"type": "text", "text": place.to_string()}).to_string()
            }
        });
    }
    Payload::from_json(format!("{{\"content\":[{}]}}", blocks.join(",")).into())
}

fn place(part: &Part) -> Json {
    match part {
        Part::Saved { path, mime, bytes, from_uri } => {
            json!({"uri": from_uri, "mimeType": mime, "blobSavedTo": path, "bytes": bytes})
        }
        Part::Unsaved { mime, from_uri } => {
            json!({"uri": from_uri, "mimeType": mime, "error": "it could not be saved"})
        }
        Part::Text { .. } | Part::Image { .. } | Part::Link { .. } | Part::Unknown { .. } => {
            Json::Null
        }
    }
}
