//! `ReadMcpResource`: reads a resource. Returns `{contents: […]}` with texts as they are; everything else is saved to a
//! file, and its path is returned.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message::Payload;

use super::{
    BuiltinCall, error_result, is_hidden, no_resources, not_connected, str_argument,
    structured_result, unknown_server,
};
use crate::pool::tool::Tool;
use crate::request::error::RequestError;
use crate::resources::cache::ResourceReader;
use crate::tool_result;
use crate::tool_result::spill::SpillStore;
use crate::tool_result::{ContentBlock, OutputLimits};

pub(super) const NAME: &str = "ReadMcpResource";
/// How long a server may take, however long the caller would wait.
const MAX_TIMEOUT: Duration = Duration::from_secs(120);

/// The tool.
pub(crate) fn definition() -> Tool {
    let description = "Reads a resource of a server. Text is in the result; anything else is saved to a file, whose path is in `blobSavedTo`. The result is {contents: [{uri, mimeType, text or blobSavedTo}]}.";
    let schema = json!({
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "the server"},
            "uri": {"type": "string", "description": "the resource, as ListMcpResources lists it"},
        },
        "required": ["server", "uri"],
        "additionalProperties": false,
    });
    super::builtin_tool(NAME, description, &schema)
}

/// Reads a resource.
pub(super) async fn run(call: BuiltinCall<'_>) -> Result<Payload, RequestError> {
    let arguments = &call.arguments;
    let (server, uri) = (str_argument(arguments, "server"), str_argument(arguments, "uri"));
    if is_hidden(&call.rules, &call.engine().snapshot(), server) {
        return Ok(unknown_server(server));
    }
    match read_if_supported(call.resources, server, uri, call.timeout.min(MAX_TIMEOUT)).await {
        Ok(Some(answer)) => {
            Ok(to_tool_result((*call.limits, call.spill.clone()), server, answer).await)
        }
        Ok(None) => Ok(no_resources(server)),
        Err(RequestError::UnknownServer(name)) => Ok(unknown_server(&name)),
        Err(RequestError::NotConnected(view)) => Ok(not_connected(&view)),
        Err(error) => Err(error),
    }
}

/// Reads the resource if the server supports resources.
async fn read_if_supported(
    resources: &ResourceReader,
    server: &str,
    uri: &str,
    timeout: Duration,
) -> Result<Option<Payload>, RequestError> {
    match resources.has_resources(server).await? {
        true => resources.read(server, uri, timeout).await.map(Some),
        false => Ok(None),
    }
}

#[derive(Deserialize)]
struct ReadResourceResult<'a> {
    #[serde(borrow)]
    contents: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceContent<'a> {
    #[serde(borrow, default)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, default)]
    mime_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    blob: Option<&'a RawValue>,
}

/// Converts the response into a tool result.
async fn to_tool_result(
    (limits, spill): (OutputLimits, SpillStore),
    server: &str,
    response: Payload,
) -> Payload {
    let server = server.to_owned();
    let work = move || {
        let Ok(ReadResourceResult { contents }) = serde_json::from_slice(response.as_bytes())
        else {
            return error_result("the response is not valid for `resources/read`");
        };
        let blobs: Vec<&RawValue> = contents.iter().copied().filter(|it| is_blob(it)).collect();
        let blobs = Payload::encode(&contents_json(&blobs))
            .unwrap_or_else(|_| Payload::from_json("{}".into()));
        let saved = tool_result::from_resource_read(&blobs, &server, &limits, &spill);
        with_saved_paths(&contents, saved.blocks)
    };
    let converted = tokio::task::spawn_blocking(work).await;
    converted.unwrap_or_else(|_| error_result("the response could not be read"))
}

fn contents_json<'a>(blobs: &'a [&'a RawValue]) -> impl serde::Serialize + 'a {
    std::collections::BTreeMap::from([("contents", blobs)])
}

fn is_blob(raw: &RawValue) -> bool {
    let is_text = |raw: Option<&RawValue>| raw.is_some_and(|it| it.get().starts_with('"'));
    let content = serde_json::from_str::<ResourceContent<'_>>(raw.get());
    content.is_ok_and(|it| !is_text(it.text) && is_text(it.blob))
}

/// Texts as they came, blobs replaced by the path of the saved file.
fn with_saved_paths(contents: &[&RawValue], saved: Vec<ContentBlock>) -> Payload {
    let mut saved = saved.into_iter();
    let contents: Vec<Json> = contents
        .iter()
        .map(|raw| match is_blob(raw) {
            false => text_json(raw),
            true => saved.next().map_or(Json::Null, |part| saved_path_json(&part)),
        })
        .collect();
    let structured = json!({"contents": contents});
    structured_result(&structured, &structured.to_string())
}

/// A text content: its URI, type and text; members of other types are left out.
fn text_json(raw: &RawValue) -> Json {
    let Ok(content) = serde_json::from_str::<ResourceContent<'_>>(raw.get()) else {
        return json!({"error": "it is not valid"});
    };
    let members = [("uri", content.uri), ("mimeType", content.mime_type), ("text", content.text)];
    let text = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
    let members = members.into_iter().filter_map(|(name, raw)| {
        let text = raw.and_then(text)?;
        Some((name.to_owned(), Json::String(text)))
    });
    Json::Object(members.collect())
}

fn saved_path_json(part: &ContentBlock) -> Json {
    match part {
        ContentBlock::Saved { path, mime, bytes, from_uri } => {
            json!({"uri": from_uri, "mimeType": mime, "blobSavedTo": path, "bytes": bytes})
        }
        ContentBlock::NotSaved { mime, from_uri } => {
            json!({"uri": from_uri, "mimeType": mime, "error": "it could not be saved"})
        }
        ContentBlock::Text { .. }
        | ContentBlock::Image { .. }
        | ContentBlock::Link { .. }
        | ContentBlock::Unknown { .. } => Json::Null,
    }
}
