//! Skills (SEP-2640), which the SDK does not support: `skills/list`, `skills/get` and `resources/directory/read` as
//! custom requests. Lists have one entry per page, so that clients must follow cursors.

use aws_lc_rs::digest::{SHA256, digest};
use rmcp::model::{ErrorData, Resource, ResourceContents};
use serde_json::{Value as Json, json};

use crate::fixtures::{from_json, resource_text};
use crate::sealed_state::hex;

/// The name of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/skills";

const MANIFEST: &str = "SKILL.md";
const MARKDOWN: &str = "text/markdown";
const DIRECTORY_MIME_TYPE: &str = "inode/directory";
/// The time to live of a list in milliseconds.
const TTL_MS: u32 = 60_000;

/// The first one has a folder: the suite looks for one in the first listed skill.
const SKILLS: &[Skill] = &[
    Skill {
        folder: "skill://workshop/splice-cables",
        name: "splice-cables",
        description: "Joins two cables so that they stay joined",
        body: "# Splice cables\n\nLook up the colours first, then twist, solder and cover.\n",
        files: &[File {
            path: "references/colours.md",
            text: "# Colours\n\nBlue goes to blue, striped to striped.\n",
        }],
    },
    Skill {
        folder: "skill://workshop/test-lines",
        name: "test-lines",
        description: "Finds out whether a line carries what it should",
        body: "# Test lines\n\nSend a tone from one end and listen at the other.\n",
        files: &[],
    },
];

struct Skill {
    folder: &'static str,
    name: &'static str,
    description: &'static str,
    body: &'static str,
    files: &'static [File],
}

struct File {
    path: &'static str,
    text: &'static str,
}

impl Skill {
    fn manifest(&self) -> String {
        let Skill { name, description, body, .. } = self;
        format!("---\nname: {name}\ndescription: {description}\n---\n\n{body}")
    }

    fn uri(&self) -> String {
        format!("{}/{MANIFEST}", self.folder)
    }

    /// All files, the manifest first.
    fn contents(&self) -> Vec<(String, String)> {
        let others = self.files.iter();
        let others = others.map(|it| (format!("{}/{}", self.folder, it.path), it.text.to_owned()));
        std::iter::once((self.uri(), self.manifest())).chain(others).collect()
    }

    fn entry(&self) -> Json {
        let resources = self.contents().into_iter().map(|(uri, text)| {
            let digest = hex(digest(&SHA256, text.as_bytes()).as_ref());
            json!({"uri": uri, "digest": format!("sha256:{digest}"), "size": text.len()})
        });
        json!({
            "uri": self.uri(),
            "frontmatter": {"name": self.name, "description": self.description},
            "resources": resources.collect::<Vec<_>>(),
        })
    }

    fn resource(&self) -> Resource {
        Resource::new(self.uri(), self.name)
            .with_description(self.description)
            .with_mime_type(MARKDOWN)
    }
}

/// The manifests as resources.
pub fn resources() -> impl Iterator<Item = Resource> {
    SKILLS.iter().map(Skill::resource)
}

/// Reads a file of a skill.
pub fn read(uri: &str) -> Option<ResourceContents> {
    let (_, text) = SKILLS.iter().flat_map(Skill::contents).find(|(it, _)| it == uri)?;
    Some(resource_text(uri, MARKDOWN, &text))
}

/// The response to a skills request; `None` for other methods.
pub fn respond(method: &str, params: &Json) -> Option<Result<Json, ErrorData>> {
    match method {
        "skills/list" => {
            let entries = SKILLS.iter().map(Skill::entry).collect();
            Some(page("skills", entries, params))
        }
        "skills/get" => Some(get(params)),
        "resources/directory/read" => Some(directory(params)),
        _ => None,
    }
}

fn get(params: &Json) -> Result<Json, ErrorData> {
    let found = SKILLS.iter().find(|it| params["uri"] == it.uri());
    let skill = found.ok_or_else(|| unknown("skill", params))?;
    Ok(json!({"skill": skill.entry(), "ttlMs": TTL_MS, "cacheScope": "public"}))
}

/// The direct children of a folder: files, and folders with files.
fn directory(params: &Json) -> Result<Json, ErrorData> {
    let folder = params["uri"].as_str().unwrap_or_default().trim_end_matches('/');
    let mut children: Vec<Json> = Vec::new();
    for (uri, _) in SKILLS.iter().flat_map(Skill::contents) {
        let inside = uri.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
        let Some(path) = inside.filter(|_| folder.starts_with("skill://")) else {
            continue;
        };
        let (name, mime_type) = match path.split_once('/') {
            Some((name, _)) => (name, DIRECTORY_MIME_TYPE),
            None => (path, MARKDOWN),
        };
        let child = json!({"uri": format!("{folder}/{name}"), "name": name, "mimeType": mime_type});
        if !children.contains(&child) {
            children.push(child);
        }
    }
    if children.is_empty() {
        return Err(unknown("directory", params));
    }
    page("resources", children, params)
}

/// One entry and the next cursor. A cursor is the index of an entry.
fn page(name: &str, entries: Vec<Json>, params: &Json) -> Result<Json, ErrorData> {
    let at: usize = match params.get("cursor").and_then(Json::as_str) {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| unknown("cursor", params))?,
    };
    let entry = entries.get(at).ok_or_else(|| unknown("cursor", params))?;
    let mut page = json!({name: [entry], "ttlMs": TTL_MS, "cacheScope": "public"});
    if at + 1 < entries.len() {
        page["nextCursor"] = json!((at + 1).to_string());
    }
    Ok(page)
}

fn unknown(kind: &str, params: &Json) -> ErrorData {
    let uri = params.get("uri").cloned().unwrap_or_default();
    ErrorData::invalid_params(format!("there is no such {kind}"), Some(json!({"uri": uri})))
}

/// The declared capability: all three methods.
pub fn capability() -> rmcp::model::JsonObject {
    from_json(json!({"directoryRead": true}))
}
