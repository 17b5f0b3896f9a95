//! The names in a server's last catalogue, stored for shell completion without a connection.
//! One small file for each definition of a server; a changed definition has another file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use switchboard_config::entry::server::{Fingerprint, sha256};

use crate::catalogue::lists::{Catalogue, ListIssueKind, ListKind};
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// The maximum number of names of one list.
const MAX_NAMES: usize = 2000;
/// The maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 300;

/// The names in a catalogue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompletionCache {
    /// The server's names of its tools.
    pub tools: Vec<String>,
    /// The names of its prompts.
    pub prompts: Vec<String>,
    /// The URIs of its resources.
    pub resources: Vec<String>,
    /// Its resource templates.
    pub templates: Vec<String>,
}

impl CompletionCache {
    /// The names in a catalogue; `None` where a list could not be fetched, so that the old file stays.
    pub(crate) fn from_catalogue(catalogue: &Catalogue) -> Option<CompletionCache> {
        if catalogue.issues().any(|issue| matches!(issue.kind, ListIssueKind::Failed(_))) {
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

    /// The text of the file.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Loads the names of a definition; empty where there is no file. Reads a file; blocks.
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

/// The file of a definition. Its name is a hash, because server names are not safe as file names.
pub(crate) fn cache_path(folder: &Path, server: &str, fingerprint: &Fingerprint) -> PathBuf {
    let key = sha256(format!("{}/{server}/{fingerprint}", server.len()).as_bytes());
    folder.join(format!("{}.json", &key[..32]))
}
