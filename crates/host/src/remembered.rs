//! What servers had when we last saw them, by name: for completing what somebody types without starting anything.
//! One small file a definition; a definition that changed has another file, so what is stale does not count.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use switchboard_config::entry::{Fingerprint, sha256};

use crate::catalogue::{Catalogue, List, Oddity};
use crate::read::{self, Content, Kinds};

/// The most names of one list that are kept.
const MOST: usize = 2000;
/// The longest name that is kept, in bytes.
const LONGEST: usize = 300;

/// The names of everything that a server has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remembered {
    /// Its tools, by its own names.
    pub tools: Vec<String>,
    /// Its prompts.
    pub prompts: Vec<String>,
    /// The URIs of its resources.
    pub resources: Vec<String>,
    /// Its templates.
    pub templates: Vec<String>,
}

impl Remembered {
    /// The names in a catalogue; none where a list could not be had, since what was known of it is better.
    pub(crate) fn of(catalogue: &Catalogue) -> Option<Remembered> {
        if catalogue.notes().any(|note| matches!(note.oddity, Oddity::Refused(_))) {
            return None;
        }
        let names = |list: List| {
            let items = catalogue.items(list).iter().map(|item| &item.name);
            items.filter(|name| name.len() <= LONGEST).take(MOST).cloned().collect()
        };
        Some(Remembered {
            tools: names(List::Tools),
            prompts: names(List::Prompts),
            resources: names(List::Resources),
            templates: names(List::Templates),
        })
    }

    /// As it is kept.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// What is remembered of a definition; nothing where that is nothing. Reads a file; blocks.
    pub fn read(folder: &Path, server: &str, fingerprint: &Fingerprint) -> Remembered {
        match read::text(&file(folder, server, fingerprint), Kinds::RegularOnly) {
            Ok(Content::Text(text)) => serde_json::from_str(&text).unwrap_or_default(),
            Ok(Content::Absent) | Err(_) => Remembered::default(),
        }
    }
}

/// Where a definition is remembered. No name of a server becomes a file's name.
pub(crate) fn file(folder: &Path, server: &str, fingerprint: &Fingerprint) -> PathBuf {
    let key = sha256(format!("{}/{server}/{fingerprint}", server.len()).as_bytes());
    folder.join(format!("{}.json", &key[..32]))
}
