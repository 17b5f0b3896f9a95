//! Notes as tools, resources and prompts.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::notebook::{LONGEST, Note, Notebook};
use crate::content::Output;
use crate::context::Context;
use crate::prompting::{Argument, Given, Prompt, Spoken};
use crate::refusal::{Stop, Working};
use crate::resource::{Body, Contents, Resource, Resources, Template};
use crate::tooling::Tool;

const PATTERN: &str = "note://{id}";
const TEXT: &str = "text/plain";
const TONES: [&str; 5] = ["formal", "friendly", "funny", "plain", "poetic"];
const TOPICS: [&str; 3] = ["telephone exchanges", "the sea", "tea"];

#[derive(Deserialize)]
struct AddNote {
    text: String,
}

#[derive(Deserialize)]
struct NoteId {
    id: u64,
}

#[derive(Deserialize)]
struct RewriteNote {
    id: u64,
    text: String,
}

#[derive(Deserialize)]
struct Nothing {}

pub(super) fn tools(notebook: &Arc<Notebook>) -> Vec<Tool> {
    let text = json!({"type": "string", "minLength": 1, "maxLength": LONGEST});
    let id = json!({"type": "integer", "minimum": 1});
    let book = || notebook.clone();
    let add = {
        let book = book();
        move |_: Context, it: AddNote| add(book.clone(), it)
    };
    let list = {
        let book = book();
        move |_: Context, _: Nothing| list(book.clone())
    };
    let rewrite = {
        let book = book();
        move |_: Context, it: RewriteNote| rewrite(book.clone(), it)
    };
    let delete = {
        let book = book();
        move |_: Context, it: NoteId| delete(book.clone(), it)
    };
    vec![
        Tool::new("add_note", "Writes a note down.", add)
            .takes(json!({"text": text}), &["text"])
            .gives(json!({
                "type": "object",
                "properties": {"id": {"type": "integer"}, "uri": {"type": "string"}},
                "required": ["id", "uri"],
            }))
            .adds(),
        Tool::new("list_notes", "Lists all notes.", list).takes(json!({}), &[]).reads(),
        Tool::new("rewrite_note", "Replaces the text of a note.", rewrite)
            .takes(json!({"id": id, "text": text}), &["id", "text"])
            .idempotent(),
        Tool::new("delete_note", "Deletes a note for good.", delete)
            .takes(json!({"id": id}), &["id"])
            .idempotent(),
    ]
}

async fn add(notebook: Arc<Notebook>, it: AddNote) -> Result<Output, Stop> {
    let note = notebook.add(it.text).await?;
    let text = format!("Note {} is written down.", note.id);
    let output = Output::value(json!({"id": note.id, "uri": note.uri()}), text);
    Ok(output.and_link(&note.uri(), &note.heading()))
}

async fn list(notebook: Arc<Notebook>) -> Result<Output, Stop> {
    let notes = notebook.all().await?;
    if notes.is_empty() {
        return Ok(Output::text("There are no notes."));
    }
    let line = |note: &Note| format!("{}: {}\n", note.id, note.heading());
    Ok(Output::text(notes.iter().map(line).collect::<String>()))
}

async fn rewrite(notebook: Arc<Notebook>, it: RewriteNote) -> Result<Output, Stop> {
    match notebook.rewrite(it.id, it.text).await? {
        Some(note) => Ok(Output::text(format!("Note {} says something else now.", note.id))),
        None => Err(Stop::failed(format!("there is no note {}", it.id))),
    }
}

async fn delete(notebook: Arc<Notebook>, it: NoteId) -> Result<Output, Stop> {
    match notebook.delete(it.id).await? {
        Some(note) => Ok(Output::text(format!("Note {} is gone: {}", note.id, note.heading()))),
        None => Err(Stop::failed(format!("there is no note {}", it.id))),
    }
}

pub(super) fn prompts(notebook: &Arc<Notebook>) -> Vec<Prompt> {
    let summarising = notebook.clone();
    let summarise = move |_: Context, _: Given| summarise(summarising.clone());
    let suggesting = notebook.clone();
    let suggest = move || topics(suggesting.clone());
    vec![
        Prompt::new("summarise_notes", "Asks for a summary of all notes.", summarise),
        Prompt::new("write_about", "Asks for a few lines about something.", write_about)
            .argument(Argument::required("topic", "What it is about").completed_with(suggest))
            .argument(
                Argument::optional("tone", "How it sounds")
                    .completed_with(async || Ok(TONES.map(str::to_owned).to_vec())),
            ),
    ]
}

async fn summarise(notebook: Arc<Notebook>) -> Result<Vec<Spoken>, Stop> {
    let notes = notebook.all().await?;
    let mut text = String::from("Summarise these notes in a sentence or two:\n");
    for note in &notes {
        text.push_str(&format!("\n{}: {}", note.id, note.text));
    }
    if notes.is_empty() {
        text.push_str("\n(there are none)");
    }
    Ok(vec![Spoken::user(text)])
}

async fn write_about(_: Context, given: Given) -> Result<Vec<Spoken>, Stop> {
    let word = |name: &str, otherwise: &str| match given.get(name) {
        Some(text) => text.chars().take(200).collect(),
        None => otherwise.to_owned(),
    };
    let (topic, tone) = (word("topic", "anything"), word("tone", "plain"));
    Ok(vec![Spoken::user(format!("Write five lines about {topic}, in a {tone} tone."))])
}

/// What people have notes about, and a few things besides.
async fn topics(notebook: Arc<Notebook>) -> Result<Vec<String>, Stop> {
    let notes = notebook.all().await?;
    let mut topics: Vec<String> = notes.iter().map(Note::heading).collect();
    topics.extend(TOPICS.map(str::to_owned));
    Ok(topics)
}

/// Notes to read, one address each.
#[derive(Debug)]
pub(super) struct Shelf(Arc<Notebook>);

impl Shelf {
    pub(super) fn new(notebook: &Arc<Notebook>) -> Shelf {
        Shelf(notebook.clone())
    }
}

impl Resources for Shelf {
    fn list(&self) -> Working<'_, Vec<Resource>> {
        Box::pin(async {
            let notes = self.0.all().await?;
            let resource = |note: &Note| Resource {
                uri: note.uri(),
                name: format!("note {}", note.id),
                description: note.heading(),
                mime: TEXT.to_owned(),
            };
            Ok(notes.iter().map(resource).collect())
        })
    }

    fn templates(&self) -> Vec<Template> {
        vec![Template {
            uri: PATTERN.to_owned(),
            name: "note".to_owned(),
            description: "A note by its number.".to_owned(),
            mime: TEXT.to_owned(),
        }]
    }

    fn read<'a>(&'a self, uri: &'a str) -> Working<'a, Vec<Contents>> {
        Box::pin(async move {
            let notes = self.0.all().await?;
            let note = notes.into_iter().find(|it| it.uri() == uri);
            let note = note.ok_or_else(|| Stop::missing(uri))?;
            let uri = note.uri();
            Ok(vec![Contents { uri, mime: TEXT.to_owned(), body: Body::Text(note.text) }])
        })
    }

    fn complete<'a>(
        &'a self,
        template: &'a str,
        variable: &'a str,
        _begun: &'a str,
    ) -> Working<'a, Vec<String>> {
        Box::pin(async move {
            if (template, variable) != (PATTERN, "id") {
                return Ok(Vec::new());
            }
            Ok(self.0.all().await?.iter().map(|note| note.id.to_string()).collect())
        })
    }
}
