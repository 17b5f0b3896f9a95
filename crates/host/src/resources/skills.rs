//! Skills that servers offer (SEP-2640): lists them, and reads their files only when somebody wants one.
//! A file counts only if it is what the list said: its length, its hash and, for the skill itself, its front matter.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};
use switchboard_wire::jsonrpc::message::Payload;
use thiserror::Error;

use crate::host::Host;
use crate::request::send::{RequestError, ServerRequest};

/// The name of the extension among a server's capabilities.
pub const EXTENSION: &str = "io.modelcontextprotocol/skills";
/// How long a server may take for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The most skills that are taken of one server.
const MAX_SKILLS: usize = 1000;
/// The most pages that are asked for.
const MAX_PAGES: usize = 100;
/// The largest file that is taken, in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;

/// A skill as a server lists it. Nothing of it has been read yet.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Skill {
    /// Its own file.
    pub uri: String,
    /// What its file says about it, by the list.
    #[serde(default)]
    pub frontmatter: Map<String, Json>,
    /// Its files, itself among them.
    #[serde(default, rename = "resources")]
    pub files: Vec<SkillFile>,
}

/// A file of a skill, as the list describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SkillFile {
    /// Where it is.
    pub uri: String,
    /// Its hash: `sha256:` and hexadecimal digits.
    #[serde(default)]
    pub digest: Option<String>,
    /// Its length in bytes.
    #[serde(default)]
    pub size: Option<u64>,
}

/// Why a skill is not to be had.
#[derive(Debug, Error)]
pub enum SkillError {
    /// The server was not heard.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The answer is no list, or no file.
    #[error("the server's answer makes no sense")]
    Unreadable,
    /// The file is not among those that the list names.
    #[error("`{0}` is not a file of this skill")]
    NotListed(String),
    /// The file is not what the list said.
    #[error("`{uri}` is not what the server listed: {mismatch}")]
    ContentMismatch {
        /// The file.
        uri: String,
        /// In what.
        mismatch: Mismatch,
    },
}

/// In what a file differs from its description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Mismatch {
    /// Its length.
    #[error("its length is another")]
    Size,
    /// Its hash, or there is none that we can check.
    #[error("its hash is another")]
    Digest,
    /// What it says about itself.
    #[error("it says something else about itself")]
    Frontmatter,
    /// It is larger than we take.
    #[error("it is too large")]
    TooLarge,
}

#[derive(Deserialize)]
struct SkillPage {
    skills: Vec<Json>,
    #[serde(default, rename = "nextCursor")]
    next_cursor: Option<String>,
}

impl Host {
    /// The skills that a server lists. No file is read for it. Those that cannot be understood are left out.
    pub async fn skills(&self, server: &str) -> Result<Vec<Skill>, SkillError> {
        let mut skills = Vec::new();
        let mut params = json!({});
        for _ in 0..MAX_PAGES {
            let response = self.request_skills(server, "skills/list", &params).await?;
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

    /// The text of a skill, once it proved to be what was listed. Only its own file is read.
    pub async fn load_skill(&self, server: &str, skill: &Skill) -> Result<String, SkillError> {
        let text = self.skill_file(server, skill, &skill.uri).await?;
        match front_matter(&text).is_some_and(|parsed| is_same(&parsed, &skill.frontmatter)) {
            true => Ok(text),
            false => Err(content_mismatch(&skill.uri, Mismatch::Frontmatter)),
        }
    }

    /// One file of a skill, once it proved to be what was listed.
    pub async fn skill_file(
        &self,
        server: &str,
        skill: &Skill,
        uri: &str,
    ) -> Result<String, SkillError> {
        let listed = skill.files.iter().find(|file| file.uri == uri);
        let Some(file) = listed else { return Err(SkillError::NotListed(uri.to_owned())) };
        let response = self.request_skills(server, "resources/read", &json!({"uri": uri})).await?;
        let response: Json = response.decode().map_err(|_| SkillError::Unreadable)?;
        let text = response["contents"][0]["text"].as_str().ok_or(SkillError::Unreadable)?;
        match file.mismatch(text.as_bytes()) {
            None => Ok(text.to_owned()),
            Some(mismatch) => Err(content_mismatch(uri, mismatch)),
        }
    }

    async fn request_skills(
        &self,
        server: &str,
        method: &'static str,
        params: &Json,
    ) -> Result<Payload, RequestError> {
        let mut request = ServerRequest::idempotent(method, REQUEST_TIMEOUT);
        request.params = Some(Payload::from_json(params.to_string().into()));
        self.request(server, request).await
    }
}

fn content_mismatch(uri: &str, mismatch: Mismatch) -> SkillError {
    SkillError::ContentMismatch { uri: uri.to_owned(), mismatch }
}

impl SkillFile {
    /// In what some bytes are not this file.
    fn mismatch(&self, bytes: &[u8]) -> Option<Mismatch> {
        if bytes.len() > MAX_FILE_BYTES {
            return Some(Mismatch::TooLarge);
        }
        if self.size.is_some_and(|size| size != bytes.len() as u64) {
            return Some(Mismatch::Size);
        }
        let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let listed = self.digest.as_deref().and_then(|it| it.strip_prefix("sha256:"));
        (!listed.is_some_and(|it| it.eq_ignore_ascii_case(&hash))).then_some(Mismatch::Digest)
    }
}

/// What a skill's file says about itself: lines of `key: value` between two lines of dashes, at most one map inside
/// another. Whatever is more than that is not understood, and so not trusted.
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

/// Do both say the same? In a file everything is text.
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
    fn what_is_not_understood_is_not_trusted() {
        for text in
            ["name: pdf\n", "---\nname: pdf\n", "---\nname: [a]\n---\n", "---\n  a: b\n---\n"]
        {
            assert_eq!(front_matter(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_is_its_length_and_its_hash() {
        let hash = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let file = |digest: Option<&str>, size| SkillFile {
            uri: "skill://a".to_owned(),
            digest: digest.map(str::to_owned),
            size,
        };
        assert_eq!(file(Some(hash), Some(5)).mismatch(b"hello"), None);
        assert_eq!(file(Some(hash), Some(6)).mismatch(b"hello"), Some(Mismatch::Size));
        assert_eq!(file(Some(hash), None).mismatch(b"jello"), Some(Mismatch::Digest));
        assert_eq!(file(None, Some(5)).mismatch(b"hello"), Some(Mismatch::Digest));
    }
}
