//! Notes as tools, resources and prompts.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::NoArguments;
use super::note_store::{MAX_NOTE_LENGTH, Note, NoteStore};
use crate::kit::context::HandlerContext;
use crate::kit::handler_error::{HandlerError, HandlerFuture};
use crate::kit::prompt::{Prompt, PromptArgument, PromptArguments, PromptMessage};
use crate::kit::resource::{
    Resource, ResourceBody, ResourceContents, ResourceProvider, ResourceTemplate,
};
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;

const URI_TEMPLATE: &str = "note://{id}";
const TEXT_MIME_TYPE: &str = "text/plain";
const TONES: [&str; 5] = ["formal", "friendly", "funny", "plain", "poetic"];
const TOPICS: [&str; 3] = ["telephone exchanges", "the sea", "tea"];

#[derive(Deserialize, JsonSchema)]
struct AddNoteArguments {
    #[schemars(length(min = 1, max = MAX_NOTE_LENGTH))]
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct NoteIdArguments {
    #[schemars(range(min = 1))]
    id: u64,
}

#[derive(Deserialize, JsonSchema)]
struct RewriteNoteArguments {
    #[schemars(range(min = 1))]
    id: u64,
    #[schemars(length(min = 1, max = MAX_NOTE_LENGTH))]
    text: String,
}

pub(crate) fn tools(store: &Arc<NoteStore>) -> Vec<Tool> {
    let store = || store.clone();
    let add = {
        let store = store();
        move |_: HandlerContext, it: AddNoteArguments| add(store.clone(), it)
    };
    let list = {
        let store = store();
        move |_: HandlerContext, _: NoArguments| list(store.clone())
    };
    let rewrite = {
        let store = store();
        move |_: HandlerContext, it: RewriteNoteArguments| rewrite(store.clone(), it)
    };
    let delete = {
        let store = store();
        move |_: HandlerContext, it: NoteIdArguments| delete(store.clone(), it)
    };
    vec![
        Tool::typed("add_note", "Writes a note down.", add)
            .output_schema(json!({
                "type": "object",
                "properties": {"id": {"type": "integer"}, "uri": {"type": "string"}},
                "required": ["id", "uri"],
            }))
            .non_destructive(),
        Tool::typed("list_notes", "Lists all notes.", list).read_only(),
        Tool::typed("rewrite_note", "Replaces the text of a note.", rewrite)
            .destructive()
            .idempotent(),
        Tool::typed("delete_note", "Deletes a note for good.", delete).destructive().idempotent(),
    ]
}

async fn add(store: Arc<NoteStore>, it: AddNoteArguments) -> Result<ToolOutput, HandlerError> {
    let note = store.add(it.text).await?;
    let text = format!("Note {} is written down.", note.id);
    let output = ToolOutput::structured(json!({"id": note.id, "uri": note.uri()}), text);
    Ok(output.with_resource_link(&note.uri(), &note.heading()))
}

async fn list(store: Arc<NoteStore>) -> Result<ToolOutput, HandlerError> {
    let notes = store.all().await?;
    if notes.is_empty() {
        return Ok(ToolOutput::text("There are no notes."));
    }
    let line = |note: &Note| format!("{}: {}\n", note.id, note.heading());
    Ok(ToolOutput::text(notes.iter().map(line).collect::<String>()))
}

async fn rewrite(
    store: Arc<NoteStore>,
    it: RewriteNoteArguments,
) -> Result<ToolOutput, HandlerError> {
    match store.update(it.id, it.text).await? {
        Some(note) => Ok(ToolOutput::text(format!("Note {} is replaced.", note.id))),
        None => Err(HandlerError::failed(format!("there is no note {}", it.id))),
    }
}

async fn delete(store: Arc<NoteStore>, it: NoteIdArguments) -> Result<ToolOutput, HandlerError> {
    match store.delete(it.id).await? {
        Some(note) => Ok(ToolOutput::text(format!("Note {} is gone: {}", note.id, note.heading()))),
        None => Err(HandlerError::failed(format!("there is no note {}", it.id))),
    }
}

pub(crate) fn prompts(store: &Arc<NoteStore>) -> Vec<Prompt> {
    let summarise_store = store.clone();
    let summarise = move |_: HandlerContext, _: PromptArguments| summarise(summarise_store.clone());
    let topics_store = store.clone();
    let suggest = move || topics(topics_store.clone());
    vec![
        Prompt::new("summarise_notes", "Asks for a summary of all notes.", summarise),
        Prompt::new("write_about", "Asks for a few lines about something.", write_about)
            .argument(
                PromptArgument::required("topic", "What it is about").with_completions(suggest),
            )
            .argument(
                PromptArgument::optional("tone", "How it sounds")
                    .with_completions(async || Ok(TONES.map(str::to_owned).to_vec())),
            ),
    ]
}

async fn summarise(store: Arc<NoteStore>) -> Result<Vec<PromptMessage>, HandlerError> {
    let notes = store.all().await?;
    let mut text = String::from("Summarise these notes in a sentence or two:\n");
    for note in &notes {
        text.push_str(&format!("\n{}: {}", note.id, note.text));
    }
    if notes.is_empty() {
        text.push_str("\n(there are none)");
    }
    Ok(vec![PromptMessage::user(text)])
}

async fn write_about(
    _: HandlerContext,
    arguments: PromptArguments,
) -> Result<Vec<PromptMessage>, HandlerError> {
    let argument = |name: &str, default: &str| match arguments.get(name) {
        Some(text) => text.chars().take(200).collect(),
        None => default.to_owned(),
    };
    let (topic, tone) = (argument("topic", "anything"), argument("tone", "plain"));
    Ok(vec![PromptMessage::user(format!("Write five lines about {topic}, in a {tone} tone."))])
}

/// The headings of the notes, and a few fixed topics.
async fn topics(store: Arc<NoteStore>) -> Result<Vec<String>, HandlerError> {
    let notes = store.all().await?;
    let mut topics: Vec<String> = notes.iter().map(Note::heading).collect();
    topics.extend(TOPICS.map(str::to_owned));
    Ok(topics)
}

/// The notes as resources.
#[derive(Debug)]
pub(crate) struct NoteResources(Arc<NoteStore>);

impl NoteResources {
    pub(crate) fn new(store: &Arc<NoteStore>) -> NoteResources {
        NoteResources(store.clone())
    }
}

impl ResourceProvider for NoteResources {
    fn list(&self) -> HandlerFuture<'_, Vec<Resource>> {
        Box::pin(async {
            let notes = self.0.all().await?;
            let resource = |note: &Note| Resource {
                uri: note.uri(),
                name: format!("note {}", note.id),
                description: note.heading(),
                mime_type: TEXT_MIME_TYPE.to_owned(),
            };
            Ok(notes.iter().map(resource).collect())
        })
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        vec![ResourceTemplate {
            uri_template: URI_TEMPLATE.to_owned(),
            name: "note".to_owned(),
            description: "A note by its number.".to_owned(),
            mime_type: TEXT_MIME_TYPE.to_owned(),
        }]
    }

    fn read<'a>(&'a self, uri: &'a str) -> HandlerFuture<'a, Vec<ResourceContents>> {
        Box::pin(async move {
            let notes = self.0.all().await?;
            let note = notes.into_iter().find(|it| it.uri() == uri);
            let note = note.ok_or_else(|| HandlerError::resource_not_found(uri))?;
            let uri = note.uri();
            Ok(vec![ResourceContents {
                uri,
                mime_type: TEXT_MIME_TYPE.to_owned(),
                body: ResourceBody::Text(note.text),
            }])
        })
    }

    fn complete<'a>(
        &'a self,
        template: &'a str,
        variable: &'a str,
        _prefix: &'a str,
    ) -> HandlerFuture<'a, Vec<String>> {
        Box::pin(async move {
            if (template, variable) != (URI_TEMPLATE, "id") {
                return Ok(Vec::new());
            }
            Ok(self.0.all().await?.iter().map(|note| note.id.to_string()).collect())
        })
    }
}
