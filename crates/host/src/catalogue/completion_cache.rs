//! What servers had when we last saw them, by name: for completing what somebody types without starting anything.
//! One small file a definition; a definition that changed has another file, so what is stale does not count.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use switchboard_config::entry::server::{Fingerprint, sha256};

use crate::catalogue::fetch::{Catalogue, ListIssueKind, ListKind};
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// The most names of one list that are kept.
const MAX_NAMES: usize = 2000;
/// The longest name that is kept, in bytes.
const MAX_NAME_BYTES: usize = 300;

/// The names of everything that a server has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompletionCache {
    /// Its tools, by its own names.
    pub tools: Vec<String>,
    /// Its prompts.
    pub prompts: Vec<String>,
    /// The URIs of its resources.
    pub resources: Vec<String>,
    /// Its templates.
    pub templates: Vec<String>,
}

impl CompletionCache {
    /// The names in a catalogue; none where a list could not be had, since what was known of it is better.
    pub(crate) fn from_catalogue(catalogue: &Catalogue) -> Option<CompletionCache> {
        if catalogue.issues().any(|note| matches!(note.kind, ListIssueKind::Failed(_))) {
            return None;
        }
        let names = |list: ListKind| {
            let items = catalogue.items(list).iter().map(|item| &item.name);
            items.filter(|name| name.len() <= MAX_NAME_BYTES).take(MAX_NAMES).cloned().collect()
        };
        Some(CompletionCache {
            tools: names(ListKind::Tools),
            prompts: names(ListKind::Prompts),
            resources: names(ListKind::Resources),
            templates: names(ListKind::ResourceTemplates),
        })
    }

    /// As it is kept.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// What is remembered of a definition; nothing where that is nothing. Reads a file; blocks.
    pub fn load(folder: &Path, server: &str, fingerprint: &Fingerprint) -> CompletionCache {
        match text_file::read_text(
            &cache_path(folder, server, fingerprint),
            AllowedFiles::RegularOnly,
        ) {
            Ok(FileContent::Text(text)) => serde_json::from_str(&text).unwrap_or_default(),
            Ok(FileContent::Absent) | Err(_) => CompletionCache::default(),
        }
    }
}

/// Where a definition is remembered. No name of a server becomes a file's name.
pub(crate) fn cache_path(folder: &Path, server: &str, fingerprint: &Fingerprint) -> PathBuf {
    let key = sha256(format!("{}/{server}/{fingerprint}", server.len()).as_bytes());
    folder.join(format!("{}.json", &key[..32]))
}
