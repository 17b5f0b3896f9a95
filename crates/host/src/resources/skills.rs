//! Skills of servers (SEP-2640): lists them, and reads single files on request.
//! A file must match the list: its length, its hash and, for the main file, its front matter.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};
use switchboard_wire::jsonrpc::message::Payload;
use thiserror::Error;

use crate::request::error::RequestError;
use crate::request::send::{Authority, RequestSender};
use crate::request::server_request::ServerRequest;

/// The name of the extension in a server's capabilities.
pub const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";
/// The timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of skills of one server.
const MAX_SKILLS: usize = 1000;
/// The maximum number of pages.
const MAX_PAGES: usize = 100;
/// The maximum size of a file, in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;

/// A skill as a server lists it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Skill {
    /// The URI of its main file.
    pub uri: String,
    /// The front matter of its main file, by the list.
    #[serde(default)]
    pub frontmatter: Map<String, Json>,
    /// Its files, with the main file.
    #[serde(default, rename = "resources")]
    pub files: Vec<SkillFile>,
}

/// A file of a skill, as the list describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct SkillFile {
    /// Its URI.
    pub uri: String,
    /// Its hash: `sha256:` and hexadecimal digits.
    #[serde(default)]
    pub digest: Option<String>,
    /// Its length in bytes.
    #[serde(default)]
    pub size: Option<u64>,
}

/// Why a skill cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SkillError {
    /// The request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The response is not a list or not a file.
    #[error("the server's response is not valid")]
    Unreadable,
    /// The list does not name the file.
    #[error("`{0}` is not a file of this skill")]
    NotListed(String),
    /// The file differs from the list.
    #[error("`{uri}` is not what the server listed: {mismatch}")]
    ContentMismatch {
        /// The file.
        uri: String,
        /// The difference.
        mismatch: SkillMismatch,
    },
}

/// How a file differs from the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SkillMismatch {
    /// Its length.
    #[error("its length differs")]
    Size,
    /// Its hash, or the list has none that can be checked.
    #[error("its hash differs")]
    Digest,
    /// Its front matter.
    #[error("its front matter differs")]
    Frontmatter,
    /// It is larger than the limit.
    #[error("it is too large")]
    TooLarge,
}

#[derive(Deserialize)]
struct SkillPage {
    skills: Vec<Json>,
    #[serde(default, rename = "nextCursor")]
    next_cursor: Option<String>,
}

/// Lists the skills of a server, without reading their files. Entries that cannot be parsed are left out.
pub(crate) async fn list(requests: &RequestSender, server: &str) -> Result<Vec<Skill>, SkillError> {
    let mut skills = Vec::new();
    let mut params = json!({});
    for _ in 0..MAX_PAGES {
        let response = send(requests, server, "skills/list", &params).await?;
        let page: SkillPage = response.decode().map_err(|_| SkillError::Unreadable)?;
        skills.extend(page.skills.into_iter().filter_map(|it| serde_json::from_value(it).ok()));
        match page.next_cursor.filter(|_| skills.len() < MAX_SKILLS) {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    skills.truncate(MAX_SKILLS);
    Ok(skills)
}

/// Reads the main file of a skill, and checks it against the list.
pub(crate) async fn load(
    requests: &RequestSender,
    server: &str,
    skill: &Skill,
) -> Result<String, SkillError> {
    let text = read_file(requests, server, skill, &skill.uri).await?;
    match front_matter(&text).is_some_and(|parsed| is_same(&parsed, &skill.frontmatter)) {
        true => Ok(text),
        false => Err(content_mismatch(&skill.uri, SkillMismatch::Frontmatter)),
    }
}

/// Reads one file of a skill, and checks it against the list.
pub(crate) async fn read_file(
    requests: &RequestSender,
    server: &str,
    skill: &Skill,
    uri: &str,
) -> Result<String, SkillError> {
    let listed = skill.files.iter().find(|file| file.uri == uri);
    let Some(file) = listed else { return Err(SkillError::NotListed(uri.to_owned())) };
    let response = send(requests, server, "resources/read", &json!({"uri": uri})).await?;
    let response: Json = response.decode().map_err(|_| SkillError::Unreadable)?;
    let text = response["contents"][0]["text"].as_str().ok_or(SkillError::Unreadable)?;
    match file.mismatch(text.as_bytes()) {
        None => Ok(text.to_owned()),
        Some(mismatch) => Err(content_mismatch(uri, mismatch)),
    }
}

async fn send(
    requests: &RequestSender,
    server: &str,
    method: &'static str,
    params: &Json,
) -> Result<Payload, RequestError> {
    let params = Payload::from_json(params.to_string().into());
    let request = ServerRequest::idempotent(method, REQUEST_TIMEOUT).params(params);
    requests.send(server, &request, Authority::Request).await
}

fn content_mismatch(uri: &str, mismatch: SkillMismatch) -> SkillError {
    SkillError::ContentMismatch { uri: uri.to_owned(), mismatch }
}

impl SkillFile {
    /// How some bytes differ from this file.
    fn mismatch(&self, bytes: &[u8]) -> Option<SkillMismatch> {
        if bytes.len() > MAX_FILE_BYTES {
            return Some(SkillMismatch::TooLarge);
        }
        if self.size.is_some_and(|size| size != bytes.len() as u64) {
            return Some(SkillMismatch::Size);
        }
        let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let listed = self.digest.as_deref().and_then(|it| it.strip_prefix("sha256:"));
        (!listed.is_some_and(|it| it.eq_ignore_ascii_case(&hash))).then_some(SkillMismatch::Digest)
    }
}

/// Parses front matter: lines of `key: value` between two lines of dashes, with maps nested at most once. `None` for
/// everything else, which is not trusted.
fn front_matter(text: &str) -> Option<Map<String, Json>> {
    let mut lines = text.lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let mut parsed: Map<String, Json> = Map::new();
    let mut outer: Option<String> = None;
    for line in lines {
        if line.trim_end() == "---" {
            return Some(parsed);
        }
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let (key, value) = line.trim().split_once(':')?;
        let value = value.trim();
        match (line.starts_with(' '), value.is_empty()) {
            (false, true) => {
                parsed.insert(key.to_owned(), json!({}));
                outer = Some(key.to_owned());
            }
            (false, false) => {
                parsed.insert(key.to_owned(), scalar(value)?);
                outer = None;
            }
            (true, _) => {
                let inner = parsed.get_mut(outer.as_deref()?)?.as_object_mut()?;
                inner.insert(key.to_owned(), scalar(value)?);
            }
        }
    }
    None
}

fn scalar(text: &str) -> Option<Json> {
    match text.chars().next() {
        Some('"') => serde_json::from_str(text).ok().filter(Json::is_string),
        Some('\'') => {
            let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
            Some(json!(inner.replace("''", "'")))
        }
        // Lists, blocks, anchors and tags.
        Some('[' | '{' | '|' | '>' | '&' | '*' | '!') => None,
        Some(_) | None => Some(json!(text)),
    }
}

/// Whether both are the same. Values in a file are always strings.
fn is_same(parsed: &Map<String, Json>, listed: &Map<String, Json>) -> bool {
    parsed.len() == listed.len()
        && parsed.iter().all(|(key, value)| match (value, listed.get(key)) {
            (Json::Object(parsed), Some(Json::Object(listed))) => is_same(parsed, listed),
            (value, Some(Json::String(listed))) => value.as_str() == Some(listed),
            (value, Some(listed)) => value.as_str() == Some(listed.to_string().as_str()),
            (_, None) => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, listed: Json, expected: bool) {
        let parsed = front_matter(text);
        let listed = listed.as_object().expect("an object").clone();
        assert_eq!(parsed.is_some_and(|parsed| is_same(&parsed, &listed)), expected, "{text}");
    }

    #[test]
    fn front_matter_is_compared_field_by_field() {
        let text = "---\nname: pdf\ndescription: \"Fills: forms\"\nmetadata:\n  version: 2\n---\n\nBody.\n";
        let same =
            json!({"name": "pdf", "description": "Fills: forms", "metadata": {"version": 2}});
        check(text, same, true);
        check(text, json!({"name": "pdf"}), false);
        check("---\nname: pdf\n---\n", json!({"name": "pdf"}), true);
        check("---\nname: pdf\n---\n", json!({"name": "pdf", "license": "x"}), false);
        check("---\nname: evil\n---\n", json!({"name": "pdf"}), false);
    }

    #[test]
    fn front_matter_that_cannot_be_parsed_is_not_trusted() {
        for text in
            ["name: pdf\n", "---\nname: pdf\n", "---\nname: [a]\n---\n", "---\n  a: b\n---\n"]
        {
            assert_eq!(front_matter(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_must_match_its_length_and_its_hash() {
        let hash = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let file = |digest: Option<&str>, size| SkillFile {
            uri: "skill://a".to_owned(),
            digest: digest.map(str::to_owned),
            size,
        };
        assert_eq!(file(Some(hash), Some(5)).mismatch(b"hello"), None);
        assert_eq!(file(Some(hash), Some(6)).mismatch(b"hello"), Some(SkillMismatch::Size));
        assert_eq!(file(Some(hash), None).mismatch(b"jello"), Some(SkillMismatch::Digest));
        assert_eq!(file(None, Some(5)).mismatch(b"hello"), Some(SkillMismatch::Digest));
    }
}
